//! Samples gathered into windows of time.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::time::Duration;

use super::{PerfDataReader, PerfSample};
use crate::{Error, LineSize, Sampler, SamplerError, ThreadId, Window, WindowIndex, WindowPlan};

/// How samples become windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PerfWindowOptions {
    /// Length of a window. At least a nanosecond. Default: 100 ms.
    pub length: Duration,
    /// Whether samples of the kernel count too. Default: no.
    pub kernel: bool,
}

impl Default for PerfWindowOptions {
    fn default() -> Self {
        Self { length: Duration::from_millis(100), kernel: false }
    }
}

impl PerfWindowOptions {
    /// Windows of this length, everything else by default.
    #[must_use]
    pub fn windows_of(length: Duration) -> Self {
        Self { length, ..Self::default() }
    }

    /// The same with samples of the kernel.
    #[must_use]
    pub const fn with_kernel(mut self) -> Self {
        self.kernel = true;
        self
    }
}

/// The samples of a [`PerfDataReader`] as windows of each thread.
///
/// A thread's windows follow each other from its first sample on; one without a sample is left out. Where samples have
/// branch stacks, a window's [`code`](Window::code) is the branches' addresses, one for each branch taken (a branch
/// vector); else it is the sampled instructions, each weighted with the period of its sample (an EIPV). Instructions
/// are the periods of samples of `instructions`, 0 where that event was not recorded; [`counters`](Window::counters)
/// holds the sum of periods by event, in event counts (nanoseconds for clocks). Accesses are unknown: perf samples
/// them, and what lies between is not in the file. Plans are not followed.
///
/// # Accuracy
/// As that of sampling: with n samples in a window an entry of weight p is known to sqrt(p (1 - p) / n).
#[derive(Debug)]
pub struct PerfWindows<R> {
    reader: PerfDataReader<R>,
    options: PerfWindowOptions,
    length: u64, // nanoseconds, >= 1
    threads: BTreeMap<u32, Thread>,
    finished: VecDeque<Window>,
    begun: u64, // windows
    ended: bool,
}

/// The window in progress of a thread.
#[derive(Debug)]
struct Thread {
    number: ThreadId,
    end: u64, // of the window, in nanoseconds
    index: WindowIndex,
    instructions: u64,
    code: BTreeMap<u64, u64>,
    counts: Vec<u64>, // by event
}

impl<R: Read> PerfWindows<R> {
    /// Windows over what `reader` has not read yet.
    ///
    /// # Errors
    /// [`Error::WindowLength`] if windows have length 0.
    pub fn new(reader: PerfDataReader<R>, options: PerfWindowOptions) -> Result<Self, Error> {
        let length = u64::try_from(options.length.as_nanos()).unwrap_or(u64::MAX);
        if length == 0 {
            return Err(Error::WindowLength);
        }
        Ok(Self {
            reader,
            options,
            length,
            threads: BTreeMap::new(),
            finished: VecDeque::new(),
            begun: 0,
            ended: false,
        })
    }

    /// Samples that the kernel says were lost, so far.
    pub const fn lost(&self) -> u64 {
        self.reader.lost()
    }

    fn add(&mut self, sample: &PerfSample) -> Result<(), SamplerError> {
        if sample.in_kernel && !self.options.kernel {
            return Ok(());
        }
        let number = ThreadId(u32::try_from(self.threads.len()).unwrap_or(u32::MAX));
        let (length, begun) = (self.length, &mut self.begun);
        let mut begin = || {
            *begun += 1;
            WindowIndex(*begun - 1)
        };
        let thread = self.threads.entry(sample.thread).or_insert_with(|| Thread {
            number,
            end: sample.time.saturating_add(length),
            index: begin(),
            instructions: 0,
            code: BTreeMap::new(),
            counts: Vec::new(),
        });
        if sample.time >= thread.end {
            let names = self.reader.events()?;
            self.finished.push_back(thread.finish(length, &names));
            let passed = (sample.time - thread.end) / length;
            thread.end = thread.end.saturating_add(passed.saturating_add(1).saturating_mul(length));
            thread.index = begin();
        }
        thread.add(sample, self.reader.file.events()[sample.event].counts_instructions());
        Ok(())
    }
}

impl Thread {
    fn add(&mut self, sample: &PerfSample, of_instructions: bool) {
        let mut weigh = |address, weight: u64| {
            let sum: &mut u64 = self.code.entry(address).or_default();
            *sum = sum.saturating_add(weight);
        };
        if sample.branches.is_empty() {
            weigh(sample.pc, sample.period);
        } else {
            sample.branches.iter().for_each(|&(from, _)| weigh(from, 1));
        }
        if of_instructions {
            self.instructions = self.instructions.saturating_add(sample.period);
        }
        if self.counts.len() <= sample.event {
            self.counts.resize(sample.event + 1, 0);
        }
        self.counts[sample.event] = self.counts[sample.event].saturating_add(sample.period);
    }

    fn finish(&mut self, length: u64, names: &[String]) -> Window {
        let mut window = Window::new(self.index, self.number, LineSize::default());
        window.instructions = std::mem::take(&mut self.instructions);
        window.code = std::mem::take(&mut self.code).into_iter().collect();
        window.counters = names
            .iter()
            .cloned()
            .zip(std::mem::take(&mut self.counts))
            .filter(|(_, count)| *count > 0)
            .collect();
        window.elapsed = Duration::from_nanos(length);
        window
    }
}

impl<R: Read> Sampler for PerfWindows<R> {
    fn next_window(&mut self, _plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        loop {
            if let Some(window) = self.finished.pop_front() {
                return Ok(Some(window));
            }
            if self.ended {
                return Ok(None);
            }
            match self.reader.next_sample() {
                Ok(Some(sample)) => self.add(&sample)?,
                Ok(None) => self.stop()?,
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        if !std::mem::replace(&mut self.ended, true) && !self.threads.is_empty() {
            let names = self.reader.events()?;
            let mut last: Vec<Window> = std::mem::take(&mut self.threads)
                .into_values()
                .map(|mut thread| thread.finish(self.length, &names))
                .collect();
            last.sort_by_key(|window| window.index);
            self.finished.extend(last);
        }
        Ok(())
    }
}
