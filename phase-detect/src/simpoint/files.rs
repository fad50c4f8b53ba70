//! The files SimPoint reads and writes.
//!
//! `.bb`: one line per window, `T` followed by `:block:count` pairs (valgrind's exp-bbv, gem5, QEMU's bbv plugin); other lines
//! are skipped.
//! `.simpoints`: `window phase` per simulation point. `.weights`: `weight phase`. `.labels`: `phase distance` per
//! window. Readers name the line and column of what they do not understand, both counted from 1.

use std::fmt::Display;
use std::io::{BufRead, Write};

use crate::text::{Line, Lines, for_each_line};
use crate::{CodeVector, Error, PhaseId};

/// How often each block was executed in a window, times its instructions.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockVector {
    // not empty; block numbers and positive, finite counts
    blocks: Vec<(u64, f64)>,
    // finite
    total: f64,
}

impl BlockVector {
    /// A window from `(block, count)` pairs. Counts of 0 are left out.
    ///
    /// # Errors
    /// [`Error::BadWeight`] for a count that is negative or not finite, [`Error::NothingObserved`] if there is no
    /// count above 0 or the counts overflow together.
    pub fn new(blocks: impl IntoIterator<Item = (u64, f64)>) -> Result<Self, Error> {
        let mut kept = Vec::new();
        let mut total = 0.0;
        for (block, count) in blocks {
            if !(0.0..f64::INFINITY).contains(&count) {
                return Err(Error::BadWeight { value: count });
            }
            if count > 0.0 {
                kept.push((block, count));
                total += count;
            }
        }
        if kept.is_empty() || total == f64::INFINITY {
            return Err(Error::NothingObserved { entries: kept.len() });
        }
        Ok(Self { blocks: kept, total })
    }

    /// The blocks and their counts, as given.
    pub fn blocks(&self) -> &[(u64, f64)] {
        &self.blocks
    }

    /// Sum of all counts: the instructions of the window, positive.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Adds the window to a builder of short code vectors, block numbers taking the place of addresses.
    pub fn add_to(&self, code: &mut CodeVector) {
        code.extend(self.blocks.iter().copied());
    }
}

/// A line of a `.labels` file.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LabelledWindow {
    /// The phase of the window.
    pub phase: PhaseId,
    /// Its distance from the centre of the phase, if the file has it.
    pub distance: Option<f64>,
}

/// The windows of a `.bb` file, one after the other. Lines that do not begin with `T` are skipped, as SimPoint does.
///
/// # Errors
/// [`Error::Parse`] with line and column of what is malformed, also for a window without a positive count;
/// [`Error::Read`] if reading fails.
pub fn bb_windows(reader: impl BufRead) -> impl Iterator<Item = Result<BlockVector, Error>> {
    let mut lines = Lines::new(reader);
    std::iter::from_fn(move || {
        loop {
            match lines.next_with(|mut line| window(&mut line))? {
                Ok(None) => {}
                Ok(Some(window)) => return Some(Ok(window)),
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

/// The window of a line that begins with `T`.
fn window(line: &mut Line<'_>) -> Result<Option<BlockVector>, Error> {
    let (start, first) = line.piece().unwrap_or((0, ""));
    if !first.starts_with('T') {
        return Ok(None);
    }
    line.go_to(start + 1); // the first pair may follow the T at once
    let mut blocks = Vec::new();
    while let Some((start, piece)) = line.piece() {
        blocks.push(pair(line, start, piece)?);
    }
    BlockVector::new(blocks)
        .map(Some)
        .map_err(|_| line.error(start, "a window needs at least one block with a count above 0"))
}

/// A `:block:count` pair that begins at `start`.
fn pair(line: &Line<'_>, start: usize, piece: &str) -> Result<(u64, f64), Error> {
    let body = piece.strip_prefix(':').ok_or_else(|| line.error(start, "expected :block:count"))?;
    let colon = body.find(':').ok_or_else(|| line.error(start + piece.len(), "expected : and a count"))?;
    let block = body[..colon].parse().map_err(|_| line.error(start + 1, "expected a block number"))?;
    let count = body[colon + 1..].parse().ok().filter(|c| (0.0..f64::INFINITY).contains(c));
    let count =
        count.ok_or_else(|| line.error(start + colon + 2, "expected a finite count that is not negative"))?;
    Ok((block, count))
}

/// Writes windows as a `.bb` file.
///
/// # Errors
/// [`Error::Read`] if writing fails.
pub fn write_bb<'a>(
    mut writer: impl Write,
    windows: impl IntoIterator<Item = &'a BlockVector>,
) -> Result<(), Error> {
    for window in windows {
        write!(writer, "T")?;
        for (block, count) in window.blocks() {
            write!(writer, ":{block}:{count} ")?;
        }
        writeln!(writer)?;
    }
    Ok(())
}

/// Reads a `.simpoints` file: window and phase of each point.
///
/// # Errors
/// [`Error::Parse`] with line and column of what is malformed, [`Error::Read`] if reading fails.
pub fn read_simpoints(reader: impl BufRead) -> Result<Vec<(usize, PhaseId)>, Error> {
    let mut points = Vec::new();
    for_each_line(reader, |mut line| {
        let window = line.value("expected the number of a window")?;
        let phase = line.value("expected the number of a phase")?;
        line.end()?;
        points.push((window, PhaseId::new(phase)));
        Ok(())
    })?;
    Ok(points)
}

/// Reads a `.weights` file: weight and phase of each point.
pub(super) fn read_weights(reader: impl BufRead) -> Result<Vec<(f64, PhaseId)>, Error> {
    const WHAT: &str = "expected a weight from 0 to 1";
    let mut weights = Vec::new();
    for_each_line(reader, |mut line| {
        let (start, piece) = line.piece().unwrap_or((0, ""));
        let weight = piece.parse().ok().filter(|w| (0.0..=1.0).contains(w));
        let weight = weight.ok_or_else(|| line.error(start, WHAT))?;
        let phase = line.value("expected the number of a phase")?;
        line.end()?;
        weights.push((weight, PhaseId::new(phase)));
        Ok(())
    })?;
    Ok(weights)
}

/// Reads a `.labels` file: the phase of each window and, if present, its distance from the centre.
///
/// # Errors
/// [`Error::Parse`] with line and column of what is malformed, [`Error::Read`] if reading fails.
pub fn read_labels(reader: impl BufRead) -> Result<Vec<LabelledWindow>, Error> {
    const WHAT: &str = "expected a distance that is finite and not negative";
    let mut labels = Vec::new();
    for_each_line(reader, |mut line| {
        let phase = PhaseId::new(line.value("expected the number of a phase")?);
        let distance = match line.piece() {
            None => None,
            Some((start, piece)) => {
                let distance = piece.parse().ok().filter(|d| (0.0..f64::INFINITY).contains(d));
                Some(distance.ok_or_else(|| line.error(start, WHAT))?)
            }
        };
        line.end()?;
        labels.push(LabelledWindow { phase, distance });
        Ok(())
    })?;
    Ok(labels)
}

/// Two columns separated by a blank.
pub(super) fn lines<A: Display, B: Display>(rows: impl Iterator<Item = (A, B)>) -> String {
    rows.fold(String::new(), |file, (a, b)| file + &format!("{a} {b}\n"))
}

/// A number as C and C++ print it by default (`%g`): six significant digits, without trailing zeros.
pub(super) fn general(value: f64) -> String {
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |digits: &str| {
        let end =
            if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        end.to_owned()
    };
    if (-4..6).contains(&exponent) {
        trimmed(&format!("{value:.*}", (5 - exponent) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(digits), exponent.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `printf("%g")` gives.
    #[test]
    fn numbers_look_as_in_c() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (1.0 / 3.0, "0.333333"),
            (0.999_999_9, "1"),
            (123_456.7, "123457"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_123_456_78, "0.000123457"),
            (0.000_012_345, "1.2345e-05"),
            (1e-100, "1e-100"),
        ] {
            assert_eq!(general(value), text);
        }
    }
}
