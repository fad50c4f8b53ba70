//! The events of processors, as data.
//!
//! Codes are in the form of `perf_event_attr.config`: on x86 event select in the lowest byte and unit mask in the next, on
//! Arm the event number. They are taken from the lists that manufacturers publish, by `.ci/event-tables` in the repository,
//! which compares the table with the lists where it is given them. Of a hybrid processor the entry is that of the large
//! cores, whose counters the kernel's plain events use. An unknown processor gets the architecture's generic entry, which
//! says that it is one. An entry is no claim that this crate has run on the processor: `docs/processors.md` names those.
//!
//! Sources: <https://github.com/intel/perfmon>; <https://github.com/ARM-software/data>; for AMD
//! `tools/perf/pmu-events/arch/x86` in Linux. What a count is of differs: Intel counts instructions that have retired, a
//! load and a store each; so does `ld_retired`. AMD's and Arm's `mem_access` count what was issued, some of it in vain; AMD
//! counts an operation that loads and stores once.

use std::sync::LazyLock;

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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Match {
    /// x86: vendor, family, and models; of any model where there are none.
    X86(&'static str, u32, Vec<u32>),
    /// Arm: implementer and part.
    Arm(u32, u32),
    /// Any processor of this architecture.
    AnyX86,
    /// Any processor of this architecture.
    AnyArm,
}

/// What a kind of processor has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Microarchitecture {
    /// Name.
    pub name: &'static str,
    /// Which processors it is.
    pub is: Match,
    /// Events that count accesses: loads and stores, or one for both.
    pub accesses: Vec<NamedEvent>,
    /// Events that report the addresses of the accesses they count, with `precise_ip` 2: loads and stores, or one for both.
    pub precise: Vec<Precise>,
    /// Whether an overflow goes unnoticed until something else happens, for which a second event is set to overflow right
    /// behind it.
    pub echo: bool,
}

impl Microarchitecture {
    /// Whether this entry is only the architecture's.
    #[must_use]
    pub const fn is_generic(&self) -> bool {
        matches!(self.is, Match::AnyX86 | Match::AnyArm)
    }

    /// What profiles by itself, where the system has it.
    #[must_use]
    pub const fn profiling(&self) -> Option<Profiling> {
        if matches!(self.is, Match::Arm(..) | Match::AnyArm) { Some(SPE) } else { None }
    }
}

/// Instruction-based sampling of operations, counted as they are dispatched (bit 19); those that access memory have an
/// address: AMD64 Architecture Programmer's Manual, volume 2, 13.3.
const AMD_PRECISE: Precise = Precise { event: event("ibs_op", 0, 1 << 19), unit: Some("ibs_op"), kind: None };

/// The table, first match first: what is listed, then processors for which there is no list. The last two match everything.
pub static TABLE: LazyLock<Vec<Microarchitecture>> = LazyLock::new(|| {
    let lines = include_str!("listed.csv").lines().filter(|line| !line.starts_with('#'));
    let mut table: Vec<Microarchitecture> = lines.filter_map(listed).collect();
    let unlisted =
        |name, is, accesses, echo| Microarchitecture { name, is, accesses, precise: Vec::new(), echo };
    // From version 7.2 on QEMU's looks one count too early whether a counter has overflowed, and not again.
    table.push(unlisted("QEMU's emulated processor", Match::Arm(0, 0x51), Vec::new(), true));
    table.push(unlisted("unknown x86-64 processor", Match::AnyX86, Vec::new(), false));
    // The architecture's events, which a processor need not have.
    let arm = vec![event("ld_retired", RAW, 0x06), event("st_retired", RAW, 0x07)];
    table.push(unlisted("unknown Arm processor", Match::AnyArm, arm, false));
    table
});

/// A line of `listed.csv`, which `.ci/event-tables` writes. Of events with addresses there are none, each of those that
/// count accesses, or AMD's.
fn listed(line: &'static str) -> Option<Microarchitecture> {
    let fields: Vec<&'static str> = line.split(',').collect();
    let &[name, vendor, family, models, events, addresses, _] = fields.as_slice() else { return None };
    let models: Vec<u32> = models.split(' ').filter_map(|model| model.parse().ok()).collect();
    let is = match vendor.parse() {
        Ok(implementer) => Match::Arm(implementer, *models.first()?),
        Err(_) => Match::X86(vendor, family.parse().ok()?, models),
    };
    let named = |text: &'static str| {
        let (name, code) = text.split_once('=')?;
        Some(event(name, RAW, u64::from_str_radix(code, 16).ok()?))
    };
    let accesses: Vec<NamedEvent> = events.split(' ').map(named).collect::<Option<_>>()?;
    let each = accesses.iter().zip([AccessKind::Load, AccessKind::Store]);
    let precise = match addresses {
        "each" => each.map(|(&event, kind)| Precise { event, unit: None, kind: Some(kind) }).collect(),
        "ibs" => vec![AMD_PRECISE],
        _ => Vec::new(),
    };
    Some(Microarchitecture { name, is, accesses, precise, echo: false })
}

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
    let is = |entry: &&Microarchitecture| match &entry.is {
        &Match::X86(vendor, family, ref models) => {
            field("vendor_id") == Some(vendor)
                && number("cpu family") == Some(family)
                && (models.is_empty() || number("model").is_some_and(|model| models.contains(&model)))
        }
        &Match::Arm(implementer, part) => {
            number("CPU implementer") == Some(implementer) && number("CPU part") == Some(part)
        }
        Match::AnyX86 => !arm,
        Match::AnyArm => arm,
    };
    TABLE.iter().find(is).unwrap_or(&TABLE[TABLE.len() - 1])
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
        assert_eq!(x86("GenuineIntel", 6, 26).name, "Intel Nehalem");
        assert_eq!(x86("GenuineIntel", 6, 85).name, "Intel Skylake-SP or Cascade Lake");
        assert_eq!(x86("AuthenticAMD", 0x17, 1).name, "AMD Zen or Zen 2");
        assert_eq!(x86("AuthenticAMD", 0x1A, 2).name, "AMD Zen 5");
        let arm = "processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(microarchitecture(arm).name, "Arm Neoverse N1");
        for unknown in [x86("GenuineIntel", 15, 2), x86("Other", 6, 60), microarchitecture("")] {
            assert!(unknown.is_generic(), "{unknown:?}");
        }
        let arm = microarchitecture("CPU implementer : 0x46\nCPU part : 0x001\n");
        assert!(arm.is_generic() && arm.name.contains("Arm"));
    }

    /// Numbers as the manuals have them (SDM volume 3B, chapter "Performance Monitoring Events"), for processors whose numbers lie
    /// among those of others.
    #[test]
    fn processors_count_their_own_events() {
        let codes = |model| {
            let entry = x86("GenuineIntel", 6, model);
            let codes: Vec<u64> = entry.accesses.iter().map(|event| event.config).collect();
            (codes, !entry.precise.is_empty())
        };
        let (westmere_ep, westmere_ex) = (44, 47);
        for model in [26, 37, westmere_ep, westmere_ex] {
            assert_eq!(codes(model), (vec![0x010B, 0x020B], false), "{model}");
        }
        let ivy_bridge_ep = 62;
        for model in [42, 45, 58, ivy_bridge_ep] {
            assert_eq!(codes(model), (vec![0x81D0, 0x82D0], false), "{model}");
        }
        // Silvermont, Airmont, Knights Landing and Knights Mill, whose counters report no addresses.
        for model in [55, 74, 76, 77, 90, 87, 133] {
            assert_eq!(codes(model), (vec![0x4004, 0x8004], false), "{model}");
        }
        // Haswell, Skylake, Ice Lake, Sapphire Rapids.
        for model in [60, 94, 106, 143] {
            assert_eq!(codes(model), (vec![0x81D0, 0x82D0], true), "{model}");
        }
        // Bonnell has no such events.
        assert_eq!(codes(28), (vec![], false));
    }

    #[test]
    fn the_table_is_consistent() {
        let mut names = BTreeSet::new();
        let mut processors = BTreeSet::new();
        let lines = include_str!("listed.csv").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(TABLE.len(), lines.count() + 3);
        for entry in TABLE.iter() {
            assert!(names.insert(entry.name) && entry.accesses.len() <= 2);
            assert!(entry.accesses.iter().all(|event| event.kind == RAW));
            // All accesses can be chosen, or none.
            let kinds: Vec<_> = entry.precise.iter().map(|precise| precise.kind).collect();
            let whole = [vec![], vec![None], vec![Some(AccessKind::Load), Some(AccessKind::Store)]];
            assert!(whole.contains(&kinds), "{}", entry.name);
            match &entry.is {
                // x86 codes are event select and unit mask.
                Match::X86(_, family, models) => {
                    let codes = entry.accesses.iter().map(|event| event.config);
                    assert!(codes.into_iter().all(|code| code <= 0xFFFF && code & 0xFF != 0));
                    assert!(
                        models.iter().all(|&model| processors.insert((*family, model))),
                        "{}",
                        entry.name
                    );
                }
                Match::Arm(implementer, part) => assert!(processors.insert((*implementer, *part))),
                Match::AnyX86 | Match::AnyArm => {}
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
