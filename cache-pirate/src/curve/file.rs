//! The cache-curve file, version 1: the format that cachesharing reads, as types for serde.
//!
//! The fields are those of `docs/cache-curve-format.md` in the repository; units and defaults are described
//! there. Which serialiser writes it is the caller's choice; the format is JSON.

use serde::{Deserialize, Serialize};

use super::{CacheCurve, CurvePoint};
use crate::error::PirateError;
use crate::testbed::SharedCache;
use crate::trust::{Distrust, Trust};

const FORMAT: &str = "cache-curve";
const VERSION: u32 = 1;

/// What time is counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TimeUnit {
    /// Cycles of the target's core.
    #[default]
    Cycle,
    /// Nanoseconds.
    Nanosecond,
}

/// A whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveFile {
    /// `cache-curve`.
    pub format: String,
    /// 1.
    pub version: u32,
    /// Name of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What progress is counted in.
    #[serde(default = "instruction")]
    pub work: String,
    /// What time is counted in.
    #[serde(default)]
    pub time: TimeUnit,
    /// Bytes in a line.
    pub line_size: u32,
    /// Accesses per unit of work.
    #[serde(default = "one")]
    pub mix: f64,
    /// Size of the shared cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// The curve of the whole run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<FilePoint>,
    /// The curves of its phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<FilePhase>,
    /// The run in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<FileWindow>,
}

/// A point of a file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilePoint {
    /// Bytes that were the program's.
    pub bytes: u64,
    /// Time per unit of work.
    pub cpi: f64,
    /// Misses per access.
    pub miss_ratio: f64,
    /// Fetches per access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch_ratio: Option<f64>,
    /// Hits per unit of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate: Option<f64>,
    /// Bytes per unit of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<f64>,
    /// Whether the measurement vouches for it.
    #[serde(default = "yes")]
    pub trusted: bool,
    /// Bound of the size that was really the program's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_at_least: Option<u64>,
    /// Bound of the size that was really the program's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_at_most: Option<u64>,
}

/// A phase of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilePhase {
    /// Number of the phase.
    pub phase: u64,
    /// Accesses per unit of work in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<f64>,
    /// Its curve; the file's if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<FilePoint>,
}

/// A window of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileWindow {
    /// Work done in it.
    pub work: f64,
    /// Number of its phase.
    #[serde(default)]
    pub phase: Option<u64>,
    /// Accesses per unit of work in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<f64>,
    /// Its curve; the phase's if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<FilePoint>,
}

fn instruction() -> String {
    "instruction".to_owned()
}

const fn one() -> f64 {
    1.0
}

const fn yes() -> bool {
    true
}

impl CacheCurve {
    /// The file of a whole run, without phases and windows; both may be added to what is returned.
    ///
    /// # Errors
    /// [`PirateError::NoMissRatio`] at the first point measured without memory counters.
    pub fn to_file(&self, name: Option<&str>) -> Result<CurveFile, PirateError> {
        Ok(CurveFile {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: name.map(str::to_owned),
            work: instruction(),
            time: TimeUnit::Cycle,
            line_size: self.cache.line_size,
            mix: self.mix().unwrap_or(1.0),
            cache_bytes: Some(self.cache.bytes),
            points: self.file_points()?,
            phases: Vec::new(),
            windows: Vec::new(),
        })
    }

    /// The curve as an entry of [`CurveFile::phases`].
    ///
    /// # Errors
    /// As [`to_file`](Self::to_file).
    pub fn to_phase(&self, phase: u64) -> Result<FilePhase, PirateError> {
        Ok(FilePhase { phase, mix: self.mix(), points: self.file_points()? })
    }

    /// Accesses per unit of work: the largest size's.
    fn mix(&self) -> Option<f64> {
        self.points.iter().rev().find_map(|point| point.mix)
    }

    fn file_points(&self) -> Result<Vec<FilePoint>, PirateError> {
        self.points.iter().map(CurvePoint::file_point).collect()
    }
}

impl CurvePoint {
    fn file_point(&self) -> Result<FilePoint, PirateError> {
        Ok(FilePoint {
            bytes: self.bytes,
            cpi: self.cpi,
            miss_ratio: self.miss_ratio.ok_or(PirateError::NoMissRatio { bytes: self.bytes })?,
            fetch_ratio: self.fetch_ratio,
            hit_rate: self.hit_rate,
            bandwidth: self.bandwidth,
            trusted: self.is_trusted(),
            bytes_at_least: Some(self.effective_bytes.0),
            bytes_at_most: Some(self.effective_bytes.1),
        })
    }
}

impl CurveFile {
    /// The curve of the whole run. What a file does not hold (number of intervals, standard error, the pirate's
    /// counts) is 1 interval, none, and the fetch ratio that the bounds of the size stand for.
    ///
    /// # Errors
    /// [`PirateError::File`] for another format or version, and those of
    /// [`CacheCurve::from_points`], which names the first point that is out of range.
    pub fn curve(&self) -> Result<CacheCurve, PirateError> {
        if self.format != FORMAT {
            let value = self.format.clone();
            return Err(PirateError::File { what: "format", value, remedy: "`cache-curve`" });
        }
        if self.version != VERSION {
            let value = self.version.to_string();
            return Err(PirateError::File { what: "version", value, remedy: "1, the only one known" });
        }
        if !self.line_size.is_power_of_two() {
            let value = self.line_size.to_string();
            return Err(PirateError::File { what: "line_size", value, remedy: "a power of two" });
        }
        if !(self.mix.is_finite() && self.mix > 0.0) {
            let value = self.mix.to_string();
            return Err(PirateError::File { what: "mix", value, remedy: "a finite number above 0" });
        }
        let largest = self.points.iter().map(|point| point.bytes).max().unwrap_or(0);
        let bytes = self.cache_bytes.unwrap_or(largest);
        let cache = SharedCache { bytes, line_size: self.line_size };
        let points = self.points.iter().map(|point| point.to_point(cache, self.mix)).collect();
        CacheCurve::from_points(cache, points)
    }
}

impl FilePoint {
    fn to_point(self, cache: SharedCache, mix: f64) -> CurvePoint {
        let effective = (self.bytes_at_least.unwrap_or(self.bytes), self.bytes_at_most.unwrap_or(self.bytes));
        let stolen = cache.bytes.saturating_sub(self.bytes);
        let lost = effective.1.saturating_sub(self.bytes);
        let fetch_ratio = if stolen > 0 { lost as f64 / stolen as f64 } else { 0.0 };
        let reason = Distrust::LostLines { fetch_ratio, limit: 0.0 };
        CurvePoint {
            bytes: self.bytes,
            effective_bytes: effective,
            cpi: self.cpi,
            cpi_error: None,
            miss_ratio_error: None,
            fetch_ratio_error: None,
            bandwidth_error: None,
            mix: Some(mix),
            miss_ratio: Some(self.miss_ratio),
            fetch_ratio: self.fetch_ratio,
            hit_rate: self.hit_rate,
            bandwidth: self.bandwidth,
            spared: None,
            pirate_fetch_ratio: fetch_ratio,
            intervals: 1,
            trust: if self.trusted { Trust::Trusted } else { Trust::Untrusted(reason) },
        }
    }
}
