//! The first line of a table, and how lines are cut into fields.

use super::trimmed;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Address,
    Kind,
    Bytes,
    Pc,
    Thread,
    Instructions,
}

/// Columns that are looked at; further ones are ignored.
const MOST: usize = 64;

/// Which column holds what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    separator: u8,
    columns: usize, // >= 1
    meaning: [Option<Column>; MOST],
}

impl Header {
    /// The header that `line` is, or `None` if it is to be skipped.
    pub(super) fn parse(line: &[u8]) -> Result<Option<Self>, &'static str> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line); // what spreadsheets put in front
        if is_skipped(line) {
            return Ok(None);
        }
        let has = |byte: u8| line.contains(&byte);
        let separator = [b',', b';', b'\t'].into_iter().find(|&byte| has(byte)).unwrap_or(b',');
        let mut header = Self { separator, columns: 0, meaning: [None; MOST] };
        let names = Self { separator, columns: 0, meaning: [None; MOST] };
        for (place, field) in names.fields(line).enumerate() {
            header.columns = place + 1;
            let column = named(unquoted(field)?);
            if column.is_some() && header.meaning.contains(&column) {
                return Err("the header names a column twice");
            }
            match header.meaning.get_mut(place) {
                Some(meaning) => *meaning = column,
                None if column.is_some() => return Err("the header names a column behind the 64th"),
                None => {}
            }
        }
        if !header.meaning.contains(&Some(Column::Address)) {
            return Err("expected a header with a column address \
                        (others: kind, bytes, pc, thread, instructions)");
        }
        Ok(Some(header))
    }

    pub(super) const fn columns(&self) -> usize {
        self.columns
    }

    /// What the column at `place` holds, if it is of any use.
    pub(super) fn column(&self, place: usize) -> Option<Column> {
        self.meaning.get(place).copied().flatten()
    }

    /// The fields of a line, with their quotes.
    pub(super) fn fields<'a>(&self, line: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let separator = self.separator;
        let mut quoted = false;
        line.split(move |&byte| {
            quoted ^= byte == b'"';
            byte == separator && !quoted
        })
    }
}

/// Whether a line is blank or a comment.
pub(super) fn is_skipped(line: &[u8]) -> bool {
    matches!(trimmed(line), [] | [b'#', ..])
}

/// A field without blanks and quotes around it.
pub(super) fn unquoted(field: &[u8]) -> Result<&[u8], &'static str> {
    match trimmed(field) {
        [b'"', text @ .., b'"'] => Ok(trimmed(text)),
        [b'"', ..] => Err("a quote that does not end with its field"),
        text => Ok(text),
    }
}

fn named(name: &[u8]) -> Option<Column> {
    const NAMES: [(&str, Column); 13] = [
        ("address", Column::Address),
        ("addr", Column::Address),
        ("kind", Column::Kind),
        ("type", Column::Kind),
        ("op", Column::Kind),
        ("bytes", Column::Bytes),
        ("size", Column::Bytes),
        ("length", Column::Bytes),
        ("pc", Column::Pc),
        ("ip", Column::Pc),
        ("thread", Column::Thread),
        ("tid", Column::Thread),
        ("instructions", Column::Instructions),
    ];
    NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes())).map(|&(_, column)| column)
}
