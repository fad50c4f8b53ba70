//! Who may run beside whom? From the `profile.json` of each program (two or more arguments, or four made-up ones) to the pairs
//! that slow each other down least on machines of two cores with one cache, and what careless placement would cost.

use std::error::Error;
use std::num::NonZeroUsize;

use cachesharing::{
    CacheCurve, CurvePoint, EvictionAge, Objective, Offsets, Program, ReuseTimes, Settings, SharedCache,
    Window, co_schedule,
};
use reuse_sampler::file::{PhaseProfile, ProfiledPhase};
use reuse_sampler::{CacheLines, CacheModel, LineSize, Outcome, ReuseDistance, ReuseProfile};
use statstack::StatStack;

const WAYS: u32 = 16;
const WAY_BYTES: u64 = 128 << 10;
const PRIVATE: CacheLines = CacheLines(512);

/// The program on an in-order core: a cycle per instruction, 10 more for a miss in its private cache, 130 in the shared one.
/// Its threads are taken to run in turn.
fn program(run: &PhaseProfile) -> Result<Program<String>, Box<dyn Error>> {
    let (mut phases, mut windows) = (Vec::new(), Vec::new());
    for described in run.described_phases()? {
        let ratio = described.accesses_per_instruction.ok_or("accesses per instruction are not known")?;
        let model = StatStack::fit(described.profile)?;
        let shared = model.miss_ratio(PRIVATE); // accesses that reach the shared cache
        let point = |ways: u64| {
            let (bytes, line) = (ways * WAY_BYTES, u64::from(run.line_size().bytes()));
            let misses = model.miss_ratio(CacheLines(bytes / line)).min(shared);
            let cpi = 1.0 + ratio * (10.0 * (shared - misses) + 130.0 * misses);
            let hit_rate = ratio * (shared - misses) / cpi;
            CurvePoint::new(bytes, cpi, misses).with_hit_rate(hit_rate)
        };
        let curve =
            CacheCurve::new((1..=u64::from(WAYS)).map(point).collect(), ratio, run.line_size().bytes())?;
        let times = ReuseTimes::estimated(WAY_BYTES, WAYS, PRIVATE, described.profile)?;
        phases.push((described.phase.phase.clone(), curve.with_reuse_times(times)?));
        if run.windows.is_empty() && described.instructions > 0 {
            windows.push(Window::of_phase(described.instructions as f64, described.phase.phase.clone()));
        }
    }
    let known = |name: &String| phases.iter().any(|(phase, _)| phase == name);
    let counted = run.windows.iter().filter(|window| window.instructions > 0 && known(&window.phase));
    windows.extend(counted.map(|w| Window::of_phase(w.instructions as f64, w.phase.clone())));
    Ok(Program::new(&*run.program, phases, windows)?)
}

/// A run whose phases each walk over so many KiB, a new line every tenth access.
fn made_up(name: &str, phases_kib: &[u64]) -> PhaseProfile {
    let mut run = PhaseProfile::new(name, LineSize::B64);
    for (number, kib) in phases_kib.iter().enumerate() {
        let mut reuse = ReuseProfile::new(LineSize::B64);
        reuse.record_many(Outcome::Reused(ReuseDistance(0)), 900, 100);
        reuse.record_many(Outcome::Reused(ReuseDistance(kib * 16 * 10)), 100, 100);
        let mut phase = ProfiledPhase::new(number.to_string(), reuse);
        (phase.instructions, phase.accesses_per_instruction) = (100_000_000, Some(0.3));
        run.phases.push(phase);
    }
    run
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut runs = Vec::new();
    for path in std::env::args().skip(1) {
        runs.push(PhaseProfile::read(std::fs::File::open(path)?)?);
    }
    if runs.is_empty() {
        let fleet: [(&str, &[u64]); 4] =
            [("index", &[1500, 200]), ("model", &[700, 700]), ("backup", &[1 << 20]), ("proxy", &[20, 60])];
        runs.extend(fleet.map(|(name, phases)| made_up(name, phases)));
    }
    let programs = runs.iter().map(program).collect::<Result<Vec<_>, _>>()?;
    let list: Vec<_> = programs.iter().collect();
    let cache = SharedCache::new(u64::from(WAYS) * WAY_BYTES)?.with_ways(WAYS)?;
    let (model, offsets) = (EvictionAge::followed(), Offsets::random(20, 1));
    let table = co_schedule(cache, &list, &model, Settings::default(), &offsets, NonZeroUsize::MIN)?;

    println!("times as slow as alone, beside {}; * is unsure", table.names().join(", "));
    for (target, name) in table.names().iter().enumerate() {
        let ranges = (0..list.len()).filter_map(|beside| table.range(target, beside));
        let cells = ranges.map(|r| format!("{:.2}{}", r.slowdown, if r.flagged { "*" } else { " " }));
        println!("{name:>12}: {}", cells.collect::<Vec<_>>().join("  "));
    }
    let (best, worst) = (table.best_pairing(Objective::Total), table.worst_pairing(Objective::Total));
    for (what, pairing) in [("best", best), ("careless", worst)] {
        let names = |&(one, other): &(usize, usize)| format!("{} + {}", list[one].name(), list[other].name());
        let pairs: Vec<_> = pairing.pairs.iter().map(names).collect();
        let mean = pairing.total / list.len() as f64;
        println!("{what}: {}; {mean:.3} on average, {:.3} at worst", pairs.join(", "), pairing.worst);
    }
    Ok(())
}
