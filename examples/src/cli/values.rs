//! Numbers as values of options, each refused in the words that say what is wanted.

use clap::ValueEnum;
use reuse_sampler::LineSize;

use super::parse_bytes;

/// A choice by its name on the command line.
pub trait ByName: ValueEnum {
    /// That name.
    fn name(&self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl<T: ValueEnum> ByName for T {}

/// A finite number that `allowed` accepts; `wanted` says which ones those are.
pub(crate) fn number(text: &str, allowed: impl Fn(f64) -> bool, wanted: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok();
    value.filter(|&value| value.is_finite() && allowed(value)).ok_or_else(|| wanted.to_owned())
}

/// A finite number above 0.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    number(text, |value| value > 0.0, "give a finite number above 0")
}

/// A finite number of at least 0.
pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    number(text, |value| value >= 0.0, "give a finite number of at least 0")
}

/// The share of accesses to sample, above 0 and at most 1.
pub(crate) fn sample_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        Ok(rate) if rate > 1.0 => {
            Err(format!("more than every access; for one access in {text}, give {:.3e}", 1.0 / rate))
        }
        _ => Err("give a share above 0 and at most 1, for example 0.01 for one access in 100".to_owned()),
    }
}

/// The size of a cache line.
pub(crate) fn line_size(text: &str) -> Result<LineSize, String> {
    let bytes = parse_bytes(text)?;
    LineSize::new(u32::try_from(bytes).unwrap_or(u32::MAX)).map_err(|error| error.to_string())
}
