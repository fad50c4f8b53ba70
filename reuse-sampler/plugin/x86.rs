//! Lengths of x86-64 instructions, to notice one that is not all there.
//!
//! A block ends before an instruction that continues on the next page. Emulators before version 8.2 count
//! that instruction all the same, and once more in the block it begins. All that is known of it then is
//! its bytes up to the end of the page.

/// Whether `bytes` begin with less than a whole instruction.
pub fn is_cut(bytes: &[u8]) -> bool {
    length(bytes).is_none_or(|length| length > bytes.len())
}

/// Whether an instruction that accesses memory has an operand of ten bytes of the floating-point stack, or loads or stores the
/// processor's state.
pub fn is_state(bytes: &[u8]) -> bool {
    let (_, rest) = bytes.split_at(prefixes(bytes));
    match *rest {
        [0x0F, opcode, modrm, ..] => {
            modrm < 0xC0 && matches!((opcode, modrm >> 3 & 7), (0xAE, 0 | 1 | 4..=6) | (0xC7, 3..=5))
        }
        [opcode, modrm, ..] => {
            let operation = (opcode, modrm >> 3 & 7);
            modrm < 0xC0 && matches!(operation, (0xDB, 5 | 7) | (0xDF | 0xD9 | 0xDD, 4 | 6))
        }
        _ => false,
    }
}

/// Bytes of prefixes before the opcode, vector prefixes apart.
pub fn prefixes(bytes: &[u8]) -> usize {
    let legacy = |byte: &&u8| matches!(byte, 0x26 | 0x2E | 0x36 | 0x3E | 0x64..=0x67 | 0xF0 | 0xF2 | 0xF3);
    let count = bytes.iter().take_while(legacy).count();
    count + usize::from(bytes.get(count).is_some_and(|byte| matches!(byte, 0x40..=0x4F)))
}

/// The length of the instruction, as far as the bytes show; none if they end before that is known.
fn length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut short_operand = false;
    let mut short_address = false;
    let mut wide = false;
    let mut next = || {
        let byte = bytes.get(at).copied();
        at += 1;
        byte
    };
    let mut opcode = next()?;
    loop {
        match opcode {
            0x66 => short_operand = true,
            0x67 => short_address = true,
            0x26 | 0x2E | 0x36 | 0x3E | 0x64 | 0x65 | 0xF0 | 0xF2 | 0xF3 => {}
            _ => break,
        }
        opcode = next()?;
    }
    if let 0x40..=0x4F = opcode {
        wide = opcode & 8 != 0;
        opcode = next()?;
    }
    // An operand of the operand size, but of 32 bits where that is 64.
    let operand = if short_operand && !wide { 2 } else { 4 };
    let (has_modrm, immediate) = match opcode {
        0x0F => match next()? {
            0x38 => (next().map(|_| true)?, 0),
            0x3A => (next().map(|_| true)?, 1),
            second => in_map_0f(second),
        },
        0xC5 => {
            next()?;
            in_map_0f(next()?)
        }
        0xC4 => match next()? & 0x1F {
            1 => {
                next()?;
                in_map_0f(next()?)
            }
            map => {
                next()?;
                next()?;
                (true, usize::from(map == 3))
            }
        },
        0x00..=0x3F => match opcode & 7 {
            0..=3 => (true, 0),
            4 => (false, 1),
            5 => (false, operand),
            _ => (false, 0),
        },
        0x63 | 0x84..=0x8F | 0xD0..=0xD3 | 0xD8..=0xDF | 0xFE | 0xFF => (true, 0),
        0x69 | 0x81 | 0xC7 => (true, operand),
        0x6B | 0x80 | 0x82 | 0x83 | 0xC0 | 0xC1 | 0xC6 => (true, 1),
        0x68 | 0xA9 => (false, operand),
        0x6A | 0x70..=0x7F | 0xA8 | 0xB0..=0xB7 | 0xCD | 0xE0..=0xE7 | 0xEB => (false, 1),
        0xA0..=0xA3 => (false, if short_address { 4 } else { 8 }),
        0xB8..=0xBF => (false, if wide { 8 } else { operand }),
        0xC2 | 0xCA => (false, 2),
        0xC8 => (false, 3),
        0xE8 | 0xE9 => (false, 4),
        // test has an operand that the others of the group have not.
        0xF6 | 0xF7 => {
            let is_test = bytes.get(at)? >> 3 & 7 < 2;
            (
                true,
                if !is_test {
                    0
                } else if opcode == 0xF6 {
                    1
                } else {
                    operand
                },
            )
        }
        _ => (false, 0),
    };
    if has_modrm {
        at += address(bytes.get(at..)?)?;
    }
    Some(at + immediate)
}

/// Whether an opcode after 0F has a mod-r/m byte, and how many bytes of operand.
const fn in_map_0f(opcode: u8) -> (bool, usize) {
    match opcode {
        0x05..=0x09 | 0x0B | 0x0E | 0x30..=0x37 | 0x77 | 0xA0..=0xA2 | 0xA8..=0xAA | 0xC8..=0xCF => {
            (false, 0)
        }
        0x80..=0x8F => (false, 4),
        0x70..=0x73 | 0xA4 | 0xAC | 0xBA | 0xC2 | 0xC4..=0xC6 => (true, 1),
        _ => (true, 0),
    }
}

/// Bytes of the mod-r/m byte and what it announces.
fn address(bytes: &[u8]) -> Option<usize> {
    let modrm = *bytes.first()?;
    let (mode, register) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return Some(1);
    }
    let scaled = register == 4;
    let base = if scaled { bytes.get(1)? & 7 } else { register };
    let displacement = match mode {
        0 if base == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(1 + usize::from(scaled) + displacement)
}
