//! The name of a phase.

/// Names a phase. Numbers start at 0 and are handed out in the order phases are founded.
///
/// A number is never used twice by one clusterer: when a bounded clusterer gives up a phase, whatever was learned
/// about it must not be taken for knowledge of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct PhaseId(u32);

impl PhaseId {
    /// The phase numbered `number`.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Its number as an index into a table of phases.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for PhaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
