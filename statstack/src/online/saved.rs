//! The stored form of an online curve, with a version.

use reuse_sampler::{Clock, OpenStarts, ReuseProfile};
use serde::{Deserialize, Serialize};

use super::{OnlineCurve, OnlineOptions, PARTS, SHORTEST};
use crate::Error;

/// The version of the format that is read and written: parts hold the requests that were made in them, with overlaps.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    version: u32,
    capacity: usize,
    seed: u64,
    requests: u64,
    random: u64,
    log_gap: u8,
    until: u64,
    length: u64,
    parts: Vec<ReuseProfile>,
    open: Vec<(u64, u64)>, // hash of the key, request; by hash
}

impl From<OnlineCurve> for Saved {
    fn from(curve: OnlineCurve) -> Self {
        let mut open: Vec<_> = curve.open.into_iter().collect();
        open.sort_unstable();
        Self {
            version: VERSION,
            capacity: curve.options.capacity,
            seed: curve.options.seed,
            requests: curve.requests,
            random: curve.random,
            log_gap: curve.log_gap,
            until: curve.until,
            length: curve.length,
            parts: curve.parts,
            open,
        }
    }
}

impl TryFrom<Saved> for OnlineCurve {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        if saved.version != VERSION {
            return Err(Error::FormatVersion { found: saved.version, known: VERSION });
        }
        saved.check().map_err(|what| Error::Damaged { what })?;
        let mut began: Vec<u64> = saved.open.iter().map(|&(_, at)| at).collect();
        began.sort_unstable();
        let mut starts = OpenStarts::default();
        for at in began {
            starts.start(at);
        }
        Ok(Self {
            options: OnlineOptions { capacity: saved.capacity, seed: saved.seed },
            requests: saved.requests,
            random: saved.random,
            log_gap: saved.log_gap,
            until: saved.until,
            length: saved.length,
            parts: saved.parts,
            open: saved.open.into_iter().collect(),
            starts,
        })
    }
}

impl Saved {
    /// Or what is wrong.
    fn check(&self) -> Result<(), String> {
        let Self { capacity, requests, log_gap, length, ref parts, ref open, .. } = *self;
        if capacity < 16 || open.len() > capacity {
            return Err(format!("{} requests followed of at most {capacity}", open.len()));
        }
        if log_gap > 63 {
            return Err(format!("one in 2^{log_gap} requests chosen"));
        }
        // Parts are full but for the last one.
        let is_length = length >= SHORTEST && length.is_power_of_two();
        let full = (parts.len() as u64).checked_sub(1).and_then(|full| full.checked_mul(length));
        let fits = full.and_then(|full| requests.checked_sub(full)).is_some_and(|last| last <= length);
        if !is_length || !fits || parts.len() > PARTS {
            return Err(format!("{requests} requests in {} parts of {length}", parts.len()));
        }
        for part in parts {
            if part.line_size().bytes() != 1 || part.clock() != Clock::Accesses {
                return Err(format!("a part of {} byte lines in {}", part.line_size().bytes(), part.clock()));
            }
        }
        for pair in open.windows(2) {
            if pair[0].0 >= pair[1].0 {
                return Err(format!("followed key {} out of order", pair[1].0));
            }
        }
        if let Some((key, at)) = open.iter().find(|(_, at)| *at >= requests) {
            return Err(format!("followed key {key} of request {at}, of {requests}"));
        }
        Ok(())
    }
}
