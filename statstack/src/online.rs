//! The curve of a cache while it is used: keys in, a miss ratio for every size at any moment, in bounded memory.

#[cfg(feature = "serde")]
mod saved;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use reuse_sampler::{
    CacheLines, CacheModel, Grouped, LineSize, MissRatioCurve, OpenStarts, Outcome, ReuseDistance,
    ReuseOverlap, ReuseProfile, WindowIndex, merge_alike,
};

use crate::{Error, PooledCorrection};

/// Parts into which the run is divided, at most; full, neighbours are joined. Even.
const PARTS: usize = 12;
/// Requests in a part at first.
const SHORTEST: u64 = 4096;

/// Requests that memory is allocated for at once, at most; for more it is when they are followed.
const ALLOCATED: usize = 1 << 16;

/// Settings of an [`OnlineCurve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnlineOptions {
    /// Most requests that are followed at a time, at least 16. Memory is 50 to 100 bytes for each, and up to 500 KiB for what
    /// has been learnt of 10^8 requests. Default: 7,000, with which all stays below 1 MiB.
    pub capacity: usize,
    /// Which requests are followed. Default: 0.
    pub seed: u64,
}

impl Default for OnlineOptions {
    fn default() -> Self {
        Self { capacity: 7_000, seed: 0 }
    }
}

/// Watches the keys that a cache is asked for, and knows the miss ratio that an LRU cache of any number of objects would
/// have had.
///
/// At first every request is followed until its key is asked for again. Whenever more are followed than the options
/// allow, every second one is given up, those that are left count twice, and from then on half as many are chosen. So
/// memory is bounded however long the service runs, and no estimate is biased by what was given up.
///
/// Those followed are the last requests for their keys. When one ends, the number of those that began after it shows how many
/// different keys were asked for in between, which corrects the model ([`OpenStarts`]); and all that are followed at a moment
/// show how many keys there are, each of which was asked for a first time.
///
/// With the feature `serde` it can be saved when the service stops, and goes on from there as if it had not.
///
/// # Cost
/// 20 to 40 ns for each request, most of it for hashing the key; a curve takes some milliseconds and, for that time, 3 MiB
/// beside [what is kept](OnlineOptions).
///
/// # Accuracy
/// See the crate's README: traces of caches of objects beside their exact curves.
///
/// ```
/// use statstack::OnlineCurve;
///
/// let mut curve = OnlineCurve::default();
/// for request in 0..100_000 {
///     curve.observe(&format!("user:{}", request % 500)); // 500 users in turn
/// }
/// let [small, large] = curve.miss_ratios([499, 500])?;
/// assert!(small > 0.99 && large < 0.01);
/// # Ok::<(), statstack::Error>(())
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "saved::Saved", into = "saved::Saved"))]
pub struct OnlineCurve {
    options: OnlineOptions,
    requests: u64,
    random: u64,
    log_gap: u8,              // requests are chosen with probability 2^-log_gap
    until: u64,               // requests to pass over before the next one is chosen
    length: u64,              // of a part, in requests
    parts: Vec<ReuseProfile>, // of requests whose key was followed, by when they were made; never empty
    // Followed requests by key, each of weight 2^log_gap: whoever is followed when the gap doubles, counts twice from then on.
    open: HashMap<u64, u64, BuildHasherDefault<Hashed>>,
    starts: OpenStarts, // of `open`
}

impl Default for OnlineCurve {
    fn default() -> Self {
        Self::new(OnlineOptions::default())
    }
}

impl OnlineCurve {
    /// A curve of no request.
    #[must_use]
    pub fn new(options: OnlineOptions) -> Self {
        let options = OnlineOptions { capacity: options.capacity.max(16), ..options };
        Self {
            options,
            requests: 0,
            random: options.seed,
            log_gap: 0,
            until: 0,
            length: SHORTEST,
            parts: vec![empty()],
            open: HashMap::with_capacity_and_hasher(
                options.capacity.min(ALLOCATED) + 1,
                BuildHasherDefault::default(),
            ),
            starts: OpenStarts::default(),
        }
    }

    /// A request for `key`.
    pub fn observe(&mut self, key: &(impl Hash + ?Sized)) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.observe_hashed(hasher.finish());
    }

    /// A request for the key of this hash, all of whose bits must be random.
    pub fn observe_hashed(&mut self, key: u64) {
        if self.requests == self.length * self.parts.len() as u64 {
            self.next_part();
        }
        if let Some(at) = self.open.remove(&key) {
            self.end(at);
        }
        if self.until == 0 {
            self.open.insert(key, self.requests);
            self.starts.start(self.requests);
            if self.open.len() > self.options.capacity {
                self.thin_out();
            }
            self.until = self.gap();
        } else {
            self.until -= 1;
        }
        self.requests += 1;
    }

    /// Requests seen.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// One in how many requests is chosen at present.
    #[must_use]
    pub const fn sampled_one_in(&self) -> u64 {
        1 << self.log_gap
    }

    /// What is known, in up to 12 parts of the run, the first one first. A request is in the part in which it was made, by what
    /// lay between it and the request before for the same key, and dangling if it was the first one for it. Profiles of several
    /// caches, or of one cache's shards, can be merged.
    #[must_use]
    pub fn profiles(&self) -> Vec<ReuseProfile> {
        let weights: Vec<f64> = self.parts.iter().map(|part| part.total_weight() as f64).collect();
        let followed = (self.open.len() as f64) * (self.sampled_one_in() as f64);
        // They are chosen at random, so that their weights add up to a little more or less than the requests.
        let scale = self.requests as f64 / (weights.iter().sum::<f64>() + followed).max(1.0);
        let requests = |number: usize| self.length.min(self.requests - number as u64 * self.length);
        // Requests that no followed one explains are first ones. As many as there are keys, which is known better in all than
        // part by part.
        let lacking = |(number, weight): (usize, &f64)| (requests(number) as f64 - scale * weight).max(0.0);
        let lacking: Vec<f64> = weights.iter().enumerate().map(lacking).collect();
        let all: f64 = lacking.iter().sum();
        let share = if all > 0.0 { (scale * followed / all).min(1.0) } else { 0.0 };
        let profile = |(number, part)| {
            let mut profile = empty();
            profile.add_accesses(requests(number));
            let first = (share * lacking[number]).round();
            let again = requests(number) as f64 - first;
            let weighed = profile.merge_weighted(part, again / weights[number].max(1.0));
            debug_assert!(weighed.is_ok(), "all are of objects and count requests");
            let count = ((first as u64) >> self.log_gap).max(1);
            profile.record_many(Outcome::Dangling, count, first as u64 / count);
            profile
        };
        self.parts.iter().enumerate().map(profile).collect()
    }

    /// The miss ratio that LRU caches of these numbers of objects would have had since the beginning, first requests
    /// included.
    ///
    /// # Errors
    /// [`Error::EmptyProfile`] before the first request.
    pub fn miss_ratios<const N: usize>(&self, objects: [u64; N]) -> Result<[f64; N], Error> {
        let sizes = objects.map(CacheLines);
        let curve = self.curve(&sizes)?;
        let mut ratios = [0.0; N];
        for (ratio, point) in ratios.iter_mut().zip(&curve.points) {
            *ratio = point.1;
        }
        Ok(ratios)
    }

    /// The same for any number of sizes.
    ///
    /// # Errors
    /// As [`miss_ratios`](Self::miss_ratios).
    pub fn curve(&self, sizes: &[CacheLines]) -> Result<MissRatioCurve, Error> {
        model(&self.profiles(), sizes)
    }

    /// The same for the last `requests` requests, or some more: whole parts of the run are taken, as many as it takes to
    /// have a sample.
    ///
    /// # Errors
    /// As [`miss_ratios`](Self::miss_ratios).
    pub fn recent_curve(&self, requests: u64, sizes: &[CacheLines]) -> Result<MissRatioCurve, Error> {
        let parts = self.profiles();
        let whole = requests.div_ceil(self.length) as usize;
        // The last part has only begun.
        let first = parts.len().saturating_sub(whole.saturating_add(1));
        let sampled = parts.iter().rposition(|part| !part.is_empty()).ok_or(Error::EmptyProfile)?;
        model(&parts[first.min(sampled)..], sizes)
    }

    /// The key that request `at` was for is asked for again.
    fn end(&mut self, at: u64) {
        let distance = ReuseDistance(self.requests - at - 1);
        let Some(part) = self.parts.last_mut() else { return };
        part.record(Outcome::Reused(distance), 1 << self.log_gap);
        if let Some(open) = self.starts.end(at) {
            part.record_overlap(&ReuseOverlap {
                started_in: WindowIndex(0),
                shortest: distance,
                longest: distance,
                weight: 1 << self.log_gap,
                samples: 1,
                open,
                pairs: open.saturating_mul(open.saturating_sub(1)),
            });
        }
    }

    fn next_part(&mut self) {
        if self.parts.len() == PARTS {
            let mut joined: Vec<ReuseProfile> = Vec::with_capacity(PARTS);
            for (number, part) in self.parts.drain(..).enumerate() {
                match joined.last_mut().filter(|_| number % 2 == 1) {
                    Some(last) => {
                        // All are of objects and count requests.
                        let merged = last.merge(&part);
                        debug_assert!(merged.is_ok());
                    }
                    None => joined.push(part),
                }
            }
            self.parts = joined;
            self.length *= 2;
        }
        self.parts.push(empty());
    }

    /// Gives up every second followed request, at random: which ones follows from their keys, not from their order.
    fn thin_out(&mut self) {
        let drawn = next(&mut self.random);
        self.open.retain(|&key, at| {
            let stays = next(&mut (key ^ drawn)) >> 63 == 0;
            if !stays {
                self.starts.end(*at);
            }
            stays
        });
        self.log_gap += 1;
    }

    /// Requests to pass over: geometric, so that every request is chosen with the same probability.
    fn gap(&mut self) -> u64 {
        if self.log_gap == 0 {
            return 0;
        }
        // By inversion, from a uniform number above 0.
        let uniform = ((next(&mut self.random) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (uniform.ln() / (-(-f64::from(self.log_gap)).exp2()).ln_1p()) as u64
    }
}

/// Objects are lines of one byte: the size of a cache is a number of them.
fn empty() -> ReuseProfile {
    ReuseProfile::new(LineSize::new(1).unwrap_or_default())
}

fn model(parts: &[ReuseProfile], sizes: &[CacheLines]) -> Result<MissRatioCurve, Error> {
    if parts.iter().all(ReuseProfile::is_empty) {
        return Err(Error::EmptyProfile);
    }
    let parts = merge_alike(parts)?;
    let pooled = PooledCorrection::of(&parts)?;
    Ok(Grouped::fit(&parts, |part| pooled.fit(part))?.curve(sizes))
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
