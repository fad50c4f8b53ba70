//! The reference chip with cache allocation, behind a simulated kernel's `resctrl`.

use cache_pirate::resctrl::{Confined, Partition};
use cache_pirate::{Outcome, Reading, SharedCache, Testbed, Until, Who};

use super::SimulatedTestbed;
use super::experiments::ExperimentError;
use crate::machines::chip::Program;
use crate::machines::resctrl::Kernel;

/// Number of the target's process in the simulated kernel, and of the one that measures.
const TARGET: i32 = 1000;
const MEASURING: i32 = 900;

/// A chip whose cores follow the masks of a kernel, and whose monitors it reads.
#[derive(Debug)]
pub struct DividedChip<P> {
    inner: SimulatedTestbed<P>,
    kernel: Kernel,
}

impl<P: Program> DividedChip<P> {
    fn monitor(&self) {
        let line = f64::from(self.inner.cache().line_size);
        let fetches = self.inner.target_counters().fetches() as f64;
        let occupancy = self.inner.lines_of_target() as f64 * line;
        self.kernel.monitor(TARGET, occupancy as u64, (fetches * line) as u64);
    }
}

/// Confines the target of a chip by the `resctrl` of `kernel`, whose cache must have as many ways.
///
/// # Errors
/// What the kernel refuses.
pub fn divided<P: Program>(
    inner: SimulatedTestbed<P>,
    kernel: &Kernel,
) -> Result<Confined<DividedChip<P>, Kernel>, ExperimentError> {
    kernel.start(TARGET, &[TARGET]);
    kernel.start(MEASURING, &[MEASURING]);
    let partition = Partition::prepare(kernel.clone(), inner.cache(), 0, TARGET, MEASURING)?;
    let chip = DividedChip { inner, kernel: kernel.clone() };
    chip.monitor();
    Ok(Confined::new(chip, partition, None)?)
}

impl<P: Program> Testbed for DividedChip<P> {
    type Error = ExperimentError;

    fn cache(&self) -> SharedCache {
        self.inner.cache()
    }

    fn max_threads(&self) -> usize {
        self.inner.max_threads()
    }

    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), ExperimentError> {
        Ok(self.inner.steal(bytes, threads)?)
    }

    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, ExperimentError> {
        let mask = |process| u64::from(self.kernel.mask_of(process, 0));
        self.inner.allow(mask(TARGET), mask(MEASURING))?;
        let outcome = self.inner.run(who, until)?;
        self.monitor();
        Ok(outcome)
    }

    fn read(&mut self) -> Result<Reading, ExperimentError> {
        Ok(self.inner.read()?)
    }
}
