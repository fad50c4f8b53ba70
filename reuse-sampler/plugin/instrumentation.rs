//! Whether translated code reports accesses, and when to have it translated anew.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::api::{PluginId, SimpleCallback, qemu_plugin_reset};
use crate::settings::{locked, settings, window_length};
use crate::thread::Thread;

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
/// The emulator is about to end; held while it is asked to translate anew. A forked child gets one of its own, as another
/// thread may have held its parent's.
static EXITING: AtomicPtr<Mutex<bool>> = AtomicPtr::new(std::ptr::null_mut());
/// Registers the callbacks anew once the emulator has dropped them.
static REGISTER: OnceLock<SimpleCallback> = OnceLock::new();

/// Takes what registers the callbacks; called once.
pub fn begin(register: SimpleCallback) {
    let _ = REGISTER.set(register);
    start_over();
}

/// No thread needs accesses to be reported, and the emulator is not about to end.
pub fn start_over() {
    NEEDS.store(0, Ordering::SeqCst);
    IDLE.store(0, Ordering::Relaxed);
    EXITING.store(Box::into_raw(Box::new(Mutex::new(false))), Ordering::SeqCst);
}

fn lock_exiting() -> MutexGuard<'static, bool> {
    // SAFETY: set at installation, and never freed.
    locked(unsafe { &*EXITING.load(Ordering::SeqCst) })
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

/// Asks the emulator to translate anew if code should report accesses and does not, or the other way round and
/// it pays. Takes effect before the next block of the calling thread, unless another thread's change is under way.
pub fn switch_if_needed() {
    let needed = NEEDS.load(Ordering::SeqCst) > 0;
    if needed == instrumented() || (!needed && !pays()) {
        return;
    }
    let Some(settings) = settings() else { return };
    // The emulator ends with its lock held while it waits for all threads: nobody may ask for the same lock.
    let exiting = lock_exiting();
    if !*exiting {
        // SAFETY: the id is ours; the callback registers what is wanted.
        unsafe { qemu_plugin_reset(settings.id, translate_anew) };
    }
}

/// The emulator has dropped all translations and callbacks, and no thread executes blocks.
extern "C" fn translate_anew(id: PluginId) {
    INSTRUMENTED.store(NEEDS.load(Ordering::SeqCst) > 0, Ordering::SeqCst);
    register(id);
}

/// Drops this process's translations, and with them whatever reports accesses or blocks.
pub fn drop_translations(id: PluginId) {
    // SAFETY: the id is ours.
    unsafe { qemu_plugin_reset(id, register) };
}

extern "C" fn register(id: PluginId) {
    if let Some(register) = REGISTER.get() {
        register(id);
    }
}

/// From now on the emulator must not be asked to translate anew.
pub fn exiting() {
    *lock_exiting() = true;
}
