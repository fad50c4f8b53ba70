//! One pass over a program: what is true of each window, and everything that samplers could have seen of it.
//!
//! Of each window are kept its code, its exact miss ratio at each size (LRU, every access simulated, all threads in one
//! cache), and how many of its accesses are reused after how many others. A sampler that chooses each access with the
//! same probability and follows it to its reuse sees a random part of exactly these, so that any number of strategies,
//! rates and seeds can be tried on one recording: see [`thin`](super::thinning::thin). SHARDS needs the stream itself
//! and runs in the pass.

use reuse_sampler::replay::Event;
use reuse_sampler::{CacheLines, Line, LineSize, Outcome, ReuseDistance, ReuseProfile};

use crate::cli::Failure;
use crate::guided::CodeCounts;
use crate::traces::{Limits, Source, Windows};
use crate::workloads::Sink;
use reuse_sampler::reference::{ExactLru, LineIds};
use reuse_sampler::reference::{Shards, SpatialRate, spatial_hash};

/// How a program is recorded.
#[derive(Clone, Debug)]
pub struct RecordingOptions {
    /// Length of a window in instructions; in accesses if the source counts no instructions. Above 0.
    pub window: u64,
    /// Line size.
    pub line_size: LineSize,
    /// Cache sizes of the reference.
    pub sizes: Vec<CacheLines>,
    /// Rates at which SHARDS runs.
    pub shards: Vec<SpatialRate>,
    /// Seeds with which it does at each rate.
    pub seeds: Vec<u64>,
}

/// A program as it ran.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Recording {
    /// Its name for people.
    pub name: String,
    /// Line size.
    pub line_size: LineSize,
    /// Cache sizes of the reference.
    pub sizes: Vec<CacheLines>,
    /// Its windows.
    pub windows: Vec<RecordedWindow>,
    /// SHARDS: by rate, then by seed.
    pub shards: Vec<ShardsRun>,
    /// Different lines touched.
    pub lines: u64,
    /// Whether it was stopped before the program's end.
    pub incomplete: bool,
    /// Whether windows count instructions; accesses otherwise.
    pub by_instructions: bool,
    /// What the user should know about the run.
    pub notes: Vec<String>,
}

/// A window as it ran.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct RecordedWindow {
    /// Instructions; 0 if the source does not count them.
    pub instructions: u64,
    /// Accesses, one for each line touched.
    pub accesses: u64,
    /// Executed code: address of a block and the instructions executed in it.
    pub code: Vec<(u64, u64)>,
    /// Exact miss ratio at each size.
    pub miss_ratio: Vec<f64>,
    /// What became of its accesses: reused (distances as [`ReuseProfile`] rounds them) or never, and how many.
    pub reuse: Vec<(Outcome, u64)>,
}

/// What SHARDS made of the program at one rate with one seed.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ShardsRun {
    /// Share of the lines that were followed.
    pub rate: f64,
    /// Accesses to followed lines.
    pub samples: u64,
    /// Miss ratio (adjusted) of each window at each size.
    pub windows: Vec<Vec<f64>>,
}

impl Recording {
    /// Runs a program to its end and keeps what there is to know about it.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be run or read, or is over before it has two windows.
    pub fn of(source: &Source, options: &RecordingOptions, limits: Limits<'_>) -> Result<Self, Failure> {
        let mut recorder = Recorder::new(options.clone());
        let end = source.observe(&mut recorder, limits)?;
        let mut recording = recorder.finish(source.name(), end.stopped, end.notes);
        if matches!(source, Source::Trace(..)) && !recording.by_instructions {
            let note = "the trace holds no code, so that all windows are of one phase and count accesses";
            recording.notes.push(note.to_owned());
        }
        if recording.windows.len() < 2 {
            return Err(Failure::Run(format!(
                "{} makes {} window of {}: give shorter windows with --window",
                recording.name,
                recording.windows.len(),
                options.window
            )));
        }
        Ok(recording)
    }

    /// Accesses of all windows.
    pub fn accesses(&self) -> u64 {
        self.windows.iter().map(|w| w.accesses).sum()
    }

    /// Instructions of all windows.
    pub fn instructions(&self) -> u64 {
        self.windows.iter().map(|w| w.instructions).sum()
    }

    /// What a window counts for in the time of the run: instructions, or accesses where there are none.
    pub fn time(&self, window: &RecordedWindow) -> f64 {
        (if self.by_instructions { window.instructions } else { window.accesses }) as f64
    }

    /// Exact miss ratio of the whole run at each size.
    pub fn average(&self) -> Vec<f64> {
        let all = self.accesses().max(1) as f64;
        let mut sums = vec![0.0; self.sizes.len()];
        for window in &self.windows {
            for (sum, ratio) in sums.iter_mut().zip(&window.miss_ratio) {
                *sum += ratio * window.accesses as f64 / all;
            }
        }
        sums
    }
}

/// Takes in events and keeps a [`Recording`].
pub struct Recorder {
    options: RecordingOptions,
    lru: ExactLru,
    ids: LineIds,
    touched: Vec<(u64, u32)>, // access and window of the last touch, by line
    reuse: Vec<ReuseProfile>, // by the window that began
    code: CodeCounts,
    windows: Vec<RecordedWindow>,
    shards: Vec<Vec<Shards>>,     // by seed, then by rate
    followed: u64,                // largest hash that any rate follows
    results: Vec<Vec<ShardsRun>>, // as `shards`
    by_instructions: Option<bool>,
    instructions: u64, // of the window
    accesses: u64,     // of the window
    before: u64,       // accesses of the windows before
    early: u64,        // what the windows before were too long by
}

impl Recorder {
    /// A recorder that has seen nothing.
    pub fn new(options: RecordingOptions) -> Self {
        let at = |&seed: &u64| options.shards.iter().map(|&rate| Shards::new(rate, seed)).collect();
        let run = |rate: &SpatialRate| ShardsRun { rate: rate.get(), samples: 0, windows: Vec::new() };
        let most = options.shards.iter().map(|rate| rate.get()).fold(0.0, f64::max);
        Self {
            shards: options.seeds.iter().map(at).collect(),
            followed: (most * u64::MAX as f64) as u64,
            results: options.seeds.iter().map(|_| options.shards.iter().map(run).collect()).collect(),
            lru: ExactLru::new(),
            ids: LineIds::new(),
            touched: Vec::new(),
            reuse: vec![ReuseProfile::new(options.line_size)],
            code: CodeCounts::default(),
            windows: Vec::new(),
            options,
            by_instructions: None,
            instructions: 0,
            accesses: 0,
            before: 0,
            early: 0,
        }
    }

    #[inline]
    fn access(&mut self, line: Line) {
        if self.accesses >= self.options.window && !*self.by_instructions.get_or_insert(false) {
            self.end_window();
        }
        let now = self.before + self.accesses;
        self.accesses += 1;
        self.lru.access(line);
        let (id, first) = self.ids.id(line);
        let touch = (now, self.windows.len() as u32);
        if first {
            self.touched.push(touch);
        } else {
            let (then, window) = std::mem::replace(&mut self.touched[id as usize], touch);
            self.reuse[window as usize].record(Outcome::Reused(ReuseDistance(now - then - 1)), 1);
        }
        for (&seed, shards) in self.options.seeds.iter().zip(&mut self.shards) {
            let hash = spatial_hash(line, seed);
            if hash <= self.followed {
                for shards in shards {
                    shards.access_hashed(line, hash);
                }
            }
        }
    }

    fn end_window(&mut self) {
        let (instructions, accesses) = (self.instructions, self.accesses);
        let curve = self.lru.take_window().curve(self.options.line_size, &self.options.sizes);
        let mut code: Vec<(u64, u64)> = self.code.drain().collect();
        code.sort_unstable();
        for (shards, runs) in self.shards.iter_mut().flatten().zip(self.results.iter_mut().flatten()) {
            shards.pass(accesses);
            let window = shards.take_window();
            runs.samples += window.samples();
            let ratio = |&size: &CacheLines| window.miss_ratio(size, true).unwrap_or(0.0);
            runs.windows.push(self.options.sizes.iter().map(ratio).collect());
        }
        self.windows.push(RecordedWindow {
            instructions,
            accesses,
            code,
            miss_ratio: curve.points.iter().map(|point| point.1).collect(),
            reuse: Vec::new(),
        });
        self.reuse.push(ReuseProfile::new(self.options.line_size));
        self.before += accesses;
        self.early = if self.by_instructions == Some(true) {
            (self.early + instructions).saturating_sub(self.options.window) % self.options.window
        } else {
            0
        };
        (self.instructions, self.accesses) = (0, 0);
    }

    /// The recording. A last window shorter than half a window is left out, unless it is the only one.
    pub fn finish(mut self, name: String, incomplete: bool, notes: Vec<String>) -> Recording {
        if self.instructions + self.accesses > 0 {
            self.end_window();
        }
        for (window, reuse) in self.windows.iter_mut().zip(&self.reuse) {
            let middle = |(low, high, count): (u64, u64, u64)| {
                (Outcome::Reused(ReuseDistance(low + (high - low) / 2)), count)
            };
            window.reuse = reuse.reused_bins().map(middle).collect();
            // What was open at the end was never reused, or not as long as the run was watched.
            let reused: u64 = window.reuse.iter().map(|r| r.1).sum();
            window.reuse.push((Outcome::Dangling, window.accesses - reused));
        }
        let by_instructions = self.by_instructions.unwrap_or(false);
        let length = |w: &RecordedWindow| if by_instructions { w.instructions } else { w.accesses };
        if self.windows.len() > 1
            && self.windows.last().is_some_and(|last| 2 * length(last) < self.options.window)
        {
            self.windows.pop();
            self.results.iter_mut().flatten().for_each(|run| drop(run.windows.pop()));
        }
        Recording {
            name,
            line_size: self.options.line_size,
            sizes: self.options.sizes,
            windows: self.windows,
            shards: self.results.into_iter().flatten().collect(),
            lines: u64::from(self.ids.len()),
            incomplete,
            by_instructions,
            notes,
        }
    }
}

impl Sink for Recorder {
    // Threads are not distinguished: they share the cache, and a window is one of the process.
    #[inline]
    fn event(&mut self, event: Event) {
        match event {
            Event::Access(access) => {
                for line in self.options.line_size.lines(&access) {
                    self.access(line);
                }
            }
            Event::Block { address, instructions } => {
                self.by_instructions.get_or_insert(true);
                if self.early + self.instructions >= self.options.window {
                    self.end_window();
                }
                *self.code.entry(address).or_default() += u64::from(instructions);
                self.instructions += u64::from(instructions);
            }
            _ => {}
        }
    }
}

impl Windows for Recorder {
    fn windows(&self) -> usize {
        self.windows.len()
    }
}
