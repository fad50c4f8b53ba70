//! The processor that a program is shown.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The processor that a program is shown when it asks (`cpuid`).
///
/// Libraries choose their functions by it, so that the same program executes other instructions on another machine. A level
/// makes counts comparable: between machines, between backends, and with cachegrind, which shows the processor of
/// [`X86_64V3`](Self::X86_64V3). Levels have the instructions of the x86-64 psABI, and AES and carry-less multiplication from v3
/// on; none has random numbers, transactions or AMX. All have the caches and the topology of one four-core processor (32 KiB,
/// 256 KiB, 8 MiB). Only `cpuid` is answered so: an instruction outside the level still executes, and `/proc/cpuinfo` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cpu {
    /// The processor that it runs on, or that the emulator chooses.
    #[default]
    Host,
    /// `x86-64`: SSE2, what every x86-64 processor has.
    X86_64,
    /// `x86-64-v2`: up to SSE4.2 and `popcnt`.
    X86_64V2,
    /// `x86-64-v3`: up to AVX2, FMA and BMI2.
    X86_64V3,
    /// `x86-64-v4`: up to AVX-512 F, BW, CD, DQ and VL.
    X86_64V4,
}

impl Cpu {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Host, Self::X86_64, Self::X86_64V2, Self::X86_64V3, Self::X86_64V4];

    /// Its name: `host`, `x86-64`, `x86-64-v2` and so on.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::X86_64 => "x86-64",
            Self::X86_64V2 => "x86-64-v2",
            Self::X86_64V3 => "x86-64-v3",
            Self::X86_64V4 => "x86-64-v4",
        }
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Cpu {
    type Err = Error;

    /// # Errors
    /// [`Error::Cpu`] for any other name.
    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|cpu| cpu.name() == name);
        found.ok_or_else(|| Error::Cpu { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for cpu in Cpu::ALL {
            assert_eq!(cpu.to_string().parse(), Ok(cpu));
        }
        let error = "haswell".parse::<Cpu>().unwrap_err().to_string();
        assert!(
            error.contains("haswell") && Cpu::ALL.iter().all(|cpu| error.contains(cpu.name())),
            "{error}"
        );
    }
}
