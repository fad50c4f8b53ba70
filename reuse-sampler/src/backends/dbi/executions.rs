//! How often each block was executed, from what counters hold.
//!
//! A window executes a small part of a large program, and takes time in proportion to that part: counters that are zero
//! are passed over a cache line at a time, and what is not zero is marked in sets of bits, of which those of chains are
//! gone through from the last block to the first, and those of blocks by address. Tables are in these orders and
//! small, since most of the time is spent waiting for memory.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::block::Repeated;
use super::cache::Block;

/// What a counter counts; blocks are given by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    /// The block.
    Alone(u32),
    /// The chain from the block on, less that from the other.
    Chain(u32, Option<u32>),
    /// Less the chain from the block on.
    Less(u32),
    /// So many blocks from this place in the list of runs on.
    Run(u32, u32),
    /// Less those.
    RunLess(u32, u32),
}

/// The link and the place of no block: what is added there is lost. So most of what is done needs no decisions, which would
/// often be mispredicted.
const NOWHERE: u32 = 0;
/// In place of a block whose chain is to be taken off: the block is counted for itself.
const ALONE: u32 = u32::MAX;
/// Elements of a repeated string instruction, a whole word: the lower half and the upper one.
const ELEMENTS: u32 = u32::MAX - 1;
const MORE: u32 = u32::MAX - 2;
/// Nothing, so that what follows is aligned.
const UNUSED: u32 = u32::MAX - 3;
/// From here on, an even number: blocks of runs, by how many there are times two; one more if they are taken off.
const RUN: u32 = u32::MAX - 0xFFFF;

/// A block as part of a chain.
#[derive(Clone, Copy, Debug)]
struct Link {
    times: i32, // that the chain was executed from here on; zero between windows
    next: u32,
    place: u32,
}

/// A block.
#[derive(Clone, Copy, Debug)]
struct Place {
    pc: u64,
    number: u32,
    instructions: u32,
}

#[derive(Debug)]
pub(super) struct Executions {
    /// From where a chain is counted and from where it is taken off, or a block and what else is counted of it: by
    /// number from `resolved` on, by link or place before.
    counters: Vec<(u32, u32)>,
    resolved: usize,
    /// A block's next one in its chain is before it.
    links: Vec<Link>,
    placed: usize,      // of them; others have their block's number in place of a place
    runs: Vec<u32>,     // places of blocks
    runs_placed: usize, // of them; others are blocks' numbers
    link: Vec<u32>,     // of each block
    places: Vec<Place>, // most by address
    times: Vec<i32>,    // each was executed; zeros between windows
    sorted: usize,
    place: Vec<u32>, // of each block
    led: Bits,       // links from which on chains were executed; none between windows
    executed: Bits,  // places of blocks that were executed; none between windows
}

impl Default for Executions {
    fn default() -> Self {
        Self {
            counters: Vec::new(),
            resolved: 0,
            links: vec![Link { times: 0, next: NOWHERE, place: NOWHERE }],
            placed: 1,
            runs: Vec::new(),
            runs_placed: 0,
            link: vec![NOWHERE],
            places: vec![Place { pc: 0, number: NOWHERE, instructions: 0 }],
            times: vec![0],
            sorted: 0,
            place: vec![NOWHERE],
            led: Bits::default(),
            executed: Bits::default(),
        }
    }
}

impl Executions {
    pub(super) fn counter(&mut self, counter: Counter) -> u32 {
        self.push(match counter {
            Counter::Alone(block) => (block + 1, ALONE),
            Counter::Chain(block, less) => (block + 1, less.map_or(NOWHERE, |less| less + 1)),
            Counter::Less(block) => (NOWHERE, block + 1),
            Counter::Run(first, blocks) => (first, RUN + 2 * blocks),
            Counter::RunLess(first, blocks) => (first, RUN + 2 * blocks + 1),
        })
    }

    /// Where in the list of runs these blocks are now.
    pub(super) fn run(&mut self, blocks: &[u32]) -> u32 {
        let first = self.runs.len() as u32;
        self.runs.extend(blocks.iter().map(|block| block + 1));
        first
    }

    /// The counter of elements of a block that is a repeated string instruction.
    pub(super) fn elements(&mut self, block: u32) -> u32 {
        if self.counters.len() % 2 == 1 {
            self.push((NOWHERE, UNUSED));
        }
        let number = self.push((block + 1, ELEMENTS));
        self.push((block + 1, MORE));
        number
    }

    fn push(&mut self, counter: (u32, u32)) -> u32 {
        self.counters.push(counter);
        self.counters.len() as u32 - 1
    }

    pub(super) fn counters(&self) -> usize {
        self.counters.len()
    }

    /// `block` is part of a chain, before `next`, which is known.
    pub(super) fn chained(&mut self, block: u32, next: Option<u32>) {
        let number = block as usize + 1;
        self.link.resize(self.link.len().max(number + 1), NOWHERE);
        let next = next.map_or(NOWHERE, |next| self.link[next as usize + 1]);
        self.link[number] = self.links.len() as u32;
        self.links.push(Link { times: 0, next, place: number as u32 });
    }

    /// Takes the instructions executed in each of `blocks` out of `counts`, most by address: less than none, wrapped, where a
    /// chain was left that had been taken before. Accesses of repeated string instructions are added to `repeated`, by
    /// block.
    pub(super) fn take(
        &mut self,
        blocks: &[Block],
        counts: &[AtomicU32],
        counted: &mut Vec<(u64, u64)>,
        repeated: &mut Vec<(u64, u64)>,
    ) {
        self.resolve(blocks);
        for (first, line) in (0..).step_by(16).zip(counts[..self.counters.len()].chunks(16)) {
            if line.iter().fold(0, |any, count| any | count.load(Relaxed)) == 0 {
                continue;
            }
            let some = |(at, count): (u32, &AtomicU32)| u32::from(count.load(Relaxed) != 0) << at;
            let mut some = (0..).zip(line).map(some).fold(0, |all, one| all | one);
            while some != 0 {
                let at = some.trailing_zeros() as usize;
                some &= some - 1;
                let entered = line[at].load(Relaxed) as i32;
                line[at].store(0, Relaxed);
                let (from, less) = self.counters[first + at];
                let accesses = |shift| {
                    let block = &blocks[self.places[from as usize].number as usize - 1];
                    (
                        block.pc,
                        (u64::from(entered as u32) << shift) * block.repeated.map_or(0, Repeated::accesses),
                    )
                };
                match less {
                    UNUSED => {}
                    ALONE => self.execute(from, entered),
                    ELEMENTS => repeated.push(accesses(0)),
                    MORE => repeated.push(accesses(32)),
                    RUN.. => {
                        let (first, blocks) = (from as usize, (less - RUN) as usize / 2);
                        let times = if less % 2 == 0 { entered } else { entered.wrapping_neg() };
                        for at in first..first + blocks {
                            self.execute(self.runs[at], times);
                        }
                    }
                    less => {
                        self.lead(from, entered);
                        self.lead(less, entered.wrapping_neg());
                    }
                }
            }
        }
        while let Some(link @ 1..) = self.led.take_last() {
            let Link { times, next, place } = self.links[link];
            self.links[link].times = 0;
            self.lead(next, times);
            self.execute(place, times);
        }
        self.links[NOWHERE as usize].times = 0;
        let (places, times) = (&self.places, &mut self.times);
        self.executed.take_each(|place| {
            let Place { pc, instructions, .. } = places[place];
            let executed = i64::from(std::mem::take(&mut times[place])) * i64::from(instructions);
            counted.push((pc, executed as u64));
        });
    }

    /// A chain was executed from here on.
    fn lead(&mut self, link: u32, times: i32) {
        let of = &mut self.links[link as usize].times;
        *of = of.wrapping_add(times);
        self.led.insert(link);
    }

    fn execute(&mut self, place: u32, times: i32) {
        let of = &mut self.times[place as usize];
        *of = of.wrapping_add(times);
        self.executed.insert(place);
    }

    /// Gives new blocks a place.
    fn resolve(&mut self, blocks: &[Block]) {
        if self.resolved == self.counters.len() {
            return; // there are none
        }
        let known = self.places.len();
        for (number, block) in (known as u32..).zip(&blocks[known - 1..]) {
            let (pc, instructions) = (block.pc, block.instructions);
            self.places.push(Place { pc, number, instructions });
            self.place.push(number);
        }
        self.link.resize(self.places.len(), NOWHERE);
        self.times.resize(self.places.len(), 0);
        for (from, less) in &mut self.counters[self.resolved..] {
            if (RUN..UNUSED).contains(less) {
                continue; // the list has places
            }
            let new = if *less < UNUSED { &self.link } else { &self.place };
            // A counter of what could not be translated in the end is of nothing.
            let moved = |number: u32| new.get(number as usize).copied().unwrap_or(NOWHERE);
            *from = moved(*from);
            if *less < UNUSED {
                *less = moved(*less);
            }
        }
        self.resolved = self.counters.len();
        for link in &mut self.links[self.placed..] {
            link.place = self.place[link.place as usize];
        }
        self.placed = self.links.len();
        for place in &mut self.runs[self.runs_placed..] {
            *place = self.place.get(*place as usize).copied().unwrap_or(NOWHERE);
        }
        self.runs_placed = self.runs.len();
        // Most are in order since long ago.
        if self.places.len() - self.sorted > self.places.len() / 16 {
            self.sort();
        }
        self.executed.hold(self.places.len());
        self.led.hold(self.links.len());
    }

    fn sort(&mut self) {
        let mut order: Vec<u32> = (0..self.places.len() as u32).collect();
        order[1..].sort_by_key(|&place| self.places[place as usize].pc);
        self.places = order.iter().map(|&place| self.places[place as usize]).collect();
        let mut new = vec![NOWHERE; order.len()];
        for (place, &before) in (0..).zip(&order) {
            new[before as usize] = place;
        }
        let moved = |place: &mut u32| *place = new[*place as usize];
        self.place.iter_mut().for_each(moved);
        self.links.iter_mut().for_each(|link| moved(&mut link.place));
        self.runs.iter_mut().for_each(moved);
        let alone = self.counters.iter_mut().filter(|(_, less)| *less >= UNUSED);
        alone.for_each(|(place, _)| moved(place));
        self.sorted = self.places.len();
    }
}

/// Counts of each address together, ascending.
pub(super) fn merged(mut counts: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    counts.sort_by_key(|&(pc, _)| pc); // runs in order, one after the other
    counts.dedup_by(|again, first| {
        let same = again.0 == first.0;
        first.1 = if same { first.1.wrapping_add(again.1) } else { first.1 };
        same
    });
    counts
}

/// Without those of none, and of less, which wrap.
pub(super) fn positive(mut counts: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    counts.retain(|&(_, count)| count as i64 > 0);
    counts
}

/// A set of numbers, of which many are near each other.
#[derive(Debug, Default)]
struct Bits {
    words: Vec<u64>,
    last: usize, // no word behind this one has a bit
}

impl Bits {
    fn hold(&mut self, numbers: usize) {
        self.words.resize(self.words.len().max(numbers.div_ceil(64)), 0);
    }

    fn insert(&mut self, number: u32) {
        let word = number as usize / 64;
        self.words[word] |= 1 << (number % 64);
        self.last = self.last.max(word);
    }

    /// Removes the greatest number.
    fn take_last(&mut self) -> Option<usize> {
        loop {
            let word = self.words.get_mut(self.last)?;
            if let Some(bit) = word.checked_ilog2() {
                *word &= !(1 << bit);
                return Some(self.last * 64 + bit as usize);
            }
            self.last = self.last.checked_sub(1)?;
        }
    }

    /// Removes all numbers, ascending.
    fn take_each(&mut self, mut each: impl FnMut(usize)) {
        for (index, word) in self.words.iter_mut().enumerate().take(self.last + 1) {
            while *word != 0 {
                each(index * 64 + word.trailing_zeros() as usize);
                *word &= *word - 1;
            }
        }
        self.last = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::memory::Trust;
    use super::*;

    /// A generator of numbers below a bound.
    fn random(state: &mut u64) -> impl FnMut(u32) -> u32 + '_ {
        move |below| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((*state >> 33) % u64::from(below)) as u32
        }
    }

    /// What the counters say, block by block.
    fn simply(
        blocks: &[Block],
        next: &[Option<u32>],
        runs: &[u32],
        counted: &[(Counter, u32)],
    ) -> BTreeMap<u64, u64> {
        let mut all = BTreeMap::new();
        let mut add = |number: u32, times: u64| {
            let block = &blocks[number as usize];
            let sum: &mut u64 = all.entry(block.pc).or_default();
            *sum = sum.wrapping_add(times.wrapping_mul(block.instructions.into()));
        };
        let run = |first: u32, of: u32| runs[first as usize..][..of as usize].iter().copied();
        let chain = |from| std::iter::successors(Some(from), |&block: &u32| next[block as usize]);
        for &(counter, times) in counted {
            let times = u64::from(times);
            match counter {
                Counter::Alone(block) => add(block, times),
                Counter::Run(first, of) => run(first, of).for_each(|block| add(block, times)),
                Counter::RunLess(first, of) => {
                    run(first, of).for_each(|block| add(block, times.wrapping_neg()));
                }
                Counter::Less(less) => chain(less).for_each(|block| add(block, times.wrapping_neg())),
                Counter::Chain(from, less) => {
                    chain(from).for_each(|block| add(block, times));
                    let less = less.into_iter().flat_map(chain);
                    less.for_each(|block| add(block, times.wrapping_neg()));
                }
            }
        }
        all.retain(|_, count| *count > 0);
        all
    }

    #[test]
    fn counters_give_what_each_block_gives_by_itself() {
        let mut state = 7;
        let mut random = random(&mut state);
        let counts: Vec<AtomicU32> = (0..4096).map(|_| AtomicU32::new(0)).collect();
        let (mut executions, mut blocks) = (Executions::default(), Vec::<Block>::new());
        let (mut next, mut chained, mut counters, mut runs) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..60 {
            // A chain, which may join another one, and a block of its own.
            let (first, length) = (blocks.len() as u32, 1 + random(5));
            let joined = (!chained.is_empty() && random(2) == 0).then(|| random(chained.len() as u32));
            let joined = joined.map(|at: u32| chained[at as usize]);
            for number in first..=first + length {
                let pc = u64::from(random(1 << 20)) << 12 | u64::from(number);
                blocks.push(Block {
                    pc,
                    instructions: 1 + random(60),
                    lengths: Vec::new(),
                    operands: Vec::new(),
                    updates: 0,
                    scattered: 0,
                    repeated: None,
                    trust: Trust::Fixed,
                    bytes: Vec::new(),
                });
                next.push(None);
            }
            for number in (first..first + length).rev() {
                next[number as usize] = if number + 1 < first + length { Some(number + 1) } else { joined };
                executions.chained(number, next[number as usize]);
                chained.push(number);
            }
            let mut count = |counter| counters.push((counter, executions.counter(counter)));
            count(Counter::Alone(first + length));
            count(Counter::Chain(first, None));
            for _ in 0..3 {
                // Left for another chain, or for a block that is counted alone.
                let inside: Vec<u32> = std::iter::successors(Some(first), |&at| next[at as usize]).collect();
                let less = inside[random(inside.len() as u32) as usize];
                if random(2) == 0 {
                    count(Counter::Less(less));
                } else {
                    let to = chained[random(chained.len() as u32) as usize];
                    count(Counter::Chain(to, Some(less)));
                }
            }
            let run: Vec<u32> = (0..=random(6)).map(|_| random(blocks.len() as u32)).collect();
            let (from, all) = (executions.run(&run), run.len() as u32);
            assert_eq!(from as usize, runs.len());
            runs.extend(run);
            let mut count = |counter| counters.push((counter, executions.counter(counter)));
            count(Counter::Run(from, all));
            count(Counter::RunLess(from + all / 2, all - all / 2));
            let mut counted = Vec::new();
            for &(counter, number) in &counters {
                if random(3) == 0 {
                    let times = 1 + random(1000);
                    counts[number as usize].store(times, Relaxed);
                    counted.push((counter, times));
                }
            }
            let (mut taken, mut repeated) = (Vec::new(), Vec::new());
            executions.take(&blocks, &counts, &mut taken, &mut repeated);
            let mut sums = BTreeMap::new();
            for (pc, count) in taken {
                let sum: &mut u64 = sums.entry(pc).or_default();
                *sum = sum.wrapping_add(count);
            }
            sums.retain(|_, count| *count > 0);
            assert_eq!(sums, simply(&blocks, &next, &runs, &counted));
            assert!(repeated.is_empty() && counts.iter().all(|count| count.load(Relaxed) == 0));
        }
    }

    #[test]
    fn elements_have_whole_words() {
        let mut executions = Executions::default();
        let mut block = Block {
            pc: 9,
            instructions: 1,
            lengths: Vec::new(),
            operands: Vec::new(),
            updates: 0,
            scattered: 0,
            repeated: None,
            trust: Trust::Fixed,
            bytes: Vec::new(),
        };
        block.repeated = Some(Repeated {
            bytes: 1,
            source_loads: true,
            destination_loads: false,
            destination_stores: true,
        });
        executions.counter(Counter::Alone(0));
        let elements = executions.elements(0) as usize;
        assert_eq!(elements % 2, 0);
        let counts: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(0)).collect();
        counts[elements].store(5, Relaxed);
        counts[elements + 1].store(2, Relaxed);
        let (mut taken, mut repeated) = (Vec::new(), Vec::new());
        executions.take(&[block], &counts, &mut taken, &mut repeated);
        assert_eq!(repeated.iter().map(|(_, accesses)| accesses).sum::<u64>(), 2 * ((2 << 32) + 5));
        assert!(taken.iter().all(|(_, count)| *count == 0));
    }
}
