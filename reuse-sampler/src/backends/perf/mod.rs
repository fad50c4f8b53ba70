//! Samples a program at nearly its own speed, with the processor's counters and debug registers.
//!
//! The target runs natively. A counter overflows where an access is chosen, the thread stops there, the instruction is
//! decoded, and a debug register watches the line until it is touched again; the counts of accesses in the two
//! records are the reuse distance. Between two samples nothing is in the program's way.
//!
//! ```no_run
//! use reuse_sampler::perf::{PerfOptions, PerfSampler, probe};
//! use reuse_sampler::{ReusePlan, SampleGap, Sampler, WindowPlan};
//!
//! print!("{}", probe()); // what this machine has, and what to change
//! let mut sampler = PerfSampler::spawn("sort", ["words.txt"], &PerfOptions::default())?;
//! let plan = WindowPlan::new(ReusePlan::Sparse(SampleGap::mean(1e6)?));
//! while let Some(window) = sampler.next_window(&plan)? {
//!     println!("{} {} {:?}", window.instructions, window.samples.len(), window.losses);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the numbers are
//! - **Windows** end after so many instructions of the thread, counted by the processor in user mode. The counts are those
//!   of the record that the kernel writes at the overflow, however much later the thread stops; what the processor
//!   notices late by is [`Losses::overshoot`](crate::Losses), and what one window is too long by, the next is short by.
//!   On the emulated machine below no window is, and two runs have the same ones. Where instructions cannot be
//!   counted, windows are processor time, and [`Window::length`](crate::Window) says so.
//! - **Code** is where the program was at equal distances, by its own instruction pointer: where the processor notices
//!   late, the kernel may be what is interrupted.
//! - **Which accesses**: every instruction is chosen with probability 1/m, m being the mean gap of the plan, and is a
//!   sample if it accesses memory. So is each access, with the same probability. Where the thread stops later than at the
//!   chosen instruction, the next one or the one behind it is taken, at random, and counted in
//!   [`Losses::late`](crate::Losses). Its distance is right, since it begins with the counts at that instruction. What is
//!   chosen is right if the delay does not depend on the code; where a processor stops behind slow instructions, what
//!   follows these is chosen too often. [`PerfOptions::early`] has the chosen instruction reached by single steps instead,
//!   each a stop.
//!   Where the processor chooses itself and reports the address, it is asked to, loads and stores alike: Intel from
//!   Haswell on by its precise events, whose records have the counts of the interrupt and not of the access; AMD by
//!   instruction-based sampling (Linux 6.2), which chooses among all operations, the kernel's too (`perf_event_paranoid` of 1
//!   or lower), in gaps of 144 at least, and does not report the counts. Distances of both are short by what the thread still
//!   does before it stops, and a line that it touches again before that is reported with its next reuse. Both were only ever
//!   played to this crate by a simulated kernel.
//!   Arm's statistical profiling cannot choose them: it is a trace, read long after, that stops nothing. What it reports comes
//!   beside the samples ([`PerfOptions::profile_every`], [`spe`]); it too was only ever played by a simulated kernel.
//! - **Distances** are differences of the processor's counts of accesses, read by the kernel in the moment of the hit.
//!   Where accesses cannot be counted they are instructions, else nanoseconds: [`Window::clock`](crate::Window).
//!   An instruction that accesses memory several times makes the distance to it too long by as many less one. In
//!   nanoseconds there is a floor of some 30 us, the sampler's own work; the weight of a sample takes one access a
//!   nanosecond. Neither is good for more than the far tail.
//! - **The line** is watched by as many registers as it takes and there are: see [`Coverage`], and below for what that
//!   leaves out. What the kernel does to memory in system calls touches no watchpoint.
//! - **All registers busy**: the oldest sample but for one that is held (or a random one) gives way and is reported as
//!   censored at its age. Where a sample takes all registers, none is held: then reuses later than a few gaps are not
//!   seen, and the distribution says [how far](crate::ReuseDistribution::horizon) it reaches.
//! - **What was missed** is in [`Window::losses`](crate::Window): lost records, throttled events, hits whose moment was
//!   lost, accesses chosen too late, instructions not understood.
//!
//! # Where it is refused
//! An error of [`spawn`](PerfSampler::spawn), [`attach`](PerfSampler::attach) or the first
//! [`next_window`](Sampler::next_window) names the one cause that this machine has, found by trying, and its remedy: a
//! seccomp filter, `perf_event_paranoid`, a security module, locked memory, file descriptors, processes, `/proc`, an
//! unreadable program, another tracer, `ptrace_scope`. No child is left. [`auto`](crate::auto) takes another backend and
//! warns of the cause.
//!
//! # Too few counters, and others' cores
//! Everything is counted in one group, which the kernel takes whole or not at all: instructions three times (windows, choices,
//! code), loads and stores; where the processor chooses, loads and stores twice. Intel's processors from Broadwell to Comet
//! Lake with hyper-threading have one counter too few for the latter: then code samples are given up or, with
//! [`PerfOptions::keep_code`], the processor's choice. What was given up is among the
//! [`warnings`](PerfSampler::warnings). Processors with two counters (Silvermont, Knights Landing) cannot be used, nor can
//! Sandy Bridge to Haswell with hyper-threading, of whose four counters the kernel leaves two where accesses are counted
//! (erratum HSD29); [`auto`](crate::auto) then takes another backend, as it does where code samples would be lost.
//! [`Capabilities::group`] says beforehand.
//!
//! Of a hybrid processor only the large cores are observed. While a thread is on others nothing is counted and no line
//! watched: open samples are censored where the thread left, [`Losses::uncounted`](crate::Losses) has the time, and
//! a warning its share of the program's. Which processors were seen to work, and which only simulated: `docs/processors.md`.
//!
//! # Lines
//! Most processors watch 8 bytes with each of four registers, and a line is 64. A sample then watches the 8-byte chunk of
//! its access, up to two that are often touched next (companions), and random ones. Touches of the other chunks are
//! corrected for by what the registers see while the program runs, separately for each instruction and position in the
//! line:
//! - A touch is a visit with those that follow soon after. From how many of the watched random chunks a visit touches
//!   follows the probability p that a visit is seen, for each power of four of the age. A sample's age is the sum of p over
//!   the accesses since it began, from the 32nd on: if visits to a line are a Poisson process, those that are seen are
//!   one of p times the rate.
//! - The first four samples at an instruction do not know the companions. If of such samples a fraction x ends within 64
//!   accesses through random chunks alone, and each of these stands for w touches (1 divided by the probability to see
//!   one), wx - x of them miss such a touch: those that end so have weight w, and those that are followed further (1 - wx) /
//!   (1 - x). [`ReuseSample::weight`](crate::ReuseSample) is then not the gap.
//!
//! Where touches stop the thread, one sample in eight is followed to the end of its visit for that, with up to three more
//! stops. The estimate is consistent if companions are what is touched next and visits are at random, at whatever rates.
//! A distance beyond 32 is an estimate, not a count. Relative errors of P(D > d), in per cent, of 32,000 samples each against
//! the exact distances of the same samples, watching the chunks around the access as before and now, on streams that the
//! constants were not chosen on:
//!
//! | d | 30 | 300 | 3,000 | 30,000 | 100,000 |
//! |---|---|---|---|---|---|
//! | records, two fields 32 bytes apart | 41, 0.1 | 41, 0.1 | 44, -0.1 | 73, -0.9 | 248, -4 |
//! | strings, copied | 0.0, -0.2 | 0.1, -0.3 | 0.9, -0.1 | 5, 1 | 3, -3 |
//! | hash table with chains | 0.1, 0.1 | 0.9, 0.0 | 10, 0.5 | 89, -4 | 533, -18 |
//! | words at random | 0.0, -0.2 | 0.7, -0.1 | 8, 1 | 113, 6 | 921, 38 |
//! | shell sort | 24, 23 | 28, 20 | 39, 36 | 68, 67 | 92, 63 |
//!
//! The hash table's and the random words' last column is too rare to be known: its standard error is 13. On recorded traces
//! of six programs that the constants were not chosen on either, errors of 9 to 64 % at 3,000 became 1 to 13 % (`docs/perf-cost.md`
//! has all). Order that is random and dense defeats the corrections: in shell sort they change little. Words of very
//! different heat in one line make the tail too long: 12 % at 30,000 in heap sort. [`Coverage::Chunk`] is exact where each
//! line has one word in use.
//!
//! # Cost
//! The program stops once for each instruction that is chosen, and not again for a sample: the line is watched ahead of
//! the access itself, which the kernel only counts, and where watchpoints can report once
//! ([`Capabilities::once`]) the touch that ends the sample is read from the ring at the next stop. Where they cannot
//! (Linux from 6.16 on never enables one again), that touch is a second stop.
//!
//! On an emulated aarch64 machine, where time is instructions (16 ns each), a stop takes 0.6 ms or 37,500 instructions of
//! the whole machine, a sample 0.35 ms or 22,000 more: 3.0 % of the run with a stop for each 1 M instructions, 3.6 % with
//! a sample at every fourth of them, 35 and 41 % with one for each 100 k. Where a stop's instructions go there, by counting
//! each part alone (a system call that does nothing takes 480):
//!
//! | part | instructions |
//! |---|---|
//! | a signal stops the program, the tracer waits for it and lets it go on: two changes of process | 15,400 |
//! | the counter's interrupt, its record, and two events that are switched off and on with the process | 9,000 |
//! | reading the counts, and the instruction there | 4,400 |
//! | the distance to the next one: one event, and on that machine a second | 2,800 |
//! | five events more to switch, and what the sampler does itself | 5,900 |
//!
//! So with nothing done at a stop at all it is 24,000, which is what stopping a program from outside costs; 1 % would be
//! 10,000. Registers are read only where the instruction accesses memory, which the record's program counter shows as long
//! as the counts have not moved on. `cargo bench --bench watchpoint` measures a stop natively ([`StopCycle`]).
//!
//! # Processes
//! Processes that the program makes are observed like itself, from their first instruction to their last, each thread with
//! windows of its own, unless [`PerfOptions::children`] says otherwise; a run ends with the last of them. On the emulated
//! machine, of a tree of four processes and six threads, the windows hold 100.0 % of the instructions
//! (`examples/perf_proof.rs`). Each process costs three to five stops. Of a process that is attached to, the children it has
//! already are not observed, nor is itself while it sleeps until a child that shares its memory is through (`vfork`). What
//! the kernel lets nobody observe (files that cannot be read, privileges) runs on, and
//! [`processes`](PerfSampler::processes) and a warning name it. The kernel gives a program that is controlled without
//! `CAP_SYS_PTRACE` none of the privileges of its file (set-user-ID: `sudo`, `ping`): it runs without, and a warning says so.
//! Addresses of code carry the number of the program's file in their upper 16 bits, 0 for the first, but for those of
//! [`profiled`](PerfSampler::profiled); [`locate`](PerfSampler::locate) takes them so.
//!
//! # What it does to the target
//! Threads are controlled by `ptrace`, so that a debugger cannot be attached at the same time, nor can one be run in the tree.
//! New threads are followed. A process that is replaced by another program (`execve`) is observed on, with its samples ended
//! as dangling. On drop, on error and after [`stop`](Sampler::stop) an attached program runs on, untouched, and one that
//! was started ends. Should this process be killed, by `SIGKILL` too, a started program ends with it, and an attached one
//! runs on: it is controlled by a guard, a process that shares this one's memory and lets the program go within a tenth
//! of a second. 200 of 200 busy programs survived at a sample each 0.1 ms; without a guard 54 of 100. There is none where
//! `kernel.yama.ptrace_scope` is 1 or more and this process has no `CAP_SYS_PTRACE` (what may be attached to there is what this
//! process started, and whoever else controls that is not its forebear), nor where a filter or limit forbids one: then a
//! [warning](PerfSampler::warnings) says so. Whoever kills all processes of a control group kills it too. System calls that report `EINTR` (`epoll_wait` among others) may do so once when a program is
//! attached to or let go.
//! A library cannot share `waitpid(-1)` with its program: wait for your own children by number.

#![cfg_attr(not(target_os = "linux"), allow(dead_code))] // what drives a kernel that is not there

mod causes;
mod chunks;
mod decode;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
pub mod events;
mod group;
mod kernel;
#[cfg(target_os = "linux")]
mod linux;
mod options;
mod probe;
mod registers;
pub mod ring;
#[cfg(target_os = "linux")]
mod sampler;
mod session;
#[cfg(test)]
mod simulated;
pub mod spe;
#[cfg(test)]
mod tests;
mod units;

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

#[cfg(target_os = "linux")]
pub use linux::{StopCycle, StopWork, WatchCycle};
pub use options::PerfOptions;
pub use probe::{Capabilities, probe};
pub use registers::Coverage;

#[cfg(not(target_os = "linux"))]
use elsewhere::Run;
#[cfg(target_os = "linux")]
use sampler::Run;

use crate::engine::tracker::Mode;
use crate::replay::mode_of;
use crate::{
    Clock, CodeLocation, Losses, ProcessRecord, Sampler, SamplerError, TargetExit, Window, WindowPlan,
};

/// Ends observation from another thread, a signal handler's for example, while the sampler waits for the target.
#[derive(Clone, Debug)]
pub struct Interrupter {
    flag: Arc<AtomicBool>,
    thread: Arc<AtomicI32>, // the tracer's number
}

impl Interrupter {
    /// The call of [`next_window`](Sampler::next_window) that waits, or the next one, ends observation within a tenth of
    /// a second, as [`stop`](Sampler::stop) does, and returns the windows in progress.
    pub fn interrupt(&self) {
        self.flag.store(true, Ordering::SeqCst);
    }
}

/// A command to the tracer.
enum Command {
    Next(Mode),
    Stop,
}

/// What the tracer answers.
struct Answer {
    window: Result<Option<Window>, SamplerError>,
    profiled: Vec<spe::Profiled>,
    state: State,
}

/// What is known of the run so far.
#[derive(Clone, Debug, Default)]
struct State {
    exit: Option<TargetExit>,
    warnings: Vec<String>,
    losses: Losses,
    profile_losses: spe::ProfileLosses,
    started: u64,
    stops: u64,
}

/// A program under observation by counters.
#[derive(Debug)]
pub struct PerfSampler {
    run: Run,
    process: u32,
    clocks: (Clock, Clock),
    interrupter: Interrupter,
    state: State,
    profiled: Vec<spe::Profiled>,
}

impl PerfSampler {
    /// Starts `program` (found as a shell finds it) with `arguments`. It waits before its first instruction until
    /// [`next_window`](Sampler::next_window) gives the initial plan.
    ///
    /// # Errors
    /// [`SamplerError::Target`] if the program cannot be run, [`SamplerError::Unsupported`] if the machine lacks what
    /// is needed (the message says what, and how to get it), [`SamplerError::Value`] for a window of length 0.
    pub fn spawn<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &PerfOptions,
    ) -> Result<Self, SamplerError> {
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        Run::spawn(program.as_ref(), arguments, options)
    }

    /// Observes process `process` from now on, with all its threads and those it makes later.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn); [`SamplerError::Target`] if there is no such process or it may not be observed.
    pub fn attach(process: u32, options: &PerfOptions) -> Result<Self, SamplerError> {
        Run::attach(process, options)
    }

    /// Where the code at `address` comes from, if it was seen in a window and belongs to a file.
    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.run.locate(address)
    }

    /// Number of the observed process.
    pub fn process_id(&self) -> u32 {
        self.process
    }

    /// The program and the processes it has made, directly or not, in the order in which they began; the program comes
    /// first. Complete after the end.
    pub fn processes(&self) -> Vec<ProcessRecord> {
        self.run.processes()
    }

    /// How the program ended, once it has.
    pub fn exit_status(&self) -> Option<TargetExit> {
        self.state.exit
    }

    /// What the user should know about the run.
    pub fn warnings(&self) -> &[String] {
        &self.state.warnings
    }

    /// What was missed in all windows together.
    pub fn losses(&self) -> Losses {
        self.state.losses
    }

    /// What the processor has reported of operations that it chose by itself since the last call, where
    /// [`PerfOptions::profile_every`] asks for it and it can ([`Capabilities::profiles`]). They are complete up to the end
    /// of the last window that was returned; [`spe`] says what they are good for. [`ByInstruction`](spe::ByInstruction) adds them up.
    pub fn profiled(&mut self) -> Vec<spe::Profiled> {
        std::mem::take(&mut self.profiled)
    }

    /// What is missing among [`profiled`](Self::profiled), in the whole run.
    pub fn profile_losses(&self) -> spe::ProfileLosses {
        self.state.profile_losses
    }

    /// Samples started so far, and stops of the target's threads: what observation has cost.
    pub fn samples_and_stops(&self) -> (u64, u64) {
        (self.state.started, self.state.stops)
    }

    /// What lengths of windows and what distances are counted in on this machine.
    pub fn clocks(&self) -> (Clock, Clock) {
        self.clocks
    }

    /// Something to end observation with from another thread.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }
}

impl PerfSampler {
    fn ask(&mut self, command: Command) -> Result<Option<Window>, SamplerError> {
        let answer = self.run.ask(command, &self.interrupter)?;
        self.state = answer.state;
        self.profiled.extend(answer.profiled);
        answer.window
    }
}

impl Sampler for PerfSampler {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        self.ask(Command::Next(mode_of(&plan.reuse)))
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        self.ask(Command::Stop).map(drop)
    }
}
