//! Encodings made by GNU `as`, and what the architecture manual says of each instruction.

use super::*;

/// x0 to x30 hold 0x1000 times their number, sp 0x90000; the instruction is at 0x400000. `None`: not understood.
type Case = (u32, &'static str, Option<&'static [(u64, u32, AccessKind)]>);

#[rustfmt::skip]
const CASES: &[Case] = &[
    (0xF940_0020, "ldr x0, [x1]", Some(&[(0x1000, 8, LOAD)])),
    (0xB940_0420, "ldr w0, [x1, #4]", Some(&[(0x1004, 4, LOAD)])),
    (0xF900_0BE0, "str x0, [sp, #16]", Some(&[(0x90010, 8, STORE)])),
    (0x3940_0C40, "ldrb w0, [x2, #3]", Some(&[(0x2003, 1, LOAD)])),
    (0x7900_0C40, "strh w0, [x2, #6]", Some(&[(0x2006, 2, STORE)])),
    (0xB980_0860, "ldrsw x0, [x3, #8]", Some(&[(0x3008, 4, LOAD)])),
    (0x3980_0060, "ldrsb x0, [x3]", Some(&[(0x3000, 1, LOAD)])),
    (0x3DC0_0880, "ldr q0, [x4, #32]", Some(&[(0x4020, 16, LOAD)])),
    (0xFD00_0480, "str d0, [x4, #8]", Some(&[(0x4008, 8, STORE)])),
    (0x3D40_0480, "ldr b0,[x4,#1]", Some(&[(0x4001, 1, LOAD)])),
    (0xF85F_80A0, "ldur x0, [x5, #-8]", Some(&[(0x4ff8, 8, LOAD)])),
    (0x3C9F_00A1, "stur q1, [x5, #-16]", Some(&[(0x4ff0, 16, STORE)])),
    (0xF841_04C0, "ldr x0, [x6], #16", Some(&[(0x6000, 8, LOAD)])),
    (0xF85F_0CC0, "ldr x0, [x6, #-16]!", Some(&[(0x5ff0, 8, LOAD)])),
    (0xB81E_0FE0, "str w0, [sp, #-32]!", Some(&[(0x8ffe0, 4, STORE)])),
    (0xF840_88E0, "ldtr x0, [x7, #8]", Some(&[(0x7008, 8, LOAD)])),
    (0xF862_6820, "ldr x0, [x1, x2]", Some(&[(0x3000, 8, LOAD)])),
    (0xF862_7820, "ldr x0, [x1, x2, lsl #3]", Some(&[(0x11000, 8, LOAD)])),
    (0xB862_5820, "ldr w0, [x1, w2, uxtw #2]", Some(&[(0x9000, 4, LOAD)])),
    (0xF834_C820, "str x0, [x1, w20, sxtw]", Some(&[(0x15000, 8, STORE)])),
    (0xF87F_6820, "ldr x0, [x1, xzr]", Some(&[(0x1000, 8, LOAD)])),
    (0x3CE2_7820, "ldr q0, [x1, x2, lsl #4]", Some(&[(0x21000, 16, LOAD)])),
    (0xF980_0020, "prfm pldl1keep, [x1]", Some(&[])),
    (0xF89F_8020, "prfum pldl1keep, [x1, #-8]", Some(&[])),
    (0xA940_0440, "ldp x0, x1, [x2]", Some(&[(0x2000, 16, LOAD)])),
    (0xA9BF_7BFD, "stp x29, x30, [sp, #-16]!", Some(&[(0x8fff0, 16, STORE)])),
    (0x2941_0440, "ldp w0, w1, [x2, #8]", Some(&[(0x2008, 8, LOAD)])),
    (0x6941_0440, "ldpsw x0, x1, [x2, #8]", Some(&[(0x2008, 8, LOAD)])),
    (0xACC1_0440, "ldp q0, q1, [x2], #32", Some(&[(0x2000, 32, LOAD)])),
    (0x6D01_0440, "stp d0, d1, [x2, #16]", Some(&[(0x2010, 16, STORE)])),
    (0xA841_0440, "ldnp x0, x1, [x2, #16]", Some(&[(0x2010, 16, LOAD)])),
    (0x2D00_0440, "stp s0, s1, [x2]", Some(&[(0x2000, 8, STORE)])),
    (0x5800_0200, "ldr x0, .+64", Some(&[(0x400040, 8, LOAD)])),
    (0x18FF_FF00, "ldr w0, .-32", Some(&[(0x3fffe0, 4, LOAD)])),
    (0x9800_0040, "ldrsw x0, .+8", Some(&[(0x400008, 4, LOAD)])),
    (0x9C00_0080, "ldr q0, .+16", Some(&[(0x400010, 16, LOAD)])),
    (0x1C00_0080, "ldr s0, .+16", Some(&[(0x400010, 4, LOAD)])),
    (0xC85F_7D00, "ldxr x0, [x8]", Some(&[(0x8000, 8, LOAD)])),
    (0xC800_7D01, "stxr w0, x1, [x8]", Some(&[(0x8000, 8, STORE)])),
    (0x085F_FD00, "ldaxrb w0, [x8]", Some(&[(0x8000, 1, LOAD)])),
    (0x8800_FD01, "stlxr w0, w1, [x8]", Some(&[(0x8000, 4, STORE)])),
    (0xC87F_0500, "ldxp x0, x1, [x8]", Some(&[(0x8000, 16, LOAD)])),
    (0x8820_0901, "stxp w0, w1, w2, [x8]", Some(&[(0x8000, 8, STORE)])),
    (0xC8DF_FD20, "ldar x0, [x9]", Some(&[(0x9000, 8, LOAD)])),
    (0x889F_FD20, "stlr w0, [x9]", Some(&[(0x9000, 4, STORE)])),
    (0xC8A0_7D21, "cas x0, x1, [x9]", Some(&[(0x9000, 8, STORE)])),
    (0x4860_FD22, "caspal x0, x1, x2, x3, [x9]", Some(&[(0x9000, 16, STORE)])),
    (0x0820_7D22, "casp w0, w1, w2, w3, [x9]", Some(&[(0x9000, 8, STORE)])),
    (0x08A0_7D21, "casb w0, w1, [x9]", Some(&[(0x9000, 1, STORE)])),
    (0xF820_0141, "ldadd x0, x1, [x10]", Some(&[(0xa000, 8, STORE)])),
    (0xB8E0_8141, "swpal w0, w1, [x10]", Some(&[(0xa000, 4, STORE)])),
    (0x3820_3141, "ldsetb w0, w1, [x10]", Some(&[(0xa000, 1, STORE)])),
    (0xF820_015F, "stadd x0, [x10]", Some(&[(0xa000, 8, STORE)])),
    (0xF8BF_C160, "ldapr x0, [x11]", Some(&[(0xb000, 8, LOAD)])),
    (0xD95F_C160, "ldapur x0, [x11, #-4]", Some(&[(0xaffc, 8, LOAD)])),
    (0x9900_5160, "stlur w0, [x11, #5]", Some(&[(0xb005, 4, STORE)])),
    (0x9980_4160, "ldapursw x0, [x11, #4]", Some(&[(0xb004, 4, LOAD)])),
    (0x4C40_7180, "ld1 {v0.16b}, [x12]", Some(&[(0xc000, 16, LOAD)])),
    (0x0C40_A180, "ld1 {v0.8b, v1.8b}, [x12]", Some(&[(0xc000, 16, LOAD)])),
    (0x4C9F_2980, "st1 {v0.4s-v3.4s}, [x12], #64", Some(&[(0xc000, 64, STORE)])),
    (0x4C40_0D80, "ld4 {v0.2d-v3.2d}, [x12]", Some(&[(0xc000, 64, LOAD)])),
    (0x0C40_4180, "ld3 {v0.8b-v2.8b}, [x12]", Some(&[(0xc000, 24, LOAD)])),
    (0x4C00_8980, "st2 {v0.4s, v1.4s}, [x12]", Some(&[(0xc000, 32, STORE)])),
    (0x0D40_91A0, "ld1 {v0.s}[1], [x13]", Some(&[(0xd000, 4, LOAD)])),
    (0x4D00_85A0, "st1 {v0.d}[1], [x13]", Some(&[(0xd000, 8, STORE)])),
    (0x0D40_1DA0, "ld1 {v0.b}[7], [x13]", Some(&[(0xd000, 1, LOAD)])),
    (0x0D60_51A0, "ld2 {v0.h, v1.h}[2], [x13]", Some(&[(0xd000, 4, LOAD)])),
    (0x4D40_A1A0, "ld3 {v0.s-v2.s}[2], [x13]", Some(&[(0xd000, 12, LOAD)])),
    (0x0D20_A5A0, "st4 {v0.d-v3.d}[0], [x13]", Some(&[(0xd000, 32, STORE)])),
    (0x4D40_C9A0, "ld1r {v0.4s}, [x13]", Some(&[(0xd000, 4, LOAD)])),
    (0x4D60_E1A0, "ld4r {v0.16b-v3.16b}, [x13]", Some(&[(0xd000, 4, LOAD)])),
    (0x4D60_CDA0, "ld2r {v0.2d, v1.2d}, [x13]", Some(&[(0xd000, 16, LOAD)])),
    (0xD50B_742E, "dc zva, x14", Some(&[(0xe000, 64, STORE)])),
    (0xD50B_7A2E, "dc cvac, x14", Some(&[])),
    (0x8B02_0020, "add x0, x1, x2", Some(&[])),
    (0x1400_0002, "b .+8", Some(&[])),
    (0xD65F_03C0, "ret", Some(&[])),
    (0xD503_201F, "nop", Some(&[])),
    (0x9000_0000, "adrp x0, .", Some(&[])),
    (0x1E62_0820, "fmul d0, d1, d2", Some(&[])),
    (0xD400_0001, "svc #0", Some(&[])),
    (0x9B02_0C20, "madd x0, x1, x2, x3", Some(&[])),
    (0x9A82_0020, "csel x0, x1, x2, eq", Some(&[])),
    (0x4F00_0400, "movi v0.4s, #0", Some(&[])),
    (0xD53B_D040, "mrs x0, tpidr_el0", Some(&[])),
    (0xB400_0040, "cbz x0, .+8", Some(&[])),
    (0x4EA2_8420, "add v0.4s, v1.4s, v2.4s", Some(&[])),
    (0xA400_A020, "ld1b {z0.b}, p0/z, [x1]", None),
    (0xE5E0_E020, "st1d {z0.d}, p0, [x1]", None),
    (0x8580_4020, "ldr z0, [x1]", None),
    (0xD920_0820, "stg x0, [x1]", None),
    (0xD960_0020, "ldg x0, [x1]", None),
    (0x6900_0440, "stgp x0, x1, [x2]", None),
    (0xF820_0420, "ldraa x0, [x1]", None),
    (0xF83F_D020, "ld64b x0, [x1]", None),
    (0x1901_0440, "cpyfp [x0]!, [x1]!, x2!", None),
    (0x04E2_0020, "add z0.d, z1.d, z2.d", Some(&[])),
    (0x2518_E3E0, "ptrue p0.b", Some(&[])),
];

const LOAD: AccessKind = AccessKind::Load;
const STORE: AccessKind = AccessKind::Store;

#[test]
fn each_class_of_loads_and_stores() {
    let mut x: Vec<u64> = (0..31).map(|number| 0x1000 * number).collect();
    x.push(0x9_0000);
    for &(word, text, expected) in CASES {
        let found = match operands(word, 0x40_0000, &x) {
            Operands::Known(found) => Some(found.iter().map(|o| (o.address, o.bytes, o.kind)).collect()),
            Operands::Unknown => None,
        };
        assert_eq!(found, expected.map(<[_]>::to_vec), "{text}");
    }
}

quickcheck::quickcheck! {
    fn no_word_is_too_strange(word: u32, pc: u64) -> bool {
        match operands(word, pc, &[u64::MAX; 32]) {
            Operands::Known(found) => found.len() <= 1 && found.iter().all(|o| (1..=64).contains(&o.bytes)),
            Operands::Unknown => true,
        }
    }
}
