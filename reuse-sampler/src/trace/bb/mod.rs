//! SimPoint's `.bb` files: which blocks were executed in each window, and how many instructions in them.

mod write;

pub use write::BbWriter;

use std::io::Read;

use super::input::Input;
use super::lines::after_blanks;
use crate::{LineSize, Sampler, SamplerError, ThreadId, Window, WindowIndex, WindowPlan};

const FORMAT: &str = "bb";

/// Reads the windows of a `.bb` file, as valgrind's exp-bbv, gem5 and [`BbWriter`] write them.
///
/// A line is a window: `T`, then `:block:count` for each block. Counts are instructions, whole numbers; they become the
/// window's [`code`](Window::code), the number of a block taking the place of its address, and their sum its
/// instructions. Accesses and reuse are not in the file; plans are not followed. Blank lines and lines that begin
/// with `#` are skipped. Lines may be of any length: memory is bounded by the number of blocks of one window.
///
/// # Errors
/// [`SamplerError::TraceToken`] with the line, the column in it at which reading stopped, and the token there; a file
/// without a window is one. [`SamplerError::Io`] if the input cannot be read.
///
/// ```
/// use reuse_sampler::trace::BbWindows;
/// use reuse_sampler::{Sampler, WindowPlan};
///
/// let mut windows = BbWindows::new(&b"T:1:120 :7:40\nT:1:160\n"[..]);
/// let first = windows.next_window(&WindowPlan::count_only())?.expect("two windows");
/// assert_eq!((first.instructions, &first.code[..]), (160, &[(1, 120), (7, 40)][..]));
/// # Ok::<(), reuse_sampler::SamplerError>(())
/// ```
///
/// # References
/// Sherwood, Perelman, Hamerly and Calder, *SimPoint 3.2*, frequency vector files.
#[derive(Debug)]
pub struct BbWindows<R> {
    input: Input<R>,
    line: u64,  // lines begun
    begun: u64, // offset at which the last of them begins
    windows: u64,
    ended: bool,
}

/// The longest piece that is looked at in one go: `:`, 20 digits, `:`, 20 digits and what ends them.
const PIECE: usize = 48;

impl<R: Read> BbWindows<R> {
    /// A reader that has read nothing yet.
    pub const fn new(input: R) -> Self {
        Self { input: Input::new(FORMAT, input), line: 0, begun: 0, windows: 0, ended: false }
    }

    /// Makes sure that the next piece is there as a whole, if the input has it.
    #[inline]
    fn look_ahead(&mut self) -> Result<(), SamplerError> {
        while self.input.unread().len() < PIECE && self.input.refill()? {}
        Ok(())
    }

    /// Passes over blanks; then the next piece is there as a whole.
    #[inline]
    fn skip_blanks(&mut self) -> Result<(), SamplerError> {
        loop {
            self.look_ahead()?;
            let unread = self.input.unread();
            match unread.len() - after_blanks(unread).len() {
                0 => return Ok(()),
                blanks => self.input.consume(blanks),
            }
        }
    }

    /// Passes over what is no window. `false` at the end of the input.
    fn find_window(&mut self) -> Result<bool, SamplerError> {
        loop {
            self.line += 1;
            self.begun = self.input.offset();
            self.skip_blanks()?;
            match self.input.unread() {
                [] => return Ok(false),
                [b'T', ..] => return Ok(true),
                [b'#' | b'\n' | b'\r', ..] => self.skip_line()?,
                _ => return Err(self.refuse(0, "expected a window: T followed by :block:count pairs")),
            }
        }
    }

    fn skip_line(&mut self) -> Result<(), SamplerError> {
        loop {
            let unread = self.input.unread();
            if let Some(length) = unread.iter().position(|&byte| byte == b'\n') {
                self.input.consume(length + 1);
                return Ok(());
            }
            self.input.consume(unread.len());
            if !self.input.refill()? {
                return Ok(());
            }
        }
    }

    fn window(&mut self) -> Result<Option<Window>, SamplerError> {
        if !self.find_window()? {
            return match self.windows {
                0 => Err(self.refuse(0, "no window in the file")),
                _ => Ok(None),
            };
        }
        self.input.consume(1);
        let mut window = Window::new(WindowIndex(self.windows), ThreadId(0), LineSize::default());
        let mut ordered = true;
        loop {
            self.skip_blanks()?;
            let (block, count, length) = match self.input.unread() {
                [b':', rest @ ..] => match pair(rest) {
                    Ok(pair) => pair,
                    Err((before, problem)) => return Err(self.refuse(1 + before as u64, problem)),
                },
                [b'\n', ..] => {
                    self.input.consume(1);
                    break;
                }
                [b'\r', b'\n', ..] => {
                    self.input.consume(2);
                    break;
                }
                [] => break,
                _ => return Err(self.refuse(0, "expected :block:count")),
            };
            self.input.consume(1 + length);
            if count > 0 {
                ordered &= window.code.last().is_none_or(|&(last, _)| last < block);
                window.code.push((block, count));
                window.instructions = window.instructions.saturating_add(count);
            }
        }
        if window.code.is_empty() {
            return Err(self.refuse_line("a window needs at least one block with a count above 0"));
        }
        if !ordered {
            in_order(&mut window.code);
        }
        self.windows += 1;
        Ok(Some(window))
    }

    /// What is wrong so many bytes into what is unread.
    #[cold]
    fn refuse(&mut self, into: u64, problem: &'static str) -> SamplerError {
        let column = self.input.offset() - self.begun + into + 1;
        let unread = self.input.unread();
        let line = unread.split(|&byte| byte == b'\n').next().unwrap_or(unread);
        let content = String::from_utf8_lossy(&line[..line.len().min(PIECE)]).trim().to_owned();
        self.input.stop();
        SamplerError::TraceToken { format: FORMAT, line: self.line, column, problem, content }
    }

    /// What is wrong with the line that was just read as a whole.
    #[cold]
    fn refuse_line(&mut self, problem: &'static str) -> SamplerError {
        self.input.stop();
        let content = String::new();
        SamplerError::TraceToken { format: FORMAT, line: self.line, column: 1, problem, content }
    }
}

impl<R: Read> Sampler for BbWindows<R> {
    fn next_window(&mut self, _plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        if self.ended {
            return Ok(None);
        }
        let window = self.window();
        self.ended = !matches!(window, Ok(Some(_)));
        window
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        self.ended = true;
        Ok(())
    }
}

/// `block:count` at the beginning of `text`, and how long it is; or what is wrong with it, behind how many bytes.
#[inline]
fn pair(text: &[u8]) -> Result<(u64, u64, usize), (usize, &'static str)> {
    let before = |rest: &[u8]| text.len() - rest.len();
    let (block, rest) = whole(text).ok_or((0, "expected a block number of at most 64 bits"))?;
    let [b':', rest @ ..] = rest else {
        return Err((before(rest), "expected : and a count after the block number"));
    };
    let (count, rest) =
        whole(rest).ok_or((before(rest), "expected a count: a whole number of at most 64 bits"))?;
    match rest {
        [] | [b' ' | b'\t' | b'\r' | b'\n' | b':', ..] => Ok((block, count, before(rest))),
        _ => Err((before(rest), "expected a blank after the count, which is a whole number")),
    }
}

/// A decimal number at the beginning of `text`, and what follows it.
#[inline]
fn whole(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    let mut length = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // Numbers of up to 19 digits fit; only longer ones need to be checked.
        value = if length < 19 {
            value * 10 + u64::from(digit)
        } else {
            value.checked_mul(10)?.checked_add(u64::from(digit))?
        };
        length += 1;
    }
    (length > 0).then(|| (value, &text[length..]))
}

/// Sorts by block and adds up what is of the same one.
fn in_order(code: &mut Vec<(u64, u64)>) {
    code.sort_unstable();
    code.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    fn read(text: &[u8]) -> Result<Vec<Window>, SamplerError> {
        let mut reader = BbWindows::new(text);
        let mut windows = Vec::new();
        loop {
            match reader.next_window(&WindowPlan::count_only()) {
                Ok(Some(window)) => windows.push(window),
                end => {
                    assert!(matches!(reader.next_window(&WindowPlan::count_only()), Ok(None)));
                    return end.map(|_| windows);
                }
            }
        }
    }

    #[test]
    fn hand_made_windows_read_as_they_were_meant() {
        let text = b"# made by hand\n\nT:1:10 :2:20  :3:0\r\n  T :9:1 :4:2\t:9:5\nT:18446744073709551615:7\n#\nT:5:1:6:2";
        let code: Vec<_> =
            read(text).unwrap().into_iter().map(|w| (w.index.0, w.instructions, w.code)).collect();
        let expected = [
            (0, 30, vec![(1, 10), (2, 20)]),
            (1, 8, vec![(4, 2), (9, 6)]),
            (2, 7, vec![(u64::MAX, 7)]),
            (3, 3, vec![(5, 1), (6, 2)]),
        ];
        assert_eq!(code, expected);
    }

    #[test]
    fn bad_windows_are_refused_with_line_and_place() {
        for (text, line, column, problem, content) in [
            ("T:1:1\nX:1:1\n", 2, 1, "T followed by", "X:1:1"),
            ("T:1:1\nT:1:1 2:2\n", 2, 7, "expected :block:count", "2:2"),
            ("T:1:1 :x:2 \n", 1, 8, "block number", ":x:2"),
            ("T:1:1 :2 \n", 1, 9, ": and a count", ":2"),
            ("# x\n  T:1:1 :2:\n", 2, 12, "a count", ":2:"),
            ("T:1:-5\n", 1, 5, "a count", ":1:-5"),
            ("T:1:1.5\n", 1, 6, "whole number", ":1:1.5"),
            ("T:99999999999999999999:1\n", 1, 3, "64 bits", ":99999999999999999999:1"),
            ("\n\nT\n", 3, 1, "at least one block", ""),
            ("T:1:0\n", 1, 1, "at least one block", ""),
            ("# nothing\n", 2, 1, "no window", ""),
            ("", 1, 1, "no window", ""),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            let SamplerError::TraceToken {
                format: "bb",
                line: at,
                column: byte,
                problem: found,
                content: quoted,
            } = error
            else {
                panic!("{error}")
            };
            assert!(found.contains(problem), "{found} instead of {problem}");
            assert_eq!(quoted, content, "{found}");
            assert_eq!((at, byte), (line, column), "{problem}");
        }
        let error = read(b"T:1:1\n\x1f\x8b\x08").unwrap_err().to_string();
        assert!(error.starts_with("bb trace, line 2, column 1: expected a window"), "{error}");
    }

    quickcheck! {
        fn what_is_written_is_read_back(windows: Vec<Vec<(u64, u64, u8)>>) -> bool {
            let windows: Vec<Window> = windows
                .into_iter()
                .filter(|code| !code.is_empty())
                .enumerate()
                .map(|(index, code)| {
                    let mut window = Window::new(WindowIndex(index as u64), ThreadId(0), LineSize::default());
                    window.code = code.into_iter().map(|(a, n, bits)| (a, (n >> (bits % 64)).max(1))).collect();
                    in_order(&mut window.code);
                    window
                })
                .collect();
            let mut writer = BbWriter::new(Vec::new());
            for window in &windows {
                writer.window(window).unwrap();
                writer.remark("T:1:1\nT:2:2").unwrap();
            }
            let numbers = writer.blocks();
            let text = writer.finish().unwrap();
            if windows.is_empty() {
                return read(&text).is_err();
            }
            let read = read(&text).unwrap();
            // Blocks are numbered from 1 as they come.
            let mut expected = windows.clone();
            for window in &mut expected {
                for (address, _) in &mut window.code {
                    *address = numbers[address];
                }
                window.code.sort_unstable();
            }
            let highest = numbers.values().copied().max().unwrap_or(0);
            highest == numbers.len() as u64
                && read.len() == expected.len()
                && read.iter().zip(&expected).all(|(a, b)| a.code == b.code && a.index == b.index)
        }

        fn pieces_of_any_length_read_the_same(blanks: Vec<u16>) -> bool {
            let text: String = blanks.iter().enumerate()
                .map(|(i, &n)| format!("{}:{}:{}", " ".repeat(usize::from(n % 300)), i + 1, i + 7))
                .collect();
            let text = format!("T{text}{}\n", ":1:5".repeat(usize::from(blanks.is_empty())));
            read(text.as_bytes()).unwrap()[0].code.len() == blanks.len().max(1)
        }
    }

    #[test]
    fn a_window_longer_than_any_buffer_is_read() {
        let text: String = (1..200_000_u64).map(|i| format!(":{i}:{} ", i % 7 + 1)).collect();
        let windows = read(format!("T{text}\nT:1:1\n").as_bytes()).unwrap();
        assert_eq!((windows.len(), windows[0].code.len()), (2, 199_999));
    }
}
