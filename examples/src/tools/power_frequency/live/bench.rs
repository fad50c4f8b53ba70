//! This machine, calibrated: kernels run in this process at every frequency, counted by the processor's counters, with
//! the energy of its packages and its temperature.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use powersleuth::calibration::kernels::{self, Kernel};
use powersleuth::calibration::{Bench, Calibration, MachineModel, Measurement, measure};
use powersleuth::linux::{
    Files, Pin, Policy, PowerMeter, Thermometer, Tree, common_frequencies, policies_of_this_process, voltages,
};
use powersleuth::multiplex::CounterSource;
use powersleuth::perf::{PerfCounters, PerfError};
use powersleuth::performance::{Counts, Event, Scaling};
use powersleuth::{Cycles, Error, Hertz, Seconds, Volts};

use super::choose::{Choice, MISSES, QUANTITIES, RESOURCE_STALLS, STALLS, Supply};
use super::native::can_count;
use super::study::name_of_cores;
use crate::cli::{Failure, Watch};
use crate::tools::power_frequency::Args;

/// For which a kernel runs at a frequency.
const MEASURED: Duration = Duration::from_millis(500);
/// Times that each does.
const STRETCHES: usize = 3;
/// In which a new frequency settles.
const SETTLED: Duration = Duration::from_millis(10);
/// Frequencies where the driver takes any.
const STEPS: u32 = 8;
/// After which a sensor of power is read again.
const SAMPLED: Duration = Duration::from_millis(1);
/// What the clock that is counted may be of the frequency it was set to. Cycles are those of user mode, so that a meter
/// that is read while a kernel runs takes some away.
const CLOCK: RangeInclusive<f64> = 0.9..=1.05;

/// A machine with counters `S`, below `F`.
pub struct NativeBench<F: Files, S> {
    pin: Pin<F>,
    meter: PowerMeter<F>,
    thermometer: Option<Thermometer<F>>,
    source: S,
    choice: Choice,
    groups: Vec<Vec<usize>>, // numbers of codes that are counted together
    kernels: Vec<Kernel>,
    began: Instant,
    clock: Hertz,
    measured: Duration,
}

impl<F: Files + Clone, S> NativeBench<F, S> {
    /// Whose frequencies `pin` sets, with `counters` counters for the events of `choice`, each run measured for
    /// `measured`.
    ///
    /// # Errors
    /// [`Error`] without a meter of energy, or for files that cannot be read.
    pub fn new(
        files: &F,
        pin: Pin<F>,
        source: S,
        choice: Choice,
        counters: usize,
        kernels: Vec<Kernel>,
        measured: Duration,
    ) -> Result<Self, Error> {
        let began = Instant::now();
        let thermometer = match Thermometer::find(files.clone()) {
            Ok(thermometer) => Some(thermometer),
            Err(Error::Missing { .. }) => None,
            Err(error) => return Err(error),
        };
        let codes: Vec<usize> = (0..choice.codes.len()).collect();
        Ok(Self {
            pin,
            meter: PowerMeter::find(files.clone(), Duration::ZERO)?,
            thermometer,
            source,
            groups: codes.chunks(counters.max(1)).map(<[usize]>::to_vec).collect(),
            choice,
            kernels,
            began,
            clock: Hertz(0.0),
            measured,
        })
    }

    /// Events of a power model: instructions, and what is counted of the first six quantities.
    pub fn events(choice: &Choice) -> Vec<Event> {
        let counted = |&number: &usize| matches!(choice.supplies[number], Supply::Counted(_));
        let event = |number: usize| {
            let scaling = if number == RESOURCE_STALLS { Scaling::ResourceStalls } else { Scaling::Fixed };
            Event { name: QUANTITIES[number].to_owned(), scaling }
        };
        std::iter::once(Event::fixed("instructions")).chain((0..STALLS).filter(counted).map(event)).collect()
    }
}

impl<F: Files + Clone, S: CounterSource<Error = PerfError>> Bench for NativeBench<F, S> {
    type Error = Failure;

    fn set(&mut self, frequency: Hertz) -> Result<(), Failure> {
        self.pin.set(frequency)?;
        self.clock = frequency;
        std::thread::sleep(SETTLED);
        Ok(())
    }

    fn run(&mut self, kernel: usize, _: usize) -> Result<Measurement, Failure> {
        let part = self.measured / self.groups.len() as u32;
        let mut per_instruction = vec![0.0; self.choice.codes.len()];
        let (mut instructions, mut cycles, mut seconds) = (0.0, 0.0, 0.0);
        let begin = self.began.elapsed();
        let before = self.meter.read(begin)?;
        for group in &self.groups {
            self.source.start(group)?;
            let from = Instant::now();
            let mut looked = from;
            while from.elapsed() < part {
                self.kernels[kernel].run();
                if !self.meter.counts() && looked.elapsed() >= SAMPLED {
                    looked = Instant::now();
                    self.meter.read(self.began.elapsed())?;
                }
            }
            let reading = self.source.stop()?;
            let here = reading.instructions.scaled().unwrap_or(0.0);
            for (&code, count) in group.iter().zip(&reading.counts) {
                per_instruction[code] = count.scaled().unwrap_or(0.0) / here;
            }
            if reading.counts.len() != group.len() {
                let (got, asked) = (reading.counts.len(), group.len());
                return Err(Failure::Run(format!("the counters read {got} of {asked} events")));
            }
            instructions += here;
            cycles += reading.cycles.scaled().unwrap_or(0.0);
            seconds += reading.cycles.enabled.as_secs_f64();
        }
        let end = self.began.elapsed();
        let energy = self.meter.read(end)? - before;
        let ran = cycles / seconds;
        if !CLOCK.contains(&(ran / self.clock.0)) {
            return Err(Failure::Run(format!(
                "the core ran at {} GHz while it was set to {}; turn off turbo and power capping, or choose other \
                 --frequencies",
                ran / 1e9,
                self.clock.ghz()
            )));
        }
        let of = |number: usize| match self.choice.supplies[number] {
            Supply::Counted(code) => per_instruction[code] * instructions,
            Supply::Cycles => cycles,
            Supply::Nothing => 0.0,
        };
        let mut counts =
            Counts::new(instructions, Cycles(cycles), Cycles(of(STALLS).min(cycles)), of(MISSES))?;
        let counted = |number: &usize| matches!(self.choice.supplies[*number], Supply::Counted(_));
        if counted(&RESOURCE_STALLS) {
            counts = counts.with_resource_stalls(Cycles(of(RESOURCE_STALLS)))?;
        }
        Ok(Measurement {
            counts,
            events: std::iter::once(instructions).chain((0..STALLS).filter(counted).map(of)).collect(),
            time: Seconds(end.saturating_sub(begin).as_secs_f64()),
            energy,
            temperature: self.thermometer.as_ref().map(Thermometer::read).transpose()?,
        })
    }
}

/// Calibrates this machine. Its frequencies are put back as they were.
///
/// # Errors
/// [`Failure`] that names what the machine lacks.
pub fn calibrate(args: &Args, watch: &Watch<'_>) -> Result<MachineModel, Failure> {
    can_count(&[])?;
    let files = Tree::new(&args.system);
    let choice = Choice::make(&files, std::env::consts::ARCH, &args.events, |code| can_count(&[code]));
    let policies = policies_of_this_process(&files)?;
    let frequencies = frequencies(&policies, &args.live_frequencies())?;
    let known = known_voltages(&files, &policies, &frequencies)?;
    let name = name_of_cores(&files)?;
    watch.show("making the kernels' tables");
    let kernels: Vec<Kernel> = kernels::all().into_iter().map(|make| make()).collect();
    let sizes = [kernels.len(), STRETCHES];
    let events = NativeBench::<Tree, PerfCounters>::events(&choice);
    let source = PerfCounters::of_this_thread(choice.codes.clone());
    let counters = usize::from(args.counters);
    let pin = Pin::guarded(files.clone(), policies)?;
    let mut bench = NativeBench::new(&files, pin, source, choice, counters, kernels, MEASURED)?;
    let empty = Calibration::new(events, frequencies)?;
    let progress = |done: usize, all: usize| {
        watch.show_with(|| format!("{done} of {all} measurements"));
        !watch.is_interrupted()
    };
    let measured = measure(&mut bench, empty, sizes, args.common.seed, progress)?;
    drop(bench);
    let Some(measured) = measured else {
        return Err(Failure::Run("interrupted before everything was measured".to_owned()));
    };
    measured.fit(&name, known.as_deref()).map_err(Failure::run)
}

/// Those asked for, or what the cores that this process may run on have in common: at most nine.
fn frequencies(policies: &[Policy], asked: &[Hertz]) -> Result<Vec<Hertz>, Failure> {
    if !asked.is_empty() {
        return Ok(asked.to_vec());
    }
    let all = common_frequencies(policies, STEPS);
    if all.len() < 2 {
        let kinds: Vec<String> = policies.iter().map(|policy| format!("{:?}", policy.cpus)).collect();
        return Err(Failure::Run(format!(
            "cores {} have {} frequencies in common and a calibration takes at least two: run it on those of one kind, \
             by taskset -c",
            kinds.join(", "),
            all.len()
        )));
    }
    let steps = (STEPS as usize).min(all.len() - 1);
    Ok((0..=steps).map(|k| all[k * (all.len() - 1) / steps]).collect())
}

/// Voltages where the system shows those of all `frequencies`; a file that cannot be read is an error.
fn known_voltages(
    files: &impl Files,
    policies: &[Policy],
    frequencies: &[Hertz],
) -> Result<Option<Vec<Volts>>, Error> {
    let shown = match voltages(files, policies.first().map_or(0, |policy| policy.number)) {
        Ok(shown) => shown,
        Err(Error::Missing { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let at = |f: &Hertz| shown.iter().find(|(known, _)| (known.0 - f.0).abs() < 1e3).map(|&(_, volts)| volts);
    Ok(frequencies.iter().map(at).collect())
}
