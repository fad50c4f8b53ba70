//! Numbers as text, without what the standard library's formatting costs.

/// Appends the hexadecimal digits of `value`, at least one.
#[inline]
pub(super) fn hexadecimal_digits(text: &mut Vec<u8>, value: u64) {
    let digits = (u64::BITS - value.leading_zeros()).div_ceil(4).max(1);
    text.extend((0..digits).rev().map(|place| b"0123456789abcdef"[(value >> (4 * place)) as usize & 15]));
}

/// Appends the decimal digits of `value`, at least one.
#[inline]
pub(super) fn decimal_digits(text: &mut Vec<u8>, mut value: u64) {
    let begin = text.len();
    loop {
        text.push(b'0' + (value % 10) as u8);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    text[begin..].reverse();
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        fn digits_are_those_of_the_standard_library(value: u64, bits: u32) -> bool {
            let value = value >> (bits % 64);
            let (mut hexadecimal, mut decimal) = (b"x".to_vec(), b"x".to_vec());
            hexadecimal_digits(&mut hexadecimal, value);
            decimal_digits(&mut decimal, value);
            hexadecimal == format!("x{value:x}").into_bytes() && decimal == format!("x{value}").into_bytes()
        }
    }
}
