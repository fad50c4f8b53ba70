//! A program on this machine, counted by its own counters: phases from where it executes, events in turn phase by
//! phase, and what that means at other frequencies.
//!
//! - [`IntervalSource`]: something that runs a program from interval to interval and counts; [`native`] does with
//!   what Linux has, tests with the reference core's run;
//! - [`choose`]: which events this machine has, and what stands in for those it has not;
//! - [`observe`]: the run; [`study`]: what follows;
//! - [mod@bench]: kernels at every frequency, to fit models to this machine.
//!
//! All that is read of the machine besides its counters lies below a root that the caller gives.

pub mod bench;
pub mod choose;
pub mod native;
pub mod observe;
pub mod study;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use powersleuth::linux::{EnergyMeter, Pin, Thermometer, Tree, package_zones, policies_of_this_process};
use powersleuth::multiplex::{Count, CounterSource, Reading};
use powersleuth::{Hertz, Kelvin};

use self::choose::{Choice, Supply};
use self::native::{Launch, Native, can_count};
use super::args::Args;
use super::study::Study;
use crate::cli::{Failure, Watch};
use crate::target::{Outcome, command_name};
use crate::tools::phase_guided_cache;

/// Instructions in an interval where the user does not say: some 30 ms.
pub const LIVE_WINDOW: u64 = 100_000_000;

/// Where a program executed during an interval: blocks of code, each with its weight.
pub type Seen = Vec<(u64, f64)>;

/// Counters together with the program whose events they count.
pub trait IntervalSource: CounterSource {
    /// Lets the program run for an interval. `None` if it ended, or was ended, before the interval was full.
    ///
    /// # Errors
    /// Whatever keeps the program from running on.
    fn run(&mut self) -> Result<Option<Seen>, Self::Error>;

    /// The code at an address that was seen.
    fn locate(&mut self, address: u64) -> Option<String> {
        let _ = address;
        None
    }
}

/// Runs the program of `args` on this machine's counters until its end or until `interrupted` is set. Answers also
/// the exit status, with a remark on it.
///
/// # Errors
/// [`Failure`] if the machine is not as the user says, or there is nothing to report.
pub(super) fn count(
    args: &Args,
    interrupted: &Arc<AtomicBool>,
    watch: &Watch<'_>,
) -> Result<(Study, (u8, Option<String>)), Failure> {
    let machine = args.machine()?;
    let files = Tree::new(&args.system);
    let choice = Choice::make(&files, std::env::consts::ARCH, &args.events, |code| can_count(&[code]));
    // Restored when it goes, whatever happens meanwhile, a kill included.
    let pin = args.profile_at.map(|ghz| pin(&files, Hertz::from_ghz(ghz))).transpose()?;
    let meter = package_zones(&files).and_then(|zones| EnergyMeter::new(files.clone(), &zones));
    let (meter, unreadable) = match meter {
        Ok(meter) => (Some(meter), None),
        Err(powersleuth::Error::Missing { .. }) => (None, None),
        Err(error) => (None, Some(error)),
    };
    let window = args.live_window();
    let launch = Launch {
        command: &args.program,
        window,
        codes: choice.codes.clone(),
        output_to_stderr: args.common.claims_stdout(),
        interrupted: Arc::clone(interrupted),
    };
    let source = Native::start(launch)?;
    let counters = usize::from(args.counters);
    let thermal = machine.power.as_ref().is_some_and(|model| model.thermal.is_some());
    let thermometer = thermal.then(|| Thermometer::find(files.clone())).transpose();
    let mut temperatures = Vec::new();
    let progress = |intervals| {
        if let Ok(Some(thermometer)) = &thermometer {
            temperatures.extend(thermometer.read());
        }
        watch.show_with(|| format!("{intervals} intervals"));
    };
    let run = observe::observe(source, &choice, counters, args.common.seed, meter, interrupted, progress);
    let (mut observed, mut source) = run?;
    if let Some(pin) = pin {
        pin.restore()?;
    }
    if !temperatures.is_empty() {
        observed.temperature = Some(temperatures.iter().copied().sum::<Kelvin>() / temperatures.len() as f64);
    }
    if let Some(error) = unreadable {
        observed.drawn = Some(Err(error));
    }
    let ended = source.outcome().clone();
    let stopped = interrupted.load(Ordering::Relaxed);
    if observed.record.is_empty() {
        let how = match &ended {
            Outcome::Unknown => "was stopped".to_owned(),
            Outcome::Exited(code) => format!("exited with status {code}"),
            Outcome::Signalled(signal) => format!("was killed by {signal}"),
        };
        return Err(Failure::Run(format!(
            "the program {how} within its first interval of {window} instructions: give shorter ones with --window"
        )));
    }
    let incomplete = stopped || matches!(ended, Outcome::Signalled(_));
    let run = study::Run { program: &command_name(&args.program), window, counters, incomplete };
    let mut study = study::study(&observed, &choice, &machine, &files, run, &mut source)?;
    study.notes.extend(source.uncounted().map(str::to_owned));
    if let Err(error) = thermometer {
        study.notes.push(format!("power is that of the calibration's room: {error}"));
    }
    Ok((study, phase_guided_cache::ending(incomplete, &ended, stopped)))
}

/// Sets the cores that the program may run on to `frequency`, because the user asked for it.
fn pin(files: &Tree, frequency: Hertz) -> Result<Pin<Tree>, Failure> {
    let policies = policies_of_this_process(files)?;
    let mut pin = Pin::guarded(files.clone(), policies)?;
    pin.set(frequency)?;
    Ok(pin)
}

/// A source that counts what is there, made to look as if it counted everything.
#[derive(Debug)]
pub struct Supplied<S> {
    source: S,
    supplies: Vec<Supply>,
    asked: Vec<usize>,
    hertz: Vec<f64>,
}

impl<S: IntervalSource> Supplied<S> {
    /// `source` counts the codes of `choice`, by their numbers there.
    pub fn new(source: S, choice: &Choice) -> Self {
        Self { source, supplies: choice.supplies.to_vec(), asked: Vec::new(), hertz: Vec::new() }
    }

    /// Cycles per second of the program's own time, of each interval so far in which both are known.
    pub fn clocks(&self) -> &[f64] {
        &self.hertz
    }

    /// What it was made of.
    pub fn into_source(self) -> S {
        self.source
    }
}

impl<S: IntervalSource> CounterSource for Supplied<S> {
    type Error = S::Error;

    fn start(&mut self, events: &[usize]) -> Result<(), S::Error> {
        self.asked = events.to_vec();
        let counted = events.iter().filter_map(|&event| match self.supplies.get(event) {
            Some(&Supply::Counted(code)) => Some(code),
            _ => None,
        });
        let counted: Vec<usize> = counted.collect();
        self.source.start(&counted)
    }

    fn stop(&mut self) -> Result<Reading, S::Error> {
        let Reading { instructions, cycles, counts } = self.source.stop()?;
        let seconds = cycles.enabled.as_secs_f64();
        if let Some(cycles) = cycles.scaled().filter(|_| seconds > 0.0) {
            self.hertz.push(cycles / seconds);
        }
        let mut counted = counts.into_iter();
        let mut supply = |event: &usize| match self.supplies.get(*event) {
            Some(Supply::Counted(_)) => counted.next(),
            Some(Supply::Cycles) => Some(cycles),
            Some(Supply::Nothing) | None => Some(Count::exact(0)),
        };
        // A count too few is refused by the collector.
        let counts = self.asked.iter().map_while(&mut supply).collect();
        Ok(Reading { instructions, cycles, counts })
    }
}

impl<S: IntervalSource> IntervalSource for Supplied<S> {
    fn run(&mut self) -> Result<Option<Seen>, S::Error> {
        self.source.run()
    }

    fn locate(&mut self, address: u64) -> Option<String> {
        self.source.locate(address)
    }
}
