//! All threads together: who there is, whether accesses are needed by any, and how to halt them.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::api::{PluginId, getpid, getppid, qemu_plugin_reset};
use crate::boundary::{self, End};
use crate::engine::tracker::Mode;
use crate::install;
use crate::shared::{futex, tree};
use crate::shared::layout::{SLOTS, Slot};
use crate::shared::message::Message;
use crate::shared::ring::Ring;
use crate::thread::{Phase, Thread, status};

/// What is fixed at installation.
pub struct Settings {
    pub id: PluginId,
    pub ring: Ring,
    pub window: u64,
    pub line_shift: u32,
    pub seed: u64,
    owner: i32,
    parent: i32,
}

impl Settings {
    /// Settings of this process.
    pub fn new(id: PluginId, ring: Ring, window: u64, line_shift: u32, seed: u64) -> Self {
        // SAFETY: both only answer a number.
        let (owner, parent) = unsafe { (getpid(), getppid()) };
        Self { id, ring, window, line_shift, seed, owner, parent }
    }
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Virtual processors whose state is found by index. The emulator gives the smallest number above all those
/// in use, and no system runs that many threads at once.
pub const VCPUS: usize = 1 << 16;
static THREADS: [AtomicPtr<Thread>; VCPUS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; VCPUS];
/// Stands for a processor without a state: its limit is always 0.
static NOBODY: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());

/// Threads that have begun and not ended.
static ALIVE: Mutex<Vec<Handle>> = Mutex::new(Vec::new());
static NUMBERS: AtomicU32 = AtomicU32::new(0);
static WINDOWS: AtomicU64 = AtomicU64::new(0);
/// Threads whose window needs accesses to be reported.
static NEEDS: AtomicUsize = AtomicUsize::new(0);
/// Different blocks in the window that ended last.
static BLOCKS: AtomicU64 = AtomicU64::new(0);
/// Instructions in windows without need for accesses, since the last one with.
static IDLE: AtomicU64 = AtomicU64::new(0);
/// Instructions whose accesses are ignored in the time that it takes to translate one block anew. By measurement,
/// where it hardly matters between half and twice as much: a compiler and an interpreter, QEMU 7.2.
const WORTH: u64 = 14_000;
/// Whether code translated now reports accesses.
static INSTRUMENTED: AtomicBool = AtomicBool::new(true);
/// Threads are to stop before their next block.
static HALTED: AtomicBool = AtomicBool::new(false);
/// Sleepers: halted threads. Counts releases.
static RELEASES: AtomicU32 = AtomicU32::new(0);
/// The last report was sent.
static FINISHED: AtomicBool = AtomicBool::new(false);
/// The emulator is about to end; held while it is told to translate anew.
static EXITING: Mutex<bool> = Mutex::new(false);
/// Messages are written one at a time. The buffer is kept.
static WRITER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Longest sleep before a waiting thread looks again whether it is to go on.
const NAP: Duration = Duration::from_millis(500);
/// A running thread comes to its next block within microseconds; one that does not in this time is stuck.
const HALT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
struct Handle(*mut Thread);
// SAFETY: the state behind it is used by its own thread, or by another one while its own is halted.
unsafe impl Send for Handle {}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the settings; called once.
pub fn begin(settings: Settings) {
    let nobody = Thread::new(u32::MAX, 0, 0, 1);
    let nobody = Box::into_raw(Box::new(nobody));
    NOBODY.store(nobody, Ordering::Relaxed);
    for entry in &THREADS {
        entry.store(nobody, Ordering::Relaxed);
    }
    let _ = SETTINGS.set(settings);
}

/// The settings; none before installation.
pub fn settings() -> Option<&'static Settings> {
    SETTINGS.get()
}

/// The state of a virtual processor, which may be that of nobody.
#[inline(always)]
pub fn thread(vcpu: u32) -> *mut Thread {
    THREADS[vcpu as usize % VCPUS].load(Ordering::Relaxed)
}

/// The state of a virtual processor, made for it if there is none. Called by its own thread.
pub fn thread_or_new(vcpu: u32) -> *mut Thread {
    let found = thread(vcpu);
    if found != NOBODY.load(Ordering::Relaxed) {
        return found;
    }
    let Some(settings) = settings() else { return found };
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let new = Thread::new(number, settings.seed, settings.line_shift, settings.window);
    let new = Box::into_raw(Box::new(new));
    locked(&ALIVE).push(Handle(new));
    THREADS[vcpu as usize % VCPUS].store(new, Ordering::Relaxed);
    new
}

/// The state of a virtual processor if it has one.
pub fn thread_of(vcpu: u32) -> Option<*mut Thread> {
    Some(thread(vcpu)).filter(|&thread| thread != NOBODY.load(Ordering::Relaxed))
}

/// Ends a thread, which calls this itself as the last thing it does.
pub fn exit(vcpu: u32) {
    let Some(ended) = thread_of(vcpu) else { return };
    let mut alive = locked(&ALIVE);
    // SAFETY: the thread itself calls, and whoever halts others holds the lock.
    let thread = unsafe { &mut *ended };
    if !is_silent() && thread.phase != Phase::Silent {
        boundary::close(thread, End::Exit, None);
    }
    boundary::silence(thread);
    // The instrumentation changes at another thread's next boundary: this one executes nothing any more.
    set_needs(thread, false);
    alive.retain(|other| other.0 != ended);
    THREADS[vcpu as usize % VCPUS].store(NOBODY.load(Ordering::Relaxed), Ordering::Relaxed);
    drop(alive);
    // SAFETY: nobody finds the state any more.
    drop(unsafe { Box::from_raw(ended) });
}

/// Instructions in a window.
pub fn window_length() -> u64 {
    settings().map_or(1, |settings| settings.window.max(1))
}

/// The number of a window that begins.
pub fn next_window() -> u64 {
    WINDOWS.fetch_add(1, Ordering::Relaxed)
}

/// Whether code translated now reports accesses.
pub fn instrumented() -> bool {
    INSTRUMENTED.load(Ordering::SeqCst)
}

/// Says whether `thread` needs accesses to be reported from now on.
pub fn set_needs(thread: &mut Thread, needs: bool) {
    if needs != thread.needs {
        thread.needs = needs;
        if needs {
            NEEDS.fetch_add(1, Ordering::SeqCst);
        } else {
            NEEDS.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Notes a window that ended: how many blocks it executed, how many instructions, and whether its accesses were
/// asked for.
pub fn note_window(blocks: u64, instructions: u64, profiled: bool) {
    BLOCKS.store(blocks, Ordering::Relaxed);
    if profiled {
        IDLE.store(0, Ordering::Relaxed);
    } else {
        IDLE.fetch_add(instructions, Ordering::Relaxed);
    }
}

/// Whether it pays to take out what reports accesses now that nobody needs it. Nobody knows when it will be
/// needed next. So it stays until ignoring accesses has cost as much as translating anew does: then, whatever
/// comes, no more than twice the least possible was spent. A loop is translated at once, a compiler is not.
fn pays() -> bool {
    let idle = IDLE.load(Ordering::Relaxed).saturating_add(window_length());
    idle >= BLOCKS.load(Ordering::Relaxed).saturating_mul(WORTH)
}

/// Tells the emulator to translate anew if code should report accesses and does not, or the other way round and
/// it pays. Takes effect before the next block of the calling thread, unless another thread's change is under way.
pub fn switch_if_needed() {
    let needed = NEEDS.load(Ordering::SeqCst) > 0;
    if needed == instrumented() || (!needed && !pays()) {
        return;
    }
    let Some(settings) = settings() else { return };
    // The emulator ends with its lock held while it waits for all threads: nobody may ask for the same lock.
    let exiting = locked(&EXITING);
    if !*exiting {
        // SAFETY: the id is ours; the callback registers what is wanted.
        unsafe { qemu_plugin_reset(settings.id, translate_anew) };
    }
}

/// The emulator has dropped all translations and callbacks, and no thread executes blocks.
extern "C" fn translate_anew(id: PluginId) {
    INSTRUMENTED.store(NEEDS.load(Ordering::SeqCst) > 0, Ordering::SeqCst);
    install::register(id);
}

/// From now on the emulator must not be told to translate anew.
pub fn exiting() {
    *locked(&EXITING) = true;
}

/// Whether nothing is to be observed any more, as is so in children of the program.
pub fn is_silent() -> bool {
    FINISHED.load(Ordering::SeqCst) || !is_owner()
}

/// Whether this is the process that the sampler started, not a child it forked.
pub fn is_owner() -> bool {
    // SAFETY: only answers a number.
    settings().is_some_and(|settings| unsafe { getpid() } == settings.owner)
}

/// Whether the sampler lives. A parent that is gone is noticed at once, even if nobody has reaped it; the sampler's own
/// number serves where something else, such as a script, started the emulator for it.
pub fn is_attended() -> bool {
    let Some(settings) = settings() else { return false };
    let observer = settings.ring.header().observer.load(Ordering::Relaxed) as i32;
    // SAFETY: only returns a number.
    let parent = unsafe { getppid() };
    parent == settings.parent && (parent == observer || tree::signal(observer, 0))
}

/// Sends a message. Waits while the ring is full: should the sampler die, this process ends.
pub fn send(message: &Message) {
    let Some(settings) = settings() else { return };
    let mut buffer = locked(&WRITER);
    buffer.clear();
    message.encode(&mut buffer);
    settings.ring.write(&buffer);
}

/// The plan of a thread's first window, once the sampler gave it.
pub fn initial_plan(thread: &Thread) -> Mode {
    let Some(settings) = settings() else { return Mode::Off };
    let header = settings.ring.header();
    thread.status.store(status::WAITING, Ordering::SeqCst);
    while header.started.load(Ordering::SeqCst) == 0 && !is_silent() {
        futex::wait(&header.started, 0, NAP);
    }
    resume(thread);
    header.initial.load()
}

/// A place to wait for the next plan; none if there will be none.
pub fn take_slot(thread: &Thread) -> Option<u32> {
    let slots = &settings()?.ring.header().slots;
    loop {
        for offset in 0..SLOTS {
            let slot = (thread.number as usize + offset) % SLOTS;
            let held = &slots[slot].held;
            if held.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                slots[slot].state.store(0, Ordering::SeqCst);
                return Some(slot as u32);
            }
        }
        if is_silent() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits at `slot` for the plan; none if there will be none.
pub fn wait_for_plan(thread: &Thread, slot: u32) -> Option<Mode> {
    let slot = settings()?.ring.header().slots.get(slot as usize)?;
    thread.status.store(status::WAITING, Ordering::SeqCst);
    let plan = loop {
        match slot.state.load(Ordering::SeqCst) {
            Slot::PLAN => break Some(slot.plan.load()),
            Slot::RELEASE => break None,
            _ if is_silent() => break None,
            _ => {
                futex::wait(&slot.state, 0, NAP);
            }
        }
    };
    slot.held.store(0, Ordering::SeqCst);
    resume(thread);
    plan.filter(|_| !is_silent())
}

/// Comes back from waiting or from a system call: blocks may be executed again once nobody halts the world.
pub fn resume(thread: &Thread) {
    thread.status.store(status::RUNNING, Ordering::SeqCst);
    park_if_halted(thread);
}

/// Whether threads are to stop before their next block.
pub fn is_halted() -> bool {
    HALTED.load(Ordering::SeqCst)
}

/// Sleeps while the world is halted.
pub fn park_if_halted(thread: &Thread) {
    while is_halted() && is_owner() {
        let releases = RELEASES.load(Ordering::SeqCst);
        thread.status.store(status::WAITING, Ordering::SeqCst);
        if is_halted() {
            futex::wait(&RELEASES, releases, NAP);
        }
        thread.status.store(status::RUNNING, Ordering::SeqCst);
    }
}

/// Reports all threads for the last time. `caller` is the thread that calls, if one does; the others are
/// halted for it. They run on unobserved afterwards, or observed anew if the caller says
/// [`continue_observing`] instead of [`finish`].
pub fn report_all(caller: Option<*mut Thread>, how: End) {
    let mut alive = locked(&ALIVE);
    if is_silent() {
        return;
    }
    if how == End::Exit {
        if let Ok(maps) = std::fs::read_to_string("/proc/self/maps") {
            send(&Message::Mapped(maps));
        }
    }
    HALTED.store(true, Ordering::SeqCst);
    alive.sort_by_key(|thread| number(thread.0));
    let deadline = Instant::now() + HALT;
    for &Handle(thread) in alive.iter() {
        if Some(thread) == caller || halt(thread, deadline) {
            // SAFETY: the thread is the caller's own or halted, and stays so until it is released.
            let thread = unsafe { &mut *thread };
            if thread.phase != Phase::Silent {
                boundary::close(thread, how, None);
                set_needs(thread, false);
                thread.phase = Phase::Fresh;
            }
        } else {
            send(&Message::Lost { thread: number(thread) });
        }
    }
}

/// After [`report_all`]: threads run on unobserved.
pub fn finish() {
    if is_owner() && !FINISHED.swap(true, Ordering::SeqCst) {
        send(&Message::End);
    }
    release();
}

/// After [`report_all`]: threads run on and are observed, with new windows.
pub fn continue_observing() {
    release();
}

fn release() {
    HALTED.store(false, Ordering::SeqCst);
    RELEASES.fetch_add(1, Ordering::SeqCst);
    futex::wake(&RELEASES);
    let slots = settings().map(|settings| &settings.ring.header().slots);
    if FINISHED.load(Ordering::SeqCst) {
        for slot in slots.into_iter().flatten().filter(|slot| slot.held.load(Ordering::SeqCst) != 0) {
            futex::set(&slot.state, Slot::RELEASE);
        }
    }
}

fn number(thread: *mut Thread) -> u32 {
    // SAFETY: the number never changes, and the caller holds the list of living threads.
    unsafe { (*thread).number }
}

/// Stops `thread` before its next block. False if it does not get there in time.
fn halt(thread: *mut Thread, deadline: Instant) -> bool {
    // SAFETY: only the two atomics are used; the caller holds the list of living threads.
    let (limit, status) = unsafe { (&(*thread).limit, &(*thread).status) };
    limit.store(0, Ordering::SeqCst);
    while status.load(Ordering::SeqCst) == status::RUNNING {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    true
}
