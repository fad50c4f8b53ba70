//! Programs with phases: one prediction for each pair of phases that meet, against one for the whole run, against a
//! simulation of both programs in one LRU cache.
//!
//! `cargo run --release -p statcc --example phase_aware`

use std::collections::{BTreeMap, HashMap};

use reuse_sampler::{CacheLines, LineSize, Outcome, ReuseDistance, ReuseProfile};
use statcc::{CoRun, LinearLatency, Program};
use statstack::StatStack;

/// Lines of the shared cache.
const CACHE: u64 = 4096;
/// Accesses in a run.
const LENGTH: usize = 1_200_000;
/// Memory accesses per instruction.
const MIX: f64 = 0.3;
/// Cycles of a hit and of a miss.
const HIT: f64 = 10.0;
const MISS: f64 = 130.0;

/// What a program does: phases one after the other, over and over, each for so many accesses to so many lines at
/// random.
struct Script {
    phases: [(usize, u64); 2],
    first_line: u64,
}

impl Script {
    /// The lines touched, and the phase of each access.
    fn run(&self) -> Vec<(u64, usize)> {
        let mut state = self.first_line + 1;
        let period = self.phases[0].0 + self.phases[1].0;
        let access = |i: usize| {
            let phase = usize::from(i % period >= self.phases[0].0);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Each phase has data of its own.
            (self.first_line + phase as u64 * 100_000 + (state >> 33) % self.phases[phase].1, phase)
        };
        (0..LENGTH).map(access).collect()
    }
}

/// A profile of each phase: how far back its accesses reach.
fn profiles(run: &[(u64, usize)]) -> [ReuseProfile; 2] {
    let mut profiles = [ReuseProfile::new(LineSize::B64), ReuseProfile::new(LineSize::B64)];
    let mut last: HashMap<u64, usize> = HashMap::new();
    for (now, &(line, phase)) in run.iter().enumerate() {
        let outcome = match last.insert(line, now) {
            Some(before) => Outcome::Reused(ReuseDistance((now - before - 1) as u64)),
            None => Outcome::Dangling,
        };
        profiles[phase].record(outcome, 1);
    }
    profiles
}

fn program(profile: &ReuseProfile) -> Result<Program, statcc::Error> {
    Program::in_order(profile, MIX, LinearLatency::new(1.0, MIX, &[], HIT, MISS)?)
}

/// CPI of each program until the first has ended, when each pair of phases that meets runs as `cpis` says.
fn walk(runs: &[&[(u64, usize)]; 2], mut cpis: impl FnMut(usize, usize) -> [f64; 2]) -> [f64; 2] {
    let mut at = [0.0_f64; 2];
    let mut cycles = 0.0;
    while at.iter().all(|&at| at < LENGTH as f64) {
        let phase = |program: usize| runs[program][at[program] as usize].1;
        let cpi = cpis(phase(0), phase(1));
        // Steps much shorter than phases, which need not begin together.
        let step = 1e3;
        for (at, cpi) in at.iter_mut().zip(cpi) {
            *at += step * MIX / cpi;
        }
        cycles += step;
    }
    at.map(|at| cycles / (at / MIX))
}

/// CPI of each program in one LRU cache, until the first has ended.
fn simulate(runs: &[&[(u64, usize)]; 2]) -> [f64; 2] {
    let mut stamps: HashMap<u64, u64> = HashMap::new();
    let mut by_age: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut clock, mut at, mut now) = ([0.0_f64; 2], [0_usize; 2], 0);
    while at.iter().all(|&at| at < LENGTH) {
        let next = usize::from(clock[1] < clock[0]);
        let line = runs[next][at[next]].0;
        let hit = stamps.insert(line, now).inspect(|before| {
            by_age.remove(before);
        });
        by_age.insert(now, line);
        if stamps.len() as u64 > CACHE {
            if let Some((_, oldest)) = by_age.pop_first() {
                stamps.remove(&oldest);
            }
        }
        clock[next] += 1.0 / MIX + if hit.is_some() { HIT } else { MISS };
        at[next] += 1;
        now += 1;
    }
    [0, 1].map(|program| clock[program] / (at[program] as f64 / MIX))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scripts = [
        Script { phases: [(150_000, 3_500), (150_000, 200)], first_line: 0 },
        Script { phases: [(100_000, 300), (200_000, 3_000)], first_line: 1_000_000 },
    ];
    let runs = scripts.each_ref().map(Script::run);
    let runs = [runs[0].as_slice(), runs[1].as_slice()];
    let phases = runs.map(profiles);

    // Each pair of phases that meets, solved once.
    let mut solved: HashMap<(usize, usize), [f64; 2]> = HashMap::new();
    for one in 0..2 {
        for other in 0..2 {
            let pair = vec![program(&phases[0][one])?, program(&phases[1][other])?];
            let prediction = CoRun::new(pair)?.solve(CacheLines(CACHE), StatStack::fit)?;
            let [a, b] = [0, 1].map(|which| prediction.programs()[which].cpi);
            println!("phases {one} and {other} together: CPI {a:.2} and {b:.2}");
            solved.insert((one, other), [a, b]);
        }
    }
    let by_phase = walk(&runs, |one, other| solved[&(one, other)]);

    // Both programs as if they had no phases.
    let mut whole = Vec::new();
    for [first, second] in &phases {
        let mut all = first.clone();
        all.merge(second)?;
        whole.push(program(&all)?);
    }
    let whole = CoRun::new(whole)?.solve(CacheLines(CACHE), StatStack::fit)?;

    let truth = simulate(&runs);
    println!("\n{:<10} {:>10} {:>10} {:>10}", "", "simulated", "by phase", "as a whole");
    for which in 0..2 {
        let name = format!("program {which}");
        let (by_phase, whole) = (by_phase[which], whole.programs()[which].cpi);
        println!("{name:<10} {:>10.3} {by_phase:>10.3} {whole:>10.3}", truth[which]);
        let off = |cpi: f64| (cpi / truth[which] - 1.0).abs();
        // By phase is near, but for what happens just after phases change, and much nearer.
        assert!(off(by_phase) < 0.1 && off(by_phase) < 0.2 * off(whole), "{truth:?} {by_phase} {whole}");
    }
    Ok(())
}
