//! What is known of a program from running it alone: a profile of each of its windows, and how many of their
//! accesses the private caches serve.

use reuse_sampler::ReuseProfile;
use statcc::{LinearLatency, PrivateLevel, Program};

use super::sets::Dispersion;
use super::timeline::{Replacement, alone};
use super::truth::{Machine, Solo};
use super::window::Window;
use crate::cli::Failure;
use crate::machines::chip::{CoreTiming, Geometry};

/// A program in windows.
#[derive(Clone, Debug)]
pub struct Known {
    mix: f64,
    window: u64,   // accesses in each window but the last, at least 1
    accesses: u64, // in a pass, at least 1
    lines: f64,    // that the program touches
    dispersion: Dispersion,
    first: Vec<Window>, // windows of the first pass
    later: Vec<Window>, // and of every later one
    first_cpi: Vec<LinearLatency>,
    later_cpi: Vec<LinearLatency>,
    whole: Program, // its first pass without windows
}

impl Known {
    /// A program of which each window of `window` accesses reaches back as `first` says of its first pass and
    /// `later` of all others, and did on `machine` alone as `solo` says; its lines fall on the sets of the
    /// shared cache as `dispersion` says.
    ///
    /// # Errors
    /// [`Failure::Run`] if a model cannot be built.
    pub fn new(
        machine: &Machine,
        mix: f64,
        solo: &Solo,
        window: u64,
        dispersion: Dispersion,
        first: &[ReuseProfile],
        later: &[ReuseProfile],
    ) -> Result<Self, Failure> {
        let windows = |profiles: &[ReuseProfile], pass: usize| -> Vec<Window> {
            let beyond = |k: usize| solo.window(pass, k).l1_miss_ratio();
            let windows = profiles.iter().enumerate();
            windows.map(|(k, profile)| Window::new(&profile.distribution(), beyond(k))).collect()
        };
        let first_windows = windows(first, 0);
        // Who is never asked for a later pass need not know one.
        let later_windows = if later.is_empty() { first_windows.clone() } else { windows(later, 1) };
        let cpi = |windows: &[Window]| -> Result<Vec<LinearLatency>, Failure> {
            windows.iter().map(|window| cpi_model(machine, mix, 1.0 - window.beyond_private)).collect()
        };
        let lines: u64 = first.iter().map(ReuseProfile::dangling_weight).sum();
        let mut all = ReuseProfile::new(machine.chip.line_size());
        for profile in first {
            all.merge(profile).map_err(Failure::run)?;
        }
        let whole = cpi_model(machine, mix, 1.0 - solo.counters.l1_miss_ratio())?;
        let whole = Program::in_order(&all, mix, whole).map_err(Failure::run)?;
        Ok(Self {
            whole,
            mix,
            window: window.max(1),
            accesses: solo.counters.accesses.max(1),
            lines: lines as f64,
            dispersion,
            first_cpi: cpi(&first_windows)?,
            later_cpi: cpi(&later_windows)?,
            first: first_windows,
            later: later_windows,
        })
    }

    /// Makes predictions start from the misses that `solo` counted in each window, alone with the whole cache: the
    /// profiles then only tell what sharing adds. `passes` of them were counted.
    ///
    /// # Errors
    /// [`Failure::Run`] if what was counted is no miss ratio.
    pub fn counted(
        mut self,
        geometry: Geometry,
        replacement: Replacement,
        solo: &Solo,
        passes: u64,
    ) -> Result<Self, Failure> {
        let modelled = alone(&self, geometry, replacement, passes);
        let by_pass = |windows: &mut [Window], pass: usize| {
            for (k, window) in windows.iter_mut().enumerate() {
                let modelled = modelled.get(pass).or(modelled.last()).and_then(|pass| pass.get(k));
                window.correction = modelled.map_or(0.0, |m| solo.window(pass, k).miss_ratio() - m);
            }
        };
        by_pass(&mut self.first, 0);
        by_pass(&mut self.later, 1);
        self.whole = self.whole.counted_alone(solo.counters.miss_ratio()).map_err(Failure::run)?;
        Ok(self)
    }

    /// Adds `misses` in the accesses from `begin` to `end` to the windows that they lie in: `sums` holds, for each
    /// pass and window, misses and accesses.
    pub fn attribute(&self, (begin, end): (f64, f64), misses: f64, sums: &mut Vec<Vec<(f64, f64)>>) {
        let rate = misses / (end - begin);
        let mut at = begin;
        while at < end {
            let (pass, window) = self.place(at);
            let upto = self.span(pass, window).1.min(end);
            // Rounding: the end of a window may belong to it.
            let upto = if upto > at { upto } else { end };
            while sums.len() <= pass as usize {
                sums.push(vec![(0.0, 0.0); self.first.len()]);
            }
            let sum = &mut sums[pass as usize][window];
            *sum = (sum.0 + rate * (upto - at), sum.1 + (upto - at));
            at = upto;
        }
    }

    /// Its first pass as one program of one speed.
    #[must_use]
    pub const fn whole(&self) -> &Program {
        &self.whole
    }

    /// Memory accesses per instruction.
    #[must_use]
    pub const fn mix(&self) -> f64 {
        self.mix
    }

    /// How unevenly its lines fall on the sets of the shared cache.
    #[must_use]
    pub const fn dispersion(&self) -> &Dispersion {
        &self.dispersion
    }

    /// Accesses in a pass.
    #[must_use]
    pub const fn accesses(&self) -> f64 {
        self.accesses as f64
    }

    /// Accesses in a window.
    #[must_use]
    pub const fn window(&self) -> f64 {
        self.window as f64
    }

    /// Number of the pass, and of the window in it, after `position` accesses.
    fn place(&self, position: f64) -> (f64, usize) {
        let pass = (position / self.accesses()).floor();
        let window = ((position - pass * self.accesses()) / self.window()) as usize;
        (pass, window.min(self.first.len().saturating_sub(1)))
    }

    /// Where a window begins and ends, in accesses since the start.
    fn span(&self, pass: f64, window: usize) -> (f64, f64) {
        let begin = pass * self.accesses();
        let (low, high) = (window as u64 * self.window, (window as u64 + 1) * self.window);
        let end = if window + 1 >= self.first.len() { self.accesses } else { high };
        (begin + low as f64, begin + end as f64)
    }

    fn at(&self, pass: f64, window: usize) -> Option<&Window> {
        if pass < 1.0 { self.first.get(window) } else { self.later.get(window) }
    }

    /// The CPI model of the window after `position` accesses.
    #[must_use]
    pub fn cpi_model(&self, position: f64) -> &LinearLatency {
        let (pass, window) = self.place(position);
        let models = if pass < 1.0 { &self.first_cpi } else { &self.later_cpi };
        &models[window]
    }

    /// Number of different lines in the last `n` accesses before `position`.
    #[must_use]
    pub fn lines_touched(&self, position: f64, n: f64) -> f64 {
        let since = (position - n).max(0.0);
        if position - since >= self.accesses() {
            return self.lines;
        }
        let (mut pass, mut window) = self.place(position);
        let mut end = position;
        let mut lines = 0.0;
        while end > since {
            let (begin, _) = self.span(pass, window);
            let begin = begin.max(since);
            if let Some(here) = self.at(pass, window).filter(|_| end > begin) {
                lines += here.different_lines(end - since) - here.different_lines(begin - since);
            }
            end = begin.min(end);
            if window > 0 {
                window -= 1;
            } else if pass > 0.0 {
                pass -= 1.0;
                window = self.first.len().saturating_sub(1);
            } else {
                break;
            }
        }
        lines.min(self.lines)
    }

    /// Average of the misses that `ask` says a window would have, over the `accesses` accesses after
    /// `position`; not more of them than private caches leave.
    pub fn average(&self, position: f64, accesses: f64, ask: impl Fn(&Window) -> f64) -> f64 {
        let misses = |window: &Window| (ask(window) + window.correction).max(0.0).min(window.beyond_private);
        let (mut pass, mut window) = self.place(position);
        if accesses >= self.accesses() {
            // Several passes: all windows count by their length.
            let weighted = (0..self.first.len()).filter_map(|k| {
                let (begin, end) = self.span(pass, k);
                Some((end - begin) * misses(self.at(pass, k)?))
            });
            return weighted.sum::<f64>() / self.accesses();
        }
        let until = position + accesses;
        let (mut begin, mut sum) = (position, 0.0);
        while let Some(here) = self.at(pass, window) {
            let end = self.span(pass, window).1;
            sum += (end.min(until) - begin).max(0.0) * misses(here);
            if end >= until {
                break;
            }
            begin = end;
            window += 1;
            if window == self.first.len() {
                (pass, window) = (pass + 1.0, 0);
            }
        }
        sum / accesses
    }
}

/// The CPI of a program on an in-order core of the chip, or the nearest thing to it.
fn cpi_model(machine: &Machine, mix: f64, l1_hits: f64) -> Result<LinearLatency, Failure> {
    let (CoreTiming::InOrder { base_cpi } | CoreTiming::OutOfOrder { base_cpi, .. }) = machine.timing;
    let latencies = machine.chip.latencies;
    let l1 = PrivateLevel { hit_ratio: l1_hits, latency: latencies.l1 };
    LinearLatency::new(base_cpi, mix, &[l1], latencies.shared, latencies.memory).map_err(Failure::run)
}
