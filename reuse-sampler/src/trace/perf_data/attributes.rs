//! What was asked of the kernel for an event: which fields its samples have.

use super::sample::number;
use crate::AccessKind;

/// `struct perf_event_attr`, as far as reading samples needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    kind: u32,
    config: u64,
    breakpoint: u32, // 1: reads, 2: writes; breakpoints only
    pub(super) fields: u64,
    pub(super) read_format: u64,
    pub(super) branches: u64,
    pub(super) user_registers: u64,
    pub(super) ids: Vec<u64>,
}

/// Size of the first published form of the struct.
const SHORTEST: usize = 64;

impl Attributes {
    /// The struct at the beginning of `bytes`, and how long it says that it is.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let small = |place: usize| Some(u32::from_le_bytes(*bytes.get(place..)?.first_chunk()?));
        let large = |place: usize| number(bytes.get(place..)?);
        let size = small(4)? as usize;
        if size < SHORTEST || size > bytes.len() {
            return None;
        }
        // Fields that later forms of the struct added are 0 in earlier ones.
        let later = |place: usize| if place + 8 <= size { large(place) } else { Some(0) };
        Some((
            Self {
                kind: small(0)?,
                config: large(8)?,
                fields: large(24)?,
                read_format: large(32)?,
                breakpoint: small(52)?,
                branches: later(72)?,
                user_registers: later(80)?,
                ids: Vec::new(),
            },
            size,
        ))
    }

    /// What its samples are of where they do not say it themselves.
    pub(super) const fn access_kind(&self) -> Option<AccessKind> {
        match (self.kind, self.breakpoint) {
            (BREAKPOINT, 1) => Some(AccessKind::Load),
            (BREAKPOINT, 2) => Some(AccessKind::Store),
            _ => None,
        }
    }

    /// Whether its periods count instructions.
    pub(super) const fn counts_instructions(&self) -> bool {
        matches!((self.kind, self.config & 0xffff_ffff), (HARDWARE, 1))
    }

    /// What people call it.
    pub(super) fn name(&self) -> String {
        const HARDWARE_NAMES: [&str; 10] = [
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        const SOFTWARE_NAMES: [&str; 10] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
        ];
        let names: &[&str] = match self.kind {
            HARDWARE => &HARDWARE_NAMES,
            SOFTWARE => &SOFTWARE_NAMES,
            BREAKPOINT => return "mem".to_owned(),
            _ => &[],
        };
        let known = usize::try_from(self.config & 0xffff_ffff).ok().and_then(|config| names.get(config));
        known.map_or_else(|| format!("{}:{:#x}", self.kind, self.config), |name| (*name).to_owned())
    }
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const BREAKPOINT: u32 = 5;
