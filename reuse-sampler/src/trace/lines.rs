//! What the text formats share: lines out of a byte stream, and numbers out of lines.

use std::io::Read;

use super::input::{BUFFER, Input};
use crate::SamplerError;

/// How much of an offending line an error quotes, in bytes.
const QUOTED: usize = 60;

/// The lines of a byte stream.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: Input<R>,
    number: u64, // lines handed out
}

impl<R: Read> Lines<R> {
    pub(super) const fn new(format: &'static str, input: R) -> Self {
        Self { input: Input::new(format, input), number: 0 }
    }

    /// Hands the next line, without its end, to `parse`, which answers a record, nothing, or what is wrong.
    /// `None` at the end of the input. After an error the input counts as ended.
    #[inline]
    pub(super) fn next<T>(
        &mut self,
        mut parse: impl FnMut(&[u8]) -> Result<Option<T>, &'static str>,
    ) -> Result<Option<T>, SamplerError> {
        loop {
            let unread = self.input.unread();
            let (length, end) = match find_newline(unread) {
                Some(length) => (length, 1),
                None if unread.len() == BUFFER => {
                    return Err(self.refuse("line of more than 256 KiB", BUFFER));
                }
                None if self.input.refill()? => continue,
                None => match self.input.unread().len() {
                    0 => return Ok(None),
                    length => (length, 0), // the last line, which has no end
                },
            };
            let parsed = match parse(&self.input.unread()[..length]) {
                Ok(parsed) => parsed,
                Err(problem) => return Err(self.refuse(problem, length)),
            };
            self.input.consume(length + end);
            self.number += 1;
            if parsed.is_some() {
                return Ok(parsed);
            }
        }
    }

    /// Refuses the next line, of `length` bytes.
    #[cold]
    fn refuse(&mut self, problem: &'static str, length: usize) -> SamplerError {
        self.number += 1;
        let quoted = &self.input.unread()[..length.min(QUOTED)];
        let mut content = String::from_utf8_lossy(quoted.trim_ascii_end()).into_owned();
        if quoted.len() < length {
            content.push_str("...");
        }
        self.input.stop();
        SamplerError::Trace { format: self.input.format, line: self.number, problem, content }
    }
}

/// Position of the first newline: eight bytes at a time, as traces have lines of ten to twenty.
#[inline]
fn find_newline(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut rest = bytes;
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        // A byte of `difference` is zero where the chunk has a newline; the lowest such byte is found exactly.
        let difference = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(b'\n'));
        let zeros = difference.wrapping_sub(ONES) & !difference & (ONES << 7);
        if zeros != 0 {
            return Some(bytes.len() - rest.len() + zeros.trailing_zeros() as usize / 8);
        }
        rest = tail;
    }
    let found = rest.iter().position(|&byte| byte == b'\n')?;
    Some(bytes.len() - rest.len() + found)
}

/// Value of each hexadecimal digit, 255 for all other bytes.
const DIGITS: [u8; 256] = {
    let mut digits = [255; 256];
    let mut value = 0;
    while value < 10 {
        digits[b'0' as usize + value as usize] = value;
        value += 1;
    }
    while value < 16 {
        digits[b'a' as usize + value as usize - 10] = value;
        digits[b'A' as usize + value as usize - 10] = value;
        value += 1;
    }
    digits
};

/// A hexadecimal number at the beginning of `text`, with or without `0x`, and what follows it. `None` if there
/// is no digit or the number exceeds 64 bits.
#[inline]
pub(super) fn hexadecimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = match text {
        [b'0', b'x' | b'X', digits @ ..] => digits,
        _ => text,
    };
    let mut value: u64 = 0;
    let mut length = 0;
    for &byte in digits {
        let digit = DIGITS[byte as usize];
        if digit == 255 {
            break;
        }
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
        length += 1;
    }
    (length > 0).then(|| (value, &digits[length..]))
}

/// A decimal number at the beginning of `text`, and what follows it. `None` if there is no digit or the number
/// exceeds 32 bits.
#[inline]
pub(super) fn decimal(text: &[u8]) -> Option<(u32, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    let mut value: u32 = 0;
    for &byte in digits {
        value = value.checked_mul(10)?.checked_add(u32::from(byte - b'0'))?;
    }
    (length > 0).then_some((value, rest))
}

/// `text` without the blanks and tabs it begins with.
#[inline]
pub(super) fn after_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    &text[blanks..]
}

/// Whether a field may end where `text` begins: at the end of the line (its CR included) or at a blank.
#[inline]
pub(super) fn at_field_end(text: &[u8]) -> bool {
    matches!(text, [] | [b' ' | b'\t' | b'\r', ..])
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use quickcheck::quickcheck;

    use super::*;

    /// Reads what it holds in pieces of the given size.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.clamp(1, buffer.len()).min(self.0.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn lines(text: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let mut lines = Lines::new("test", Pieces(text, piece));
        let mut all = Vec::new();
        while let Some(line) = lines.next(|line| Ok(Some(line.to_vec()))).unwrap() {
            all.push(line);
        }
        all
    }

    quickcheck! {
        fn lines_are_those_of_splitting_at_newlines(text: Vec<u8>, piece: usize) -> bool {
            // Few distinct bytes, so that there are newlines among them.
            let text: Vec<u8> = text.into_iter().map(|b| b"\n\r0a "[b as usize % 5]).collect();
            let mut expected: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop(); // what follows the last newline is no line if it is empty
            }
            lines(&text, piece % 20) == expected
        }

        fn newlines_are_found_where_a_plain_search_finds_them(text: Vec<u8>) -> bool {
            let text: Vec<u8> = text.into_iter().map(|b| b"\n\x09\x0b\x8a\x0e"[b as usize % 5]).collect();
            (0..text.len()).all(|i| find_newline(&text[i..]) == text[i..].iter().position(|&b| b == b'\n'))
        }

        fn numbers_are_read_as_the_standard_library_reads_them(value: u64, count: u32) -> bool {
            let (hex, prefixed) = (format!("{value:x},"), format!("0X{value:X}"));
            let dec = format!("{count} ");
            hexadecimal(hex.as_bytes()) == Some((value, b","))
                && hexadecimal(prefixed.as_bytes()) == Some((value, b""))
                && decimal(dec.as_bytes()) == Some((count, b" "))
        }
    }

    #[test]
    fn numbers_that_are_none_or_too_large_are_refused() {
        assert_eq!(hexadecimal(b"g"), None);
        assert_eq!(hexadecimal(b"0x"), None);
        assert_eq!(hexadecimal(b"10000000000000000"), None);
        assert_eq!(hexadecimal(b"000000000000000000ff"), Some((255, &b""[..])));
        assert_eq!(decimal(b""), None);
        assert_eq!(decimal(b"4294967296"), None);
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_refused_and_the_longest_is_not() {
        let longest = [vec![b'a'; BUFFER - 1], b"\nb".to_vec()].concat();
        assert_eq!(lines(&longest, BUFFER).len(), 2);
        let endless = std::io::repeat(b'z');
        let mut lines = Lines::new("test", endless);
        let error = lines.next(|_| Ok(Some(()))).unwrap_err().to_string();
        assert!(error.contains("line 1: line of more than 256 KiB: \"zzz") && error.len() < 150, "{error}");
        assert!(matches!(lines.next(|_| Ok(Some(()))), Ok(None)));
    }

    #[test]
    fn errors_name_line_and_content() {
        let mut lines = Lines::new("test", &b"\n\nx\r\ny\n"[..]);
        let parse = |line: &[u8]| if line.is_empty() { Ok(None) } else { Err("no good") };
        let error = lines.next::<()>(parse).unwrap_err();
        assert_eq!(error.to_string(), "test trace, line 3: no good: \"x\"");
        assert!(matches!(lines.next::<()>(parse), Ok(None)));
    }

    #[test]
    fn a_failing_input_is_an_error_and_an_interrupted_one_is_not() {
        struct Scripted(Vec<std::io::Result<&'static [u8]>>);
        impl Read for Scripted {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let bytes = self.0.remove(0)?;
                buffer[..bytes.len()].copy_from_slice(bytes);
                Ok(bytes.len())
            }
        }
        let script = vec![
            Ok(&b"one\ntw"[..]),
            Err(ErrorKind::Interrupted.into()),
            Ok(&b"o\nthr"[..]),
            Err(ErrorKind::UnexpectedEof.into()),
        ];
        let mut lines = Lines::new("test", Scripted(script));
        let mut next = || lines.next(|line| Ok(Some(line.to_vec())));
        assert_eq!(next().unwrap().unwrap(), b"one");
        assert_eq!(next().unwrap().unwrap(), b"two");
        assert!(matches!(next(), Err(SamplerError::Io { operation: "read", .. })));
        assert!(matches!(next(), Ok(None))); // the unfinished line is not passed off as whole
    }
}
