//! A process in which a seccomp filter, as containers have them, forbids one system call.

use reuse_sampler::perf::PerfSampler;

use crate::options;

/// Number of the system call.
pub const PTRACE: u32 = if cfg!(target_arch = "x86_64") { 101 } else { 117 };

/// Number of the system call.
pub const PERF_EVENT_OPEN: u32 = if cfg!(target_arch = "x86_64") { 298 } else { 241 };

/// An instruction of a filter, and a filter, as the kernel takes them.
#[repr(C)]
struct Instruction(u16, u8, u8, u32);
#[repr(C)]
struct Filter(u16, *const Instruction);

unsafe extern "C" {
    fn prctl(option: i32, ...) -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

/// From now on the call fails with EPERM in this thread and those it starts.
fn forbid(call: u32) {
    const EPERM: u32 = 1;
    let filter = [
        Instruction(0x20, 0, 0, 0), // load the number of the call
        Instruction(0x15, 0, 1, call),
        Instruction(0x06, 0, 0, 0x0005_0000 | EPERM),
        Instruction(0x06, 0, 0, 0x7FFF_0000), // allow
    ];
    let program = Filter(4, filter.as_ptr());
    // SAFETY: the kernel copies the filter, which lives during the calls.
    unsafe {
        assert_eq!(prctl(38, 1_usize, 0_usize, 0_usize, 0_usize), 0, "no new privileges");
        assert_eq!(prctl(22, 2_usize, &raw const program), 0, "the filter");
    }
}

/// Tries to observe a program without the call, and says what came of it.
pub fn observe_without(call: u32) {
    forbid(call);
    match PerfSampler::spawn("sleep", ["1000"], &options()) {
        Ok(_) => eprintln!("it works"),
        Err(error) => eprintln!("{error}"),
    }
    // SAFETY: asks whether there is a child; its status is not written.
    let children = unsafe { waitpid(-1, std::ptr::null_mut(), 1) };
    eprintln!("{}", if children == -1 { "no child left" } else { "a child is left" });
}
