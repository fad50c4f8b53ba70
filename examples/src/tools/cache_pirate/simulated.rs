//! A trace or an embedded workload on the simulated chip.

use cache_pirate::{SharedCache, Testbed, Threads, measure};
use reuse_sampler::LineSize;

use super::args::{Args, Mechanism};
use super::watched::Watched;
use super::{Measured, confined_remarks, mechanism, nothing};
use crate::cli::{Failure, Watch, record};
use crate::machines::chip::CoreSettings;
use crate::machines::resctrl::{Features, Kernel};
use crate::machines::testbed::programs::Recorded;
use crate::machines::testbed::{PirateCore, SimulatedTestbed, divided};
use crate::target::Outcome;
use crate::target::embedded_workload;
use crate::traces::{format_of, name_of};

/// Cores for the pirate where their number is not given: with the target's a quad-core, as in the paper.
const PIRATE_CORES: usize = 3;
/// Accesses in an interval at least, per line of the cache.
const ACCESSES_PER_LINE: u64 = 4;
/// Longest interval of whole passes, in accesses: programs beyond it are measured in parts, over more cycles.
const LONGEST: u64 = 4_000_000;
/// Instructions between two looks at the interrupt flag.
const PIECE: f64 = 1e6;

/// Measures what the command line names.
pub fn simulate(args: &Args, watch: &Watch<'_>) -> Result<Measured, Failure> {
    let settings = args.chip()?;
    let (source, program) = program(args, watch)?;
    let threads = match args.threads {
        Threads::Fixed(threads) => threads,
        Threads::Auto => PIRATE_CORES,
    };
    let target = CoreSettings::new(program.player()?);
    let testbed = SimulatedTestbed::new(&settings, target, u64::MAX, threads, PirateCore::default());
    let inner = testbed.map_err(Failure::usage)?;
    if args.mechanism == Mechanism::Pirate {
        return measured(args, source, &program, Watched { inner, watch, piece: PIECE, runs: 0 }, None, &[]);
    }
    let inner = divided(inner, &Kernel::new(Features::default()))?;
    let (sizes, remarks) = (inner.partition().sizes().collect(), confined_remarks(&inner));
    measured(args, source, &program, Watched { inner, watch, piece: PIECE, runs: 0 }, Some(sizes), &remarks)
}

fn measured<T: Testbed>(
    args: &Args,
    source: String,
    program: &Recorded,
    mut testbed: Watched<'_, T>,
    sizes: Option<Vec<u64>>,
    remarks: &[String],
) -> Result<Measured, Failure> {
    let cache = testbed.cache();

    let mut params = args.params();
    params.sizes = params.sizes.or(sizes);
    let pass = program.recording.references();
    let interval = args.interval.unwrap_or_else(|| interval(program, cache));
    params.interval = Some(interval);
    // After one pass an LRU cache is as every later pass finds it; longer programs fill it sooner.
    params.target_warm_up = Some(program.instructions().min(LONGEST as f64 / program.mix).max(interval));
    let sizes = params.check(cache).map_err(Failure::usage)?.sizes().len() as f64;
    // Enough cycles that the intervals of all sizes together cover the program.
    let covering = pass as f64 / program.mix / (interval * sizes);
    params.cycles = Some(args.cycles.unwrap_or(covering.ceil().max(1.0) as u64));
    let plan = params.check(cache).map_err(Failure::usage)?;
    let run = measure(&mut testbed, &plan)?;
    // The target restarts until all is measured: it ends only by interruption.
    let ended = Outcome::Unknown;
    let curve = run.curve().map_err(|error| nothing(testbed.watch, &error, &ended))?;
    let mut notes = remarks.to_vec();
    if let Some(choice) = run.threads.as_ref().filter(|choice| !choice.one_thread_holds) {
        notes.push("one pirate thread could not hold even a little of the cache".to_owned());
        debug_assert_eq!(choice.threads, 1);
    }
    let mechanism = mechanism(&testbed);
    let (work, time) = ("instruction", "cycle");
    Ok(Measured { source, machine: None, curve, run: Some(run), mechanism, work, time, notes, ended })
}

/// Whole passes over at least so many accesses that every line of the cache could be used a few times.
fn interval(program: &Recorded, cache: SharedCache) -> f64 {
    let least = ACCESSES_PER_LINE * cache.bytes / u64::from(cache.line_size);
    let pass = program.recording.references();
    let accesses = if pass > LONGEST { LONGEST } else { least.div_ceil(pass) * pass };
    accesses as f64 / program.mix
}

fn program(args: &Args, watch: &Watch<'_>) -> Result<(String, Recorded), Failure> {
    let line_size = LineSize::B64;
    if let Some(path) = &args.trace {
        let format = args.format.map_or_else(|| format_of(path), Ok)?;
        let recording = record(path, format, line_size, &|| watch.is_interrupted())?;
        let recorded = Recorded::new(name_of(path), recording, args.mix).map_err(Failure::usage)?;
        return Ok((recorded.name.clone(), recorded));
    }
    let name = &args.workload;
    let recorded = Recorded::workload(name, &embedded_workload(name, args.common.seed, 1)?, line_size)?;
    Ok((format!("{name} (embedded)"), recorded))
}
