//! Executes a program under the emulator: the process goes on in its region.
//!
//! The emulator hands `execve` to the kernel, which would run the program natively. So it is the emulator that is executed,
//! with the same plugin and the program as its argument. Scripts are resolved as the kernel does it.

use std::ffi::{CString, OsStr, c_char, c_int};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crate::api::{access, execve, getegid, geteuid};
use crate::shared::layout::PATH;
use crate::shared::{CPU, ONE_ARENA, script};
use crate::settings::{self, Launch};
use crate::{code, guest};

/// A program to be executed by the emulator.
pub struct Execution {
    /// Its file.
    pub path: String,
    /// Its arguments, separated by spaces, shortened.
    pub command: String,
    emulator: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

/// Scripts that name a script as their interpreter are followed so far.
const DEPTH: usize = 5;

impl Execution {
    /// What `execve` of these three arguments executes. None if the emulator cannot run it or must not (a program for
    /// another processor, with another user's rights, or unreadable), if it would not find the plugin, or if the call
    /// fails anyway.
    pub fn new(path: &[u8], arguments: u64, environment: u64) -> Option<Self> {
        let settings = settings::settings()?;
        let mut path = resolve(path, &settings.launch)?;
        let mut words = guest::strings(arguments)?;
        if words.is_empty() {
            words.push(path.as_os_str().as_bytes().to_vec());
        }
        let command = shorten(&words);
        let mut depth = 0;
        while let Some((interpreter, argument)) = interpreter(&path)? {
            depth += 1;
            if depth == DEPTH {
                return None;
            }
            let script = path.into_os_string().into_vec();
            let first = [Some(interpreter.clone()), argument, Some(script)].into_iter().flatten();
            words = first.chain(words.into_iter().skip(1)).collect();
            path = PathBuf::from(OsStr::from_bytes(&interpreter));
        }
        let file = path.as_os_str().as_bytes().to_vec();
        // A name that begins like an option of the emulator.
        let file = if file.starts_with(b"-") { [b"./".to_vec(), file].concat() } else { file };
        let Launch { plugin, channel, cpu, .. } = &settings.launch;
        // The emulator would not find the plugin: the program runs natively.
        let header = settings.ring.header();
        let allowed = (header.user.load(Ordering::Relaxed), header.group.load(Ordering::Relaxed));
        // SAFETY: both only return a number.
        if unsafe { geteuid() != 0 && (geteuid(), getegid()) != allowed } {
            return None;
        }
        File::open(plugin).and_then(|_| File::options().read(true).write(true).open(channel)).ok()?;
        let emulator = fs::read_link("/proc/self/exe").ok()?.into_os_string().into_vec();
        let plugin = format!("{plugin},channel={channel},region={}", settings.region);
        let name = words.remove(0);
        let mut start = vec![emulator.clone(), b"-plugin".to_vec(), plugin.into_bytes(), b"-0".to_vec(), name];
        if let Some(model) = cpu {
            start.extend([CPU.as_bytes().to_vec(), model.clone()]);
        }
        start.push(file);
        start.extend(words);
        let strings = |words: Vec<Vec<u8>>| -> Option<Vec<CString>> {
            words.into_iter().map(|word| CString::new(word).ok()).collect()
        };
        Some(Self {
            path: path.display().to_string(),
            command,
            emulator: CString::new(emulator).ok()?,
            arguments: strings(start)?,
            environment: strings(with_one_arena(guest::strings(environment)?))?,
        })
    }

    /// Executes it. Returns if that fails.
    pub fn start(&self) {
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        // SAFETY: strings and lists that end where they should and live during the call.
        unsafe { execve(self.emulator.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    }
}

/// An environment with [`ONE_ARENA`], unless it has its own values of these.
fn with_one_arena(mut environment: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let added = ONE_ARENA.map(|(name, value)| (format!("{name}="), value));
    let is_set = |name: &str| environment.iter().any(|entry| entry.starts_with(name.as_bytes()));
    if !added.iter().any(|(name, _)| is_set(name)) {
        environment.extend(added.map(|(name, value)| (name + value).into_bytes()));
    }
    environment
}

/// The file that the program means: what it takes for its own executable would be the emulator's.
fn resolve(path: &[u8], launch: &Launch) -> Option<PathBuf> {
    let own = format!("/proc/{}/exe", std::process::id());
    if ["/proc/self/exe", "/proc/thread-self/exe", &own].iter().any(|own| own.as_bytes() == path) {
        return Some(launch.program.clone());
    }
    is_executable(path).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// The interpreter of a script and its argument, `Some(None)` for a program that the emulator runs, none for anything else.
fn interpreter(path: &PathBuf) -> Option<Option<(Vec<u8>, Option<Vec<u8>>)>> {
    const SET_IDS: u32 = 0o6000;
    if !is_executable(path.as_os_str().as_bytes()) {
        return None;
    }
    let mut start = Vec::new();
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.permissions().mode() & SET_IDS != 0 {
        return None;
    }
    file.take(PATH as u64).read_to_end(&mut start).ok()?;
    if let Some((interpreter, argument)) = script::interpreter(&start) {
        return Some(Some((interpreter.to_vec(), argument.map(<[u8]>::to_vec))));
    }
    // A little-endian 64-bit program or shared object of the emulated architecture.
    let machine = if code::is_aarch64() { 183 } else { 62 };
    let fits = start.len() >= 20
        && start.starts_with(b"\x7FELF\x02\x01")
        && matches!(start[16], 2 | 3)
        && u16::from_le_bytes([start[18], start[19]]) == machine;
    fits.then_some(None)
}

/// Whether `path` can be executed.
pub fn is_executable(path: &[u8]) -> bool {
    const EXECUTE: c_int = 1;
    // SAFETY: a string that ends where it should.
    CString::new(path).is_ok_and(|path| unsafe { access(path.as_ptr(), EXECUTE) } == 0)
}

fn shorten(words: &[Vec<u8>]) -> String {
    let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    words.join(" ").chars().take(PATH).collect()
}
