//! Runs an unmodified Linux program under QEMU's user-mode emulator and samples it exactly.
//!
//! The emulator translates the program block by block. A plugin inside it, which this crate carries with it,
//! counts each block and, in windows whose plan asks for it, shows every memory access to the sampling
//! engine. No privileges, no hardware counters and no recompilation are needed; the program may be for
//! x86-64 or aarch64, whatever machine it runs on.
//!
//! ```no_run
//! use reuse_sampler::qemu::{QemuOptions, QemuSampler};
//! use reuse_sampler::{ReusePlan, Sampler, WindowPlan};
//!
//! let mut sampler = QemuSampler::spawn("sort", ["words.txt"], &QemuOptions::windows_of(10_000_000))?;
//! let mut plan = WindowPlan::count_only();
//! let mut seen = 0;
//! while let Some(window) = sampler.next_window(&plan)? {
//!     let hottest = window.code.iter().max_by_key(|(_, instructions)| *instructions);
//!     if let Some(location) = hottest.and_then(|(address, _)| sampler.locate(*address)) {
//!         println!("window {}: mostly at {location}", window.index.0);
//!     }
//!     seen += 1;
//!     plan = WindowPlan::new(if seen % 10 == 0 { ReusePlan::Every } else { ReusePlan::Off });
//! }
//! println!("{:?}", sampler.exit_status());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the numbers are
//! - **Windows** end after the block that completes them; what one is too long by, the next is short by, so
//!   that boundaries stay where they are whatever is observed. Each thread has windows of its own.
//! - **Instructions** and the block vector count every block entered. An iteration of a repeated string
//!   instruction (`rep movsb`) counts as an instruction, as it does in valgrind's tools. A block left half
//!   way, by a signal, counts whole.
//! - **Accesses** are those the program's instructions make, seen after they have succeeded: not instruction
//!   fetches, not what the kernel does in system calls, not prefetches. An access to several lines counts
//!   once for each. A locked read-modify-write is one store (while there is one thread, a load and a store); an unlocked
//!   one is a load and a store.
//! - **Operands** ([`operands_per_access`](QemuSampler::operands_per_access)) are what the program's instructions name: a
//!   read-modify-write is one, and so is an access that straddles lines. That is what cachegrind counts as data
//!   references, except that it counts a locked read-modify-write twice and the elements of a fused multiply-add's operand
//!   one by one.
//!   Accesses are [measured](crate::AccessCount::Measured) in windows whose plan asks for them, all of
//!   them, however the windows before and after are observed. The one exception is a thread that begins, or
//!   changes its plan, in the same moment as another thread changes the instrumentation: the first blocks of
//!   its window may go unseen, and the window says so by an
//!   [estimated](crate::AccessCount::Estimated) number.
//! - **Distances** are exact: accesses of the own thread in between, at the line size asked for.
//! - **Elapsed time** says nothing about the program.
//!
//! # How sure
//! Operands agree with cachegrind's data references to 0.2 %, and misses per operand of a 32 KiB cache with its miss rate
//! to 0.12 points: openssl, sqlite3, xz, gzip, sort, perl, python3, SSE and AVX2 kernels, with the same processor features
//! (`tests/qemu/operands.rs`). The emulator reports wide accesses in pieces of 8 bytes (version 10: 16); they are joined
//! within one execution of an instruction. Version 10 misses some accesses of the x87 unit and of state saving. The program sees another processor than the machine's (`CPUID`), so
//! library functions that are chosen by its features, such as copying memory, may differ from those of
//! a native run. Runs repeat exactly as far as the program does: addresses are not randomised unless
//! [asked for](QemuOptions::randomized_addresses), but numbers of processes, time, and random bytes from the
//! kernel differ, and so does the order in which threads run.
//!
//! # Processes
//! Processes that the program forks and programs that they execute are observed like the program itself, unless
//! [`children`](QemuOptions::children) says otherwise. Each thread of each process has windows of its own, under the
//! initial plan and then under plans of its own; numbers of threads and windows are unique over the tree. Code addresses
//! have the number of the executed file in their bits 48 to 63 (0: the program that was started), so that the
//! code of different programs at one address stays apart, and that of one program executed often stays together.
//! [`processes`](QemuSampler::processes) lists them with their instructions, accesses and ends. The run ends when all have
//! ended. A child begins with no open samples: the first touch of a line that its parent has touched is a first touch.
//!
//! # What is not observed
//! Programs for another architecture, setuid programs and those executed through `execveat` run natively; so do processes
//! beyond 256 at one moment. [`QemuTrace`] observes the first process only.
//! [`warnings`](QemuSampler::warnings) say how many and which. When a signal ends a
//! process, its windows in progress are lost. A running process cannot be attached to.
//!
//! # Cost
//! Counting blocks takes about 1.3 times as long as the emulator alone, reporting accesses another two to three times
//! that; the [front page](crate#cost) has measurements against native runs and valgrind.
//! `cargo bench --features qemu --bench qemu_overhead -- PROGRAM ARGS` measures your program.
//!
//! # How it works
//! Where no thread's plan asks for accesses, the translated code does not report any: the emulator is asked to
//! translate anew at the boundary. That takes about 20 us for each block that the program then executes: nothing
//! for a loop, a quarter of a second for a compiler. So what reports accesses stays in, unheeded, until that has cost
//! as much: in windows of 10 M instructions it goes at once where a window executes up to some 700 blocks.
//! The plugin and the sampler talk through shared memory, which the program cannot close, and the thread
//! whose window was returned waits for its plan while the others run on. The emulator must be able to load
//! plugins, which static builds cannot: the package `qemu-user` has one that can in Debian 12 and Ubuntu
//! 24.04, and one that cannot in Debian 13 and Ubuntu 25.04. There `scripts/qemu-with-plugins` of this crate builds one
//! from the distribution's source, in a minute and without rights. Elsewhere `qemu-x86_64 --help` shows whether there is
//! an option `-plugin`.
//!
//! # Versions
//! The tests pass with 7.2, 10.0 and 10.2. What differs:
//! - With 7.2 each repetition of a string instruction (`rep movsb`) counts as an instruction, as in valgrind; with 10 the
//!   whole counts as one, as in processors' counters.
//! - From 9.1 on, by its source, and with 10, tried, accesses to 80-bit floating-point numbers (x87, `long double`) and to
//!   the processor's saved state are not reported. They are counted, and where they are more than a thousandth of the
//!   accesses seen, a warning says how many are missing.
//! - With 7.2 the last window of a program that a signal kills is lost, and a warning says so; with 10 it is complete.

#[cfg(not(qemu_plugin))]
mod elsewhere;
#[cfg(qemu_plugin)]
mod emulator;
#[cfg(qemu_plugin)]
mod memory;
mod options;
#[cfg(qemu_plugin)]
mod process;
#[cfg(qemu_plugin)]
mod processes;
#[cfg(qemu_plugin)]
mod program;
#[cfg(qemu_plugin)]
mod sampler;
#[cfg(qemu_plugin)]
#[allow(unsafe_code, dead_code)]
mod shared; // the plugin uses the other half
#[cfg(qemu_plugin)]
mod stretches;
mod trace;

use std::ffi::OsStr;

#[cfg(not(qemu_plugin))]
use elsewhere::Run;
#[cfg(qemu_plugin)]
use sampler::Run;

pub use options::QemuOptions;
pub use trace::QemuTrace;

pub use crate::{Children, CodeLocation, TargetExit};

use crate::{ProcessRecord, Sampler, SamplerError, Window, WindowPlan};

/// A program that runs under the emulator, one window at a time.
#[derive(Debug)]
pub struct QemuSampler {
    run: Run,
}

impl QemuSampler {
    /// Starts `program` (found as a shell finds it) with `arguments`. It waits before its first instruction
    /// until [`next_window`](Sampler::next_window) gives the initial plan. Standard input, output and error
    /// are the caller's.
    ///
    /// # Errors
    /// [`SamplerError::Target`] if the program cannot be run, [`SamplerError::Unsupported`] if there is no
    /// emulator that loads plugins, [`SamplerError::Value`] for a window of length 0, [`SamplerError::Io`] if
    /// the system refuses.
    pub fn spawn<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
        Ok(Self { run: Run::spawn(program.as_ref(), &arguments, options)? })
    }

    /// Where the code at `address` comes from, if it was seen in a window and belongs to a file. Also after
    /// the program's end.
    ///
    /// # Cost
    /// With the feature `symbols`, each file is read when it is first asked for: some milliseconds a megabyte.
    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.run.locate(address)
    }

    /// Number of the emulator's process, which is the program's as the program sees it.
    pub fn process_id(&self) -> u32 {
        self.run.process_id()
    }

    /// The program and the processes it has started, directly or not, in the order in which they were noticed; the program
    /// comes first. Complete after the end.
    pub fn processes(&self) -> Vec<ProcessRecord> {
        self.run.processes()
    }

    /// How the program ended, after [`next_window`](Sampler::next_window) has returned `None` or
    /// [`stop`](Sampler::stop) was called.
    pub fn exit_status(&self) -> Option<TargetExit> {
        self.run.exit_status()
    }

    /// Operands per access in the windows whose accesses were measured; `None` before the first. An operand is what
    /// cachegrind calls a data reference: a read-modify-write is one (two accesses), and so is one that straddles lines.
    pub fn operands_per_access(&self) -> Option<f64> {
        self.run.operands_per_access()
    }

    /// What the user should know about the run: parts that went unobserved. Complete after the end.
    pub fn warnings(&self) -> &[String] {
        self.run.warnings()
    }
}

impl Sampler for QemuSampler {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        self.run.next_window(plan)
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        self.run.stop()
    }
}
