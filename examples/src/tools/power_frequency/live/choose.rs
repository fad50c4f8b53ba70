//! Which events this machine can count, and what is done without the others.
//!
//! The events are those of the paper's power model (table V.1) and the two that its performance model reads. On
//! aarch64 their codes are the architecture's, and the kernel lists those that the processor has; on x86 they are those of
//! the microarchitecture where it is known, else the kernel's own generic events. Codes given by the user come first.

use std::io::{self, ErrorKind};

use powersleuth::linux::Files;
use powersleuth::multiplex::CounterGroups;
use powersleuth::perf::{EventCode, PerfError};
use powersleuth::power::nehalem;

/// The events, by the names that the command line knows them by; the first six are the power model's.
pub const QUANTITIES: [&str; 8] = [
    "memory-operations",
    "l2-misses",
    "l2-references",
    "resource-stalls",
    "floating-point",
    "mispredictions",
    "stalls",
    "llc-misses",
];
/// Number of the resource stalls among them.
pub const RESOURCE_STALLS: usize = 3;
/// Number of the stall cycles among them.
pub const STALLS: usize = 6;
/// Number of the misses of the last level of cache.
pub const MISSES: usize = 7;

/// Where a quantity comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// The code of this number among those chosen is counted.
    Counted(usize),
    /// It counts as the cycles.
    Cycles,
    /// It counts as 0.
    Nothing,
}

/// What is counted.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Where each of the [`QUANTITIES`] comes from.
    pub supplies: [Supply; QUANTITIES.len()],
    /// The codes to count.
    pub codes: Vec<EventCode>,
    /// Whether the stall cycles counted are those with a miss of the last level outstanding, and no others.
    pub exact_stalls: bool,
    /// What is missing, and what that means.
    pub notes: Vec<String>,
}

/// A quantity's code as the user gives it: `stalls=0x1A2`.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<(usize, EventCode), String> {
    let Some((name, code)) = text.split_once('=') else {
        return Err("give NAME=CODE, for example stalls=0x01A2".to_owned());
    };
    let Some(number) = QUANTITIES.iter().position(|known| *known == name) else {
        return Err(format!("no event {name:?}; there are {}", QUANTITIES.join(", ")));
    };
    let digits = code.trim_start_matches("0x").trim_start_matches('r');
    match u64::from_str_radix(digits, 16) {
        Ok(code) => Ok((number, EventCode::Raw(code))),
        Err(_) => {
            Err(format!("{code:?} is no code: give it in hexadecimal, as the processor's manual has it"))
        }
    }
}

impl Choice {
    /// Of a machine of architecture `arch` with these files; `given` are the user's codes, and `probe` returns
    /// whether one can be counted.
    pub fn make(
        files: &impl Files,
        arch: &str,
        given: &[(usize, EventCode)],
        mut probe: impl FnMut(EventCode) -> Result<(), PerfError>,
    ) -> Self {
        let mut notes = Vec::new();
        let mut candidates = match arch {
            "aarch64" => listed(files, arm(), &mut notes),
            _ => x86(files, &mut notes),
        };
        for &(number, code) in given {
            candidates[number] = vec![code];
        }
        let mut choice = Self {
            supplies: [Supply::Nothing; QUANTITIES.len()],
            codes: Vec::new(),
            exact_stalls: false,
            notes,
        };
        let mut missing = Vec::new();
        for (number, codes) in candidates.into_iter().enumerate() {
            match codes.into_iter().find(|&code| probe(code).is_ok()) {
                Some(code) => {
                    choice.supplies[number] = Supply::Counted(choice.codes.len());
                    choice.exact_stalls |= number == STALLS && EXACT.contains(&code);
                    choice.codes.push(code);
                }
                None => missing.push(number),
            }
        }
        choice.do_without(&missing);
        choice
    }

    fn do_without(&mut self, missing: &[usize]) {
        let power: Vec<&str> =
            missing.iter().filter(|&&n| n < STALLS).map(|&number| QUANTITIES[number]).collect();
        if !power.is_empty() {
            self.notes.push(format!(
                "no code is known here for {}: the power model takes them as 0; name codes with --event",
                power.join(", ")
            ));
        }
        let lacks = |number| missing.contains(&number);
        let note = match (lacks(STALLS), lacks(MISSES)) {
            (false, false) => return,
            (false, true) => {
                self.supplies[MISSES] = Supply::Cycles;
                "misses of the last level cannot be counted: every stall is taken to be memory's, which makes slower \
                 clocks look better than they are"
            }
            (true, false) => {
                self.supplies[STALLS] = Supply::Cycles;
                "stall cycles cannot be counted: every miss is taken to wait alone, which makes slower clocks look \
                 better than they are"
            }
            (true, true) => {
                "neither stall cycles nor misses can be counted: times are predicted as if nothing waited for memory, \
                 which makes slower clocks look worse than they are"
            }
        };
        self.notes.push(format!("{note}; name codes with --event"));
    }

    /// How many of the quantities are counted.
    pub fn counted(&self) -> usize {
        self.codes.len()
    }

    /// Groups of quantities that take turns on `counters`; what is not counted goes with all of them.
    ///
    /// # Errors
    /// [`powersleuth::Error::Empty`] without counters.
    pub fn groups(&self, counters: usize) -> Result<CounterGroups, powersleuth::Error> {
        let (counted, others): (Vec<usize>, Vec<usize>) =
            (0..QUANTITIES.len()).partition(|&n| matches!(self.supplies[n], Supply::Counted(_)));
        if counted.is_empty() {
            return CounterGroups::new(QUANTITIES.len(), vec![others]);
        }
        let groups = CounterGroups::round_robin(counted.len(), counters)?;
        let group = |group: &Vec<usize>| group.iter().map(|&i| counted[i]).chain(others.clone()).collect();
        CounterGroups::new(QUANTITIES.len(), groups.as_slice().iter().map(group).collect())
    }
}

/// Backend stalls with a miss of the last level outstanding: Arm Architecture Reference Manual, `STALL_BACKEND_MEM`.
const STALL_BACKEND_MEM: u64 = 0x4005;
/// Execution stalls with a demand load outstanding that missed the last level: `CYCLE_ACTIVITY.STALLS_L3_MISS`, event 0xA3,
/// unit mask 6, counter mask 6.
const STALLS_L3_MISS: u64 = 0x0600_06A3;
/// Codes that count what memory makes a core wait, and nothing else.
const EXACT: [EventCode; 2] = [EventCode::Raw(STALL_BACKEND_MEM), EventCode::Raw(STALLS_L3_MISS)];

/// Codes of the architecture: Arm Architecture Reference Manual, "PMU events".
fn arm() -> [Vec<u64>; QUANTITIES.len()] {
    const L2D_CACHE_REFILL: u64 = 0x17;
    const STALL_BACKEND: u64 = 0x24;
    [
        vec![0x13],                                   // MEM_ACCESS
        vec![L2D_CACHE_REFILL],                       //
        vec![0x16],                                   // L2D_CACHE
        vec![STALL_BACKEND],                          //
        vec![0x75, 0x74],                             // VFP_SPEC, ASE_SPEC
        vec![0x10],                                   // BR_MIS_PRED
        vec![STALL_BACKEND_MEM, 0x3C, STALL_BACKEND], // STALL
        vec![0x37, L2D_CACHE_REFILL],                 // LL_CACHE_MISS_RD
    ]
}

/// Those of `codes` that the kernel lists among the processor's events; where it lists none, all but the one that is
/// younger than the rest. A raw event that the processor does not have can be opened all the same, and stays 0.
fn listed(
    files: &impl Files,
    codes: [Vec<u64>; QUANTITIES.len()],
    notes: &mut Vec<String>,
) -> [Vec<EventCode>; QUANTITIES.len()] {
    const DEVICES: &str = "sys/bus/event_source/devices";
    let mut unreadable = |path: &str, error: &io::Error| {
        if error.kind() != ErrorKind::NotFound {
            notes.push(format!(
                "cannot read /{path}: {error}; events that the kernel lists there may be missing"
            ));
        }
    };
    let mut list = |path: &str| {
        let names = files.list(path);
        names.unwrap_or_else(|error| {
            unreadable(path, &error);
            Vec::new()
        })
    };
    let mut events = Vec::new();
    for device in list(DEVICES).iter().filter(|name| name.starts_with("armv8")) {
        let folder = format!("{DEVICES}/{device}/events");
        events.extend(list(&folder).into_iter().map(|event| format!("{folder}/{event}")));
    }
    let mut known = Vec::new();
    for path in events {
        match files.read(&path) {
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                let code = text.trim().strip_prefix("event=0x").map(|code| u64::from_str_radix(code, 16));
                known.extend(code.and_then(Result::ok));
            }
            Err(error) => unreadable(&path, &error),
        }
    }
    let there = |code: &u64| known.contains(code) || (known.is_empty() && *code != STALL_BACKEND_MEM);
    codes.map(|codes| codes.into_iter().filter(there).map(EventCode::Raw).collect())
}

/// The kernel's events; on processors whose own are known, those.
fn x86(files: &impl Files, notes: &mut Vec<String>) -> [Vec<EventCode>; QUANTITIES.len()] {
    let mut codes: [Vec<EventCode>; QUANTITIES.len()] = Default::default();
    codes[RESOURCE_STALLS] = vec![EventCode::StalledCycles];
    codes[5] = vec![EventCode::BranchMisses];
    codes[STALLS] = vec![EventCode::StalledCycles];
    codes[MISSES] = vec![EventCode::CacheMisses];
    let model = match files.read("proc/cpuinfo") {
        Ok(text) => intel_model(&String::from_utf8_lossy(&text)),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                notes.push(format!(
                    "cannot read /proc/cpuinfo: {error}; only the kernel's generic events are tried"
                ));
            }
            None
        }
    };
    let Some(model) = model else { return codes };
    let own = |code: u64| vec![EventCode::Raw(code)];
    if matches!(model, 26 | 30 | 31 | 46) {
        // Nehalem: the paper's.
        for (codes, (_, code, ..)) in codes.iter_mut().zip(nehalem::COEFFICIENTS) {
            *codes = own(u64::from(code));
        }
        return codes;
    }
    // Models, codes of the quantities, and the list, which `.ci/event-tables` writes.
    let listed = include_str!("listed.csv").lines().find_map(|line| {
        let mut fields = line.split(',');
        let is = fields.next()?.split(' ').any(|listed| listed.parse() == Ok(model));
        fields.next().filter(|_| is)
    });
    for (codes, code) in codes.iter_mut().zip(listed.into_iter().flat_map(|codes| codes.split(' '))) {
        *codes = u64::from_str_radix(code, 16).ok().filter(|&code| code > 0).map_or_else(Vec::new, own);
    }
    codes
}

/// Model of an Intel processor of family 6, from the text of `/proc/cpuinfo`.
fn intel_model(cpuinfo: &str) -> Option<u32> {
    let field = |name: &str| {
        let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let is_intel = field("vendor_id")? == "GenuineIntel" && field("cpu family")? == "6";
    field("model")?.parse().ok().filter(|_| is_intel)
}
