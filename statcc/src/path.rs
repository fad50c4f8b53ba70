//! Where to step next on the way to a fixed point.
//!
//! A step is mixed with the one before (Anderson's method of depth one), which doubles the digits where plain
//! iteration gains a few. Only ratios of paces matter to the cache, so that two programs are one unknown: where
//! steps do not settle, it is bisected. For more programs, steps are then shortened.

/// Steps without notable progress after which mixing has failed.
const PATIENCE: u32 = 4;
/// Longest first mixed step, in plain steps; each further one in a row may be twice as long.
const REACH: f64 = 3.0;
/// Relative width at which a bracket has no room left.
const CLOSED: f64 = 1e-13;

/// Paces, and what follows from them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Step {
    logs: Vec<f64>,  // logarithm of each pace
    moves: Vec<f64>, // and by how much the step moves it
    pub miss_ratios: Vec<f64>,
    /// Relative difference between the paces assumed and those that follow, a common factor left out.
    pub residual: f64,
}

impl Step {
    /// All paces are positive and finite.
    pub fn new(paces: &[f64], miss_ratios: Vec<f64>, next: &[f64]) -> Self {
        let logs: Vec<f64> = paces.iter().map(|pace| pace.ln()).collect();
        let moves: Vec<f64> = paces.iter().zip(next).map(|(pace, next)| (next / pace).ln()).collect();
        let most = moves.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = moves.iter().copied().fold(f64::INFINITY, f64::min);
        Self { logs, moves, miss_ratios, residual: (most - least).exp_m1() }
    }

    /// The paces assumed.
    pub fn assumed(&self) -> Vec<f64> {
        self.logs.iter().map(|log| log.exp()).collect()
    }

    /// The paces that follow.
    pub fn paces(&self) -> Vec<f64> {
        self.logs.iter().zip(&self.moves).map(|(log, by)| (log + by).exp()).collect()
    }
}

/// What is known of where two programs' paces agree.
enum Bracket {
    Open,
    Middle(Vec<f64>),
    Closed,
}

/// The way so far.
#[derive(Debug)]
pub struct Path {
    last: Option<Step>,
    mark: f64, // residual when it last had fallen notably
    idle: u32, // steps since then
    reach: f64,
    // Of two programs: differences of log paces from where steps lead up and from where they lead down.
    up_from: f64,
    down_from: f64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            last: None,
            mark: f64::INFINITY,
            idle: 0,
            reach: REACH,
            up_from: f64::NEG_INFINITY,
            down_from: f64::INFINITY,
        }
    }
}

impl Path {
    /// Paces to try after `step`; `None` where there is nothing between the ones tried.
    pub fn next(&mut self, step: &Step) -> Option<Vec<f64>> {
        self.idle += 1;
        if step.residual < 0.7 * self.mark {
            (self.mark, self.idle) = (step.residual, 0);
        }
        let next = match self.bracket(step) {
            Bracket::Closed => return None,
            Bracket::Middle(paces) => paces,
            Bracket::Open => self.mix(step),
        };
        self.last = Some(step.clone());
        Some(next)
    }

    /// Of two programs: narrows the bracket, which is used once mixing has failed.
    fn bracket(&mut self, step: &Step) -> Bracket {
        let (&[a, b], &[by_a, by_b]) = (step.logs.as_slice(), step.moves.as_slice()) else {
            return Bracket::Open;
        };
        let (at, by) = (a - b, by_a - by_b);
        if by > 0.0 {
            self.up_from = at;
        } else {
            self.down_from = at;
        }
        if self.idle < PATIENCE || self.up_from.is_infinite() || self.down_from.is_infinite() {
            return Bracket::Open;
        }
        let middle = f64::midpoint(self.up_from, self.down_from);
        if (self.up_from - self.down_from).abs() <= CLOSED * middle.abs().max(1.0) {
            return Bracket::Closed;
        }
        let mean = f64::midpoint(a + by_a, b + by_b);
        Bracket::Middle(vec![(mean + middle / 2.0).exp(), (mean - middle / 2.0).exp()])
    }

    fn mix(&mut self, step: &Step) -> Vec<f64> {
        // Two programs that are not bracketed yet are on their way, however long it is.
        let failed = self.idle >= PATIENCE && step.logs.len() > 2;
        let damping = if failed { 0.5_f64.powi((self.idle / PATIENCE) as i32) } else { 1.0 };
        let plain = || step.logs.iter().zip(&step.moves).map(|(log, by)| log + damping * by);
        let reach = self.reach;
        self.reach *= 2.0;
        let mixed = self.last.as_ref().filter(|_| !failed).and_then(|last| mixed(last, step, reach));
        mixed.unwrap_or_else(|| plain().collect()).into_iter().map(f64::exp).collect()
    }
}

/// Anderson's next point after two steps, or as far towards it as is safe; `None` if they say nothing about it.
fn mixed(last: &Step, step: &Step, reach: f64) -> Option<Vec<f64>> {
    let change: Vec<f64> = step.moves.iter().zip(&last.moves).map(|(now, before)| now - before).collect();
    let norm: f64 = change.iter().map(|c| c * c).sum();
    let along: f64 = change.iter().zip(&step.moves).map(|(c, by)| c * by).sum();
    let gamma = along / norm;
    let length = |v: &mut dyn Iterator<Item = f64>| v.fold(0.0, |most: f64, x| most.max(x.abs()));
    let mixed: Vec<f64> = (0..change.len())
        .map(|i| step.logs[i] + step.moves[i] - gamma * (step.logs[i] - last.logs[i] + change[i]))
        .collect();
    let plain = length(&mut step.moves.iter().copied());
    let far = length(&mut mixed.iter().zip(&step.logs).map(|(m, log)| m - log));
    let safe = (reach * plain / far).min(1.0);
    let towards = mixed.iter().zip(&step.logs).map(|(mixed, log)| log + safe * (mixed - log));
    (gamma.is_finite() && safe.is_finite()).then(|| towards.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the path on a map of log paces.
    fn follow(start: &[f64], map: impl Fn(&[f64]) -> Vec<f64>, tolerance: f64) -> (Vec<f64>, f64, usize) {
        let mut paces = start.to_vec();
        let mut path = Path::default();
        for steps in 1..200 {
            let next = map(&paces);
            let step = Step::new(&paces, Vec::new(), &next);
            if step.residual <= tolerance {
                return (step.paces(), step.residual, steps);
            }
            match path.next(&step) {
                Some(next) => paces = next,
                None => return (step.paces(), step.residual, steps),
            }
        }
        panic!("never ends");
    }

    #[test]
    fn a_slow_linear_map_of_two_takes_few_steps() {
        // ln w0 moves to 0.9 of its distance to ln w1, plus 1: plain iteration would take a hundred steps.
        let map = |w: &[f64]| vec![(1.0 + 0.9 * (w[0] / w[1]).ln()).exp(), 1.0];
        let (paces, _, steps) = follow(&[1.0, 1.0], map, 1e-9);
        assert!((paces[0].ln() - 10.0).abs() < 1e-6, "{paces:?}");
        assert!(steps <= 12, "{steps} steps");
    }

    #[test]
    fn a_jump_is_bisected_and_then_given_up() {
        // Slower than 1: fast; else slow. There is no fixed point, only a jump at 1.
        let map = |w: &[f64]| vec![if w[0] / w[1] > 1.0 { 0.5 } else { 2.0 }, 1.0];
        let (_, residual, steps) = follow(&[4.0, 1.0], map, 1e-9);
        assert!(residual > 0.4 && steps < 70, "residual {residual} after {steps} steps");
    }

    #[test]
    fn an_oscillation_of_three_is_damped() {
        let map = |w: &[f64]| {
            let product = (w[0] * w[1] * w[2]).ln();
            w.iter()
                .zip([1.0, 2.0, 3.0])
                .map(|(w, target): (&f64, f64)| (target - 1.5 * w.ln() + 0.1 * product).exp())
                .collect()
        };
        let (paces, residual, _) = follow(&[9.0, 1.0, 1.0], map, 1e-6);
        assert!(residual <= 1e-6);
        // A common factor is left free, so compare with the map itself: it moves all alike.
        let moved: Vec<f64> = map(&paces).iter().zip(&paces).map(|(n, w)| n / w).collect();
        assert!(moved.iter().all(|m| (m / moved[0] - 1.0).abs() < 1e-5), "{moved:?}");
    }
}
