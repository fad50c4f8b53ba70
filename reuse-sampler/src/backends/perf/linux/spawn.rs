//! Starting a program that waits, under control, before its first instruction.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use nix::fcntl::OFlag;
use nix::libc;
use nix::unistd::pipe2;

use super::trace::{self, Change as Fate};
use super::{Known, Linux, Notice, Stop, uncontrolled};

/// What to run.
#[derive(Clone, Debug, Default)]
pub(in crate::backends::perf) struct Program {
    pub name: OsString,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub directory: Option<PathBuf>,
    pub output_to_stderr: bool,
    pub randomized_addresses: bool,
    /// Whether processes that it makes are controlled, too.
    pub follows: bool,
}

/// Starts the program; the calling thread controls it.
///
/// The child waits before it runs the program until it is controlled. Since starting a process waits for the program to
/// run, another thread starts it.
pub(in crate::backends::perf) fn start(program: &Program) -> io::Result<Linux> {
    let (told, tell) = pipe2(OFlag::O_CLOEXEC)?;
    let (wait, go) = pipe2(OFlag::O_CLOEXEC)?;
    let (mut told, mut go) = (File::from(told), File::from(go));
    let go_number = go.as_raw_fd();
    let mut command = Command::new::<&OsStr>(&program.name);
    command.args(&program.arguments).envs(program.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    if program.output_to_stderr {
        command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
    }
    let randomized = program.randomized_addresses;
    let (tell_number, wait_number) = (tell.as_raw_fd(), wait.as_raw_fd());
    let before_exec = move || {
        const ADDR_NO_RANDOMIZE: libc::c_ulong = 0x004_0000;
        // SAFETY: system calls on numbers and on a byte of the stack, which may be made between fork and exec; the
        // descriptors are open, as the parent keeps them.
        unsafe {
            if !randomized {
                // Where this is forbidden the run is only less repeatable.
                let persona = libc::personality(0xFFFF_FFFF);
                libc::personality(persona as libc::c_ulong | ADDR_NO_RANDOMIZE);
            }
            // While the child holds a write end of its own, it never sees that the parent gave up or died.
            libc::close(go_number);
            let process = libc::getpid().to_ne_bytes();
            let mut order = 0_u8;
            if libc::write(tell_number, process.as_ptr().cast(), 4) != 4
                || libc::read(wait_number, (&raw mut order).cast(), 1) != 1
            {
                return Err(io::Error::from_raw_os_error(libc::ECANCELED));
            }
        }
        Ok(())
    };
    // SAFETY: see the closure.
    unsafe { command.pre_exec(before_exec) };
    let starter = thread::Builder::new().name("perf-start".into()).spawn(move || {
        let result = command.spawn();
        drop((tell, wait));
        result
    })?;
    let mut process = [0_u8; 4];
    // `None` where there is no child, or it ended before it could say its number.
    let waiting = told.read_exact(&mut process).is_ok().then(|| i32::from_ne_bytes(process));
    let seize = |process| trace::seize_child(process).map_err(|error| uncontrolled(&error, process, true));
    let seized = waiting.map_or(Ok(()), seize);
    // Without a byte the child gives up.
    if waiting.is_some() && seized.is_ok() {
        go.write_all(&[1])?;
    }
    drop(go);
    if let (Some(process), true) = (waiting, seized.is_ok()) {
        // The child stops when it has become the program. Where it could not it ends, and the thread that started it
        // waits for that.
        while trace::stands_still(process) {
            match trace::wait_for(process)? {
                Fate::Stopped(Stop::Exec) => {
                    trace::watch_child(process)?;
                    break;
                }
                Fate::Stopped(Stop::Signal(signal)) => trace::run(process, signal)?,
                Fate::Stopped(_) => trace::run(process, 0)?,
                Fate::Exited(_) | Fate::Killed(_) => break,
            }
        }
    }
    let started = starter.join().map_err(|_| io::Error::other("the starting thread panicked"))?;
    seized?;
    let child = started?;
    let process = waiting.unwrap_or(child.id() as i32);
    drop(child); // it is reaped by whoever waits for its changes
    let mut linux = Linux::new(process, true);
    linux.follows = program.follows;
    linux.know(process, process);
    linux.threads.insert(process, Known::Standing(0));
    linux.first.push(Notice::Started(process));
    Ok(linux)
}
