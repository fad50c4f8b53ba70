//! The events of processors, as data.
//!
//! Codes are those of the manufacturers' manuals, in the form of `perf_event_attr.config`: on x86 event select in the
//! lowest byte and unit mask in the next, on Arm the event number. An unknown processor gets the architecture's
//! generic entry, which says that it is one.
//!
//! Sources: Intel 64 and IA-32 Architectures SDM, volume 3B, "Performance Monitoring Events", and the event lists at
//! perfmon-events.intel.com; AMD Processor Programming Reference, 2.1.17 "Performance Monitor Counters"; Arm DDI 0487,
//! D13.12 "PMU events".

use super::kernel::Source;
use crate::AccessKind;

/// An event by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedEvent {
    /// What it is called here.
    pub name: &'static str,
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
const RAW: u32 = 4;

const fn event(name: &'static str, kind: u32, config: u64) -> NamedEvent {
    NamedEvent { name, kind, config }
}

/// What the kernel understands on any processor that has it.
pub const GENERIC: &[NamedEvent] = &[
    event("cycles", HARDWARE, 0),
    event("instructions", HARDWARE, 1),
    event("cache-references", HARDWARE, 2),
    event("cache-misses", HARDWARE, 3),
    event("branches", HARDWARE, 4),
    event("branch-misses", HARDWARE, 5),
    event("stalled-cycles-frontend", HARDWARE, 7),
    event("stalled-cycles-backend", HARDWARE, 8),
    event("task-clock", SOFTWARE, 1),
    event("page-faults", SOFTWARE, 2),
    event("context-switches", SOFTWARE, 3),
    event("L1-dcache-loads", CACHE, 0),
    event("L1-dcache-load-misses", CACHE, 0x1_0000),
    event("LLC-loads", CACHE, 0x2),
    event("LLC-load-misses", CACHE, 0x1_0002),
    event("dTLB-load-misses", CACHE, 0x1_0003),
];

/// An event by which a processor chooses accesses and reports their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Precise {
    /// The event.
    pub event: NamedEvent,
    /// Its counters, by their name below `/sys/bus/event_source/devices`, where they are not those of the processor's
    /// cores; the event's `kind` is theirs then.
    pub unit: Option<&'static str>,
    /// Whether it chooses loads, stores, or any operation.
    pub kind: Option<AccessKind>,
}

/// A unit of a processor that profiles by itself: it chooses operations, writes what happened to them in memory, and stops
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profiling {
    /// Its name below `/sys/bus/event_source/devices`.
    pub unit: &'static str,
    /// Settings that are to be on, by their names in its folder `format`.
    pub on: &'static [&'static str],
}

/// Arm's Statistical Profiling Extension: loads and stores, at random intervals, with timestamps.
const SPE: Profiling =
    Profiling { unit: "arm_spe_0", on: &["ts_enable", "load_filter", "store_filter", "jitter"] };

/// Which processors an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// x86: vendor, families and models from and to.
    X86(&'static str, (u32, u32), (u32, u32)),
    /// Arm: implementer and part.
    Arm(u32, u32),
    /// Any processor of this architecture.
    AnyX86,
    /// Any processor of this architecture.
    AnyArm,
}

/// What a kind of processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Microarchitecture {
    /// Name.
    pub name: &'static str,
    /// Which processors it is.
    pub is: Match,
    /// Events that count accesses: loads and stores, or one for both.
    pub accesses: &'static [NamedEvent],
    /// Events that report the addresses of the accesses they count, with `precise_ip` 2: loads and stores, or one for both.
    pub precise: &'static [Precise],
    /// What profiles by itself.
    pub profiling: Option<Profiling>,
    /// Whether it records branches.
    pub branches: bool,
    /// Whether an overflow goes unnoticed until something else happens, for which a second event is set to overflow right
    /// behind it.
    pub echo: bool,
    /// Whether the events count accesses that were retired; else those that were issued, some of them in vain.
    pub exact: bool,
}

impl Microarchitecture {
    /// Whether this entry is only the architecture's.
    #[must_use]
    pub const fn is_generic(&self) -> bool {
        matches!(self.is, Match::AnyX86 | Match::AnyArm)
    }
}

const ARM_SPECULATIVE: &[NamedEvent] = &[event("mem_access", RAW, 0x13)];
const ARM_RETIRED: &[NamedEvent] = &[event("ld_retired", RAW, 0x06), event("st_retired", RAW, 0x07)];
const INTEL: &[NamedEvent] =
    &[event("mem_inst_retired.all_loads", RAW, 0x81D0), event("mem_inst_retired.all_stores", RAW, 0x82D0)];
const AMD: &[NamedEvent] = &[event("ls_dispatch.all", RAW, 0x0729)];

const fn precise(event: NamedEvent, kind: AccessKind) -> Precise {
    Precise { event, unit: None, kind: Some(kind) }
}

/// Every load and store, from Haswell on.
const INTEL_PRECISE: &[Precise] =
    &[precise(INTEL[0], AccessKind::Load), precise(INTEL[1], AccessKind::Store)];
/// Instruction-based sampling of operations, counted as they are dispatched (bit 19); those that access memory have an
/// address.
const AMD_PRECISE: &[Precise] =
    &[Precise { event: event("ibs_op", 0, 1 << 19), unit: Some("ibs_op"), kind: None }];

/// What is assumed of a processor beyond what its entry says.
const NOTHING_KNOWN: Microarchitecture = Microarchitecture {
    name: "",
    is: Match::AnyX86,
    accesses: &[],
    precise: &[],
    profiling: None,
    branches: false,
    echo: false,
    exact: false,
};

/// The table, first match first.
pub const TABLE: &[Microarchitecture] = &[
    Microarchitecture {
        name: "Intel Nehalem or Westmere",
        is: Match::X86("GenuineIntel", (6, 6), (26, 37)),
        accesses: &[
            event("mem_inst_retired.loads", RAW, 0x010B),
            event("mem_inst_retired.stores", RAW, 0x020B),
        ],
        // No `precise` ones: they choose loads above a latency only, and stores never.
        branches: true,
        exact: true,
        ..NOTHING_KNOWN
    },
    Microarchitecture {
        name: "Intel Sandy Bridge or Ivy Bridge",
        is: Match::X86("GenuineIntel", (6, 6), (42, 59)),
        accesses: INTEL,
        // No `precise` ones, as before.
        branches: true,
        exact: true,
        ..NOTHING_KNOWN
    },
    Microarchitecture {
        name: "Intel Core, Haswell and later",
        is: Match::X86("GenuineIntel", (6, 6), (60, 255)),
        accesses: INTEL,
        precise: INTEL_PRECISE,
        branches: true,
        exact: true,
        ..NOTHING_KNOWN
    },
    Microarchitecture {
        name: "AMD Zen 1 to 3",
        is: Match::X86("AuthenticAMD", (0x17, 0x19), (0, 15)),
        accesses: AMD,
        precise: AMD_PRECISE,
        ..NOTHING_KNOWN
    },
    Microarchitecture {
        name: "AMD Zen",
        is: Match::X86("AuthenticAMD", (0x17, 0x1A), (0, 255)),
        accesses: AMD,
        precise: AMD_PRECISE,
        branches: true,
        ..NOTHING_KNOWN
    },
    Microarchitecture {
        name: "QEMU's emulated processor",
        is: Match::Arm(0, 0x51),
        // From version 7.2 on it looks one count too early whether a counter has overflowed, and not again.
        echo: true,
        exact: true,
        ..NOTHING_KNOWN
    },
    Microarchitecture {
        name: "Arm Neoverse N1",
        is: Match::Arm(0x41, 0xD0C),
        accesses: ARM_SPECULATIVE,
        profiling: Some(SPE),
        ..NOTHING_KNOWN
    },
    Microarchitecture {
        name: "Arm Neoverse V1",
        is: Match::Arm(0x41, 0xD40),
        accesses: ARM_SPECULATIVE,
        profiling: Some(SPE),
        ..NOTHING_KNOWN
    },
    Microarchitecture {
        name: "Arm Neoverse N2",
        is: Match::Arm(0x41, 0xD49),
        accesses: ARM_SPECULATIVE,
        profiling: Some(SPE),
        ..NOTHING_KNOWN
    },
    Microarchitecture {
        name: "Arm Neoverse V2",
        is: Match::Arm(0x41, 0xD4F),
        accesses: ARM_SPECULATIVE,
        profiling: Some(SPE),
        ..NOTHING_KNOWN
    },
    Microarchitecture { name: "unknown x86-64 processor", is: Match::AnyX86, ..NOTHING_KNOWN },
    Microarchitecture {
        name: "unknown Arm processor",
        is: Match::AnyArm,
        accesses: ARM_RETIRED,
        profiling: Some(SPE),
        exact: true,
        ..NOTHING_KNOWN
    },
];

/// The entry for the processor that `cpuinfo` (the text of `/proc/cpuinfo`) describes.
#[must_use]
pub fn microarchitecture(cpuinfo: &str) -> &'static Microarchitecture {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let number = |name| {
        let text: &str = field(name)?;
        text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok())
    };
    let arm = field("CPU implementer").is_some();
    let is = |is: Match| match is {
        Match::X86(vendor, families, models) => {
            let within = |value: Option<u32>, (from, to)| value.is_some_and(|v| (from..=to).contains(&v));
            field("vendor_id") == Some(vendor)
                && within(number("cpu family"), families)
                && within(number("model"), models)
        }
        Match::Arm(implementer, part) => {
            number("CPU implementer") == Some(implementer) && number("CPU part") == Some(part)
        }
        Match::AnyX86 => !arm,
        Match::AnyArm => arm,
    };
    // The last two entries match everything.
    TABLE.iter().find(|entry| is(entry.is)).unwrap_or(&TABLE[TABLE.len() - 1])
}

/// An event by name, of this processor or of any; `rNNNN` is a raw event by its code in hexadecimal.
#[must_use]
pub fn by_name(name: &str, processor: &Microarchitecture) -> Option<NamedEvent> {
    let known = processor.accesses.iter().chain(GENERIC);
    known.copied().find(|event| event.name == name).or_else(|| {
        let config = u64::from_str_radix(name.strip_prefix('r')?, 16).ok()?;
        Some(event("raw", RAW, config))
    })
}

impl NamedEvent {
    pub(super) const fn source(self, config1: u64) -> Source {
        Source::Counter { kind: self.kind, config: self.config, config1 }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    pub fn x86(vendor: &str, family: u32, model: u32) -> &'static Microarchitecture {
        microarchitecture(&format!("vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"))
    }

    #[test]
    fn processors_are_recognised() {
        assert_eq!(x86("GenuineIntel", 6, 26).name, "Intel Nehalem or Westmere");
        assert_eq!(x86("GenuineIntel", 6, 45).name, "Intel Sandy Bridge or Ivy Bridge");
        assert_eq!(x86("GenuineIntel", 6, 85).name, "Intel Core, Haswell and later");
        assert_eq!(x86("AuthenticAMD", 0x17, 1).name, "AMD Zen 1 to 3");
        assert_eq!(x86("AuthenticAMD", 0x1A, 2).name, "AMD Zen");
        let arm = "processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(microarchitecture(arm).name, "Arm Neoverse N1");
        for unknown in [x86("GenuineIntel", 15, 2), x86("Other", 6, 60), microarchitecture("")] {
            assert!(unknown.is_generic(), "{unknown:?}");
        }
        let arm = microarchitecture("CPU implementer : 0x46\nCPU part : 0x001\n");
        assert!(arm.is_generic() && arm.name.contains("Arm"));
    }

    #[test]
    fn the_table_is_consistent() {
        let mut names = BTreeSet::new();
        for entry in TABLE {
            assert!(names.insert(entry.name) && entry.accesses.len() <= 2);
            assert!(entry.accesses.iter().all(|event| event.kind == RAW));
            // All accesses can be chosen, or none.
            let kinds: Vec<_> = entry.precise.iter().map(|precise| precise.kind).collect();
            let whole = [vec![], vec![None], vec![Some(AccessKind::Load), Some(AccessKind::Store)]];
            assert!(whole.contains(&kinds), "{}", entry.name);
            // x86 codes are event select and unit mask.
            if matches!(entry.is, Match::X86(..)) {
                assert!(
                    entry.accesses.iter().all(|event| event.config <= 0xFFFF && event.config & 0xFF != 0)
                );
            }
        }
        let names: BTreeSet<_> = GENERIC.iter().map(|event| event.name).collect();
        assert_eq!(names.len(), GENERIC.len());
    }

    #[test]
    fn events_go_by_name() {
        let intel = x86("GenuineIntel", 6, 85);
        assert_eq!(by_name("mem_inst_retired.all_loads", intel).unwrap().config, 0x81D0);
        assert_eq!(by_name("instructions", intel).unwrap().config, 1);
        assert_eq!(by_name("r412e", intel).unwrap().config, 0x412E);
        assert_eq!(by_name("mem_inst_retired.all_loads", x86("Other", 6, 1)), None);
        assert_eq!(by_name("rubbish", intel), None);
    }
}
