//! The cache-curve file: what `cache-pirate` measures and this crate reads, without either knowing the other.
//!
//! The format is written down in `docs/cache-curve-format.md` of the repository. Here are its types for `serde`;
//! which text they are read from is the caller's choice (the format is JSON).

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::{CacheCurve, CurvePoint, Program, ReuseTimes, SetReuse, TimeUnit, Units, Window};

const FORMAT: &str = "cache-curve";
const VERSION: u32 = 1;

/// A cache-curve file as it is written: nothing in it is checked before
/// [`into_program`](ProgramFile::into_program).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramFile {
    /// `cache-curve`.
    pub format: String,
    /// 1.
    pub version: u32,
    /// Name of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Unit of work.
    #[serde(default = "instruction")]
    pub work: String,
    /// Unit of time: `cycle` or `nanosecond`.
    #[serde(default = "cycle")]
    pub time: String,
    /// Bytes in a cache line.
    pub line_size: u32,
    /// Memory accesses per unit of work.
    #[serde(default = "one")]
    pub mix: f64,
    /// Bytes of the shared cache it was measured in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// Relative error that its curves may cause in slowdowns, where they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<f64>,
    /// The curve of the whole run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PointRecord>,
    /// Reuse times of the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<ReuseRecord>,
    /// The phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseRecord>,
    /// The windows in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowRecord>,
}

/// A point as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointRecord {
    /// Bytes of the shared cache.
    pub bytes: u64,
    /// Time per unit of work.
    pub cpi: f64,
    /// Misses per access.
    pub miss_ratio: f64,
    /// Lines fetched per access; `miss_ratio` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch_ratio: Option<f64>,
    /// Hits in the shared cache per unit of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate: Option<f64>,
    /// Part of the time in which the program waits for memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_rate: Option<f64>,
    /// Bytes from memory per unit of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<f64>,
    /// Whether the measurement vouches for it.
    #[serde(default = "yes")]
    pub trusted: bool,
}

/// A phase as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Its number.
    pub phase: u64,
    /// Its accesses per unit of work; the file's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<f64>,
    /// Its curve; the file's if empty.
    #[serde(default)]
    pub points: Vec<PointRecord>,
    /// Its reuse times, beside points of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<ReuseRecord>,
}

/// A window as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowRecord {
    /// Work done in it.
    pub work: f64,
    /// Number of its phase; phase 0 if absent or null.
    #[serde(default)]
    pub phase: Option<u64>,
    /// Its accesses per unit of work; its phase's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<f64>,
    /// Its curve; its phase's if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PointRecord>,
    /// Its reuse times, beside points of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<ReuseRecord>,
}

/// Reuse times as they are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReuseRecord {
    /// Bytes of a way of the cache they were counted in.
    pub way_bytes: u64,
    /// Variances of the number of lines used in a set, where it is 1, 2, 3, ... on average.
    pub variances: Vec<f64>,
    /// Distance in lines of the set, accesses, number of reuses.
    pub reuses: Vec<(u32, f64, f64)>,
    /// The same as `reuses`, of lines that a prefetcher asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefetches: Vec<(u32, f64, f64)>,
    /// Times in accesses, each with the lines used within it. Nothing if they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub footprint: Vec<(f64, f64)>,
}

fn instruction() -> String {
    Units::default().work
}

fn cycle() -> String {
    "cycle".to_owned()
}

const fn one() -> f64 {
    1.0
}

const fn yes() -> bool {
    true
}

impl ProgramFile {
    /// Checks the file and makes a program of it. `fallback` names one that has no name.
    ///
    /// Untrusted points are left out, unless `untrusted` asks for them. A file without windows becomes one window
    /// of each phase, of one unit of work; a file without phases, one phase, 0.
    ///
    /// # Errors
    /// [`Error::Format`], [`Error::TimeUnit`], and whatever [`CacheCurve::new`], [`Program::new`] and
    /// [`Program::with_uncertainty`] refuse;
    /// [`Error::NoCurve`] where neither window nor phase nor file has points.
    pub fn into_program(self, fallback: &str, untrusted: bool) -> Result<Program<u64>, Error> {
        if self.format != FORMAT || self.version != VERSION {
            return Err(Error::Format { format: self.format, version: self.version, known: VERSION });
        }
        let time = match self.time.as_str() {
            "cycle" => TimeUnit::Cycle,
            "nanosecond" => TimeUnit::Nanosecond,
            _ => return Err(Error::TimeUnit { unit: self.time }),
        };
        let units = Units { time, work: self.work };
        let name = self.name.unwrap_or_else(|| fallback.to_owned());
        let line_size = self.line_size;
        let curve = |points: &[PointRecord], reuse: Option<&ReuseRecord>, mix: f64| {
            if points.is_empty() {
                return Ok(None);
            }
            let kept = points.iter().filter(|p| untrusted || p.trusted).map(PointRecord::point);
            let curve = CacheCurve::new(kept.collect(), mix, line_size)?;
            match reuse {
                Some(record) => curve.with_reuse_times(record.reuse_times()?).map(Some),
                None => Ok(Some(curve)),
            }
        };
        let whole = curve(&self.points, self.reuse.as_ref(), self.mix)?;
        let mut windows = self.windows;
        if windows.is_empty() {
            let numbers =
                if self.phases.is_empty() { vec![0] } else { self.phases.iter().map(|p| p.phase).collect() };
            windows = numbers
                .into_iter()
                .map(|phase| WindowRecord {
                    work: 1.0,
                    phase: Some(phase),
                    mix: None,
                    points: Vec::new(),
                    reuse: None,
                })
                .collect();
        }
        let mix_of = |phase: u64| {
            self.phases.iter().find(|p| p.phase == phase).and_then(|p| p.mix).unwrap_or(self.mix)
        };
        let mut phases = Vec::new();
        for record in &self.phases {
            let own = curve(&record.points, record.reuse.as_ref(), mix_of(record.phase))?;
            phases.extend(own.or_else(|| whole.clone()).map(|c| (record.phase, c)));
        }
        // Windows of a phase that is not listed do what the whole does, unless all of them are measured: then
        // their average is nearer.
        for window in &windows {
            let phase = window.phase.unwrap_or(0);
            let of_phase = |w: &&WindowRecord| w.phase.unwrap_or(0) == phase;
            if phases.iter().all(|(p, _)| *p != phase)
                && windows.iter().filter(of_phase).any(|w| w.points.is_empty())
            {
                phases.extend(whole.clone().map(|c| (phase, c)));
            }
        }
        let windows = windows
            .iter()
            .map(|record| {
                let phase = record.phase.unwrap_or(0);
                let mix = record.mix.unwrap_or_else(|| mix_of(phase));
                let curve = curve(&record.points, record.reuse.as_ref(), mix)?;
                Ok(Window { work: record.work, phase, curve })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        Program::new(name, phases, windows)?
            .with_units(units)
            .with_uncertainty(self.uncertainty.unwrap_or(0.0))
    }

    /// The file of a program. The curve of the whole run is its phases' average.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`] if its curves differ in that.
    pub fn from_program(program: &Program<u64>) -> Result<Self, Error> {
        let whole = program.average()?;
        let time = match program.units().time {
            TimeUnit::Cycle => "cycle",
            TimeUnit::Nanosecond => "nanosecond",
        };
        let phase = |(phase, curve): &(u64, CacheCurve)| PhaseRecord {
            phase: *phase,
            mix: Some(curve.mix()),
            points: records(curve),
            reuse: curve.reuse_times().map(ReuseRecord::of),
        };
        let window = |w: &crate::program::PlacedWindow| {
            let own = w.curve.map(|curve| &program.window_curves()[curve]);
            WindowRecord {
                work: w.work,
                phase: Some(program.phases()[w.phase].0),
                mix: own.map(CacheCurve::mix),
                points: own.map(records).unwrap_or_default(),
                reuse: own.and_then(CacheCurve::reuse_times).map(ReuseRecord::of),
            }
        };
        Ok(Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: Some(program.name().to_owned()),
            work: program.units().work.clone(),
            time: time.to_owned(),
            line_size: whole.line_size(),
            mix: whole.mix(),
            cache_bytes: None,
            uncertainty: Some(program.uncertainty()).filter(|&part| part > 0.0),
            points: records(&whole),
            reuse: whole.reuse_times().map(ReuseRecord::of),
            phases: program.phases().iter().map(phase).collect(),
            windows: program.placed().iter().map(window).collect(),
        })
    }
}

impl ReuseRecord {
    fn of(times: &ReuseTimes) -> Self {
        let rows = |reuses: &[SetReuse]| reuses.iter().map(|r| (r.distance, r.accesses, r.count)).collect();
        Self {
            way_bytes: times.way_bytes(),
            variances: times.variances().to_vec(),
            reuses: rows(times.reuses()),
            prefetches: rows(times.prefetches()),
            footprint: times.footprint().to_vec(),
        }
    }

    fn reuse_times(&self) -> Result<ReuseTimes, Error> {
        let reuse = |&(distance, accesses, count): &(u32, f64, f64)| SetReuse { distance, accesses, count };
        ReuseTimes::new(self.way_bytes, self.variances.clone(), self.reuses.iter().map(reuse))?
            .with_prefetches(self.prefetches.iter().map(reuse))?
            .with_footprint(self.footprint.iter().copied())
    }
}

impl PointRecord {
    fn point(&self) -> CurvePoint {
        CurvePoint {
            bytes: self.bytes,
            cpi: self.cpi,
            miss_ratio: self.miss_ratio,
            fetch_ratio: self.fetch_ratio.unwrap_or(self.miss_ratio),
            hit_rate: self.hit_rate,
            stall_rate: self.stall_rate,
        }
    }
}

fn records(curve: &CacheCurve) -> Vec<PointRecord> {
    let record = |p: &CurvePoint| PointRecord {
        bytes: p.bytes,
        cpi: p.cpi,
        miss_ratio: p.miss_ratio,
        fetch_ratio: Some(p.fetch_ratio),
        hit_rate: p.hit_rate,
        stall_rate: p.stall_rate,
        bandwidth: Some(p.fetch_ratio * curve.mix() * f64::from(curve.line_size()) / p.cpi),
        trusted: true,
    };
    curve.points().iter().map(record).collect()
}
