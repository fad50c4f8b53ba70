//! A program on this Linux machine.
//!
//! The program's first thread is stopped some fifty times an interval, and where it stands shows where it
//! executes; when it has executed enough instructions the interval is over, and it waits while the counters are read
//! and set. Stopping is done as debuggers do it (ptrace), which the program does not notice; it costs some ten
//! microseconds a time. Other threads and processes that it starts run on their own and are not counted; how much
//! processor time they took is known when the first thread ends.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use powersleuth::multiplex::CounterSource;
use powersleuth::perf::{EventCode, PerfCounters, PerfError};

/// Why a program cannot be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// The counters.
    #[error(transparent)]
    Counters(#[from] PerfError),
    /// The program cannot be started.
    #[error("cannot run {program:?}: {source}")]
    Start {
        /// The program.
        program: OsString,
        /// What the system said.
        source: std::io::Error,
    },
    /// The program cannot be stopped and looked at.
    #[error(
        "cannot {operation} the program: {source}; where tracing is forbidden, set kernel.yama.ptrace_scope to 1 or lower"
    )]
    Trace {
        /// What failed.
        operation: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not this system.
    #[error("programs are counted on Linux, on x86-64 and aarch64 only")]
    Unsupported,
}

/// Whether an event can be counted here.
///
/// # Errors
/// Why not, and the remedy.
pub fn can_count(codes: &[EventCode]) -> Result<(), PerfError> {
    let mut counters = PerfCounters::of_this_thread(codes.to_vec());
    let all: Vec<usize> = (0..codes.len()).collect();
    counters.start(&all)?;
    match counters.stop() {
        // There is such a counter, but others have it at the moment.
        Err(PerfError::NeverRan { .. }) => Ok(()),
        other => other.map(drop),
    }
}

/// A program to be counted.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// It, with its arguments.
    pub command: &'a [OsString],
    /// Instructions in an interval.
    pub window: u64,
    /// Events to count.
    pub codes: Vec<EventCode>,
    /// Whether its output goes to standard error, because results go to standard output.
    pub output_to_stderr: bool,
    /// Ends it when set.
    pub interrupted: Arc<AtomicBool>,
}

/// File and offset of an address, from the text of `/proc/PID/maps`.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn in_maps(maps: &str, address: u64) -> Option<String> {
    maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (begin, end) = words.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (begin, end) = (hex(begin)?, hex(end)?);
        let offset = hex(words.nth(1)?)?;
        let path = words.nth(2)?;
        let name = Path::new(path).file_name()?.to_string_lossy().into_owned();
        (begin..end).contains(&address).then(|| format!("{name}+{:#x}", address - begin + offset))
    })
}

/// Processor time that a thread, or a process with all its threads and the children that it has waited for, has taken: from
/// the text of its `stat`.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn processor_time(stat: &str, with_children: bool) -> Option<Duration> {
    /// A second: `USER_HZ` of x86-64 and aarch64.
    const TICKS: f64 = 100.0;
    // The name, in brackets, may have any character.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(|word| word.parse::<f64>().ok());
    let ticks: Option<f64> = (0..if with_children { 4 } else { 2 }).map(|_| ticks.next()?).sum();
    Some(Duration::from_secs_f64(ticks? / TICKS))
}

/// What to say of a program of which a part was not counted: nothing if that is hardly any.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn uncounted(first: Duration, all: Duration) -> Option<String> {
    let others = all.saturating_sub(first);
    (others > all / 50 && others >= Duration::from_millis(50)).then(|| {
        format!(
            "its other threads and its children took {others:.2?} of {all:.2?} of processor time, which are not counted: time, \
             power and energy are those of its first thread; --modelled follows all"
        )
    })
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use traced::Native;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub use untraced::Native;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod traced {
    use std::collections::BTreeMap;
    use std::fs;
    use std::io;
    use std::process::{Command, Stdio};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use nix::errno::Errno;
    use nix::sys::ptrace::{self, Event as Stop};
    use nix::sys::signal::{Signal as Sent, kill};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    use nix::unistd::Pid;
    use powersleuth::multiplex::{CounterSource, Reading};
    use powersleuth::perf::PerfCounters;

    use super::super::{IntervalSource, Seen};
    use super::{Launch, NativeError, in_maps, processor_time, uncounted};
    use crate::target::{Outcome, Signal};

    /// Places looked at in an interval.
    const PLACES: f64 = 50.0;
    /// More often would cost too much, less often miss the end of an interval by far.
    const PERIODS: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(10)];
    /// Code within as many bytes counts as one place.
    const BLOCK: u64 = 64;

    /// A program that is being counted.
    #[derive(Debug)]
    pub struct Native {
        pid: Pid,
        counters: PerfCounters,
        window: u64,
        period: Duration,
        outcome: Outcome,
        uncounted: Option<String>,
        stopped: bool,
        signal: Option<Sent>, // that it is to get when it goes on
        maps: String,
        interrupted: Arc<AtomicBool>,
    }

    fn trace(operation: &'static str) -> impl Fn(Errno) -> NativeError {
        move |errno| NativeError::Trace { operation, source: io::Error::from(errno) }
    }

    impl Native {
        /// Starts the program; it waits before its first instruction.
        ///
        /// # Errors
        /// [`NativeError`] if it cannot be started, or may not be traced.
        pub fn start(launch: Launch<'_>) -> Result<Self, NativeError> {
            let Launch { command, window, codes, output_to_stderr, interrupted } = launch;
            let program = command.first().cloned().unwrap_or_default();
            // A shell stops itself and then becomes the program: until then it can be taken hold of.
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).args(command);
            if output_to_stderr {
                shell.stdout(Stdio::from(io::stderr()));
            }
            let child = shell.spawn().map_err(|source| NativeError::Start { program, source })?;
            let pid = Pid::from_raw(child.id() as i32);
            waitpid(pid, Some(WaitPidFlag::WUNTRACED)).map_err(trace("wait for"))?;
            let options = ptrace::Options::PTRACE_O_EXITKILL | ptrace::Options::PTRACE_O_TRACEEXIT;
            ptrace::seize(pid, options).map_err(|errno| {
                // It waits for a signal that nobody else would send.
                let _ = kill(pid, Sent::SIGKILL);
                trace("trace")(errno)
            })?;
            kill(pid, Sent::SIGCONT).map_err(trace("continue"))?;
            Ok(Self {
                pid,
                counters: PerfCounters::of_thread(pid.as_raw(), codes),
                window,
                period: Duration::from_millis(1),
                outcome: Outcome::Unknown,
                uncounted: None,
                stopped: false,
                signal: None,
                maps: String::new(),
                interrupted,
            })
        }

        /// How it ended, once it has.
        pub const fn outcome(&self) -> &Outcome {
            &self.outcome
        }

        /// What ran besides its first thread, once it has ended or was interrupted.
        pub fn uncounted(&self) -> Option<&str> {
            self.uncounted.as_deref()
        }

        /// Notes what it has taken so far.
        fn note_times(&mut self) {
            let read = |path: String, with_children| {
                fs::read_to_string(path).ok().and_then(|stat| processor_time(&stat, with_children))
            };
            let pid = self.pid;
            let first = read(format!("/proc/{pid}/task/{pid}/stat"), false);
            let all = read(format!("/proc/{pid}/stat"), true);
            self.uncounted = first.zip(all).and_then(|(first, all)| uncounted(first, all));
        }

        /// Stops it; `false` if it has ended. A signal for it stops it just as well, and takes the place of the stop
        /// that was asked for.
        fn stop_soon(&mut self) -> Result<bool, NativeError> {
            // It may have stopped on its own, for a signal. To ask then would stop it again as soon as it goes on, and
            // so for ever.
            let mut status = waitpid(self.pid, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG));
            if status == Ok(WaitStatus::StillAlive) {
                match ptrace::interrupt(self.pid) {
                    // It is ending; waiting for it returns how.
                    Ok(()) | Err(Errno::ESRCH) => {}
                    Err(errno) => return Err(trace("stop")(errno)),
                }
                status = waitpid(self.pid, Some(WaitPidFlag::__WALL));
            }
            loop {
                match status {
                    Ok(WaitStatus::PtraceEvent(_, _, event)) if event == Stop::PTRACE_EVENT_EXIT as i32 => {
                        self.note_times();
                        self.go_on()?;
                    }
                    Ok(WaitStatus::PtraceEvent(..)) => {
                        self.stopped = true;
                        return Ok(true);
                    }
                    Ok(WaitStatus::Stopped(_, signal)) => {
                        self.stopped = true;
                        self.signal = Some(signal);
                        return Ok(true);
                    }
                    Ok(WaitStatus::Exited(_, code)) => {
                        self.outcome = Outcome::Exited(code);
                        return Ok(false);
                    }
                    Ok(WaitStatus::Signaled(_, signal, _)) => {
                        self.outcome = Outcome::Signalled(Signal(signal as i32));
                        return Ok(false);
                    }
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(errno) => return Err(trace("wait for")(errno)),
                }
                status = waitpid(self.pid, Some(WaitPidFlag::__WALL));
            }
        }

        fn go_on(&mut self) -> Result<(), NativeError> {
            self.stopped = false;
            match ptrace::cont(self.pid, self.signal.take()) {
                Ok(()) | Err(Errno::ESRCH) => Ok(()),
                Err(errno) => Err(trace("continue")(errno)),
            }
        }

        fn place(&self) -> Result<u64, NativeError> {
            let registers = ptrace::getregs(self.pid).map_err(trace("look at"))?;
            #[cfg(target_arch = "x86_64")]
            let place = registers.rip;
            #[cfg(target_arch = "aarch64")]
            let place = registers.pc;
            Ok(place)
        }

        /// Remembers what is mapped where, while there is somebody to ask.
        fn note_maps(&mut self, address: u64) {
            if in_maps(&self.maps, address).is_none() {
                if let Ok(maps) = fs::read_to_string(format!("/proc/{}/maps", self.pid)) {
                    self.maps = maps;
                }
            }
        }
    }

    impl CounterSource for Native {
        type Error = NativeError;

        fn start(&mut self, events: &[usize]) -> Result<(), NativeError> {
            Ok(self.counters.start(events)?)
        }

        fn stop(&mut self) -> Result<Reading, NativeError> {
            Ok(self.counters.stop()?)
        }
    }

    impl IntervalSource for Native {
        fn run(&mut self) -> Result<Option<Seen>, NativeError> {
            let begin = Instant::now();
            let mut seen: BTreeMap<u64, f64> = BTreeMap::new();
            let mut before = 0;
            loop {
                if self.stopped {
                    self.go_on()?;
                }
                sleep(self.period);
                if self.interrupted.load(Ordering::Relaxed) {
                    self.note_times();
                    return Ok(None);
                }
                if !self.stop_soon()? {
                    return Ok(None);
                }
                let executed = self.counters.instructions_so_far()?.scaled().unwrap_or(0.0) as u64;
                // One that waits stands still.
                if executed > before {
                    let block = self.place()? / BLOCK * BLOCK;
                    if !seen.contains_key(&block) {
                        self.note_maps(block);
                    }
                    *seen.entry(block).or_default() += (executed - before) as f64;
                    before = executed;
                }
                if executed >= self.window {
                    let period = begin.elapsed().div_f64(PLACES);
                    self.period = period.clamp(PERIODS[0], PERIODS[1]);
                    return Ok(Some(seen.into_iter().collect()));
                }
            }
        }

        fn locate(&mut self, address: u64) -> Option<String> {
            in_maps(&self.maps, address)
        }
    }

    impl Drop for Native {
        fn drop(&mut self) {
            if self.outcome == Outcome::Unknown {
                // Nothing is left to observe it; waiting keeps no dead process behind.
                let _ = kill(self.pid, Sent::SIGKILL);
                while let Ok(status) = waitpid(self.pid, Some(WaitPidFlag::__WALL)) {
                    if matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)) {
                        break;
                    }
                    let _ = ptrace::cont(self.pid, None); // stops once more at its end
                }
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn start(script: &str) -> Native {
            let command = ["sh", "-c", script].map(Into::into);
            let (interrupted, codes) = (Arc::default(), Vec::new());
            Native::start(Launch { command: &command, window: 1, codes, output_to_stderr: true, interrupted })
                .unwrap()
        }

        /// What is said of a script that runs to its end.
        fn ran(script: &str) -> Option<String> {
            let mut native = start(script);
            while native.stop_soon().unwrap() {
                native.go_on().unwrap();
                sleep(Duration::from_millis(1));
            }
            assert_eq!(native.outcome(), &Outcome::Exited(3));
            native.uncounted().map(str::to_owned)
        }

        #[test]
        fn what_is_not_counted_is_said() {
            let work = "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; exit 3";
            assert_eq!(ran(work), None);
            let said = ran(&format!("sh -c '{work}'; exit 3")).unwrap();
            assert!(said.contains("not counted"), "{said}");
        }

        #[test]
        fn a_program_that_is_let_go_of_is_gone() {
            let mut native = start("sleep 60; exit 3");
            assert!(native.stop_soon().unwrap());
            let pid = native.pid;
            drop(native);
            assert_eq!(kill(pid, None), Err(Errno::ESRCH));
        }
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod untraced {
    use powersleuth::multiplex::{CounterSource, Reading};

    use super::super::{IntervalSource, Seen};
    use super::{Launch, NativeError};
    use crate::target::Outcome;

    /// A program that cannot be counted here.
    #[derive(Debug)]
    pub struct Native {
        outcome: Outcome,
    }

    impl Native {
        /// Refuses.
        ///
        /// # Errors
        /// [`NativeError::Unsupported`].
        pub fn start(_: Launch<'_>) -> Result<Self, NativeError> {
            Err(NativeError::Unsupported)
        }

        /// How it ended.
        pub const fn outcome(&self) -> &Outcome {
            &self.outcome
        }

        /// Nothing ran.
        pub const fn uncounted(&self) -> Option<&str> {
            None
        }
    }

    impl CounterSource for Native {
        type Error = NativeError;

        fn start(&mut self, _: &[usize]) -> Result<(), NativeError> {
            Err(NativeError::Unsupported)
        }

        fn stop(&mut self) -> Result<Reading, NativeError> {
            Err(NativeError::Unsupported)
        }
    }

    impl IntervalSource for Native {
        fn run(&mut self) -> Result<Option<Seen>, NativeError> {
            Err(NativeError::Unsupported)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_reported_as_file_and_offset() {
        let maps = "00400000-00452000 r-xp 00001000 08:02 173521 /usr/bin/dbus-daemon\n\
                    7ffd1000-7ffd3000 r-xp 00000000 00:00 0 [vdso]\n7ffe0000-7ffe1000 rw-p 00000000 00:00 0\n";
        assert_eq!(in_maps(maps, 0x40_0010).as_deref(), Some("dbus-daemon+0x1010"));
        assert_eq!(in_maps(maps, 0x7ffd_1004).as_deref(), Some("[vdso]+0x4"));
        assert_eq!(in_maps(maps, 0x7ffe_0004), None);
        assert_eq!(in_maps(maps, 0x45_2000), None);
        assert_eq!(in_maps("not a map", 0), None);
    }

    #[test]
    fn processor_time_is_read_whatever_a_program_is_called() {
        let stat = "7 (a) (b 1 2) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 25 75 20 0 1 0 4 5 6";
        assert_eq!(processor_time(stat, false), Some(Duration::from_secs(2)));
        assert_eq!(processor_time(stat, true), Some(Duration::from_secs(3)));
        for cut in ["7 (a) S 1", &stat[..50], ""] {
            assert_eq!(processor_time(cut, true), None, "{cut:?}");
        }
        let [most, all] = [1.99, 2.0].map(Duration::from_secs_f64);
        assert_eq!(uncounted(most, all), None);
        let said = uncounted(Duration::from_millis(500), all).unwrap();
        assert!(said.contains("1.50s of 2.00s of processor time"), "{said}");
    }
}
