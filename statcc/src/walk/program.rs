//! A program in windows, as it was profiled alone.

use reuse_sampler::{LineSize, SetDispersion};

use super::timeline::alone;
use super::{ProfiledWindow, Replacement, SetAssociativeCache};
use crate::{Error, WindowCpi, cpi};

/// Accesses that rounding may leave.
const NOTHING: f64 = 1e-3;

/// A program in windows.
///
/// It runs in passes: when it ends, it starts over. In its first pass first touches miss; later passes find the lines
/// of the pass before.
#[derive(Clone, Debug)]
pub struct WindowedProgram {
    line_size: LineSize,
    mix: f64,
    window: u64,   // accesses in each window but the last, at least 1
    accesses: u64, // in a pass, at least 1
    lines: f64,    // that the program touches
    dispersion: SetDispersion,
    first: Vec<ProfiledWindow>, // windows of the first pass, at least one
    later: Vec<ProfiledWindow>, // of every later one, as many
}

/// The line size that all have.
pub(super) fn of_one_line_size(sizes: impl IntoIterator<Item = LineSize>) -> Result<LineSize, Error> {
    let mut sizes = sizes.into_iter();
    let first = sizes.next().unwrap_or_default();
    sizes
        .find(|&other| other != first)
        .map_or(Ok(first), |other| Err(Error::MixedLineSizes { left: first.bytes(), right: other.bytes() }))
}

impl WindowedProgram {
    /// Line size it was profiled at.
    pub(super) const fn line_size(&self) -> LineSize {
        self.line_size
    }

    /// A program of `accesses` accesses a pass, `accesses_per_instruction` of them per instruction, in windows of
    /// `window` accesses (the last may be shorter): `first` of its first pass and `later` of all others, or none if
    /// only the first pass is walked. Its lines fall on the sets of the shared cache as `dispersion` says.
    ///
    /// # Errors
    /// [`Error::Mix`]; [`Error::Windows`] unless the windows of a pass are as many as `window` and `accesses` say;
    /// [`Error::MixedLineSizes`] for windows profiled at different line sizes.
    pub fn new(
        accesses_per_instruction: f64,
        window: u64,
        accesses: u64,
        dispersion: SetDispersion,
        first: Vec<ProfiledWindow>,
        later: Vec<ProfiledWindow>,
    ) -> Result<Self, Error> {
        cpi::check_mix(accesses_per_instruction)?;
        let expected = if window > 0 { accesses.div_ceil(window) } else { 0 };
        let later = if later.is_empty() { first.clone() } else { later };
        for windows in [first.len(), later.len()] {
            if windows == 0 || windows as u64 != expected {
                return Err(Error::Windows { windows, window, accesses });
            }
        }
        let line_size = of_one_line_size(first.iter().chain(&later).map(ProfiledWindow::line_size))?;
        let lines = first.iter().map(ProfiledWindow::lines).sum();
        Ok(Self {
            line_size,
            mix: accesses_per_instruction,
            window,
            accesses,
            lines,
            dispersion,
            first,
            later,
        })
    }

    /// The same, with predictions that start from the misses per access counted of the program alone with the whole
    /// `cache`: `misses(pass, window)`, of `passes` passes. The profiles then only say what sharing adds: which part of the
    /// hits it takes.
    ///
    /// # Errors
    /// [`Error::MissRatio`] for one outside of 0 to 1.
    ///
    /// # Cost
    /// A walk of the program alone.
    pub fn counted_alone(
        mut self,
        cache: SetAssociativeCache,
        replacement: Replacement,
        passes: u64,
        misses: impl Fn(usize, usize) -> f64,
    ) -> Result<Self, Error> {
        let modelled = alone(&self, cache, replacement, passes, &misses);
        for (pass, windows) in [&mut self.first, &mut self.later].into_iter().enumerate() {
            for (k, window) in windows.iter_mut().enumerate() {
                let modelled = modelled.get(pass).or(modelled.last()).and_then(|pass| pass.get(k));
                let ratio = misses(pass, k);
                if !(0.0..=1.0).contains(&ratio) {
                    return Err(Error::MissRatio { ratio });
                }
                if let Some(modelled) = modelled.filter(|modelled| modelled.accesses > 0.0) {
                    window.start_from(ratio, modelled.misses / modelled.accesses, modelled.safe);
                }
            }
        }
        Ok(self)
    }

    /// Accesses from `position` to the end of its window, and the numbers of its pass and window.
    pub(super) fn to_window_end(&self, position: f64) -> (f64, usize, usize) {
        // What rounding leaves of a window is over.
        let at = position + NOTHING;
        let (pass, window) = self.place(at);
        (self.span(pass, window).1 - position, pass as usize, window)
    }

    /// Windows in a pass.
    pub(super) fn windows(&self) -> usize {
        self.first.len()
    }

    /// Memory accesses per instruction.
    #[must_use]
    pub const fn mix(&self) -> f64 {
        self.mix
    }

    /// How unevenly its lines fall on the sets of the shared cache.
    pub(super) const fn dispersion(&self) -> &SetDispersion {
        &self.dispersion
    }

    /// Accesses in a pass.
    pub(super) const fn accesses(&self) -> f64 {
        self.accesses as f64
    }

    /// Accesses in a window.
    pub(super) const fn window(&self) -> f64 {
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

    fn at(&self, pass: f64, window: usize) -> Option<&ProfiledWindow> {
        if pass < 1.0 { self.first.get(window) } else { self.later.get(window) }
    }

    /// The CPI model of the window after `position` accesses.
    pub(super) fn cpi_model(&self, position: f64) -> &WindowCpi {
        let (pass, window) = self.place(position);
        let windows = if pass < 1.0 { &self.first } else { &self.later };
        windows[window].cpi()
    }

    /// Number of different lines in the last `n` accesses before `position`.
    pub(super) fn lines_touched(&self, position: f64, n: f64) -> f64 {
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

    /// Average misses over the `accesses` accesses after `position` of windows with the hits that `ask` says; not more of
    /// them than private caches leave.
    pub(super) fn average(
        &self,
        position: f64,
        accesses: f64,
        ask: impl Fn(&ProfiledWindow) -> (f64, f64),
    ) -> f64 {
        let misses = |window: &ProfiledWindow| window.misses(ask(window));
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
