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

/// Calls `f` for each line that is neither blank nor a comment (`#`).
pub(crate) fn for_each_line(
    mut reader: impl BufRead,
    mut f: impl FnMut(Line<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    let mut number = 0;
    loop {
        bytes.clear();
        number += 1;
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(());
        }
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(error) => {
                return Err(Error::Parse {
                    line: number,
                    column: error.valid_up_to() + 1,
                    what: "expected text",
                });
            }
        };
        let text = text.trim_end();
        // what some spreadsheets put before the first character
        let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text };
        if !text.trim_start().is_empty() && !text.trim_start().starts_with('#') {
            f(Line { number, text, position: 0 })?;
        }
    }
}
