//! The Cache Pirating paper's figures and tables on the simulated chip, each beside the known truth.

use std::io::{self, Write};

use cache_pirate::{Pace, Threads};
use reuse_sampler::LineSize;
use serde::Serialize;

use super::args::{Args, Experiment};
use super::show_progress;
use crate::cli::{Failure, Watch};
use crate::machines::chip::{Policy, PrefetcherSettings};
use crate::machines::testbed::experiments::{
    Compared, OneRun, Pattern, Rivals, combined_machines, compare_at_ways, compare_recorded, figure_five,
    machines, mean_and_max, one_run, stealable, stressmark_rival, suite,
};
use crate::machines::testbed::programs::Recorded;
use crate::machines::testbed::truth::scaled_nehalem;
use crate::report::{bytes, percent};

/// Shared cache where none is given: the paper's 8 MiB, scaled down 64 times.
const CACHE: u64 = 128 << 10;
/// The paper's shared cache.
const PAPER: u64 = 8 << 20;
/// The paper's intervals, in instructions, and so many cycles of them in a run.
const INTERVALS: [(f64, u64); 3] = [(10e6, 16), (100e6, 4), (1e9, 1)];
/// Cycles with gaps between them.
const SPACED: u64 = 8;
/// Time that may be lost to a measurement with gaps.
const OVERHEAD: f64 = 0.05;
/// Name of the pace without gaps.
const CONTINUOUS: &str = "continuous";

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    cache_bytes: u64,
    /// Whether Ctrl-C ended it early.
    pub incomplete: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    curves: Vec<Curve>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    threads: Vec<Stolen>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    one_run: Vec<Run>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stressmark: Option<Rivals>,
}

/// A program's curve beside the truth.
#[derive(Debug, Serialize)]
struct Curve {
    experiment: &'static str,
    program: &'static str,
    policy: &'static str,
    trusted: usize,
    fetch_error: (f64, f64), // of trusted points, absolute: mean, largest
    fetch_error_beyond: (f64, f64),
    cpi_error: (f64, f64), // relative
    overhead: f64,
    suspended: f64,
    points: Vec<Point>,
}

#[derive(Debug, Serialize)]
struct Point {
    bytes: u64,
    trusted: bool,
    fetch_ratio: Option<f64>,
    miss_ratio: Option<f64>,
    cpi: f64,
    bandwidth: Option<f64>,
    spared: Option<f64>,
    pirate_fetch_ratio: f64,
    true_fetch_ratio: f64,
    worst_case_fetch_ratio: Option<f64>,
    true_cpi: f64,
}

#[derive(Debug, Serialize)]
struct Stolen {
    program: &'static str,
    one: u64,
    two: u64,
}

#[derive(Debug, Serialize)]
struct Run {
    program: &'static str,
    policy: &'static str,
    pace: &'static str,
    #[serde(flatten)]
    found: OneRun,
}

/// Does what is asked for, until Ctrl-C.
pub fn run(args: &Args, watch: &Watch<'_>) -> Result<Results, Failure> {
    let cache = args.cache.unwrap_or(CACHE);
    // An impossible cache is refused before anything runs: the private ones are a 64th of it, in 8 ways.
    let step = 512 * u64::from(LineSize::B64.bytes());
    if cache == 0 || cache % step != 0 {
        return Err(Failure::Usage(format!("--cache of {cache} bytes: give a multiple of {step}")));
    }
    let mut results = Results { cache_bytes: cache, ..Results::default() };
    let mut steps = 0;
    let mut stopped = false;
    let mut go_on = || {
        steps += 1;
        show_progress(watch, steps);
        stopped = watch.is_interrupted();
        if stopped { Err(Failure::run("interrupted before anything was measured")) } else { Ok(()) }
    };
    let ended = all(args, cache, &mut results, &mut go_on);
    results.incomplete = stopped;
    if !stopped || results.is_empty() {
        ended?;
    }
    Ok(results)
}

/// All that is asked for, as long as `go_on` has no objection.
fn all(
    args: &Args,
    cache: u64,
    results: &mut Results,
    go_on: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let policies = [("lru", Policy::Lru), ("nehalem", Policy::Nehalem)];
    if args.asks_for(Experiment::Patterns) {
        for (pattern, name) in [(Pattern::Random, "random"), (Pattern::Sequential, "sequential")] {
            for (policy_name, policy) in policies {
                go_on()?;
                let compared = figure_five(cache, policy, pattern)?;
                results.curves.push(curve("patterns", name, policy_name, &compared));
            }
        }
    }
    let lines = cache / u64::from(LineSize::B64.bytes());
    for (name, workload) in suite(cache) {
        if !(args.asks_for(Experiment::Kernels)
            || args.asks_for(Experiment::Threads)
            || args.asks_for(Experiment::OneRun)
            || args.asks_for(Experiment::Prefetch)
            || args.asks_for(Experiment::Machines))
        {
            break;
        }
        let program = Recorded::workload(name, &workload, LineSize::B64)?;
        for (policy_name, policy) in policies {
            let mut settings = scaled_nehalem(cache, policy)?;
            if args.asks_for(Experiment::Kernels) {
                go_on()?;
                let compared = compare_recorded(&settings, &program, Threads::Auto, 4 * lines, 1)?;
                results.curves.push(curve("kernels", name, policy_name, &compared));
            }
            if args.asks_for(Experiment::OneRun) {
                let scale = cache as f64 / PAPER as f64;
                let continuous = INTERVALS.map(|(interval, cycles)| (interval, cycles, Pace::Continuous));
                let budget = Pace::Budget { overhead: OVERHEAD, seed: args.common.seed };
                for (interval, cycles, pace) in
                    continuous.into_iter().chain([(INTERVALS[1].0, SPACED, budget)])
                {
                    let pace_name = if pace == budget { "within 5 %" } else { CONTINUOUS };
                    go_on()?;
                    let found = one_run(&settings, &program, interval * scale, pace, cycles)?;
                    results.one_run.push(Run { program: name, policy: policy_name, pace: pace_name, found });
                }
            }
            if args.asks_for(Experiment::Prefetch) && policy == Policy::Lru {
                go_on()?;
                settings.prefetcher = Some(PrefetcherSettings::default());
                let compared = compare_recorded(&settings, &program, Threads::Fixed(1), 4 * lines, 1)?;
                results.curves.push(curve("prefetch", name, "lru, prefetching", &compared));
            }
        }
        if args.asks_for(Experiment::Machines) {
            for (machine, settings) in machines(cache, args.common.seed)? {
                go_on()?;
                let compared = compare_recorded(&settings, &program, Threads::Fixed(1), 4 * lines, 1)?;
                results.curves.push(curve("machines", name, machine, &compared));
            }
        }
        if args.asks_for(Experiment::Threads) {
            go_on()?;
            let steal = |threads| stealable(cache, Policy::Nehalem, &program, threads);
            results.threads.push(Stolen { program: name, one: steal(1)?, two: steal(2)? });
        }
    }
    if args.asks_for(Experiment::Combined) {
        for (machine, settings) in combined_machines(cache, args.common.seed)? {
            for (name, workload) in suite(settings.shared.geometry.bytes()) {
                go_on()?;
                let program = Recorded::workload(name, &workload, LineSize::B64)?;
                results.curves.push(curve("combined", name, machine, &compare_at_ways(&settings, &program)?));
            }
        }
    }
    if args.asks_for(Experiment::Stressmark) {
        go_on()?;
        results.stressmark = Some(stressmark_rival(cache)?);
    }
    Ok(())
}

fn curve(
    experiment: &'static str,
    program: &'static str,
    policy: &'static str,
    compared: &Compared,
) -> Curve {
    let points = compared.points().enumerate().map(|(number, (point, truth))| Point {
        bytes: point.bytes,
        trusted: point.is_trusted(),
        fetch_ratio: point.fetch_ratio,
        miss_ratio: point.miss_ratio,
        cpi: point.cpi,
        bandwidth: point.bandwidth,
        spared: point.spared,
        pirate_fetch_ratio: point.pirate_fetch_ratio,
        true_fetch_ratio: truth.fetch_ratio(),
        worst_case_fetch_ratio: compared.worst_case.as_ref().map(|worst| worst[number].fetch_ratio()),
        true_cpi: truth.cpi(),
    });
    Curve {
        experiment,
        program,
        policy,
        trusted: compared.curve.trusted().count(),
        fetch_error: mean_and_max(compared.fetch_errors()),
        fetch_error_beyond: mean_and_max(compared.fetch_errors_beyond()),
        cpi_error: mean_and_max(compared.cpi_errors()),
        overhead: compared.overhead(),
        suspended: compared.run.suspended / compared.run.total.elapsed,
        points: points.collect(),
    }
}

impl Results {
    fn is_empty(&self) -> bool {
        self.curves.is_empty()
            && self.threads.is_empty()
            && self.one_run.is_empty()
            && self.stressmark.is_none()
    }

    /// One JSON object on one line.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        writeln!(out)
    }

    /// Tables for people.
    pub fn write_tables(&self, out: &mut dyn Write) -> io::Result<()> {
        let state = if self.incomplete { "  (interrupted: incomplete)" } else { "" };
        writeln!(out, "shared cache of {}{state}", bytes(self.cache_bytes))?;
        self.write_curves(out)?;
        if !self.threads.is_empty() {
            writeln!(out, "\nMost that one and two pirate threads can steal, accessed bits (figure 9)")?;
            for Stolen { program, one, two } in &self.threads {
                let share = |stolen: &u64| percent(*stolen as f64 / self.cache_bytes as f64);
                writeln!(out, "  {program:<16} {:>8} {:>8}", share(one), share(two))?;
            }
        }
        if !self.one_run.is_empty() {
            writeln!(
                out,
                "\nAll sizes in one run (table 2): time above that of the program alone, above what it takes alone in \
                 the sizes one after the other, suspended; CPI error against a pirate of one size and against true \
                 caches, mean / largest"
            )?;
            for Run { program, policy, pace, found } in &self.one_run {
                writeln!(
                    out,
                    "  {program:<16} {policy:<8} {pace:<10} {:>6.3} M  {:>8} {:>8} {:>8}  {}  {}  {} sizes trusted",
                    found.interval / 1e6,
                    percent(found.overhead),
                    if *pace == CONTINUOUS { percent(found.beyond()) } else { "-".to_owned() },
                    percent(found.suspended),
                    pair(found.against_fixed),
                    pair(found.cpi_error),
                    found.trusted
                )?;
            }
            self.write_table_two(out)?;
        }
        if let Some(rivals) = self.stressmark {
            writeln!(
                out,
                "\nStealing half of the cache from a prefetched stream (section III.6): true CPI {:.3}, by the \
                 pirate {:.3}, by the Stressmark {:.3}, which believes to hold {} of the cache and fetches {:.4} \
                 lines per cycle; the pirate fetches {:.6}",
                rivals.true_cpi,
                rivals.pirate_cpi,
                rivals.stressmark_cpi,
                percent(rivals.stressmark_share),
                rivals.stressmark_fetches_per_cycle,
                rivals.pirate_fetches_per_cycle
            )?;
        }
        Ok(())
    }

    fn write_curves(&self, out: &mut dyn Write) -> io::Result<()> {
        for (experiment, title) in [
            ("patterns", "An array as large as the cache (figure 5)"),
            ("kernels", "Kernels beside true caches (figures 7 and 8)"),
            ("prefetch", "The same with a stream prefetcher (figures 3, 10 and 11)"),
            ("machines", "Kernels on chips with what processors after 2017 have"),
            ("combined", "Kernels on chips that differ in several of these at once"),
        ] {
            let curves = || self.curves.iter().filter(|curve| curve.experiment == experiment);
            if curves().next().is_none() {
                continue;
            }
            writeln!(
                out,
                "\n{title}: trusted sizes; errors, mean / largest, of the fetch ratio (points), the same beyond the \
                 range to the worst case of accessed bits, of the CPI; time lost, of it suspended"
            )?;
            for c in curves() {
                writeln!(
                    out,
                    "  {:<16} {:<17} {:>2}  {}  {}  {}  {:>8} {:>8}",
                    c.program,
                    c.policy,
                    c.trusted,
                    pair(c.fetch_error),
                    pair(c.fetch_error_beyond),
                    pair(c.cpi_error),
                    percent(c.overhead),
                    percent(c.suspended)
                )?;
            }
            let mut policies: Vec<&str> = curves().map(|curve| curve.policy).collect();
            policies.dedup();
            policies.sort_unstable();
            policies.dedup();
            for policy in policies {
                let mean = |of: &dyn Fn(&Curve) -> (f64, f64)| {
                    let values = || curves().filter(|curve| curve.policy == policy).map(of);
                    (mean_and_max(values().map(|v| v.0)).0, mean_and_max(values().map(|v| v.1)).1)
                };
                let trusted: usize = curves().filter(|c| c.policy == policy).map(|c| c.trusted).sum();
                writeln!(
                    out,
                    "  {:<16} {policy:<17} {trusted:>3} {}  {}  {}",
                    "all",
                    pair(mean(&|c| c.fetch_error)),
                    pair(mean(&|c| c.fetch_error_beyond)),
                    pair(mean(&|c| c.cpi_error))
                )?;
            }
        }
        Ok(())
    }

    /// Averages over the programs.
    fn write_table_two(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut kinds: Vec<(&str, &str, f64)> =
            self.one_run.iter().map(|run| (run.policy, run.pace, run.found.interval)).collect();
        kinds.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        kinds.dedup();
        for (policy, pace, interval) in kinds {
            let runs = || {
                self.one_run
                    .iter()
                    .filter(|run| (run.policy, run.pace, run.found.interval) == (policy, pace, interval))
                    .map(|run| &run.found)
            };
            let overhead = mean_and_max(runs().map(|run| run.overhead));
            let errors = |of: &dyn Fn(&OneRun) -> (f64, f64)| {
                (mean_and_max(runs().map(|run| of(run).0)).0, mean_and_max(runs().map(|run| of(run).1)).1)
            };
            writeln!(
                out,
                "  {:<16} {policy:<8} {pace:<10} {:>6.3} M  {}  {}  {}",
                "all",
                interval / 1e6,
                pair(overhead),
                pair(errors(&|run| run.against_fixed)),
                pair(errors(&|run| run.cpi_error))
            )?;
        }
        Ok(())
    }
}

/// Mean and largest as percentages.
fn pair((mean, largest): (f64, f64)) -> String {
    format!("{:>6.3} / {:<6.3} %", 100.0 * mean, 100.0 * largest)
}
