//! Entry: the emulator loads the plugin, the plugin opens its channel and registers its callbacks.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::api::{
    Info, PluginId, SIG_SETMASK, SignalSet, dlsym, getpid, mmap, pthread_sigmask,
    qemu_plugin_register_atexit_cb, qemu_plugin_register_vcpu_syscall_cb,
    qemu_plugin_register_vcpu_syscall_ret_cb, qemu_plugin_register_vcpu_tb_trans_cb, sigfillset,
};
use crate::boundary::End;
use crate::settings::{self, Launch, Settings};
use crate::shared::layout::{Header, MAGIC, REGIONS, SIZE, Reported};
use crate::shared::message::Message;
use crate::shared::ring::Ring;
use crate::shared::{CPU, futex, tree};
use crate::{
    callbacks, channel, code, ending, fork, halt, instrumentation, stale, system_calls, threads, trace, translate,
};

/// The version of the interface that the plugin asks for: read by the emulator after the library's
/// constructors have run.
#[unsafe(no_mangle)]
pub static mut qemu_plugin_version: c_int = 1;

/// Runs when the library is loaded. Emulators from version 9 on refuse version 1 and have the function that
/// came with version 2; nothing that came later is used.
#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE_VERSION: extern "C" fn() = {
    extern "C" fn choose_version() {
        // SAFETY: looks up a symbol in what is loaded; the variable is not in use yet.
        unsafe {
            if !dlsym(std::ptr::null_mut(), c"qemu_plugin_scoreboard_new".as_ptr()).is_null() {
                qemu_plugin_version = 2;
            }
        }
    }
    choose_version
};

/// Loads the plugin. Arguments: `channel=PATH`, the file of the shared mapping, and `region=N`, the region in it.
#[unsafe(no_mangle)]
pub extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let (mut channel, mut region) = (None, 0);
    for index in 0..count as usize {
        // SAFETY: the emulator gives `count` strings.
        let argument = unsafe { CStr::from_ptr(*arguments.add(index)) }.to_string_lossy();
        match argument.split_once('=') {
            Some(("channel", value)) => channel = Some(value.to_owned()),
            Some(("region", value)) => region = value.parse::<usize>().unwrap_or(REGIONS),
            _ => {}
        }
    }
    let Some(channel) = channel.filter(|_| region < REGIONS) else { return 1 };
    let Ok(file) = std::fs::File::options().read(true).write(true).open(&channel) else { return 1 };
    // SAFETY: a new shared mapping.
    let base = unsafe { mmap(std::ptr::null_mut(), SIZE, 3, 1, file.as_raw_fd(), 0) };
    drop(file); // the program finds the table of descriptors it expects
    if base as isize == -1 {
        return 1;
    }
    let base = base.cast::<Header>();
    // SAFETY: the mapping is long enough, began as zeroes, and is never unmapped; the region was checked.
    let (ring, header) = unsafe { (Ring::new(base, region), &*base) };
    if header.magic.load(Ordering::SeqCst) != MAGIC {
        return 1;
    }
    // SAFETY: given by the emulator for the time of this call.
    let target = unsafe { CStr::from_ptr((*info).target_name) };
    // SAFETY: written once, by the constructor.
    let is_old = unsafe { qemu_plugin_version } == 1;
    // SAFETY: given by the emulator for the time of this call.
    code::choose(unsafe { (*info).version_current } as u32, target.to_bytes() == b"aarch64");
    stale::choose(is_old && header.leaves_stale.load(Ordering::Relaxed) != 0);
    let reported = Reported::from_number(header.reported.load(Ordering::Relaxed));
    trace::choose(reported);
    let strides = header.strides.load(Ordering::Relaxed) > 0;
    translate::ACCESS.get_or_init(|| callbacks::choose_access(reported, strides));
    let Some(launch) = launch(channel) else { return 1 };
    threads::begin();
    instrumentation::begin(register);
    // SAFETY: only returns a number.
    let owner = unsafe { getpid() };
    settings::begin(Settings { id, base, ring, region, owner, launch });
    fork::prepare();
    if !start_listener(header) {
        return 1;
    }
    channel::send(&Message::Hello);
    register(id);
    0
}

/// How this emulator was started: `emulator -plugin FILE,... -0 NAME [-cpu MODEL] PROGRAM ARGUMENTS`.
fn launch(channel: String) -> Option<Launch> {
    let words = std::fs::read("/proc/self/cmdline").ok()?;
    let word = |index: usize| words.split(|&byte| byte == 0).nth(index).map(OsStr::from_bytes);
    let plugin = word(2)?.to_str()?.split(',').next()?.to_owned();
    let chosen = word(5)? == CPU;
    let cpu = word(6).filter(|_| chosen).map(|model| model.as_bytes().to_vec());
    let program = Path::new(word(if chosen { 7 } else { 5 })?);
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    Some(Launch { plugin, channel, cpu, program })
}

/// Registers all callbacks; after installation, and whenever the emulator has dropped them.
extern "C" fn register(id: PluginId) {
    // SAFETY: the id is ours and the callbacks have the types that the interface asks for.
    unsafe {
        if settings::is_owner() {
            qemu_plugin_register_vcpu_tb_trans_cb(id, translate::block);
        }
        qemu_plugin_register_vcpu_syscall_cb(id, system_calls::before);
        qemu_plugin_register_vcpu_syscall_ret_cb(id, system_calls::after);
        qemu_plugin_register_atexit_cb(id, at_exit, std::ptr::null_mut());
    }
}

/// The emulator ends in a way that no system call announced: from version 8.1 on also where a signal kills the program.
/// Before this call it takes all other callbacks out, and has all threads leave the code that called them.
extern "C" fn at_exit(_: PluginId, _: *mut c_void) {
    instrumentation::exiting();
    halt::nobody_runs();
    ending::report_all(None, End::Exit);
    ending::finish();
}

/// How often the sampler's life is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Starts the thread that waits for the sampler to stop the run, or to die. It blocks all signals.
pub fn start_listener(header: &'static Header) -> bool {
    let mut all = SignalSet([0; 128]);
    let mut old = SignalSet([0; 128]);
    // SAFETY: the sets are large enough for the C library's.
    unsafe {
        sigfillset(&mut all);
        pthread_sigmask(SIG_SETMASK, &all, &mut old);
    }
    let started = std::thread::Builder::new().stack_size(1 << 18).spawn(move || {
        let mut stopped = 0;
        loop {
            futex::wait(&header.stop, stopped, LOOK);
            if !settings::is_attended() {
                header.ending.store(1, Ordering::SeqCst);
            }
            if header.ending.load(Ordering::SeqCst) != 0 {
                tree::kill_own();
            }
            if stopped == 0 && header.stop.load(Ordering::SeqCst) != 0 {
                stopped = 1;
                ending::report_all(None, End::Interrupt);
                ending::finish();
            }
        }
    });
    // SAFETY: the old set was filled in above.
    unsafe { pthread_sigmask(SIG_SETMASK, &old, std::ptr::null_mut()) };
    started.is_ok()
}
