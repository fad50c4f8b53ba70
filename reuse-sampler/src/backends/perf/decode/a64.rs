//! A64: the load and store classes of the base and SIMD instruction sets, atomics, and `DC ZVA`.
//!
//! An instruction of a class that may access memory and is not among these (SVE and SME, memory tags, memory copies)
//! is unknown, not without an access. So is none that does not access memory.
//!
//! Source: Arm Architecture Reference Manual for A-profile, DDI 0487, C4.1 "A64 instruction set encoding".

use crate::AccessKind;
use crate::perf::kernel::{Operand, Operands};

/// What instruction `word` at `pc` does, with `x` the registers x0 to x30 and sp in this order.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
pub(in crate::backends::perf) fn operands(word: u32, pc: u64, x: &[u64]) -> Operands {
    match class(word) {
        Class::None => Operands::Known(Vec::new()),
        Class::Unknown => Operands::Unknown,
        Class::Access { base, offset, bytes, does } => {
            let register = |number: u32| x.get(number as usize).copied().unwrap_or(0);
            let base = match base {
                Base::Pc => pc,
                Base::Register(number) => register(number),
            };
            let offset = match offset {
                Offset::Fixed(bytes) => bytes as u64,
                Offset::Register { number, extend, shift } => {
                    // Number 31 is the zero register here.
                    let value = if number == 31 { 0 } else { register(number) };
                    let value = match extend {
                        2 => value & 0xFFFF_FFFF,
                        6 => i64::from(value as u32 as i32) as u64,
                        _ => value,
                    };
                    value << shift
                }
            };
            let mut address = base.wrapping_add(offset);
            if does == Does::Zero {
                address &= !u64::from(bytes - 1);
            }
            let load = Operand { address, bytes, kind: AccessKind::Load };
            let store = Operand { address, bytes, kind: AccessKind::Store };
            Operands::Known(match does {
                Does::Load => vec![load],
                // An atomic read-modify-write is one store, as it is to the other backends.
                Does::Store | Does::Zero | Does::Atomic => vec![store],
            })
        }
    }
}

/// Whether instruction `word` may access memory.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
pub(in crate::backends::perf) fn may_access(word: u32) -> bool {
    class(word) != Class::None
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Load,
    Store,
    Atomic,
    Zero,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Pc,
    Register(u32), // 31 is sp
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    Fixed(i64),
    Register { number: u32, extend: u32, shift: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    None,
    Unknown,
    Access { base: Base, offset: Offset, bytes: u32, does: Does },
}

/// Bits `high` to `low` of a word.
const fn bits(word: u32, high: u32, low: u32) -> u32 {
    word >> low & ((1 << (high - low + 1)) - 1)
}

/// The lowest `width` bits as a signed number.
const fn signed(value: u32, width: u32) -> i64 {
    ((value << (32 - width)) as i32 >> (32 - width)) as i64
}

fn class(word: u32) -> Class {
    // DC ZVA, Xt: clears a block, 64 bytes on all processors so far.
    if word & 0xFFFF_FFE0 == 0xD50B_7420 {
        return at(Base::Register(bits(word, 4, 0)), 64, Does::Zero);
    }
    match bits(word, 28, 25) {
        0b0100 | 0b0110 | 0b1100 | 0b1110 => loads_and_stores(word),
        // SVE: its upper half is loads and stores. Reserved, SME: 0b0000.
        0b0010 | 0b0000 if word >> 31 == 1 => Class::Unknown,
        _ => Class::None,
    }
}

fn at(base: Base, bytes: u32, does: Does) -> Class {
    Class::Access { base, offset: Offset::Fixed(0), bytes, does }
}

fn loads_and_stores(word: u32) -> Class {
    let base = Base::Register(bits(word, 9, 5));
    let vector = bits(word, 26, 26) == 1;
    match (bits(word, 29, 28), vector, bits(word, 24, 24)) {
        (0b00, true, single) => structures(word, base, single == 1),
        (0b00, false, 0) => exclusive(word, base),
        (0b01, _, 0) => literal(word, vector),
        // Tags, unscaled acquire and release, memory copies.
        (0b01, false, 1) => unscaled_ordered(word, base),
        (0b10, _, _) => pair(word, base, vector),
        (0b11, _, 1) => {
            one(word, base, vector, |scale| Offset::Fixed(i64::from(bits(word, 21, 10)) << scale))
        }
        (0b11, _, 0) => match (bits(word, 21, 21), bits(word, 11, 10)) {
            (0, mode) => {
                // After it for post-index, else the base plus this.
                let offset = if mode == 0b01 { 0 } else { signed(bits(word, 20, 12), 9) };
                one(word, base, vector, |_| Offset::Fixed(offset))
            }
            (_, 0b10) => {
                let (number, extend) = (bits(word, 20, 16), bits(word, 15, 13));
                let shifted = bits(word, 12, 12) == 1;
                one(word, base, vector, |scale| Offset::Register {
                    number,
                    extend,
                    shift: if shifted { scale } else { 0 },
                })
            }
            (_, 0b00) if !vector => atomic(word, base),
            // LDRAA, LDRAB: the address is authenticated first.
            _ => Class::Unknown,
        },
        _ => Class::Unknown,
    }
}

/// Load or store of one register.
fn one(word: u32, base: Base, vector: bool, offset: impl FnOnce(u32) -> Offset) -> Class {
    let (size, opc) = (bits(word, 31, 30), bits(word, 23, 22));
    let (scale, does) = if vector {
        let scale = size | opc >> 1 << 2;
        if scale > 4 {
            return Class::Unknown;
        }
        (scale, if opc & 1 == 1 { Does::Load } else { Does::Store })
    } else {
        match (size, opc) {
            (3, 2) => return Class::None, // a prefetch
            (2 | 3, 3) => return Class::Unknown,
            (_, 0) => (size, Does::Store),
            _ => (size, Does::Load),
        }
    };
    Class::Access { base, offset: offset(scale), bytes: 1 << scale, does }
}

fn pair(word: u32, base: Base, vector: bool) -> Class {
    let (opc, mode, loads) = (bits(word, 31, 30), bits(word, 24, 23), bits(word, 22, 22) == 1);
    let scale = match (opc, vector) {
        (3, _) => return Class::Unknown,
        (opc, true) => 2 + opc,
        (0, false) => 2,
        (1, false) if loads => 2,            // LDPSW
        (1, false) => return Class::Unknown, // STGP
        _ => 3,
    };
    let offset = if mode == 0b01 { 0 } else { signed(bits(word, 21, 15), 7) << scale };
    let does = if loads { Does::Load } else { Does::Store };
    Class::Access { base, offset: Offset::Fixed(offset), bytes: 2 << scale, does }
}

fn literal(word: u32, vector: bool) -> Class {
    let bytes = match (bits(word, 31, 30), vector) {
        (3, false) => return Class::None, // a prefetch
        (3, true) => return Class::Unknown,
        (opc, true) => 4 << opc,
        (1, false) => 8,
        _ => 4,
    };
    let offset = Offset::Fixed(signed(bits(word, 23, 5), 19) * 4);
    Class::Access { base: Base::Pc, offset, bytes, does: Does::Load }
}

/// Exclusive, acquire and release, compare and swap.
fn exclusive(word: u32, base: Base) -> Class {
    let (size, loads) = (bits(word, 31, 30), bits(word, 22, 22) == 1);
    let (ordered, paired) = (bits(word, 23, 23) == 1, bits(word, 21, 21) == 1);
    let plain = if loads { Does::Load } else { Does::Store };
    match (ordered, paired) {
        (true, true) => at(base, 1 << size, Does::Atomic), // CAS
        (false, true) if size < 2 => at(base, 8 << size, Does::Atomic), // CASP
        (false, true) => at(base, 2 << size, plain),       // LDXP, STXP
        _ => at(base, 1 << size, plain),
    }
}

fn atomic(word: u32, base: Base) -> Class {
    let size = bits(word, 31, 30);
    match (bits(word, 15, 15), bits(word, 14, 12)) {
        (1, 0b100) => at(base, 1 << size, Does::Load), // LDAPR
        (1, 0b000) | (0, _) => at(base, 1 << size, Does::Atomic), // SWP; LDADD and its like
        _ => Class::Unknown,                           // 64-byte loads and stores
    }
}

/// LDAPUR, STLUR and their like.
fn unscaled_ordered(word: u32, base: Base) -> Class {
    if bits(word, 21, 21) == 1 || bits(word, 11, 10) != 0 {
        return Class::Unknown;
    }
    one(word, base, false, |_| Offset::Fixed(signed(bits(word, 20, 12), 9)))
}

/// LD1 to LD4, ST1 to ST4. The base is written back after the access, if at all.
fn structures(word: u32, base: Base, single: bool) -> Class {
    let does = if bits(word, 22, 22) == 1 { Does::Load } else { Does::Store };
    if bits(word, 31, 31) == 1 {
        return Class::Unknown;
    }
    if !single {
        let registers = match bits(word, 15, 12) {
            0b0000 | 0b0010 => 4,
            0b0100 | 0b0110 => 3,
            0b1000 | 0b1010 => 2,
            0b0111 => 1,
            _ => return Class::Unknown,
        };
        return at(base, registers * if bits(word, 30, 30) == 1 { 16 } else { 8 }, does);
    }
    let opcode = bits(word, 15, 13);
    let elements = ((opcode & 1) << 1 | bits(word, 21, 21)) + 1;
    let size = bits(word, 11, 10);
    let element = match opcode >> 1 {
        0 => 1,
        1 => 2,
        2 if size & 1 == 0 => 4,
        2 => 8,
        _ => 1 << size, // to all lanes
    };
    at(base, elements * element, does)
}

#[cfg(test)]
#[allow(clippy::unreadable_literal)] // as GNU as prints them
mod tests;
