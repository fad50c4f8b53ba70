//! Operands and misses of a 32 KiB cache against valgrind's cachegrind, on real programs, hostile ones and compiled kernels.

use std::path::{Path, PathBuf};

use reuse_sampler::qemu::{QemuOptions, QemuSampler, QemuTrace, TargetExit};
use reuse_sampler::{Children, Sampler};

use crate::cachegrind::{
    CPU, Counts, compare, compare_kernels, environment, hostile, kernels, programs, words,
};
use crate::run::{emulator_version, every, off, qemu_is_missing, sampler};

/// To run a program in `folder` as it runs under valgrind.
pub fn as_under_valgrind(folder: &Path) -> QemuOptions {
    let mut options = QemuOptions::default();
    (options.environment, options.directory) = (environment(), Some(folder.to_owned()));
    (options.cpu, options.children, options.output_to_stderr) = (CPU, Children::Ignore, true);
    options
}

/// What the emulator makes of a command.
fn ours(command: &[&str], folder: &Path) -> Counts {
    let mut trace = QemuTrace::spawn(command[0], &command[1..], &as_under_valgrind(folder)).unwrap();
    let mut counts = Counts::of(&mut trace).ended(trace.operands(), trace.exit_status(), trace.warnings());
    if emulator_version() > 9 {
        // It does not report them all, and the output says how many are missing.
        counts.warnings.retain(|warning| {
            let before =
                warning.split_once(" executions").and_then(|(before, _)| before.split(' ').next_back());
            let missing = before.and_then(|number| number.parse().ok());
            counts.missing = counts.missing.or(missing);
            missing.is_none()
        });
    }
    counts
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("reuse-sampler-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
#[cfg(target_arch = "x86_64")]
fn operands_of_compiled_kernels_are_cachegrinds() {
    if qemu_is_missing() {
        return;
    }
    let folder = folder("kernels");
    let Some(kernels) = kernels(&folder) else { return };
    compare_kernels(&kernels, &folder, |command| ours(command, &folder));
    // Windows count the same as traces.
    for kernel in ["AVX2 triad", "increments", "straddling", "x87"] {
        let command = words(&kernels.iter().find(|(name, _)| *name == kernel).unwrap().1);
        let mut sampler = QemuSampler::spawn(command[0], &command[1..], &as_under_valgrind(&folder)).unwrap();
        let mut accesses = 0;
        while let Some(window) = sampler.next_window(&every()).unwrap() {
            accesses += window.accesses.get().unwrap();
        }
        let operands = (accesses as f64 * sampler.operands_per_access().unwrap()).round() as u64;
        let traced = ours(&command, &folder).references;
        assert!(traced.abs_diff(operands) < 1_000, "{kernel}: {operands} {traced}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn operands_of_real_programs_are_cachegrinds() {
    if qemu_is_missing() {
        return;
    }
    let folder = folder("programs");
    compare(&programs(&folder), &folder, |command| ours(command, &folder));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn operands_of_hostile_programs_are_cachegrinds() {
    if qemu_is_missing() {
        return;
    }
    let folder = folder("hostile");
    let Some(commands) = hostile(&folder) else { return };
    compare(&commands, &folder, |command| ours(command, &folder));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What `objdump -d` shows, and its operands.
#[test]
fn vector_operands_of_aarch64_are_known() {
    use crate::operand::Operand;
    for (word, operand) in [
        (0x3DC0_0020, Operand::Wide(16)), // ldr q0, [x1]
        (0xFD40_0020, Operand::Wide(8)),  // ldr d0, [x1]
        (0xAD40_0420, Operand::Wide(16)), // ldp q0, q1, [x1]: two operands
        (0x6D40_0420, Operand::Wide(8)),  // ldp d0, d1, [x1]
        (0x9C00_0080, Operand::Wide(16)), // ldr q0, .+16
        (0x4C40_A020, Operand::Wide(16)), // ld1 {v0.16b, v1.16b}, [x1]
        (0x0C40_7020, Operand::Wide(8)),  // ld1 {v0.8b}, [x1]
        (0xF940_0020, Operand::Single),   // ldr x0, [x1]
        (0xA940_0420, Operand::Single),   // ldp x0, x1, [x1]
        (0xF820_0041, Operand::Modified), // ldadd x0, x1, [x2]
        (0xF860_6841, Operand::Single),   // ldr x1, [x2, x0]
    ] {
        assert_eq!(Operand::of_aarch64(word), operand, "{word:#x}");
    }
}

/// Likewise on x86-64, prefixes in front.
#[test]
fn operands_of_x86_are_known() {
    use crate::operand::{Operand, STATE};
    let cases: [(&[u8], Operand); 16] = [
        (&[0x48, 0x8B, 0x03], Operand::Single),               // mov rax, [rbx]
        (&[0x0F, 0x28, 0x03], Operand::Wide(16)),             // movaps xmm0, [rbx]
        (&[0xF3, 0x0F, 0x6F, 0x03], Operand::Wide(16)),       // movdqu xmm0, [rbx]
        (&[0x66, 0x0F, 0x38, 0x00, 0x03], Operand::Wide(16)), // pshufb xmm0, [rbx]
        (&[0xC5, 0xFE, 0x6F, 0x03], Operand::Wide(32)),       // vmovdqu ymm0, [rbx]
        (&[0xC4, 0x41, 0x7C, 0x28, 0x03], Operand::Wide(32)), // vmovaps ymm8, [r11]
        (&[0xC4, 0xE2, 0x75, 0x90, 0x04, 0x93], Operand::Single), // vpgatherdd ymm0, [rbx+ymm2*4], ymm1
        (&[0xC4, 0xE2, 0x75, 0x2C, 0x03], Operand::Single),   // vmaskmovps ymm0, ymm1, [rbx]
        (&[0x83, 0x03, 0x01], Operand::Modified),             // add dword [rbx], 1
        (&[0x83, 0x3B, 0x01], Operand::Single),               // cmp dword [rbx], 1
        (&[0xF0, 0x48, 0x0F, 0xB1, 0x0B], Operand::Modified), // lock cmpxchg [rbx], rcx
        (&[0xF7, 0x1B], Operand::Modified),                   // neg dword [rbx]
        (&[0xF7, 0x03, 1, 0, 0, 0], Operand::Single),         // test dword [rbx], 1
        (&[0xF3, 0x48, 0xA5], Operand::Single),               // rep movsq
        (&[0xDB, 0x2B], Operand::Wide(16)),                   // fld tbyte [rbx]
        (&[0x0F, 0xAE, 0x03], Operand::Wide(STATE)),          // fxsave [rbx]
    ];
    for (code, operand) in cases {
        assert_eq!(Operand::of_x86(code), operand, "{code:x?}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn an_instruction_that_the_emulator_lacks_is_named() {
    if qemu_is_missing() {
        return;
    }
    for options in [QemuOptions::default(), QemuOptions::windows_of(1_000)] {
        let mut sampler = sampler("avx-512", options);
        while sampler.next_window(&off()).unwrap().is_some() {}
        // An emulator that has it runs on.
        if sampler.exit_status() == Some(TargetExit::Signal(4)) {
            let said = sampler.warnings().join("\n");
            assert!(said.contains("62 f1 7c 48 28") && said.contains("AVX-512"), "{said}");
        }
    }
}
