//! Windows of a translated process: where they end, what is counted in them, and who follows its accesses.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::executions::{merged, positive};
use super::layout::{self, command, shared};
use super::observer::{Event, Gone, Observer};
use super::recording::{self, Lines, buffer};
use super::trace::Events;
use super::translate::Kind;
use crate::backends::processes::{Account, Images, command_of};
use crate::engine::tracker::{Mode, Tracker};
use crate::replay::window_from;
use crate::{LineSize, TargetExit, ThreadId, Window, WindowIndex};

/// Instructions after which counters are taken over at the latest: each has half a word, and a sign. Code that changes is
/// judged then, too.
pub(super) const STRETCH: u64 = 1 << 26;

/// How a window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Boundary,
    Exit,
    Interrupt,
    /// Another program is in the thread's place, also in `/proc`.
    Replaced,
}

/// The window in progress.
#[derive(Clone, Copy, Debug)]
struct Open {
    index: u64,
    mode: Mode,
    since: Instant,
}

/// What is followed of a thread.
#[derive(Debug)]
struct Followed {
    id: ThreadId,
    tracker: Tracker,
    open_samples: u64,
    window: Option<Open>,
    counted: Vec<(u64, u64)>, // instructions by block, which may come again; less than none wraps
    repeated: Vec<(u64, u64)>, // accesses of repeated string instructions by block, which may come again
    buffer: u64,              // number of the one being written
    rest: u64,                // instructions of the window beyond those that the thread knows of
    handed_out: u64,          // lines touched by accesses in the window, where those are handed out
}

impl Followed {
    fn new(common: &Common, id: ThreadId) -> Self {
        let (seed, thread) = (common.seed, u64::from(id.0));
        Self {
            id,
            tracker: Tracker::new(seed, thread).with_strides(common.strides, seed, thread),
            open_samples: 0,
            window: None,
            counted: Vec::new(),
            repeated: Vec::new(),
            buffer: 0,
            rest: common.length - common.length.min(STRETCH),
            handed_out: 0,
        }
    }
}

/// What the processes of a tree have in common.
#[derive(Debug)]
pub(super) struct Common {
    pub length: u64,
    pub line_size: LineSize,
    pub seed: u64,
    pub strides: u64,  // mean gap between strides sampled; 0 for none
    pub initial: Mode, // of new threads
    pub threads: u32,
    pub windows: u64,
    pub queue: VecDeque<Window>,
    pub images: Images,
    pub unsure: u64, // accesses that may be of other lines
    pub instructions: u64,
    pub accesses: u64, // that were seen
    pub further: u64,  // of them, those that are not the first of their operands
    pub warnings: Vec<String>,
    /// Events instead of windows, where all are handed out.
    pub trace: Option<Events>,
    pub children: u64, // that ran unobserved
}

/// A process under observation.
#[derive(Debug)]
pub(super) struct Watched {
    pub observer: Observer,
    /// Its number in the list of processes.
    pub number: usize,
    /// The number of the program that it executes.
    pub image: usize,
    /// It runs unobserved.
    pub native: bool,
    /// It has asked.
    pub began: bool,
    followed: BTreeMap<usize, Followed>, // by the numbers of their blocks
}

/// What a request leads to for the tree.
#[derive(Debug)]
pub(super) enum Step {
    /// The process goes on.
    On,
    /// More is to be done for the current thread.
    Next(Event),
    /// The current thread waits for a plan: at this address or, without one, before the first instruction of a program.
    Waits(Option<u64>),
    /// A process that shared memory executes the program at this path and is a process of its own now.
    Executes(Box<Watched>, String),
}

impl Watched {
    pub(super) const fn new(observer: Observer, number: usize, image: usize) -> Self {
        Self { observer, number, image, native: false, began: false, followed: BTreeMap::new() }
    }

    /// Deals with what the current thread's request has led to.
    pub(super) fn handle(
        &mut self,
        event: Event,
        common: &mut Common,
        account: &mut Account,
    ) -> Result<Step, Gone> {
        if let (true, Some(pc)) = (self.native, event.pc()) {
            // It was in a system call when the others left.
            return self.observer.leave(pc).map(|()| Step::On);
        }
        let next = match event {
            Event::Began { pc } => {
                if self.observer.is_apart() && !self.observer.follows {
                    common.children += 1;
                    self.observer.leave(pc)?;
                    return Ok(Step::On);
                }
                self.observer.set_left(common.length.min(STRETCH));
                self.follow(common.initial, common);
                self.observer.resume(pc, false)?
            }
            Event::Boundary { pc } => {
                let left = self.observer.left();
                let needed = self.block_at_exit(pc);
                if left as i64 >= needed as i64 {
                    let kind = self.observer.own().kind;
                    if left < self.observer.cache.length_at(pc, kind) {
                        self.go_block_by_block(common);
                    } // else it was made to ask
                    self.observer.resume(pc, false)?
                } else {
                    let own = self.own(common);
                    if own.rest > 0 {
                        let more = own.rest.min(STRETCH);
                        own.rest -= more;
                        self.observer.set_left(left + more);
                        self.save_stretch(common)?;
                        self.use_code(common);
                        return Ok(self.observer.resume(pc, false)?.map_or(Step::On, Step::Next));
                    }
                    let more = (needed - left).div_ceil(common.length).saturating_mul(common.length);
                    own.rest = more - more.min(STRETCH);
                    self.observer.set_left(left + more.min(STRETCH));
                    self.close(End::Boundary, common, account);
                    return Ok(Step::Waits(Some(pc)));
                }
            }
            Event::Full { pc } => {
                let full = self.take_buffer(common);
                let event = self.observer.resume(pc, false)?;
                // The thread goes on meanwhile.
                self.play(full, common);
                event
            }
            Event::Stale { pc } => {
                self.observer.stop_others()?;
                self.each_thread(|watched| watched.save(common));
                self.observer.empty_cache();
                self.observer.resume(pc, false)?
            }
            Event::Exiting { status } => {
                self.see_mappings(common);
                self.close(End::Exit, common, account);
                if !self.observer.is_apart() {
                    account.record.exit = status.map(|status| TargetExit::Code(status.into()));
                }
                self.observer.perform(command::CALL)?
            }
            Event::Executing { path } => {
                self.see_mappings(common);
                self.observer.execute(path)?
            }
            Event::Executed { path } => return Ok(self.executed(path, common, account)),
            Event::Leaving { pc } => {
                self.run_natively(pc, common, account)?;
                None
            }
        };
        Ok(next.map_or(Step::On, Step::Next))
    }

    /// The current thread's process is at the first instruction of the program at `path`.
    fn executed(&mut self, path: String, common: &mut Common, account: &mut Account) -> Step {
        self.observer.unobserved.pop();
        let thread = self.observer.current;
        let own = self.own(common);
        let (id, waits) = (own.id, own.window.is_some());
        if self.observer.is_apart() {
            self.close(End::Replaced, common, account);
            self.followed.remove(&thread);
            self.observer.own().ends = true;
            match self.observer.start_apart() {
                Ok(observer) => {
                    let mut watched = Self::new(observer, 0, 0);
                    watched.begin_anew(id, waits, common);
                    return Step::Executes(Box::new(watched), path);
                }
                Err(_) => common.children += 1,
            }
            return Step::On;
        }
        self.each_thread(|watched| {
            if watched.observer.current != thread {
                watched.close(End::Replaced, common, account);
            }
        });
        // Last: what is asked for next is asked of it.
        self.close(End::Replaced, common, account);
        self.followed.clear();
        common.images.ended(self.image, account.record.pid);
        if let Err(error) = self.observer.start_anew() {
            self.observer.unobserved.push(format!("{path}, which ran unobserved: {error}"));
            account.record.unobserved = Some(format!("it executed {path}, which is not observed: {error}"));
            self.native = true;
        } else {
            self.begin_anew(id, waits, common);
            self.see_program(&path, common, account);
        }
        if self.waits() { Step::Waits(None) } else { Step::On }
    }

    /// The first thread of a program that was executed; if `waits`, a window of it ended with the program before.
    fn begin_anew(&mut self, id: ThreadId, waits: bool, common: &mut Common) {
        self.began = true;
        self.observer.set_left(common.length.min(STRETCH));
        self.followed.insert(0, Followed::new(common, id));
        if !waits {
            self.begin(common.initial, common);
        }
    }

    /// Whether the first thread waits for a plan before its first request.
    pub(super) fn waits(&self) -> bool {
        !self.native && self.followed.get(&0).is_some_and(|own| own.window.is_none())
    }

    /// Which program the process executes now; the program's own name for it is `path`.
    pub(super) fn see_program(&mut self, path: &str, common: &mut Common, account: &mut Account) {
        let pid = self.observer.process.pid();
        let file = std::fs::read_link(format!("/proc/{pid}/exe"));
        let file = file.map_or_else(|_| path.to_owned(), |file| file.to_string_lossy().into_owned());
        self.image = common.images.number(&file);
        account.record.command = command_of(pid);
    }

    /// Lets all threads run on without us, the current one from `pc`.
    fn run_natively(&mut self, pc: u64, common: &mut Common, account: &mut Account) -> Result<(), Gone> {
        let caller = self.observer.current;
        let window = self.own(common).window;
        let window = window.map_or(common.windows, |open| open.index);
        let why = self.observer.leaving.clone().unwrap_or_default();
        let who = account.name(self.number);
        common.warnings.push(format!("{who} ran on natively and unobserved from window {window} on: {why}"));
        account.record.unobserved = Some(format!("from window {window} on: {why}"));
        self.observer.stop_others()?;
        self.observer.end_guards();
        let mut places = vec![(caller, pc)];
        for number in (0..self.observer.threads.len()).filter(|number| *number != caller) {
            self.observer.current = number;
            places.extend(self.observer.place()?.map(|pc| (number, pc)));
        }
        self.each_thread(|watched| watched.close(End::Interrupt, common, account));
        self.native = true;
        for (number, pc) in places {
            self.observer.current = number;
            self.observer.leave(pc)?;
        }
        Ok(())
    }

    /// Does `what` for each thread, as the current one.
    pub(super) fn each_thread(&mut self, mut what: impl FnMut(&mut Self)) {
        let caller = self.observer.current;
        for number in self.followed.keys().copied().collect::<Vec<_>>() {
            self.observer.current = number;
            what(self);
        }
        self.observer.current = caller;
    }

    /// The current thread goes on in code that counts and records each block, to where its window ends.
    fn go_block_by_block(&mut self, common: &Common) {
        let before = self.observer.own().kind;
        self.observer.use_kind(Kind::Stepping);
        if before == Kind::Counting {
            self.use_buffer(common);
        }
    }

    /// The current thread begins.
    pub(super) fn follow(&mut self, mode: Mode, common: &mut Common) {
        self.followed.insert(self.observer.current, Followed::new(common, ThreadId(common.threads)));
        common.threads += 1;
        self.begin(mode, common);
    }

    /// What is followed of the current thread, which has begun.
    fn own(&mut self, common: &Common) -> &mut Followed {
        let id = ThreadId(common.threads);
        self.followed.entry(self.observer.current).or_insert_with(|| Followed::new(common, id))
    }

    pub(super) fn see_mappings(&mut self, common: &mut Common) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.observer.task()));
        if let (Ok(maps), Some(image)) = (maps, common.images.get(self.image)) {
            image.take(&maps, 0);
        }
    }

    /// Instructions of the block at `pc`.
    fn block_at_exit(&self, pc: u64) -> u64 {
        self.observer.cache.block(pc).map_or(1, |block| u64::from(block.instructions))
    }

    pub(super) fn begin(&mut self, mode: Mode, common: &mut Common) {
        self.began = true;
        let index = common.windows;
        common.windows += 1;
        let own = self.own(common);
        // With nothing to follow there is nothing to see.
        let mode = if mode == Mode::Watch && own.open_samples == 0 { Mode::Off } else { mode };
        own.tracker.begin_window(index, mode);
        own.window = Some(Open { index, mode, since: Instant::now() });
        self.use_code(common);
    }

    /// The current thread goes on in the code that its window asks for.
    fn use_code(&mut self, common: &Common) {
        let off = self.own(common).window.is_none_or(|open| open.mode == Mode::Off);
        self.observer.use_kind(if off { Kind::Counting } else { Kind::Recording });
        if !off {
            self.use_buffer(common);
        }
    }

    fn use_buffer(&mut self, common: &Common) {
        let (start, mut end) = buffer(self.buffer_in_use(0));
        if let (Some(events), true) = (&common.trace, common.threads > 1) {
            end = end.min(start + events.stretch());
        }
        let at = self.observer.address_of(0);
        self.observer.set(shared::BUFFER, at + start);
        self.observer.set(shared::BUFFER_END, at + end);
    }

    /// The number of the current thread's buffer, after `change` to it.
    fn buffer_in_use(&mut self, change: u64) -> u64 {
        self.followed.get_mut(&self.observer.current).map_or(0, |own| {
            own.buffer ^= change;
            own.buffer
        })
    }

    /// The words written so far; another buffer is used from now on.
    fn take_buffer(&mut self, common: &Common) -> (u64, u64) {
        let (start, _) = buffer(self.buffer_in_use(0));
        let end = self.observer.get(shared::BUFFER).wrapping_sub(self.observer.address_of(0));
        self.buffer_in_use(1);
        self.use_buffer(common);
        (start, end)
    }

    fn play(&mut self, (start, end): (u64, u64), common: &mut Common) {
        let (blocks, block) = (self.observer.cache.blocks(), layout::block(self.observer.current));
        let words = self.observer.region.words(block + start, block + end);
        let Some(own) = self.followed.get_mut(&self.observer.current) else { return };
        if own.window.is_some_and(|open| open.mode == Mode::Off) {
            return; // nothing is looked at
        }
        if let Some(events) = &mut common.trace {
            events.go_on(own.id, self.number, self.image);
            let before = events.lines;
            recording::play(words, blocks, &self.observer.cache.forms, events);
            own.handed_out += events.lines - before;
        } else {
            let shift = common.line_size.shift();
            let mut lines = Lines { tracker: &mut own.tracker, shift, further: 0, unsure: 0 };
            lines.play(words, blocks, &self.observer.cache.forms);
            common.further += lines.further;
            common.unsure += lines.unsure;
        }
    }

    /// Takes over what the current thread has counted and recorded.
    fn save(&mut self, common: &mut Common) {
        let window = self.followed.get(&self.observer.current).and_then(|own| own.window);
        if window.is_some_and(|open| open.mode != Mode::Off) {
            let words = self.take_buffer(common);
            self.play(words, common);
        }
        let Some(own) = self.followed.get_mut(&self.observer.current) else { return };
        let counts = layout::block(self.observer.current) + u64::from(shared::COUNTS);
        let Observer { cache, region, .. } = &mut self.observer;
        let counts = region.halves(counts, counts + 4 * u64::from(shared::COUNTERS));
        cache.executions.take(&cache.blocks, counts, &mut own.counted, &mut own.repeated);
        for (number, instructions) in std::mem::take(&mut self.observer.own().signals.unexecuted) {
            if let Some(block) = self.observer.cache.blocks().get(number as usize) {
                own.counted.push((block.pc, instructions.wrapping_neg()));
            }
        }
    }

    /// Ends the current thread's window, if it has one, and puts it in the queue.
    pub(super) fn close(&mut self, how: End, common: &mut Common, account: &mut Account) {
        let open = self.followed.get(&self.observer.current).and_then(|own| own.window);
        let Some(Open { index, mode, since }) = open else { return };
        self.save(common);
        let own = self.own(common);
        own.window = None;
        let mut report = match how {
            End::Boundary => own.tracker.end_window(),
            End::Exit | End::Replaced => own.tracker.end_thread(),
            End::Interrupt => own.tracker.interrupt(),
        };
        own.open_samples = report.open;
        let handed_out = std::mem::take(&mut own.handed_out);
        let mut code = positive(merged(std::mem::take(&mut own.counted)));
        let mut repeated = positive(merged(std::mem::take(&mut own.repeated)));
        let id = own.id;
        if let (true, Some(image)) = (how != End::Replaced, common.images.get(self.image)) {
            let tid = self.observer.own().tid;
            image.see(tid, 0, &code, self.observer.memory.mappings());
        }
        let instructions = code.iter().map(|(_, count)| count).sum();
        if how == End::Boundary {
            // Its end is noticed elsewhere.
            let _ = self.observer.note_executed(&code);
        }
        let accesses = report.accesses + handed_out;
        Images::mark(self.image, code.iter_mut().chain(&mut repeated), &mut report);
        account.add(instructions, (mode != Mode::Off).then_some((instructions, accesses)));
        let mut window = window_from(report, WindowIndex(index), id, common.line_size, mode != Mode::Off);
        window.instructions = instructions;
        (window.code, window.repeated) = (code, repeated);
        window.elapsed = since.elapsed();
        common.instructions += instructions;
        common.accesses += accesses;
        match &mut common.trace {
            Some(events) if matches!(how, End::Exit) => events.end(id),
            Some(_) => {}
            None => common.queue.push_back(window),
        }
    }

    /// Saves what the current thread has counted where its window goes on, and judges code that changes by it.
    fn save_stretch(&mut self, common: &mut Common) -> Result<(), Gone> {
        let counted = |watched: &mut Self| {
            let own = watched.followed.get_mut(&watched.observer.current);
            own.map_or_else(Vec::new, |own| std::mem::take(&mut own.counted))
        };
        let mut before = counted(self);
        self.save(common);
        let now = merged(counted(self));
        before.extend(&now);
        self.own(common).counted = merged(before);
        self.observer.note_executed(&positive(now))
    }

    /// Whether samples of the current thread are open.
    pub(super) fn has_open_samples(&self) -> bool {
        self.followed.get(&self.observer.current).is_some_and(|own| own.open_samples > 0)
    }

    /// The process that had the block `number` has ended, or is a process of its own now.
    pub(super) fn forget(&mut self, number: usize, common: &mut Common, account: &mut Account) {
        self.observer.current = number;
        self.close(End::Exit, common, account);
        self.followed.remove(&number);
        self.observer.threads[number] = None;
    }
}
