//! The debug registers of a thread: which line each watches, and for which sample.
//!
//! A line is 64 bytes and a register watches 8 of them on most processors, so a sample takes either one register,
//! where a register covers the line or where the caller is content with the 8 bytes around the access, or
//! [several](super::chunks).
//! # With all registers busy
//! A sample gives way to each new one and is reported as censored at the age it reached. It is the oldest but for one,
//! which is *held*: at the n-th sample that would give way after it, the held one gives way instead with probability
//! 1 / (n + 1) and that sample is held. So a held sample survives n further ones with probability 1 / (n + 1), and
//! some samples reach any age, where the oldest first lets none grow older than as many gaps as there are registers. Who
//! gives way depends on the order in which samples began and on dice, not on what becomes of their lines: the
//! product-limit estimate stays consistent where the lines of different samples do not depend on each other, and does
//! better than the oldest first where they do. `tests/four_registers.rs` measures how close it comes, and what else was
//! tried.

use super::chunks::{Chunks, Touches};
use super::kernel::Event;
use crate::engine::random::Random;
use crate::{LineSize, Site, WindowIndex};

/// Bytes that a register can watch on every processor.
pub const CHUNK: u64 = 8;

/// An open sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watched {
    /// The line.
    pub line: u64,
    /// Number of the access by the clock of distances.
    pub at: u64,
    /// By the same clock, when it was last known that the line had not been touched.
    pub seen: u64,
    /// By the clock of windows, when its watch was set, before the access itself; `None` if that came first.
    pub armed: Option<u64>,
    /// The window that started it.
    pub window: WindowIndex,
    /// The access.
    pub begin: Site,
    /// Accesses it stands for.
    pub weight: u64,
    /// What of its line it watches, if registers do not cover that.
    pub chunks: Option<Chunks>,
    /// What has ended it, until the touches of other chunks have been awaited.
    pub touches: Option<Touches>,
    /// That instruction, if it is known.
    pub end: Option<Site>,
}

#[derive(Clone, Debug)]
struct Register {
    event: Event,
    hits: u64, // counted when it was last set, and the access of its sample if that comes after it
    own: bool, // whether that access comes after it
    reports_at: u64, // count at which it reports
    address: u64, // what it watches
    sample: Option<usize>, // index in `samples`
}

/// What to watch: some bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// First byte, aligned to `bytes`.
    pub address: u64,
    /// A length that this machine can watch.
    pub bytes: u32,
    /// Whether the sample's own access, yet to be made, touches them.
    pub own: bool,
}

/// A register that is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// Which.
    pub event: Event,
    /// To what.
    pub watch: Watch,
    /// Whether it has reported since it was set the last time.
    pub spent: bool,
}

/// A register that watches for nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Which.
    pub event: Event,
    /// At which count it reports, or has.
    pub reports_at: u64,
}

/// A thread's registers and the samples they watch.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    all: Vec<Register>,
    samples: Vec<Option<Watched>>, // slots; as many in use as samples are open
    order: Vec<usize>,             // open slots, oldest first
    held: Option<usize>,           // an open slot
    challenges: usize,             // samples that gave way while it was held
}

impl Registers {
    /// Registers that watch nothing.
    pub fn new(events: Vec<Event>) -> Self {
        let all = events
            .into_iter()
            .map(|event| Register { event, hits: 0, own: false, reports_at: 0, address: 0, sample: None })
            .collect();
        Self { all, ..Self::default() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Their events.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.all.iter().map(|register| register.event)
    }

    /// Number of open samples.
    pub fn open(&self) -> usize {
        self.order.len()
    }

    /// Whether event `id` is a register.
    pub fn has(&self, id: u64) -> bool {
        self.all.iter().any(|register| register.event.id == id)
    }

    /// The open sample that the register of event `id` watches for, and the address there, if its hit number `hits` came
    /// after it was set: records of earlier hits may come later.
    pub fn watched_by(&self, id: u64, hits: u64) -> Option<(usize, u64)> {
        let register = self.all.iter().find(|register| register.event.id == id && hits > register.hits)?;
        Some((register.sample?, register.address))
    }

    /// The open sample of `line`.
    pub fn watching(&self, line: u64) -> Option<usize> {
        self.order.iter().copied().find(|&slot| self.samples[slot].is_some_and(|s| s.line == line))
    }

    /// Open samples one of whose registers has been hit more often than when it was set, by a reading of counts, and that
    /// no record has ended.
    pub fn hit_since(&self, count: impl Fn(Event) -> Option<u64>) -> Vec<usize> {
        let mut slots: Vec<usize> = self
            .all
            .iter()
            .filter(|register| count(register.event).is_some_and(|hits| hits > register.hits))
            .filter_map(|register| register.sample)
            .filter(|&slot| self.sample(slot).is_some_and(|sample| sample.touches.is_none()))
            .collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Whether the access of the sample in `slot`, whose registers were set before it, has touched them, by a reading of
    /// counts.
    pub fn has_begun(&self, slot: usize, count: impl Fn(Event) -> Option<u64>) -> bool {
        self.all.iter().any(|register| {
            register.sample == Some(slot)
                && register.own
                && count(register.event).is_some_and(|hits| hits >= register.hits)
        })
    }

    /// The sample in `slot`.
    pub fn sample(&self, slot: usize) -> Option<&Watched> {
        self.samples.get(slot)?.as_ref()
    }

    /// The same, to note its touches.
    pub fn sample_mut(&mut self, slot: usize) -> Option<&mut Watched> {
        self.samples.get_mut(slot)?.as_mut()
    }

    /// Samples that a touch has ended.
    pub fn ended(&self) -> Vec<usize> {
        let ended = |slot: &usize| self.sample(*slot).is_some_and(|sample| sample.touches.is_some());
        self.order.iter().copied().filter(ended).collect()
    }

    /// A touch that the register of event `id` has reported was the sample's own access.
    pub fn excuse(&mut self, id: u64) {
        for register in self.all.iter_mut().filter(|register| register.event.id == id) {
            register.hits += 1;
        }
    }

    /// Says that at `now` no open sample's line has been touched.
    pub fn confirm(&mut self, now: u64) {
        for sample in self.samples.iter_mut().flatten() {
            sample.seen = now;
        }
    }

    /// Ends the sample in `slot`: the sample, and the registers that are free now and must be released.
    pub fn close(&mut self, slot: usize) -> Option<(Watched, Vec<Freed>)> {
        let watched = self.samples.get_mut(slot)?.take()?;
        self.order.retain(|&other| other != slot);
        self.held = self.held.filter(|&held| held != slot);
        let mut freed = Vec::new();
        for register in &mut self.all {
            if register.sample == Some(slot) {
                register.sample = None;
                freed.push(Freed { event: register.event, reports_at: register.reports_at });
            }
        }
        Some((watched, freed))
    }

    /// Slots of all open samples, oldest first.
    pub fn slots(&self) -> Vec<usize> {
        self.order.clone()
    }

    /// The sample to give way for one that takes `needed` registers, if there are not as many free: one of all at random,
    /// or the oldest but for the [one that is held](super::registers).
    pub fn give_way(&mut self, needed: usize, random: bool, dice: &mut Random) -> Option<usize> {
        let free = self.all.iter().filter(|register| register.sample.is_none()).count();
        if free >= needed || self.order.is_empty() {
            return None;
        }
        if random || self.order.len() == 1 {
            return Some(self.order[dice.below(self.order.len())]);
        }
        let Some(held) = self.held else {
            (self.held, self.challenges) = (Some(self.order[0]), 0);
            return Some(self.order[1]);
        };
        let oldest = if self.order[0] == held { self.order[1] } else { self.order[0] };
        self.challenges += 1;
        if dice.below(self.challenges + 1) > 0 {
            return Some(oldest);
        }
        (self.held, self.challenges) = (Some(oldest), 0);
        Some(held)
    }

    /// Takes free registers for a sample that wants these watches, as many as there are: the slot of the sample, and how to
    /// set them. `hits` is what each has counted so far.
    pub fn open_sample(
        &mut self,
        watched: Watched,
        watches: &[Watch],
        hits: impl Fn(Event) -> u64,
    ) -> (usize, Vec<Set>) {
        let slot = self.samples.iter().position(Option::is_none).unwrap_or(self.samples.len());
        let mut set = Vec::new();
        let mut watches = watches.iter();
        for register in self.all.iter_mut().filter(|register| register.sample.is_none()) {
            let Some(&watch) = watches.next() else { break };
            let counted = hits(register.event);
            let spent = counted >= register.reports_at;
            (register.sample, register.address) = (Some(slot), watch.address);
            (register.hits, register.own) = (counted + u64::from(watch.own), watch.own);
            register.reports_at = register.hits + 1;
            set.push(Set { event: register.event, watch, spent });
        }
        if !set.is_empty() {
            if slot == self.samples.len() {
                self.samples.push(None);
            }
            self.samples[slot] = Some(watched);
            self.order.push(slot);
        }
        (slot, set)
    }
}

/// How much of its line a sample watches where a register covers only 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Coverage {
    /// As many of the line's 8-byte chunks as there are registers, so one sample at a time: that of the access, up to two
    /// that are often touched next, and random ones. What touches the others is corrected for: see the
    /// [accuracy](super#lines).
    #[default]
    Line,
    /// The chunk of the access alone, one register a sample: exact where data are touched at the address they were
    /// touched at before, as in walks over arrays of one stride; otherwise reuses through other bytes of the line
    /// go unnoticed (P(distance >= 4096) comes out 8.1, 1.4 and 3.3 times as large as it is on `sort`, `xz` and
    /// `python3`).
    Chunk,
}

/// What to watch for a sample of an access at `address`, the most important first: `chunks` of the line, or what covers it.
/// None is the access's own yet.
pub fn watches(
    address: u64,
    line_size: LineSize,
    whole_line: bool,
    coverage: Coverage,
    chunks: Option<&Chunks>,
) -> Vec<Watch> {
    let watch = |address, bytes| Watch { address, bytes, own: false };
    let line_bytes = u64::from(line_size.bytes());
    let line = address & !(line_bytes - 1);
    let own = address & !(CHUNK - 1);
    if line_bytes <= CHUNK || whole_line && coverage == Coverage::Line {
        return vec![watch(line, line_size.bytes())];
    }
    let chunk = |address| watch(address, CHUNK as u32);
    match chunks {
        Some(chunks) => chunks.addresses(address).map(chunk).collect(),
        None if coverage == Coverage::Chunk => vec![chunk(own)],
        None => {
            let others = (line..line + line_bytes).step_by(CHUNK as usize).filter(|&other| other != own);
            std::iter::once(own).chain(others).map(chunk).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunks::Lines;
    use super::*;
    use crate::AccessKind;

    fn sample(line: u64, at: u64) -> Watched {
        let begin = Site { pc: 0, kind: AccessKind::Load };
        Watched {
            line,
            at,
            seen: at,
            armed: None,
            window: WindowIndex(0),
            begin,
            weight: 1,
            chunks: None,
            touches: None,
            end: None,
        }
    }

    fn at(address: u64) -> Watch {
        Watch { address, bytes: 8, own: false }
    }

    fn registers(n: i32) -> Registers {
        Registers::new((0..n).map(|i| Event { handle: i, id: i as u64 + 100 }).collect())
    }

    #[test]
    fn what_is_watched_begins_with_the_access_and_stays_in_its_line() {
        let all = |address, line_size, whole_line, coverage| -> Vec<(u64, u32)> {
            let watches = watches(address, line_size, whole_line, coverage, None);
            watches.iter().map(|w| (w.address, w.bytes)).collect()
        };
        assert_eq!(all(0x1023, LineSize::B64, false, Coverage::Chunk), [(0x1020, 8)]);
        assert_eq!(all(0x1023, LineSize::B64, true, Coverage::Line), [(0x1000, 64)]);
        let narrow = LineSize::new(16).unwrap();
        assert_eq!(all(0x1008, narrow, false, Coverage::Line), [(0x1008, 8), (0x1000, 8)]);
        assert_eq!(all(0x1007, LineSize::new(4).unwrap(), false, Coverage::Line), [(0x1004, 4)]);
        let chunks =
            Lines::default().choose((1, 0x103F), LineSize::B64, 4, &mut Random::from_state(1)).unwrap();
        let found = watches(0x103F, LineSize::B64, false, Coverage::Line, Some(&chunks));
        let mut addresses: Vec<u64> = found.iter().map(|w| w.address).collect();
        assert_eq!(addresses[0], 0x1038);
        addresses.sort_unstable();
        addresses.dedup();
        assert!(addresses.len() == 4 && addresses.iter().all(|a| a % 8 == 0 && (0x1000..0x1040).contains(a)));
    }

    #[test]
    fn the_oldest_gives_way_but_for_one_that_survives_as_1_over_n() {
        const ARRIVALS: u64 = 400_000;
        let (mut all, mut dice) = (registers(4), Random::from_state(3));
        let mut ages = Vec::new();
        for n in 0..ARRIVALS {
            assert!(all.open() < 4 || n >= 4);
            if let Some(slot) = all.give_way(1, false, &mut dice) {
                let (watched, freed) = all.close(slot).unwrap();
                assert!(freed.len() == 1 && all.close(slot).is_none());
                ages.push(n - watched.at);
            }
            assert_eq!(all.open_sample(sample(n, n), &[at(n * 64)], |_| 0).1.len(), 1);
        }
        assert_eq!(ages.len() as u64, ARRIVALS - 4);
        // Three of four registers give way in turn, at an age of 3. Of the samples that are held, 1 / n survive n - 1
        // others: twice as many reach 20 more as reach 40 more, give or take five standard errors.
        assert!(ages.iter().all(|&age| age >= 3));
        let reaching = |least: u64| ages.iter().filter(|&&age| age >= 3 + least).count() as f64;
        let (near, far) = (reaching(20), reaching(40));
        assert!(far > 100.0 && (near / far - 2.0).abs() < 5.0 * 2.0 / far.sqrt(), "{near} {far}");
        // At random, many give way earlier.
        let mut all = registers(4);
        let mut young = 0;
        for n in 0..ARRIVALS {
            if let Some(slot) = all.give_way(1, true, &mut dice) {
                young += u64::from(n - all.close(slot).unwrap().0.at < 3);
            }
            all.open_sample(sample(n, n), &[at(n * 64)], |_| 0);
        }
        // 1 - (3/4)^2 of all.
        assert!(young.abs_diff(ARRIVALS * 7 / 16) < 2_000, "{young}");
    }

    #[test]
    fn a_sample_of_four_registers_takes_what_there_is() {
        let mut all = registers(3);
        let (slot, set) = all.open_sample(sample(1, 0), &[at(0), at(8), at(56), at(16)], |e| e.id);
        assert_eq!((slot, set.len()), (0, 3));
        assert!(all.hit_since(|e| Some(e.id)).is_empty());
        assert_eq!(all.hit_since(|e| Some(e.id + u64::from(e.id == 101))), [0]);
        let (_, freed) = all.close(0).unwrap();
        assert_eq!(freed.len(), 3);
        assert!(registers(0).open_sample(sample(1, 0), &[at(0)], |_| 0).1.is_empty());
    }

    #[test]
    fn the_access_of_a_sample_is_no_touch_and_what_has_reported_is_known() {
        let mut all = registers(2);
        let own = Watch { own: true, ..at(0) };
        let (slot, set) = all.open_sample(sample(1, 0), &[own, at(8)], |_| 5);
        assert!(set.iter().all(|set| set.spent), "never set, they have nothing to report");
        for (counts, begun, hit) in
            [([5, 5], false, 0), ([6, 5], true, 0), ([7, 5], true, 1), ([6, 6], true, 1)]
        {
            let count = |event: Event| Some(counts[event.handle as usize]);
            assert_eq!((all.has_begun(slot, count), all.hit_since(count).len()), (begun, hit), "{counts:?}");
        }
        // An instruction that touches both, where only one was expected to be.
        all.excuse(101);
        assert!(all.hit_since(|event| Some([6, 6][event.handle as usize])).is_empty());
        all.close(slot);
        let (_, set) =
            all.open_sample(sample(2, 9), &[at(64), at(72)], |event| [6, 6][event.handle as usize]);
        assert_eq!([set[0].spent, set[1].spent], [false, true]);
    }
}
