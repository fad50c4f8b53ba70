//! How long a program, alone, takes to fill part of a cache: the clock by which programs are compared.
//!
//! A program that holds c bytes brings in m(c) bytes per access. Between two knots m is a straight line, so the
//! number of accesses n(c), the integral of dc / m(c), is a logarithm, and its inverse an exponential: both
//! exact, with no grid.

use super::Knot;
use super::monotone::make_non_increasing;

/// Lines per access that even a program that fits is taken to bring in, so that every cache fills some day.
pub(super) const LEAST_INFLOW: f64 = 1e-6;

/// Filling accesses over size, and back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filling {
    pieces: Vec<Piece>, // at least one; sizes and filling accesses rise
    is_counted: bool,   // whether they are those of a footprint
}

/// A straight piece of the inflow, up to the next piece's beginning; the last one has no end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    accesses: f64,     // to fill up to the beginning
    bytes: f64,        // at the beginning
    inflow: f64,       // bytes per access at the beginning, > 0
    inflow_slope: f64, // per byte, <= 0
    time: f64,         // time per access at the beginning, > 0
    time_slope: f64,   // per byte
}

impl Piece {
    /// Time per access times bytes.
    #[inline]
    fn product(&self) -> f64 {
        self.time * self.bytes
    }
}

/// What a program is like at one size, and the piece it was found in, to start the next search from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lookup {
    pub bytes: f64,
    pub inflow: f64,     // bytes per access
    pub time: f64,       // per access
    pub time_slope: f64, // per byte
    piece: usize,
}

impl Filling {
    pub(super) fn new(knots: &[Knot], mix: f64, line_size: u32) -> Self {
        let line = f64::from(line_size);
        let mut inflow: Vec<f64> = knots.iter().map(|k| k.fetches).collect();
        make_non_increasing(&mut inflow);
        for value in &mut inflow {
            *value = value.max(LEAST_INFLOW) * line;
        }
        let mut accesses = 0.0;
        let mut pieces = Vec::with_capacity(knots.len());
        for (i, knot) in knots.iter().enumerate() {
            let mut piece = Piece {
                accesses,
                bytes: knot.bytes,
                inflow: inflow[i],
                inflow_slope: 0.0,
                time: knot.cpi / mix,
                time_slope: 0.0,
            };
            if let Some(next) = knots.get(i + 1) {
                let width = next.bytes - knot.bytes;
                piece.inflow_slope = (inflow[i + 1] - inflow[i]) / width;
                piece.time_slope = (next.cpi - knot.cpi) / mix / width;
                accesses += width / logarithmic_mean(inflow[i], inflow[i + 1]);
            }
            pieces.push(piece);
        }
        Self { pieces, is_counted: false }
    }

    /// As counted: the lines used within each of several rising times.
    pub(super) fn counted(knots: &[Knot], mix: f64, line_size: u32, footprint: &[(f64, f64)]) -> Self {
        let line = f64::from(line_size);
        let mut inflow = Vec::with_capacity(footprint.len());
        let mut before = (0.0, 0.0);
        for &(accesses, lines) in footprint {
            inflow.push((lines - before.1) / (accesses - before.0));
            before = (accesses, lines);
        }
        make_non_increasing(&mut inflow);
        let (mut accesses, mut bytes) = (0.0, 0.0);
        let mut pieces: Vec<Piece> = Vec::new();
        let mut knots = knots.iter().peekable();
        let (mut time, mut time_slope) = (0.0, 0.0);
        for (number, inflow) in inflow.iter().map(|inflow| inflow.max(LEAST_INFLOW) * line).enumerate() {
            let end = match footprint.get(number) {
                Some(&(end, _)) if number + 1 < footprint.len() => end,
                _ => f64::INFINITY,
            };
            loop {
                if let Some(knot) = knots.next_if(|knot| knot.bytes <= bytes) {
                    time = knot.cpi / mix;
                    time_slope =
                        knots.peek().map_or(0.0, |next| (next.cpi / mix - time) / (next.bytes - knot.bytes));
                    continue;
                }
                pieces.push(Piece { accesses, bytes, inflow, inflow_slope: 0.0, time, time_slope });
                let left = (end - accesses) * inflow;
                match knots.peek() {
                    Some(knot) if knot.bytes <= bytes + left => {
                        accesses += (knot.bytes - bytes) / inflow;
                        time += time_slope * (knot.bytes - bytes);
                        bytes = knot.bytes;
                    }
                    _ => {
                        accesses = end;
                        time += time_slope * left;
                        bytes += left;
                        break;
                    }
                }
            }
        }
        Self { pieces, is_counted: true }
    }

    /// The size that `accesses` accesses fill, found from where the last search ended.
    #[inline]
    pub(crate) fn after(&self, accesses: f64, at: &mut Lookup) {
        let mut index = at.piece;
        while index > 0 && self.pieces[index].accesses > accesses {
            index -= 1;
        }
        while self.pieces.get(index + 1).is_some_and(|next| next.accesses <= accesses) {
            index += 1;
        }
        let piece = &self.pieces[index];
        let passed = accesses - piece.accesses;
        let exponent = piece.inflow_slope * passed;
        let filled = if exponent.abs() < 1e-5 {
            // The exponential's series: (e^x - 1) / x loses digits here.
            let growth = 1.0 + exponent * (0.5 + exponent / 6.0);
            at.inflow = piece.inflow * (1.0 + exponent * (1.0 + exponent * 0.5));
            piece.inflow * passed * growth
        } else {
            let factor = exponent.exp();
            at.inflow = piece.inflow * factor;
            piece.inflow * (factor - 1.0) / piece.inflow_slope
        };
        at.bytes = piece.bytes + filled;
        at.time = piece.time + piece.time_slope * filled;
        at.time_slope = piece.time_slope;
        at.piece = index;
    }

    /// What the program is like that was at `bytes` after `made` accesses, `accesses` later, found from where the last search
    /// ended.
    #[inline]
    pub(crate) fn grown(&self, bytes: f64, made: f64, accesses: f64, at: &mut Lookup) {
        if self.is_counted {
            // What it uses now is new if it was used before those.
            self.after(made, at);
            let before = at.bytes;
            self.after(made + accesses, at);
            at.bytes += bytes - before;
            return;
        }
        self.at(bytes, at);
        let piece = &self.pieces[at.piece];
        let exponent = piece.inflow_slope * accesses;
        let filled = if exponent.abs() < 0.25 {
            // The exponential's series, to 2e-9.
            let x = exponent;
            let tail = 1.0 / 24.0 + x * (1.0 / 120.0 + x * (1.0 / 720.0 + x / 5040.0));
            let growth = 1.0 + x * (0.5 + x * (1.0 / 6.0 + x * tail));
            at.inflow * accesses * growth
        } else {
            at.inflow * exponent.exp_m1() / piece.inflow_slope
        };
        if self.pieces.get(at.piece + 1).is_none_or(|next| bytes + filled <= next.bytes) {
            at.bytes = bytes + filled;
        } else {
            let passed = piece.accesses + (bytes - piece.bytes) / logarithmic_mean(piece.inflow, at.inflow);
            self.after(passed + accesses, at);
        }
    }

    /// What the program is like at `bytes`, found from where the last search ended.
    #[inline]
    pub(crate) fn at(&self, bytes: f64, at: &mut Lookup) {
        let mut index = at.piece;
        while index > 0 && self.pieces[index].bytes > bytes {
            index -= 1;
        }
        while self.pieces.get(index + 1).is_some_and(|next| next.bytes <= bytes) {
            index += 1;
        }
        let piece = &self.pieces[index];
        let filled = bytes - piece.bytes;
        *at = Lookup {
            bytes,
            inflow: piece.inflow + piece.inflow_slope * filled,
            time: piece.time + piece.time_slope * filled,
            time_slope: piece.time_slope,
            piece: index,
        };
    }

    /// The size at which a byte of the program's share is replaced `rate` times per unit of time by what it
    /// brings in itself: inflow / (time * size) = rate.
    #[inline]
    pub(crate) fn replaced_at(&self, rate: f64, at: &mut Lookup) {
        let mut index = at.piece;
        while index > 0 && self.pieces[index].inflow < rate * self.pieces[index].product() {
            index -= 1;
        }
        while self.pieces.get(index + 1).is_some_and(|next| next.inflow >= rate * next.product()) {
            index += 1;
        }
        let Piece { bytes, inflow, inflow_slope, time, time_slope, .. } = self.pieces[index];
        // a d^2 + b d + c = 0 for the bytes d beyond the beginning of the piece, c <= 0.
        let a = rate * time_slope;
        let b = rate * (time + time_slope * bytes) - inflow_slope;
        let c = rate * time * bytes - inflow;
        let root = (b * b - 4.0 * a * c).max(0.0).sqrt();
        let beyond = if b > 0.0 { -2.0 * c / (b + root) } else { (root - b) / (2.0 * a) };
        let width = self.pieces.get(index + 1).map_or(f64::INFINITY, |next| next.bytes - bytes);
        let beyond = if beyond.is_finite() { beyond.clamp(0.0, width) } else { 0.0 };
        *at = Lookup {
            bytes: bytes + beyond,
            inflow: inflow + inflow_slope * beyond,
            time: time + time_slope * beyond,
            time_slope,
            piece: index,
        };
    }

    /// Bytes that an access brings in at first.
    pub(super) fn first_inflow(&self) -> f64 {
        self.pieces.first().map_or(0.0, |piece| piece.inflow)
    }

    /// By how much less an access brings in from some time on, in bytes: times in accesses, rising, and differences.
    pub(super) fn slowing(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.pieces.windows(2).flat_map(|pair| {
            let [piece, next] = [pair[0], pair[1]];
            let end = piece.inflow + piece.inflow_slope * (next.bytes - piece.bytes);
            [
                (f64::midpoint(piece.accesses, next.accesses), (piece.inflow - end).max(0.0)),
                (next.accesses, (end - next.inflow).max(0.0)),
            ]
        })
    }

    /// Accesses that fill `bytes`.
    pub(crate) fn accesses(&self, bytes: f64) -> f64 {
        let mut at = Lookup::default();
        self.at(bytes, &mut at);
        let piece = &self.pieces[at.piece];
        piece.accesses + (bytes - piece.bytes) / logarithmic_mean(piece.inflow, at.inflow)
    }
}

/// (a - b) / ln(a / b), and a where both are equal.
fn logarithmic_mean(a: f64, b: f64) -> f64 {
    let ratio = b / a - 1.0;
    if ratio.abs() < 1e-5 { a * (1.0 + ratio * (0.5 - ratio / 12.0)) } else { a * ratio / ratio.ln_1p() }
}
