//! What this machine offers, and what to change for more.

use std::fmt;
#[cfg(target_os = "linux")]
use std::fs;
#[cfg(target_os = "linux")]
use std::path::Path;

use super::events::{self, Microarchitecture};
use super::kernel::{Abilities, Profiler, Selector, Source};
#[cfg(target_os = "linux")]
use super::{
    causes::{self, Circumstances},
    decode, group, linux, units,
};
#[cfg(target_os = "linux")]
use super::{
    kernel::{Opening, Output},
    ring::Layout,
};

/// What was found. Nothing of it is guessed: each was tried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// The processor's entry in the table of [events].
    pub processor: &'static Microarchitecture,
    /// The kernel's version, if it is Linux.
    pub kernel: Option<String>,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i32>,
    /// Whether events can stop a program (Linux 5.13), or why not.
    pub stops: Result<(), String>,
    /// Whether instructions can be counted, or why not.
    pub instructions: Result<(), String>,
    /// Whether memory accesses can be counted, or why not.
    pub accesses: Result<(), String>,
    /// Whether the processor chooses accesses and reports their addresses, or why not.
    pub precise: Result<(), String>,
    /// Whether the processor profiles by itself, or why not: [`spe`](super::spe).
    pub profiles: Result<(), String>,
    /// Whether the processor records branches, or why not.
    pub branches: Result<(), String>,
    /// Debug registers that are free.
    pub registers: usize,
    /// Whether one of them watches a line of 64 bytes.
    pub whole_line: bool,
    /// Whether one reports a touch without stopping the program, and can then be set again.
    pub once: bool,
    /// Whether this build understands the machine's instructions.
    pub decodes: bool,
    /// What is given up so that everything fits the processor's counters at once; or why nothing does.
    pub group: Result<Vec<String>, String>,
    /// What to change, most important first.
    pub advice: Vec<String>,
    selectors: [Option<Selector>; 2],
    profiler: Option<Profiler>,
    /// Why there is no debug register.
    pub(super) no_registers: Option<String>,
}

impl Capabilities {
    /// Whether programs can be sampled with counters: windows of instructions, distances in accesses.
    #[must_use]
    pub fn has_counters(&self) -> bool {
        self.stops.is_ok()
            && self.instructions.is_ok()
            && self.accesses.is_ok()
            && self.registers > 0
            && (self.precise.is_ok() || self.decodes)
            && self.abilities(false, None, true).is_ok()
    }

    /// What the backend works with here, and what had to be given up because the counters do not suffice for all: code
    /// samples only unless `keep_code`. Or what is missing.
    pub(super) fn abilities(
        &self,
        time: bool,
        early: Option<u64>,
        keep_code: bool,
    ) -> Result<(Abilities, Vec<String>), String> {
        let wanted = self.wanted(time, early)?;
        #[cfg(target_os = "linux")]
        return group::fit(wanted, keep_code, linux::counts_together).map_err(|error| {
            if causes::is_too_much(&error) {
                format!(
                    "the processor's counters do not suffice for a group of events ({error}): free counters (set \
                     kernel.nmi_watchdog to 0, end other profilers); with hyper-threading off, Intel's processors \
                     before Ice Lake have twice as many"
                )
            } else {
                Circumstances::behind(&error).event(&error, true)
            }
        });
        #[cfg(not(target_os = "linux"))]
        {
            let _ = keep_code;
            Ok((wanted, Vec::new()))
        }
    }

    fn wanted(&self, time: bool, early: Option<u64>) -> Result<Abilities, String> {
        self.stops.clone()?;
        let counted = self.instructions.is_ok();
        if !counted && !time {
            self.instructions.clone().map_err(|why| format!("instructions cannot be counted: {why}"))?;
        }
        let events = &self.processor.accesses;
        let access = |n: usize| {
            events.get(n).filter(|_| counted && self.accesses.is_ok()).map(|event| event.source(0))
        };
        Ok(Abilities {
            windows: if counted { Source::INSTRUCTIONS } else { Source::TASK_CLOCK },
            accesses: [access(0), access(1)],
            selectors: if counted && self.precise.is_ok() { self.selectors } else { [None; 2] },
            profiler: self.profiler.filter(|_| self.profiles.is_ok()),
            code: true,
            decodes: self.decodes,
            registers: self.registers,
            whole_line: self.whole_line,
            hit_after: cfg!(target_arch = "x86_64"),
            once: self.once,
            branches: counted && self.branches.is_ok(),
            echo: counted && self.processor.echo,
            early: early.filter(|_| counted).unwrap_or(0),
        })
    }
}

/// Tries what this machine offers. Takes some milliseconds and leaves nothing open.
#[must_use]
pub fn probe() -> Capabilities {
    #[cfg(target_os = "linux")]
    {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let processor = events::microarchitecture(&read("/proc/cpuinfo").unwrap_or_default());
        let paranoid = read("/proc/sys/kernel/perf_event_paranoid").and_then(|text| text.parse().ok());
        let try_event = |source: Source, precise: u8, branches: bool| {
            let layout = Layout { address: precise > 0, counts: true, branches, ..Layout::default() };
            let (period, stops, output) = (1 << 30, true, Output::Nowhere);
            let opening = Opening { period, stops, precise, layout, output, ..Opening::of(source) };
            linux::can_open(&opening)
        };
        let (registers, no_more) = linux::free_registers();
        let refused = Refused {
            // A clock of the own thread needs no counter: whoever may open events at all may open this one.
            any: linux::can_open(&Opening::of(Source::TASK_CLOCK)).err(),
            stops: try_event(Source::TASK_CLOCK, 0, false).err(),
            instructions: try_event(Source::INSTRUCTIONS, 0, false).err(),
            registers: Some(no_more).filter(|_| registers == 0),
        };
        let said =
            |error: &Option<std::io::Error>| error.as_ref().map_or(Ok(()), |error| Err(explain(error)));
        let accesses = if processor.accesses.is_empty() {
            Err(format!("no event that counts accesses is known for this processor ({})", processor.name))
        } else {
            let events: Vec<Source> = processor.accesses.iter().map(|event| event.source(0)).collect();
            let opened = events.iter().try_for_each(|&event| try_event(event, 0, false));
            opened.map_err(|error| explain(&error)).and_then(|()| counts_all(&events))
        };
        let devices = Path::new("/sys/bus/event_source/devices");
        let selectors = units::selectors(processor, devices);
        let profiler = units::profiler(processor, devices);
        let profiles = profiler.clone().and_then(|profiler| {
            linux::can_open(&profiler.opening(1 << 20, 0)).map_err(|error| explain(&error))
        });
        let precise = selectors.clone().and_then(|selectors| {
            selectors.iter().flatten().try_for_each(|selector| {
                let opening = selector.opening();
                // One that others have taken can be opened, too.
                let tried = if selector.apart {
                    linux::counts_together(opening, &[])
                } else {
                    linux::can_open(&opening)
                };
                tried.map_err(|error| explain(&error))
            })
        });
        let branches = try_event(Source::INSTRUCTIONS, 0, true).map_err(|error| explain(&error));
        let whole_line = linux::can_watch(64).is_ok();
        let once = linux::reports_once();
        let mut found = Capabilities {
            processor,
            kernel: read("/proc/sys/kernel/osrelease"),
            paranoid,
            stops: said(&refused.stops),
            instructions: said(&refused.instructions),
            accesses,
            precise,
            profiles,
            branches,
            registers,
            whole_line,
            once,
            decodes: decode::AVAILABLE,
            group: Ok(Vec::new()),
            advice: Vec::new(),
            selectors: selectors.unwrap_or_default(),
            profiler: profiler.ok(),
            no_registers: None,
        };
        found.group = found.abilities(true, None, false).map(|(_, lost)| lost);
        let error = refused.any.as_ref().or(refused.stops.as_ref());
        let here = error.map_or_else(Circumstances::here, Circumstances::behind);
        found.advise(&refused, &here);
        found
    }
    #[cfg(not(target_os = "linux"))]
    {
        let none = || Err("perf_event is Linux's".to_owned());
        Capabilities {
            processor: events::microarchitecture(""),
            kernel: None,
            paranoid: None,
            stops: none(),
            instructions: none(),
            accesses: none(),
            precise: none(),
            profiles: none(),
            branches: none(),
            registers: 0,
            whole_line: false,
            once: false,
            decodes: false,
            group: none().map(|()| Vec::new()),
            advice: vec!["run on Linux".to_owned()],
            selectors: [None; 2],
            profiler: None,
            no_registers: None,
        }
    }
}

/// Whether events that count accesses count all of some. One that the processor does not have can be opened and stays 0.
#[cfg(target_os = "linux")]
fn counts_all(events: &[Source]) -> Result<(), String> {
    const PAIRS: u64 = 4096;
    let counted = linux::counted(events, PAIRS).map_err(|error| explain(&error))?;
    if counted < 2 * PAIRS {
        return Err(format!("the events of accesses counted {counted} of {} accesses", 2 * PAIRS));
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn explain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "this machine has no such counter".to_owned(),
        std::io::ErrorKind::PermissionDenied => "not permitted".to_owned(),
        _ => error.to_string(),
    }
}

/// What the kernel answered where it refused.
#[cfg(target_os = "linux")]
#[derive(Debug, Default)]
struct Refused {
    /// Even the clock of the own thread.
    any: Option<std::io::Error>,
    /// A clock that stops the own thread.
    stops: Option<std::io::Error>,
    instructions: Option<std::io::Error>,
    /// The first debug register.
    registers: Option<std::io::Error>,
}

#[cfg(target_os = "linux")]
impl Capabilities {
    fn advise(&mut self, refused: &Refused, here: &Circumstances) {
        let mut advise = |text: &str| self.advice.push(text.to_owned());
        if let Some(why) = linux::blind() {
            advise(why);
        }
        if let Some(error) = refused.any.as_ref().or(refused.stops.as_ref()) {
            return advise(&here.event(error, true));
        }
        match &refused.instructions {
            Some(error) if causes::is_missing(error) => advise(
                "use a machine whose counters are visible: virtual machines mostly have none (KVM: start the guest \
                 with a PMU, -cpu host,pmu=on; clouds: metal instances). Until then the dbi and qemu backends are exact",
            ),
            Some(error) => advise(&here.event(error, true)),
            None => {}
        }
        if let Err(why) = &self.group {
            advise(why);
        }
        if let Some(error) = &refused.registers {
            let why = here.watchpoint(error);
            advise(&why);
            self.no_registers = Some(why);
        }
        if !self.decodes && self.precise.is_err() {
            advise("build with the feature decode-x86, or no access can be chosen");
        }
        if self.processor.is_generic() {
            advise(
                "name your processor's events of loads and stores in perf/events/mod.rs: it is not in the table",
            );
        }
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let say = |result: &Result<(), String>| match result {
            Ok(()) => "yes".to_owned(),
            Err(why) => format!("no: {why}"),
        };
        writeln!(f, "processor                          {}", self.processor.name)?;
        writeln!(f, "Linux                              {}", self.kernel.as_deref().unwrap_or("no"))?;
        if let Some(level) = self.paranoid {
            writeln!(f, "kernel.perf_event_paranoid         {level}")?;
        }
        writeln!(f, "events that stop a program         {}", say(&self.stops))?;
        writeln!(f, "windows of instructions            {}", say(&self.instructions))?;
        writeln!(f, "distances in accesses              {}", say(&self.accesses))?;
        writeln!(f, "accesses chosen by the processor   {}", say(&self.precise))?;
        writeln!(f, "accesses profiled beside samples   {}", say(&self.profiles))?;
        writeln!(f, "branch records                     {}", say(&self.branches))?;
        match &self.group {
            Ok(lost) if lost.is_empty() => writeln!(f, "all of that at once                yes")?,
            Ok(lost) => writeln!(f, "all of that at once                no: {}", lost.join("; "))?,
            Err(why) => writeln!(f, "all of that at once                no: {why}")?,
        }
        writeln!(f, "debug registers that are free      {}", self.registers)?;
        writeln!(f, "one watches a whole line           {}", if self.whole_line { "yes" } else { "no" })?;
        let once = if self.once { "yes" } else { "no: each touch stops it" };
        writeln!(f, "touches seen without a stop        {once}")?;
        writeln!(f, "instructions are understood        {}", if self.decodes { "yes" } else { "no" })?;
        for advice in &self.advice {
            writeln!(f, "to do: {advice}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_has_advice_and_what_is_there_is_used() {
        let found = probe();
        let text = found.to_string();
        assert!(text.contains("debug registers"), "{text}");
        if found.instructions.is_err() {
            assert!(!found.has_counters() && !found.advice.is_empty(), "{text}");
            assert!(found.abilities(false, None, false).is_err());
        }
        if found.stops.is_ok() {
            let (abilities, _) = found.abilities(true, None, false).unwrap();
            assert_eq!(abilities.windows == Source::INSTRUCTIONS, found.instructions.is_ok());
            assert_eq!(abilities.registers, found.registers);
        }
    }
}
