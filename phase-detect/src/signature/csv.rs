//! Ready signatures from a table: one row per window, one column per entry.
//!
//! Plain numbers separated by commas, blanks around them allowed; a first row that does not begin with a number is a
//! header. Quoted fields, other separators and decimal commas are left out: tables of numbers do not need them.

use std::io::BufRead;

use super::{Signature, SignatureKind};
use crate::Error;
use crate::text::{Line, for_each_line};

/// Reads signatures of one kind. Blank lines and lines that begin with `#` are skipped.
///
/// ```
/// use phase_detect::SignatureKind;
/// use phase_detect::signature::read_csv;
///
/// let table = "loads, stores\n10, 30\n20, 20\n";
/// let windows = read_csv(table.as_bytes(), SignatureKind::Frequency)?;
/// assert_eq!(windows[0].values(), [0.25, 0.75]);
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # Errors
/// [`Error::Parse`] with line and column (from 1, in characters) of a field that is not a number or not allowed in a
/// signature of this kind, of a row with another number of fields than the first, or of a frequency row without a
/// positive entry; [`Error::Read`] if reading fails; [`Error::NoWindows`] if there is no row.
pub fn read_csv(reader: impl BufRead, kind: SignatureKind) -> Result<Vec<Signature>, Error> {
    let mut windows: Vec<Signature> = Vec::new();
    let mut first_row = true;
    for_each_line(reader, |line| {
        let header = std::mem::take(&mut first_row) && first_field(&line).parse::<f64>().is_err();
        if !header {
            let values = row(&line, kind, windows.first().map(Signature::len))?;
            let signature = match kind {
                SignatureKind::Frequency => Signature::frequency(values),
                SignatureKind::Raw => Signature::raw(values),
            };
            windows
                .push(signature.map_err(|_| line.error(0, "a row of frequencies needs an entry above 0"))?);
        }
        Ok(())
    })?;
    if windows.is_empty() { Err(Error::NoWindows) } else { Ok(windows) }
}

fn first_field<'a>(line: &Line<'a>) -> &'a str {
    line.text().split(',').next().unwrap_or("").trim()
}

/// The numbers of one row, `len` of them if that is known.
fn row(line: &Line<'_>, kind: SignatureKind, len: Option<usize>) -> Result<Vec<f64>, Error> {
    let mut values = Vec::with_capacity(len.unwrap_or(0));
    let mut start = 0;
    for field in line.text().split(',') {
        let at = start + (field.len() - field.trim_start().len());
        if len == Some(values.len()) {
            return Err(line.error(at, "this row has more fields than the first one"));
        }
        let value: f64 = field.trim().parse().map_err(|_| line.error(at, "expected a number"))?;
        if !value.is_finite() {
            return Err(line.error(at, "entries must be finite"));
        }
        if kind == SignatureKind::Frequency && value < 0.0 {
            return Err(line.error(at, "frequencies must not be negative"));
        }
        values.push(value);
        start += field.len() + 1;
    }
    if len.is_some_and(|len| len != values.len()) {
        return Err(line.error(line.text().len(), "this row has fewer fields than the first one"));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_survive_a_round_trip() {
        fn law(rows: Vec<(f64, f64, u8)>, header: bool) -> bool {
            let rows: Vec<[f64; 3]> = rows
                .into_iter()
                .map(|(a, b, c)| [a, b, f64::from(c)])
                .filter(|r| r.iter().all(|v| v.is_finite()))
                .collect();
            let head = String::from(if header { "\u{feff}a,b,c\n" } else { "\u{feff}" });
            let table = rows.iter().fold(head, |t, [a, b, c]| t + &format!("{a} ,{b:e},\t{c}\r\n"));
            match read_csv(table.as_bytes(), SignatureKind::Raw) {
                Ok(windows) => windows.iter().map(Signature::values).eq(rows.iter()),
                Err(Error::NoWindows) => rows.is_empty(),
                Err(_) => false,
            }
        }
        quickcheck::quickcheck(law as fn(Vec<(f64, f64, u8)>, bool) -> bool);
    }

    #[test]
    fn mistakes_are_named_by_line_and_column() {
        for (table, line, column) in [
            ("a,b\n1,2\n3,x\n", 3, 3),
            ("1,2\n3\n", 2, 2),
            ("1,2\n3,4,5\n", 2, 5),
            ("1,2\n3,\n", 2, 3),
            ("1, -2\n", 1, 4),
            ("1,nan\n", 1, 3),
            ("1,1e999\n", 1, 3),
            ("1,2\n\n# note\n0,0\n", 4, 1),
            ("a,b\nc,d\n", 2, 1),
        ] {
            match read_csv(table.as_bytes(), SignatureKind::Frequency) {
                Err(Error::Parse { line: l, column: c, .. }) => {
                    assert_eq!((l, c), (line, column), "{table:?}");
                }
                other => panic!("{table:?} gave {other:?}"),
            }
        }
        assert!(matches!(read_csv(&b"a,b\n"[..], SignatureKind::Raw), Err(Error::NoWindows)));
        assert!(read_csv(&b"-1,0\n"[..], SignatureKind::Raw).is_ok());
    }

    #[test]
    fn noise_is_answered() {
        fn law(picks: Vec<u8>) -> bool {
            const PIECES: [&str; 10] = ["1", ",", "\n", " ", "x", "-", ".", "e", "#", "\u{e9}"];
            let text: String = picks.iter().map(|p| PIECES[usize::from(*p) % 10]).collect();
            let _ = (
                read_csv(text.as_bytes(), SignatureKind::Frequency),
                read_csv(&picks[..], SignatureKind::Raw),
            );
            true
        }
        quickcheck::QuickCheck::new().tests(1000).quickcheck(law as fn(Vec<u8>) -> bool);
    }
}
