//! From a miss ratio to cycles per instruction.

use crate::Error;

/// Cycles per instruction of one program as a function of its miss ratio in the shared cache.
///
/// Any `Fn(f64) -> f64` is one. It is given shared-cache misses per memory access, from 0 to 1, and must return
/// a positive, finite number that does not fall as the miss ratio rises;
/// [`Program::new`](crate::Program::new) checks that on a grid.
pub trait CpiModel {
    /// Cycles per instruction at `miss_ratio` misses per memory access.
    fn cpi(&self, miss_ratio: f64) -> f64;
}

impl<F: Fn(f64) -> f64> CpiModel for F {
    fn cpi(&self, miss_ratio: f64) -> f64 {
        self(miss_ratio)
    }
}

/// Hit ratio and latency of one private cache level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivateLevel {
    /// Hits of this level per memory access of the program, from 0 to 1.
    pub hit_ratio: f64,
    /// Cycles of a hit.
    pub latency: f64,
}

/// In-order core: each instruction takes the base CPI, each access the latency of the level that serves it.
///
/// # Formula
/// CPI = `base_cpi` + mix * (sum over private levels of hit ratio * latency
/// + (1 - private hits - m) * `shared` + m * `memory`), with m the miss ratio, at most 1 - private hits.
///
/// # References
/// Eklöv, thesis, Paper II (StatCC), section II.5.1.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearLatency {
    without_memory: f64, // cycles per instruction, private hits included; finite, >= 0
    mix: f64,            // > 0
    private_hits: f64,   // in [0, 1]
    shared: f64,         // >= 0
    memory: f64,         // >= shared
}

impl LinearLatency {
    /// A program with `mix` memory accesses per instruction on a core with `base_cpi` cycles per instruction,
    /// `private` caches in any order, and a shared cache and memory that answer in `shared` and `memory`
    /// cycles.
    ///
    /// # Errors
    /// [`Error::Mix`], [`Error::Cycles`], [`Error::PrivateHits`], [`Error::PrivateHitSum`],
    /// [`Error::LatencyOrder`] for values that are none of the above; [`Error::CpiValue`] if nothing takes any
    /// time.
    pub fn new(
        base_cpi: f64,
        mix: f64,
        private: &[PrivateLevel],
        shared: f64,
        memory: f64,
    ) -> Result<Self, Error> {
        check_mix(mix)?;
        for (what, cycles) in
            [("base CPI", base_cpi), ("shared-cache latency", shared), ("memory latency", memory)]
        {
            check_cycles(what, cycles)?;
        }
        if memory < shared {
            return Err(Error::LatencyOrder { memory, shared });
        }
        let mut private_hits = 0.0;
        let mut cycles = 0.0;
        for level in private {
            check_ratio(level.hit_ratio)?;
            check_cycles("private-cache latency", level.latency)?;
            private_hits += level.hit_ratio;
            cycles += level.hit_ratio * level.latency;
        }
        if private_hits > 1.0 + 1e-9 {
            return Err(Error::PrivateHitSum { sum: private_hits });
        }
        let private_hits = private_hits.min(1.0);
        let model = Self { without_memory: base_cpi + mix * cycles, mix, private_hits, shared, memory };
        check(&model)?;
        Ok(model)
    }

    /// Hits of all private levels per memory access.
    #[must_use]
    pub const fn private_hits(&self) -> f64 {
        self.private_hits
    }
}

impl CpiModel for LinearLatency {
    fn cpi(&self, miss_ratio: f64) -> f64 {
        let beyond = 1.0 - self.private_hits;
        let misses = miss_ratio.clamp(0.0, beyond);
        self.without_memory + self.mix * ((beyond - misses) * self.shared + misses * self.memory)
    }
}

/// Points between 0 and 1 at which a model is tried.
const GRID: u32 = 128;

/// Tries a model out over the whole range.
pub(crate) fn check(model: &dyn CpiModel) -> Result<(), Error> {
    let mut from = 0.0;
    for step in 0..=GRID {
        let miss_ratio = f64::from(step) / f64::from(GRID);
        let cpi = model.cpi(miss_ratio);
        if !(cpi.is_finite() && cpi > 0.0) {
            return Err(Error::CpiValue { miss_ratio, cpi });
        }
        // Rounding may lower a constant by a few units in the last place.
        if cpi < from * (1.0 - 1e-12) {
            return Err(Error::FallingCpi { from, to: cpi, miss_ratio });
        }
        from = cpi;
    }
    Ok(())
}

pub(crate) fn check_mix(mix: f64) -> Result<(), Error> {
    if mix.is_finite() && mix > 0.0 && mix.recip().is_finite() { Ok(()) } else { Err(Error::Mix { mix }) }
}

pub(crate) fn check_ratio(ratio: f64) -> Result<(), Error> {
    if (0.0..=1.0).contains(&ratio) { Ok(()) } else { Err(Error::PrivateHits { ratio }) }
}

fn check_cycles(what: &'static str, cycles: f64) -> Result<(), Error> {
    if cycles.is_finite() && cycles >= 0.0 { Ok(()) } else { Err(Error::Cycles { what, cycles }) }
}
