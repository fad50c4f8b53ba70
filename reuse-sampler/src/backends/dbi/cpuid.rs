//! What `cpuid` answers where a program is shown another processor than the one that executes it.
//!
//! The levels are those of the x86-64 psABI, section "Micro-Architecture Levels". Signatures, caches and topology are those of
//! processors that had them first; Intel's manual (volume 2, CPUID) says what the words mean.

#![allow(unsafe_code)]

use std::arch::x86_64::{__cpuid_count, CpuidResult};

use crate::{Cpu, SamplerError};

const EAX: usize = 0;
const EBX: usize = 1;
const ECX: usize = 2;
const EDX: usize = 3;

const IDENTITY: u32 = 1;
const STRUCTURED: u32 = 7;
const SAVED_STATE: u32 = 0xD;
const EXTENDED: u32 = 0x8000_0000;

/// A feature: the level that has it first, its bit in a register of a leaf, and its name if processors of that level may lack it.
struct Feature(Cpu, u32, usize, u32, &'static str);

const FEATURES: [Feature; 28] = {
    use Cpu::{X86_64V2 as V2, X86_64V3 as V3, X86_64V4 as V4};
    [
        Feature(V2, IDENTITY, ECX, 0, "sse3"),
        Feature(V2, IDENTITY, ECX, 9, "ssse3"),
        Feature(V2, IDENTITY, ECX, 13, "cx16"),
        Feature(V2, IDENTITY, ECX, 19, "sse4_1"),
        Feature(V2, IDENTITY, ECX, 20, "sse4_2"),
        Feature(V2, IDENTITY, ECX, 23, "popcnt"),
        Feature(V2, EXTENDED + 1, ECX, 0, "lahf_lm"),
        Feature(V2, EXTENDED + 1, EDX, 27, "rdtscp"),
        Feature(V3, IDENTITY, ECX, 1, "pclmulqdq"),
        Feature(V3, IDENTITY, ECX, 12, "fma"),
        Feature(V3, IDENTITY, ECX, 22, "movbe"),
        Feature(V3, IDENTITY, ECX, 25, "aes"),
        Feature(V3, IDENTITY, ECX, 26, "xsave"),
        Feature(V3, IDENTITY, ECX, 27, "osxsave"),
        Feature(V3, IDENTITY, ECX, 28, "avx"),
        Feature(V3, IDENTITY, ECX, 29, "f16c"),
        Feature(V3, STRUCTURED, EBX, 3, "bmi1"),
        Feature(V3, STRUCTURED, EBX, 5, "avx2"),
        Feature(V3, STRUCTURED, EBX, 8, "bmi2"),
        Feature(V3, STRUCTURED, EBX, 9, ""), // fast `rep movsb`, which all execute
        Feature(V3, EXTENDED + 1, ECX, 5, "lzcnt"),
        Feature(V3, SAVED_STATE, EAX, 0, "xsaveopt"),
        Feature(V4, SAVED_STATE, EAX, 1, "xsavec"),
        Feature(V4, STRUCTURED, EBX, 16, "avx512f"),
        Feature(V4, STRUCTURED, EBX, 17, "avx512dq"),
        Feature(V4, STRUCTURED, EBX, 28, "avx512cd"),
        Feature(V4, STRUCTURED, EBX, 30, "avx512bw"),
        Feature(V4, STRUCTURED, EBX, 31, "avx512vl"),
    ]
};

/// The processor's own answer.
fn own(leaf: u32, part: u32) -> [u32; 4] {
    #[allow(unused_unsafe)] // newer versions of Rust have it as a safe function
    // SAFETY: every x86-64 processor has the instruction, and it changes nothing but the registers of its answer.
    let CpuidResult { eax, ebx, ecx, edx } = unsafe { __cpuid_count(leaf, part) };
    [eax, ebx, ecx, edx]
}

/// What a processor that answers so lacks of a level.
fn lacking(cpu: Cpu, cpuid: impl Fn(u32, u32) -> [u32; 4]) -> Vec<&'static str> {
    let named = FEATURES.iter().filter(|feature| feature.0 <= cpu && !feature.4.is_empty());
    let lacks = |&&Feature(_, leaf, register, bit, _): &&Feature| {
        cpuid(leaf, u32::from(leaf == SAVED_STATE))[register] >> bit & 1 == 0
    };
    named.filter(lacks).map(|feature| feature.4).collect()
}

/// Whether the processor here can execute what it is shown as.
pub(super) fn can_show(cpu: Cpu) -> Result<(), SamplerError> {
    let lacking = lacking(cpu, own);
    if lacking.is_empty() {
        return Ok(());
    }
    let missing = format!(
        "this processor cannot execute all of {cpu}: it has no {}; show the program a lower level",
        lacking.join(", ")
    );
    Err(SamplerError::Unsupported { backend: "dbi", missing })
}

/// What `cpuid` answers for part `part` of a leaf: eax, ebx, ecx, edx.
pub(super) fn answer(cpu: Cpu, leaf: u32, part: u32) -> [u32; 4] {
    let features = |register| {
        let all =
            FEATURES.iter().filter(|feature| feature.0 <= cpu && (feature.1, feature.2) == (leaf, register));
        all.fold(0, |bits, feature| bits | 1 << feature.3)
    };
    match (leaf, part) {
        _ if cpu == Cpu::Host => own(leaf, part),
        (0, _) => [SAVED_STATE, word(*b"Genu"), word(*b"ntel"), word(*b"ineI")],
        (IDENTITY, _) => {
            let signature = match cpu {
                Cpu::X86_64 => 0x6F6,
                Cpu::X86_64V2 => 0x1_06A5,
                Cpu::X86_64V3 => 0x3_06C3,
                _ => 0x5_0654,
            };
            // Of edx all that the first x86-64 processors had.
            [signature, 0x0010_0800, features(ECX), 0x178B_FBFF]
        }
        (2, _) => [0x7603_6301, 0x00F0_B5FF, 0, 0x00C1_0000],
        (4, 0) => cache(1, 0x121, 8, 64),
        (4, 1) => cache(1, 0x122, 8, 64),
        (4, 2) => cache(1, 0x143, 8, 512),
        (4, 3) => cache(15, 0x163, 16, 8192),
        (STRUCTURED, 0) => [0, features(EBX), 0, 0],
        // Two threads of a core, eight of a processor; this is the first.
        (0xB, 0) => [1, 2, 0x100, 0],
        (0xB, 1) => [4, 8, 0x201, 0],
        (0xB, _) => [0, 0, part & 0xFF, 0],
        // How much is saved depends on what the kernel has switched on here.
        (SAVED_STATE, _) => {
            let shown: u32 = match cpu {
                Cpu::X86_64V4 => 0xE7,
                Cpu::X86_64V3 => 7,
                _ => 0,
            };
            let own = own(leaf, part);
            match part {
                _ if shown == 0 => [0; 4],
                0 => [own[EAX] & shown, own[EBX], own[ECX], 0],
                1 => [features(EAX), own[EBX], 0, 0],
                _ if part < 32 && shown >> part & 1 == 1 => own,
                _ => [0; 4],
            }
        }
        (EXTENDED, _) => [EXTENDED + 8, 0, 0, 0],
        // System calls, no execution of data, 64 bits.
        (0x8000_0001, _) => [0, 0, features(ECX), features(EDX) | 0x2010_0800],
        (0x8000_0002, _) => {
            let mut text = [0; 16];
            text[..cpu.name().len()].copy_from_slice(cpu.name().as_bytes());
            std::array::from_fn(|at| word([0, 1, 2, 3].map(|letter| text[4 * at + letter])))
        }
        (0x8000_0006, _) => [0, 0, 0x0100_6040, 0],
        (0x8000_0007, _) => [0, 0, 0, 1 << 8], // the time stamp counter runs evenly
        (0x8000_0008, _) => [0x3027, 0, 0, 0], // bits of addresses
        _ => [0; 4],
    }
}

/// Four letters of a name.
const fn word(letters: [u8; 4]) -> u32 {
    u32::from_le_bytes(letters)
}

/// A cache of lines of 64 bytes that so many threads more share; four cores.
const fn cache(shared: u32, level: u32, ways: u32, sets: u32) -> [u32; 4] {
    [7 << 26 | shared << 14 | level, (ways - 1) << 22 | 63, sets - 1, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_its_features_and_those_of_the_levels_below() {
        let shown = |cpu| {
            [(IDENTITY, ECX), (STRUCTURED, EBX), (EXTENDED + 1, ECX)]
                .map(|(leaf, register)| answer(cpu, leaf, 0)[register])
        };
        // The masks of gcc's -march=x86-64-v2, -v3 and -v4.
        let needed = [
            (Cpu::X86_64, [0, 0, 0]),
            (Cpu::X86_64V2, [0x0098_2201, 0, 1]),
            (Cpu::X86_64V3, [0x38D8_3201, 0x128, 0x21]),
            (Cpu::X86_64V4, [0x38D8_3201, 0xD003_0128, 0x21]),
        ];
        for (cpu, needed) in needed {
            let words = shown(cpu);
            assert!(needed.iter().zip(words).all(|(need, word)| word & need == *need), "{cpu}: {words:x?}");
        }
        let ordered = [Cpu::X86_64, Cpu::X86_64V2, Cpu::X86_64V3, Cpu::X86_64V4].map(shown);
        for pair in ordered.windows(2) {
            assert!((0..3).all(|word| pair[0][word] & !pair[1][word] == 0), "{pair:x?}");
        }
    }

    #[test]
    fn every_x86_64_processor_can_be_shown_as_the_first() {
        can_show(Cpu::X86_64).unwrap();
        can_show(Cpu::Host).unwrap();
        assert_eq!(answer(Cpu::Host, 0, 0), own(0, 0));
    }

    #[test]
    fn what_a_processor_lacks_of_a_level_is_named() {
        let nehalem = |leaf, part| answer(Cpu::X86_64V2, leaf, part);
        assert!(lacking(Cpu::X86_64V2, nehalem).is_empty());
        let lacking = lacking(Cpu::X86_64V3, nehalem);
        assert!(lacking.contains(&"avx2") && !lacking.contains(&"avx512f"), "{lacking:?}");
    }

    #[test]
    fn what_is_saved_fits_where_it_is_said_to() {
        for cpu in [Cpu::X86_64V3, Cpu::X86_64V4].into_iter().filter(|cpu| can_show(*cpu).is_ok()) {
            let [components, size, ..] = answer(cpu, SAVED_STATE, 0);
            for part in (2..32).filter(|part| components >> part & 1 == 1) {
                let [length, offset, ..] = answer(cpu, SAVED_STATE, part);
                assert!(length > 0 && offset + length <= size, "{cpu}: {part}");
            }
        }
    }

    #[test]
    fn names_are_those_of_the_vendor_and_the_level() {
        let [_, first, third, second] = answer(Cpu::X86_64V3, 0, 0);
        let text: Vec<u8> = [first, second, third].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(text, b"GenuineIntel");
        let brand: Vec<u8> =
            answer(Cpu::X86_64V3, 0x8000_0002, 0).iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(&brand[..10], b"x86-64-v3\0");
    }
}
