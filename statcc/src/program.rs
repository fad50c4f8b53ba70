//! One program as it was profiled alone.

use std::fmt;
use std::sync::Arc;

use reuse_sampler::{Clock, LineSize, ReuseProfile, Scope};

use crate::cpi::{self, CpiModel};
use crate::pieces::Pieces;
use crate::{Error, LinearLatency};

/// A program: its reuse profile, its accesses per instruction and what misses cost it. Cheap to clone.
#[derive(Clone)]
pub struct Program {
    stream: Arc<Pieces>, // all its accesses: what it does to others
    asked: Arc<Pieces>,  // those whose misses are asked for
    line_size: LineSize,
    scope: Scope,         // of both
    mix: f64,             // finite, > 0
    most_misses: f64,     // in [0, 1]: 1 - private hits
    counted: Option<f64>, // misses per access alone, in [0, 1]
    cpi: Arc<dyn CpiModel + Send + Sync>,
}

impl Program {
    /// A program that was `profile`d alone, makes `mix` memory accesses per instruction and takes `cpi` cycles
    /// per instruction as a function of its misses per access.
    ///
    /// # Errors
    /// [`Error::EmptyProfile`], [`Error::Clock`] unless distances count accesses, [`Error::Mix`] unless `mix`
    /// is finite and above 0, [`Error::CpiValue`] and [`Error::FallingCpi`] if the CPI model answers nonsense
    /// anywhere on a grid of 129 miss ratios from 0 to 1.
    pub fn new(
        profile: &ReuseProfile,
        mix: f64,
        cpi: impl CpiModel + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        cpi::check_mix(mix)?;
        cpi::check(&cpi)?;
        check_profile(profile)?;
        let stream = Arc::new(Pieces::new(&profile.distribution()));
        let (asked, line_size, scope) = (Arc::clone(&stream), profile.line_size(), profile.scope());
        Ok(Self { stream, asked, line_size, scope, mix, most_misses: 1.0, counted: None, cpi: Arc::new(cpi) })
    }

    /// The same on an in-order core with latencies per level; the private hit ratios of the model limit the
    /// misses.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_order(profile: &ReuseProfile, mix: f64, cpi: LinearLatency) -> Result<Self, Error> {
        let hits = cpi.private_hits();
        Self::new(profile, mix, cpi)?.with_private_hits(hits)
    }

    /// Says that private caches serve `ratio` of the accesses whatever happens in the shared one, so that at
    /// most the rest can miss there.
    ///
    /// # Errors
    /// [`Error::PrivateHits`] unless `ratio` is from 0 to 1.
    pub fn with_private_hits(mut self, ratio: f64) -> Result<Self, Error> {
        cpi::check_ratio(ratio)?;
        self.most_misses = 1.0 - ratio;
        Ok(self)
    }

    /// Says that `misses` of its accesses missed in the shared cache when it ran alone with all of it, as counted by
    /// hardware or a simulator. Predictions then start from there, and the profile only says what sharing adds.
    ///
    /// Most of what a sparse profile gets wrong, and some of what the cache model does, is the same alone and
    /// beside others, and cancels. It must have been counted in a cache of the size that is solved for, and over
    /// the accesses that are [asked for](Self::asking_for).
    ///
    /// # Formula
    /// With `m(s)` the miss ratio by profile and model at stretch `s`: `misses + m(s) - m(1)`, kept between 0 and
    /// what private caches leave.
    ///
    /// # Errors
    /// [`Error::MissRatio`] unless `misses` is from 0 to 1.
    pub fn counted_alone(mut self, misses: f64) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&misses) {
            return Err(Error::MissRatio { ratio: misses });
        }
        self.counted = Some(misses);
        Ok(self)
    }

    /// Asks for the misses of the accesses in `profile` only, while all accesses of the program make up the
    /// stream: those of one window, when the stream is what led up to it; loads; one instruction.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`], [`Error::MixedScopes`], [`Error::EmptyProfile`], [`Error::Clock`].
    pub fn asking_for(mut self, profile: &ReuseProfile) -> Result<Self, Error> {
        check_profile(profile)?;
        if profile.line_size() != self.line_size {
            let (left, right) = (self.line_size.bytes(), profile.line_size().bytes());
            return Err(Error::MixedLineSizes { left, right });
        }
        if profile.scope() != self.scope {
            return Err(Error::MixedScopes { left: self.scope, right: profile.scope() });
        }
        self.asked = Arc::new(Pieces::new(&profile.distribution()));
        Ok(self)
    }

    /// Memory accesses per instruction.
    #[must_use]
    pub const fn mix(&self) -> f64 {
        self.mix
    }

    /// Line size of the profile.
    #[must_use]
    pub const fn line_size(&self) -> LineSize {
        self.line_size
    }

    /// Cycles per instruction at a miss ratio.
    #[must_use]
    pub fn cpi_at(&self, miss_ratio: f64) -> f64 {
        self.cpi.cpi(miss_ratio.clamp(0.0, self.most_misses))
    }

    /// Misses per access that private caches leave possible.
    pub(crate) const fn most_misses(&self) -> f64 {
        self.most_misses
    }

    /// Misses per access alone, where they were counted.
    pub(crate) const fn counted(&self) -> Option<f64> {
        self.counted
    }

    pub(crate) fn stream(&self) -> &Pieces {
        &self.stream
    }

    pub(crate) fn asked(&self) -> &Pieces {
        &self.asked
    }
}

fn check_profile(profile: &ReuseProfile) -> Result<(), Error> {
    if profile.clock() != Clock::Accesses {
        return Err(Error::Clock { found: profile.clock() });
    }
    if profile.is_empty() { Err(Error::EmptyProfile) } else { Ok(()) }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("line_size", &self.line_size.bytes())
            .field("mix", &self.mix)
            .field("most_misses", &self.most_misses)
            .field("pieces", &self.stream.fine().len())
            .finish_non_exhaustive()
    }
}
