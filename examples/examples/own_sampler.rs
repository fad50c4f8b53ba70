//! A sampler of one's own: whatever can report windows is a `Sampler`, and all that consumes windows works with it.
//!
//! This one observes nothing. It draws the windows of a program of which everything is known, which is how an
//! algorithm above it is tested.

use std::error::Error;

use reuse_sampler::{
    AccessCount, CacheLines, CacheModel, LineSize, Outcome, ReuseCount, ReuseDistance, ReusePlan,
    ReuseProfile, Sampler, SamplerError, ThreadId, Window, WindowIndex, WindowPlan,
};
use statstack::StatStack;

/// A loop over `lines` lines, in windows of 10,000 accesses.
struct Loop {
    lines: u64,
    windows_left: u64,
    next: u64,
}

impl Sampler for Loop {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        if self.windows_left == 0 {
            return Ok(None);
        }
        self.windows_left -= 1;
        let mut window = Window::new(WindowIndex(self.next), ThreadId(0), LineSize::B64);
        self.next += 1;
        window.instructions = 40_000;
        window.code = vec![(0x40_1000, 40_000)];
        window.accesses = AccessCount::Measured(10_000);
        // Samples only if the plan asks for them. Each access is reused after all other lines.
        if plan.reuse != ReusePlan::Off {
            window.counts.push(ReuseCount {
                outcome: Outcome::Reused(ReuseDistance(self.lines - 1)),
                started_in: window.index,
                count: 10_000,
            });
        }
        Ok(Some(window))
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        self.windows_left = 0;
        Ok(())
    }
}

/// What any consumer looks like: it knows the trait and nothing else.
fn profile(sampler: &mut dyn Sampler) -> Result<ReuseProfile, SamplerError> {
    let mut profile = ReuseProfile::new(LineSize::B64);
    while let Some(window) = sampler.next_window(&WindowPlan::new(ReusePlan::Every))? {
        profile.record_window(&window)?;
    }
    Ok(profile)
}

fn main() -> Result<(), Box<dyn Error>> {
    let profile = profile(&mut Loop { lines: 1_000, windows_left: 10, next: 0 })?;
    let model = StatStack::fit(&profile)?;
    println!("{} accesses in a loop over 1000 lines", profile.accesses());
    for lines in [500, 999, 1_000, 2_000] {
        println!("miss ratio of {lines} lines: {}", model.miss_ratio(CacheLines(lines)));
    }
    Ok(())
}
