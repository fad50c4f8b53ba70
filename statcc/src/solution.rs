//! What the model predicts, and how far to trust it.

use reuse_sampler::LineSize;

/// What becomes of one program in one solution.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Share {
    /// Cycles per instruction.
    pub cpi: f64,
    /// Shared-cache misses per memory access.
    pub miss_ratio: f64,
    /// Lines of the shared cache that it holds: the inverse of its solo curve, read by the age at which lines
    /// are evicted, which is unambiguous where the miss ratio does not change with size.
    pub lines: f64,
    /// Lines fetched from memory per cycle.
    pub misses_per_cycle: f64,
}

impl Share {
    /// Bytes fetched from memory per second at `hertz` cycles per second.
    #[must_use]
    pub fn bytes_per_second(&self, line_size: LineSize, hertz: f64) -> f64 {
        self.misses_per_cycle * f64::from(line_size.bytes()) * hertz
    }
}

/// Speeds and miss ratios that agree with each other.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Solution {
    /// One entry per program, in their order.
    pub programs: Vec<Share>,
    /// Largest relative difference between a CPI assumed and the CPI that follows from it.
    pub residual: f64,
    /// Whether the residual is within the solver's tolerance. If not, the numbers are the best found: near a
    /// cliff there may be no exact solution.
    pub converged: bool,
    /// Times that a model was fitted to find it, at full resolution.
    pub iterations: u32,
}

/// What can become of one program, all solutions and nearby cache sizes considered.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Outlook {
    /// Lowest CPI of the program in any solution at the size asked for or at the margins around it.
    pub lowest_cpi: f64,
    /// Highest CPI likewise.
    pub highest_cpi: f64,
    /// Whether the two are so far apart that the program sits on a cliff: believe the range, not the number.
    pub cliff: bool,
}

/// Answer of [`CoRun::solve`](crate::CoRun::solve).
#[cfg_attr(
    feature = "serde",
    doc = r"
# Saving
With the feature `serde`, predictions can be saved and read.

```
use statcc::{CacheLines, CoRun, LineSize, LinearLatency, Outcome, Prediction, Program, ReuseDistance, ReuseProfile};
# let mut profile = ReuseProfile::new(LineSize::B64);
# profile.record_many(Outcome::Reused(ReuseDistance(999)), 10_000, 1);
# let cpi = LinearLatency::new(1.0, 0.3, &[], 10.0, 130.0)?;
# let program = Program::new(&profile, 0.3, cpi)?;
let together = CoRun::new(vec![program.clone(), program])?;
let prediction = together.solve(CacheLines(4_096), statstack::StatStack::fit)?;
let read: Prediction = serde_json::from_str(&serde_json::to_string(&prediction)?)?;
assert_eq!(read, prediction);
# Ok::<(), Box<dyn std::error::Error>>(())
```
"
)]
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
#[non_exhaustive]
pub struct Prediction {
    /// The solutions found, at least one. The first is the one reached from empty caches, with all programs
    /// missing; which of several a real run ends in depends on who warms up first.
    pub solutions: Vec<Solution>,
    /// One entry per program, in their order.
    pub outlook: Vec<Outlook>,
}

/// A prediction as it is read: not yet known to hold a solution.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    solutions: Vec<Solution>,
    outlook: Vec<Outlook>,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for Prediction {
    type Error = &'static str;

    fn try_from(saved: Saved) -> Result<Self, Self::Error> {
        let Saved { solutions, outlook } = saved;
        if solutions.is_empty() {
            return Err("a prediction has at least one solution");
        }
        if solutions.iter().any(|solution| solution.programs.len() != outlook.len()) {
            return Err("every solution and the outlook have one entry per program");
        }
        Ok(Self { solutions, outlook })
    }
}

impl Prediction {
    /// The solution reached from empty caches.
    #[must_use]
    pub fn solution(&self) -> &Solution {
        &self.solutions[0]
    }

    /// What becomes of each program in that solution.
    #[must_use]
    pub fn programs(&self) -> &[Share] {
        &self.solution().programs
    }

    /// Whether no program sits on a cliff, and there is only one solution, to which the solver converged.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        let alone = self.solutions.len() == 1;
        alone && self.solution().converged && !self.outlook.iter().any(|program| program.cliff)
    }
}
