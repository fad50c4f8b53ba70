//! Reading text line by line, with the place of every mistake.

use std::io::BufRead;
use std::str::FromStr;

use crate::Error;

/// A line cut at blanks, which remembers where each piece began.
pub(crate) struct Line<'a> {
    number: usize,
    text: &'a str,
    position: usize, // at most text.len(), at the start of a character
}

impl<'a> Line<'a> {
    /// The whole line, without what ends it.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Continues at a position that an earlier piece has passed.
    pub(crate) fn go_to(&mut self, position: usize) {
        self.position = position;
    }

    /// The next piece and the column of its first character.
    pub(crate) fn piece(&mut self) -> Option<(usize, &'a str)> {
        let rest = &self.text[self.position..];
        let start = self.position + (rest.len() - rest.trim_start().len());
        let rest = &self.text[start..];
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.position = start + end;
        (end > 0).then(|| (start, &rest[..end]))
    }

    pub(crate) fn error(&self, position: usize, what: &'static str) -> Error {
        Error::Parse { line: self.number, column: self.text[..position].chars().count() + 1, what }
    }

    /// The next piece as a `T`.
    pub(crate) fn value<T: FromStr>(&mut self, what: &'static str) -> Result<T, Error> {
        match self.piece() {
            Some((start, piece)) => piece.parse().map_err(|_| self.error(start, what)),
            None => Err(self.error(self.text.len(), what)),
        }
    }

    pub(crate) fn end(&mut self) -> Result<(), Error> {
        match self.piece() {
            Some((start, _)) => Err(self.error(start, "expected the end of the line")),
            None => Ok(()),
        }
    }
}

/// The lines of a file that are neither blank nor a comment (`#`), one buffer for all.
pub(crate) struct Lines<R> {
    reader: R,
    bytes: Vec<u8>,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, bytes: Vec::new(), number: 0 }
    }

    /// What `f` makes of the next line; `None` at the end.
    pub(crate) fn next_with<T>(
        &mut self,
        f: impl FnOnce(Line<'_>) -> Result<T, Error>,
    ) -> Option<Result<T, Error>> {
        loop {
            self.bytes.clear();
            self.number += 1;
            match self.reader.read_until(b'\n', &mut self.bytes) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error.into())),
            }
            let text = match std::str::from_utf8(&self.bytes) {
                Ok(text) => text.trim_end(),
                Err(error) => {
                    let column = error.valid_up_to() + 1;
                    return Some(Err(Error::Parse { line: self.number, column, what: "expected text" }));
                }
            };
            // what some spreadsheets put before the first character
            let text = if self.number == 1 { text.trim_start_matches('\u{feff}') } else { text };
            if !text.trim_start().is_empty() && !text.trim_start().starts_with('#') {
                return Some(f(Line { number: self.number, text, position: 0 }));
            }
        }
    }
}

/// Calls `f` for each line that is neither blank nor a comment.
pub(crate) fn for_each_line(
    reader: impl BufRead,
    mut f: impl FnMut(Line<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut lines = Lines::new(reader);
    while let Some(result) = lines.next_with(&mut f) {
        result?;
    }
    Ok(())
}
