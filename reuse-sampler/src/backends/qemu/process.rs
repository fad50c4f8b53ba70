//! The emulator as a child process: started, watched, ended, and never left behind as a zombie.

#![allow(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::personality::{self, Persona};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getegid, geteuid};

use super::emulator::{self, Emulator};
use super::memory::{Mapping, file_with, path_of};
use super::program::Program;
use super::shared::{CPU, ONE_ARENA, futex, layout, tree};
use super::{Children, QemuOptions, TargetExit};
use crate::SamplerError;
use crate::backends::blind::blind;

/// The plugin, compiled by the build script.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plugin.so"));

/// How long the program may take to end after it was asked to.
const GRACE: Duration = Duration::from_millis(500);

/// The running emulator and the memory shared with the plugin in it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    mapping: Arc<Mapping>,
    _plugin: File,          // open while processes of the tree may load it
    ended: Arc<AtomicBool>, // the child is dead, but not reaped
    status: Option<ExitStatus>,
}

impl Process {
    pub(super) fn start(
        emulator: &Emulator,
        program: &Program,
        name: &OsStr,
        arguments: &[OsString],
        options: &QemuOptions,
        reported: layout::Reported,
    ) -> Result<Self, SamplerError> {
        if let Some(why) = blind() {
            return Err(SamplerError::Unsupported { backend: "qemu", missing: why.into() });
        }
        let plugin = file_with(c"reuse-sampler-plugin", PLUGIN)?;
        let mapping = Mapping::new()?;
        let header = mapping.header();
        header.window.store(options.window, Ordering::Relaxed);
        header.stretch.store(options.stretch, Ordering::Relaxed);
        header.line_shift.store(options.line_size.shift(), Ordering::Relaxed);
        header.seed.store(options.seed, Ordering::Relaxed);
        header.strides.store(options.strides, Ordering::Relaxed);
        header.leaves_stale.store(u32::from(emulator.leaves_stale), Ordering::Relaxed);
        header.reported.store(reported as u32, Ordering::Relaxed);
        header.follows.store(u32::from(options.children == Children::Follow), Ordering::Relaxed);
        header.claim(0, std::process::id());
        header.user.store(geteuid().as_raw(), Ordering::Relaxed);
        header.group.store(getegid().as_raw(), Ordering::Relaxed);
        header.magic.store(layout::MAGIC, Ordering::SeqCst);

        let mut command = Command::new(&emulator.path);
        command
            .arg("-plugin")
            .arg(format!("{},channel={},region=0", path_of(&plugin), mapping.path()))
            .arg("-0")
            .arg(if program.script.is_empty() { name } else { program.path.as_os_str() })
            .args(
                emulator::model(options.cpu, program.architecture)?
                    .into_iter()
                    .flat_map(|model| [CPU, model]),
            )
            .arg(&program.path)
            .args(&program.script)
            .args(arguments)
            .envs(options.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &options.directory {
            command.current_dir(directory);
        }
        if options.output_to_stderr {
            command.stdout(standard_error()?);
        }
        let randomized = options.randomized_addresses;
        let is_set = |name: &str| {
            std::env::var_os(name).is_some() || options.environment.iter().any(|(given, _)| given == name)
        };
        if !randomized && !ONE_ARENA.iter().any(|(name, _)| is_set(name)) {
            command.envs(ONE_ARENA);
        }
        let before_exec = move || {
            if !randomized {
                // Where this is forbidden the run is only less repeatable.
                let _ = personality::get()
                    .and_then(|persona| personality::set(persona | Persona::ADDR_NO_RANDOMIZE));
            }
            Ok(())
        };
        // SAFETY: the closure makes system calls only, which may be made between fork and exec.
        unsafe { command.pre_exec(before_exec) };
        let (mapping, ended) = (Arc::new(mapping), Arc::new(AtomicBool::new(false)));
        let started = watch(command, Arc::clone(&mapping), Arc::clone(&ended))?;
        let child = started.map_err(|source| SamplerError::Io {
            operation: "run",
            object: emulator.path.display().to_string(),
            source,
        })?;
        Ok(Self { child, mapping, _plugin: plugin, ended, status: None })
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// The memory shared with the plugin.
    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Whether the child has ended. What it wrote before can then be read completely.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Waits for the child's end and returns it.
    pub(super) fn reap(&mut self) -> Result<TargetExit, SamplerError> {
        let status = match self.status {
            Some(status) => status,
            None => self.child.wait().map_err(|source| SamplerError::Io {
                operation: "wait for",
                object: "the emulator".into(),
                source,
            })?,
        };
        self.status = Some(status);
        Ok(exit_of(status))
    }

    /// How the child ended, if it was reaped.
    pub(super) fn status(&self) -> Option<TargetExit> {
        self.status.map(exit_of)
    }

    /// Asks the program, all it has started and the processes in `orphans`, which may outlive it, to end, kills those that do
    /// not, and reaps the program.
    pub(super) fn end(&mut self, orphans: Vec<i32>) -> Result<TargetExit, SamplerError> {
        let mut family = orphans;
        if self.status.is_none() && !self.has_ended() {
            family.extend(tree::below(self.pid().as_raw()));
            family.push(self.pid().as_raw());
        }
        family.sort_unstable();
        family.dedup();
        if !family.is_empty() {
            for &process in &family {
                tree::signal(process, libc::SIGTERM);
                tree::signal(process, libc::SIGCONT);
            }
            let deadline = Instant::now() + GRACE;
            loop {
                family.retain(|&process| tree::lives(process));
                if family.is_empty() || Instant::now() > deadline {
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
            for process in family {
                tree::kill_below(process);
                tree::signal(process, libc::SIGKILL);
            }
            self.mapping.header().ending.store(1, Ordering::SeqCst);
        }
        self.reap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.mapping.header().ending.store(1, Ordering::SeqCst);
            if !self.has_ended() {
                tree::kill_below(self.pid().as_raw());
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Starts the emulator from a thread of its own, which then waits for the child's death and wakes whoever waits for a
/// message. The kernel counts that thread as the parent: it lives as long as the child.
fn watch(
    mut command: Command,
    mapping: Arc<Mapping>,
    ended: Arc<AtomicBool>,
) -> Result<std::io::Result<Child>, SamplerError> {
    let failed = |source| SamplerError::Io { operation: "start", object: "a thread".into(), source };
    let (report, started) = mpsc::channel();
    let watch = move || {
        let child = command.spawn();
        let pid = child.as_ref().ok().map(|child| Pid::from_raw(child.id() as i32));
        let _ = report.send(child);
        let Some(pid) = pid else { return };
        let dead = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT; // the number stays ours until it is reaped
        while let Err(nix::errno::Errno::EINTR) = waitid(Id::Pid(pid), dead) {}
        ended.store(true, Ordering::SeqCst);
        let filled = &mapping.header().filled;
        filled.fetch_add(1, Ordering::SeqCst);
        futex::wake(filled);
    };
    thread::Builder::new().name("qemu-watch".into()).spawn(watch).map_err(failed)?;
    started.recv().map_err(|_| failed(std::io::ErrorKind::UnexpectedEof.into()))
}

pub(super) fn exit_of(status: ExitStatus) -> TargetExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => TargetExit::Code(code),
        (None, signal) => TargetExit::Signal(signal.unwrap_or(0)),
    }
}

/// A second descriptor of the caller's standard error.
fn standard_error() -> Result<Stdio, SamplerError> {
    let copied = std::io::stderr().as_fd().try_clone_to_owned();
    copied.map(Stdio::from).map_err(|source| SamplerError::Io {
        operation: "duplicate",
        object: "standard error".to_owned(),
        source,
    })
}
