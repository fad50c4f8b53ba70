//! The reuse distance of a line, seen through as many of its 8-byte chunks as there are debug registers.
//!
//! A line of 64 bytes has eight chunks, four registers watch four of them, and the line is reused at the first touch of
//! any of the eight. Watching four therefore sees some reuses late. Three corrections remove that. Each is learned while
//! the program runs, from the registers' own records, for each instruction that starts samples and each position
//! of its chunk in the line.
//!
//! # Estimator
//! 1. *Companions.* A sample watches the chunk of its access, up to two [companions], and random ones of the r that are
//!    left: e of them. Companions are the chunks that were touched next within 1,024 accesses, so that a field that is
//!    always used together with another is seen through that other one. A touch of a random chunk counts r/e times.
//! 2. *Beginners.* The first four samples at an instruction do not know the companions yet. Let x be the fraction of
//!    such samples that end within 64 accesses through random chunks only, and w the number of touches that each stands
//!    for. Then wx - x of the samples missed such a touch, and are followed to a later one. So each sample that ends
//!    there has weight w, and each sample that is followed further has weight (1 - wx) / (1 - x).
//! 3. *Thinning.* A later touch is one of a [visit] that touches some of the chunks. The registers see the visit with
//!    probability p. If visits to a line come at random (a Poisson process of any rate, a different one for each line),
//!    those that are seen are a Poisson process of p times the rate: the time to the first visit is distributed as p
//!    times the time to the first one seen. So a sample's age counts p for each access beyond the first 31, with p a
//!    function of age.
//!
//! # Consistency
//! The first is exact once the chunks that are touched next are known, if they are at most two besides the sample's own.
//! The second is a Horvitz-Thompson estimate: unbiased for the number of samples that are followed further, if the
//! missed touch is no more likely to be followed by another short one. The third is exact for visits at random, whatever
//! the mixture of rates; visits at equal distances, each to another single chunk, come out at the right mean
//! distance but spread around it. Where the chunks of a line are touched at very different rates, the tail is too long.
//! `tests.rs` here bounds the bias on streams other than those that the constants were chosen on.
//!
//! # References
//! Horvitz and Thompson, *A Generalization of Sampling Without Replacement from a Finite Universe*, JASA 47 (1952).
//! Kingman, *Poisson Processes* (1993), section 5.1 (thinning).
//!
//! [companions]: companions
//! [visit]: visits

mod companions;
#[cfg(test)]
mod tests;
mod visits;

use std::collections::BTreeMap;

use self::companions::Companions;
use self::visits::{Visits, age_class};
use super::registers::CHUNK;
use crate::engine::random::Random;
use crate::{LineSize, Outcome, ReuseDistance};

/// Samples of an instruction that are its first ones.
const BEGINNERS: usize = 4;
/// Accesses within which a touch that a beginner misses is corrected for by weight.
const SOON: u64 = 64;
/// Instructions, with the position of their chunk, that are kept apart; more share.
const CONTEXTS: u64 = 1 << 12;
/// Chunks of a long line among which a sample's are chosen.
const BLOCK: u64 = 64;

/// The chunks of its line that a sample watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    context: u16,
    own: u8,       // number of the chunk of the access in its block of the line
    all: u8,       // chunks in the block, 2 to 64
    kept: u64,     // set of its own and its companions
    explored: u64, // set of those chosen at random
    beginner: u8,  // samples of the instruction before, at most BEGINNERS
    /// Whether touches of other chunks after the first are to be awaited, where that takes stops.
    pub followed: bool,
}

impl Chunks {
    /// First bytes of the chunks to watch in the line of an access at `address`, its own first.
    pub fn addresses(&self, address: u64) -> impl Iterator<Item = u64> + use<> {
        let own = u64::from(self.own);
        let first = (address & !(CHUNK - 1)) - own * CHUNK;
        let others = (self.kept | self.explored) & !(1 << own);
        let others = (0..BLOCK).filter(move |chunk| others >> chunk & 1 == 1);
        std::iter::once(own).chain(others).map(move |chunk| first + chunk * CHUNK)
    }

    /// Number of the chunk at `address` among these.
    fn number(&self, address: u64) -> u64 {
        address / CHUNK % u64::from(self.all)
    }

    fn drawn(&self) -> usize {
        self.explored.count_ones() as usize
    }

    fn undecided(&self) -> usize {
        usize::from(self.all) - self.kept.count_ones() as usize
    }
}

/// The touches that ended a sample: the first one, and others of the same visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touches {
    /// Accesses between the sample and the first touch.
    pub distance: u64,
    first: u64,   // number of the chunk that was touched first
    touched: u64, // set of those touched in the visit
}

impl Touches {
    /// The first touch of a sample's line, at `address`.
    pub fn first(chunks: &Chunks, address: u64, distance: u64) -> Self {
        let first = chunks.number(address);
        Self { distance, first, touched: 1 << first }
    }

    /// Accesses after the first touch that belong to its visit.
    pub fn visit(&self) -> u64 {
        let age = self.distance + 1;
        (age / 256).max(256).min(age / 4)
    }

    /// A later touch, at `address`.
    pub fn later(&mut self, chunks: &Chunks, address: u64, distance: u64) {
        if distance <= self.distance + self.visit() {
            self.touched |= 1 << chunks.number(address);
        }
    }
}

/// What is known of samples at one instruction.
#[derive(Clone, Debug, Default)]
struct Context {
    started: usize,
    companions: Companions,
    visits: Visits,
}

/// Beginners with as many samples before them.
#[derive(Clone, Copy, Debug, Default)]
struct Beginners {
    samples: f64,
    soon: f64,     // that ended soon, through random chunks only
    weighted: f64, // for how many these stand
}

/// What is known of a program's lines.
#[derive(Debug, Default)]
pub struct Lines {
    contexts: BTreeMap<u16, Box<Context>>,
    companions: Companions, // of all, by how far they lie from the sample's own
    visits: Visits,
    beginners: [Beginners; BEGINNERS],
}

impl Lines {
    /// Chooses what a sample of an access at `address` by the instruction at `pc` watches with `registers` registers.
    /// `None` where they cover the line, or where one is all there is.
    pub fn choose(
        &mut self,
        (pc, address): (u64, u64),
        line_size: LineSize,
        registers: usize,
        random: &mut Random,
    ) -> Option<Chunks> {
        let all = (u64::from(line_size.bytes()) / CHUNK).min(BLOCK);
        if all <= registers as u64 || registers < 2 {
            return None;
        }
        let own = address / CHUNK % all;
        let key = pc.wrapping_mul(BLOCK).wrapping_add(own).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let key = (key % CONTEXTS) as u16;
        let context = self.contexts.entry(key).or_default();
        let mut kept = 1 << own;
        let others = 4.min(registers) - 1;
        for chunk in context.companions.best(own, all, &self.companions).into_iter().take(others - 1) {
            kept |= 1 << chunk;
        }
        let mut explored = 0_u64;
        while (kept | explored).count_ones() as usize <= others {
            let chunk = random.below(all as usize);
            explored |= (1 << chunk) & !kept;
        }
        let beginner = context.started.min(BEGINNERS) as u8;
        context.started += 1;
        let followed = random.below(8) == 0;
        Some(Chunks { context: key, own: own as u8, all: all as u8, kept, explored, beginner, followed })
    }

    /// Learns from a sample that has ended: from touches, whose visit was watched to its end if `complete`, or without any
    /// at `age`.
    pub fn learn(&mut self, chunks: &Chunks, touches: Option<&Touches>, age: u64, complete: bool) {
        let Some(context) = self.contexts.get_mut(&chunks.context) else { return };
        let (drawn, undecided) = (chunks.drawn(), chunks.undecided());
        let (own, factor) = (u64::from(chunks.own), undecided as f64 / drawn as f64);
        let next = touches.filter(|touches| touches.first != own).map(|touches| {
            let stands_for = if chunks.explored >> touches.first & 1 == 1 { factor } else { 1.0 };
            (touches.first, stands_for)
        });
        if touches.is_some() || age >= companions::NEAR {
            context.companions.learn(next, age, &mut self.companions, own);
        }
        let only_random = |touches: &Touches| touches.touched & chunks.kept == 0;
        let class = age_class(age);
        let weight = context.visits.weight(class, &self.visits, drawn, undecided);
        if let Some(touches) = touches.filter(|_| complete) {
            let random = only_random(touches).then(|| (touches.touched & chunks.explored).count_ones());
            context.visits.learn(class, random, (drawn, undecided), weight);
            self.visits.learn(class, random, (drawn, undecided), weight);
        }
        if let Some(beginners) = self.beginners.get_mut(usize::from(chunks.beginner)) {
            if touches.is_some() || age >= SOON {
                beginners.samples += 1.0;
            }
            if touches.is_some_and(|touches| age < SOON && only_random(touches)) {
                beginners.soon += 1.0;
                beginners.weighted += weight;
            }
        }
    }

    /// What a sample says of its line: its outcome, and for how many samples it stands.
    pub fn correct(&self, chunks: &Chunks, touches: Option<&Touches>, outcome: Outcome) -> (Outcome, f64) {
        let age = age_of(outcome);
        let Some(context) = self.contexts.get(&chunks.context) else { return (outcome, 1.0) };
        let (drawn, undecided) = (chunks.drawn(), chunks.undecided());
        let mut weight = 1.0;
        if let Some(beginners) = self.beginners.get(usize::from(chunks.beginner)) {
            let (x, wx) = (beginners.soon / beginners.samples, beginners.weighted / beginners.samples);
            if age >= SOON && x < 1.0 {
                weight = (1.0 - wx).max(0.0) / (1.0 - x);
            } else if touches.is_some_and(|touches| touches.touched & chunks.kept == 0) {
                weight = context.visits.weight(age_class(age), &self.visits, drawn, undecided);
            }
        }
        let thinned = |age| context.visits.thinned(age, &self.visits, drawn, undecided) - 1;
        let outcome = match outcome {
            Outcome::Reused(_) => Outcome::Reused(ReuseDistance(thinned(age))),
            Outcome::Censored { .. } => Outcome::Censored { at_least: thinned(age) },
            Outcome::Dangling | Outcome::Invalidated(_) => outcome,
        };
        (outcome, weight)
    }
}

/// The age that a sample has reached.
pub fn age_of(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Reused(distance) | Outcome::Invalidated(distance) => distance.0 + 1,
        Outcome::Censored { at_least } => at_least + 1,
        Outcome::Dangling => u64::MAX,
    }
}
