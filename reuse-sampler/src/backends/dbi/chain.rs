//! Chains: blocks that are counted together, before the first of them.
//!
//! Where a block is followed by another one whatever happens, or unless a forward jump is taken, the other one's code
//! is entered behind the counting: what was counted before the first block includes it. A jump that leaves the chain
//! owes what was counted and is not executed. It goes by way of a piece of code that counts the chain it leads to less
//! what is owed, once more with one subtraction and one counter. So a block costs nothing where it continues a chain,
//! and what it costs otherwise is as without chains.
//!
//! How often each block was executed follows from the counters: each stands for a chain entered, less one left.
//! Where what is left of a window is shorter than a chain, code of another kind goes on, which counts block by block.

use std::convert::Infallible;

use super::block::{End, Found};
use super::cache::{Block, CodeCache, Waiting, Written};
use super::executions::Counter;
use super::exits::Next;
use super::layout::shared;
use super::memory::Source;
use super::runtime::LEAST;
use super::translate::{Kind, Translation, share_of};

/// Instructions of a chain. A window's last chain is executed block by block.
const LONGEST: u32 = 160;
const _: () = assert!(LONGEST <= LEAST);
/// Blocks of a chain that are placed one behind the other.
const PLACED: usize = 12;

/// A block's code that is entered after it was counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chained {
    pub address: u64,
    /// From here to the end of the chain.
    pub instructions: u32,
    /// The number of the block that follows.
    pub next: Option<u32>,
    pub needs_flags: bool,
}

/// What was counted and is not executed where a chain is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owed {
    pub instructions: u32,
    /// The block, the first of those that are not executed.
    pub from: u32,
}

impl CodeCache {
    /// The blocks of the chain from this one on, each with its instructions.
    pub(super) fn chain(&self, first: Option<u32>) -> Vec<(u32, u64)> {
        let chain = std::iter::successors(first, |&block| self.chained(block)?.next);
        let length = |number: u32| self.blocks.get(number as usize).map_or(0, |b| u64::from(b.instructions));
        chain.map(|number| (number, length(number))).collect()
    }

    /// Instructions of what is entered at `pc`, if it is more than a block: a chain or a run.
    pub(super) fn length_at(&self, pc: u64, kind: Kind) -> u64 {
        let chain = || Some(self.chained_at(pc)?.1.instructions);
        let instructions = match kind {
            Kind::Counting => chain(),
            Kind::Recording => self.runs.length(pc),
            Kind::Stepping => None,
        };
        instructions.unwrap_or(0).into()
    }

    pub(super) fn chained(&self, number: u32) -> Option<Chained> {
        self.chains.get(number as usize).copied().flatten()
    }

    fn chained_at(&self, pc: u64) -> Option<(u32, Chained)> {
        let &number = self.numbers.get(&pc)?;
        Some((number, self.chained(number)?))
    }

    /// The counter of elements of a block that is a repeated string instruction.
    pub(super) fn elements(&mut self, found: &Found, number: u32) -> u32 {
        found.repeated.map_or(0, |_| self.executions.elements(number))
    }

    pub(super) fn counter(&mut self, counter: Counter) -> u32 {
        self.executions.counter(counter)
    }

    /// The blocks of the chain that begins at `pc`, and the number of a block already translated that it goes on with.
    fn find_chain(&mut self, pc: u64, read: &mut dyn FnMut(u64) -> Source) -> (Vec<Found>, Option<u32>) {
        let mut chain: Vec<Found> = Vec::new();
        let (mut at, mut length) = (pc, 0);
        loop {
            let found = self.look(at, read);
            let fits = length + found.instructions.len() as u32 <= LONGEST || chain.is_empty();
            let elsewhere = |first: &Found| first.guard() != found.guard();
            if !chain.is_empty() && (found.is_alone() || !fits) || chain.first().is_some_and(elsewhere) {
                return (chain, None);
            }
            length += found.instructions.len() as u32;
            let (end, follows) = (found.end, found.follows());
            chain.push(found);
            // What is entered again and again is a chain of its own.
            let again = match (end, follows) {
                (End::Branch(target), None) => Some(target),
                _ => follows,
            };
            if let Some(place) = again.and_then(|again| chain.iter().position(|found| found.pc == again)) {
                if place > 0 {
                    chain.truncate(place);
                }
                return (chain, None);
            }
            let Some(follows) = follows else { return (chain, None) };
            if let Some((number, chained)) = self.chained_at(follows) {
                let guard = self.blocks.get(number as usize).and_then(Block::guard);
                let joins = length + chained.instructions <= LONGEST && guard == chain[0].guard();
                return (chain, joins.then_some(number));
            }
            if self.codes[Kind::Counting as usize].entries.contains_key(&follows) || chain.len() == PLACED {
                return (chain, None);
            }
            at = follows;
        }
    }

    /// Translates the chain that begins at `pc`. Returns what it leads to, and whether by a return, and its blocks.
    pub(super) fn translate_chain(
        &mut self,
        pc: u64,
        read: &mut dyn FnMut(u64) -> Source,
    ) -> (Vec<(u64, bool)>, usize) {
        let (mut chain, mut joined) = self.find_chain(pc, read);
        loop {
            if let [found] = &chain[..] {
                if found.is_alone() {
                    break;
                }
            }
            match self.place(&chain, joined) {
                Ok(()) => return (leads_to(&chain, joined.is_some()), chain.len()),
                Err(0) => break,
                Err(cannot) => (chain.truncate(cannot), joined = None).0,
            }
        }
        (self.translate(pc, Kind::Counting, false, read).0, 1)
    }

    /// Writes the chain; fails with the position of a block that cannot be moved.
    fn place(&mut self, chain: &[Found], joined: Option<u32>) -> Result<(), usize> {
        self.trust_bytes_of(chain);
        let (numbers, mut parts) = self.parts(chain, joined);
        let counter = self.counter(Counter::Chain(numbers[0], None));
        let elements: Vec<u32> =
            chain.iter().zip(&numbers).map(|(found, &number)| self.elements(found, number)).collect();
        let joined = joined.and_then(|joined| self.chained(joined));
        let guard = chain[0].guard();
        let Written { start: entry, end, links, .. } =
            self.written(Kind::Counting, numbers[0], counter, |translator| -> Result<_, usize> {
                translator.gate(guard.is_some());
                translator.approach(chain[0].pc, &parts[0], None);
                let mut done = Translation::default();
                for (index, found) in chain.iter().enumerate() {
                    parts[index].address = translator.hot.here();
                    let after = parts.get(index + 1).map(|part| part.instructions);
                    let next = match (after, joined) {
                        (Some(_), _) => Next::Behind,
                        (None, Some(joined)) => Next::At(joined.address),
                        (None, None) => Next::Linked,
                    };
                    let instructions = after.or(joined.map(|joined| joined.instructions)).unwrap_or(0);
                    translator.owed = parts[index].next.map(|from| Owed { instructions, from });
                    translator.number = numbers[index];
                    translator.elements = elements[index];
                    done.marks.clear();
                    translator.chained(found, next, &mut done).ok_or(index)?;
                }
                Ok(())
            })?;
        let codes = &mut self.codes[Kind::Counting as usize];
        codes.entries.insert(chain[0].pc, entry);
        self.enter_by(entry, (chain[0].pc, Kind::Counting), guard, None);
        for (index, (found, &number)) in chain.iter().zip(&numbers).enumerate() {
            let until = parts.get(index + 1).map_or(end, |part| part.address);
            self.codes[Kind::Counting as usize].places.push((parts[index].address, until, number));
            self.chains[number as usize] = Some(parts[index]);
            if number as usize == self.blocks.len() {
                self.numbers.insert(found.pc, number);
                self.push(Block::new(found, self.purpose.fetches));
            }
        }
        for (part, &number) in parts.iter().zip(&numbers).rev() {
            self.executions.chained(number, part.next);
        }
        let waiting: Vec<_> =
            chain.iter().flat_map(|found| self.waiting_for(found.pc, Kind::Counting)).collect();
        for (target, waiting) in waiting.into_iter().chain(links) {
            self.connect(target, waiting, Kind::Counting);
        }
        Ok(())
    }

    /// The bytes of these blocks can change no longer: their executions need not verify them.
    pub(super) fn trust_bytes_of(&mut self, blocks: &[Found]) {
        for found in blocks {
            if let Some(&before) = self.numbers.get(&found.pc) {
                if self.blocks.get(before as usize).is_some_and(Block::is_verified) {
                    self.replace(found.pc, before);
                }
            }
        }
    }

    /// The number of each block, of those that are not known yet too.
    pub(super) fn numbers_of(&self, blocks: &[Found]) -> Vec<u32> {
        let mut new = self.blocks.len() as u32..;
        let number = |found: &Found| self.numbers.get(&found.pc).copied().or_else(|| new.next());
        blocks.iter().filter_map(number).collect()
    }

    /// The number of each block of the chain, and what is known before it has an address.
    fn parts(&mut self, chain: &[Found], joined: Option<u32>) -> (Vec<u32>, Vec<Chained>) {
        let numbers = self.numbers_of(chain);
        let most = numbers.iter().map(|&number| number as usize + 1).max().unwrap_or(0);
        self.chains.resize(self.chains.len().max(most), None);
        let (mut next, joined) = (joined, joined.and_then(|joined| self.chained(joined)));
        let mut instructions = joined.map_or(0, |joined| joined.instructions);
        let mut parts = Vec::with_capacity(chain.len());
        for (found, &number) in chain.iter().zip(&numbers).rev() {
            instructions += found.instructions.len() as u32;
            parts.push(Chained { address: 0, instructions, next, needs_flags: found.needs_flags });
            next = Some(number);
        }
        parts.reverse();
        (numbers, parts)
    }

    /// The jumps that wait for the block at `pc`, with their target.
    pub(super) fn waiting_for(
        &mut self,
        pc: u64,
        kind: Kind,
    ) -> impl Iterator<Item = (u64, Waiting)> + use<> {
        let waiting = self.codes[kind as usize].waiting.remove(&pc);
        let waiting = waiting.into_iter().flat_map(|(first, others)| std::iter::once(first).chain(others));
        waiting.map(move |waiting| (pc, waiting))
    }

    /// Leads a jump to the block at `target`, or has it wait.
    pub(super) fn connect(&mut self, target: u64, waiting: Waiting, kind: Kind) {
        let address = match (waiting.owed, self.chained_at(target)) {
            (None, _) => self.entry(target, kind),
            (owed, Some((number, chained))) => Some(self.way_to(target, number, &chained, owed)),
            (Some(owed), None) => self.entry(target, kind).map(|alone| self.repaid(alone, owed)),
        };
        match address {
            Some(address) => self.complete.push((waiting.patch, address)),
            None => self.codes[kind as usize].wait(target, waiting),
        }
    }

    /// Where code of `kind` enters the block at `pc`, uncounted so far, if it is translated.
    pub(super) fn entry(&mut self, pc: u64, kind: Kind) -> Option<u64> {
        if let Some(&address) = self.codes[kind as usize].entries.get(&pc) {
            return Some(address);
        }
        let (number, chained) = self.chained_at(pc).filter(|_| kind == Kind::Counting)?;
        let address = self.way_to(pc, number, &chained, None);
        self.codes[kind as usize].entries.insert(pc, address);
        Some(address)
    }

    /// Writes code that counts a chain from the block at `pc` on and goes there.
    fn way_to(&mut self, pc: u64, number: u32, chained: &Chained, owed: Option<Owed>) -> u64 {
        let counter = self.counter(Counter::Chain(number, owed.map(|owed| owed.from)));
        let guard = self.blocks.get(number as usize).and_then(Block::guard);
        let Ok(written) =
            self.written(Kind::Counting, number, counter, |translator| -> Result<_, Infallible> {
                translator.gate(guard.is_some());
                translator.approach(pc, chained, owed);
                translator.hot.jump(chained.address);
                Ok(())
            });
        self.enter_by(written.start, (pc, Kind::Counting), guard, owed);
        written.start
    }

    /// Writes code that takes back what is owed and goes to a block at `address` that is counted alone. Nothing is
    /// known of the flags that it needs.
    pub(super) fn repaid(&mut self, address: u64, owed: Owed) -> u64 {
        let counter = self.counter(Counter::Less(owed.from));
        let Ok(written) =
            self.written(Kind::Counting, owed.from, counter, |translator| -> Result<_, Infallible> {
                translator.hot.save_flags(shared::SLOT_E);
                translator.hot.subtract(-(owed.instructions as i32), share_of(counter));
                translator.hot.increment(shared::COUNTS + 4 * counter);
                translator.hot.restore_flags(shared::SLOT_E);
                translator.hot.jump(address);
                Ok(())
            });
        written.start
    }

    /// Whether there is code of `kind` for the block at `pc`.
    pub(super) fn is_translated(&self, pc: u64, kind: Kind) -> bool {
        self.codes[kind as usize].entries.contains_key(&pc)
            || kind == Kind::Counting && self.chained_at(pc).is_some()
    }
}

/// What a chain leads to besides its own blocks, and whether by a return.
pub(super) fn leads_to(chain: &[Found], joins: bool) -> Vec<(u64, bool)> {
    let mut targets = Vec::new();
    for (index, found) in chain.iter().enumerate() {
        let goes_on = joins || index + 1 < chain.len();
        match found.end {
            End::Branch(target) if goes_on => targets.push((target, false)),
            End::Call(_) if goes_on => targets.push((found.next(), true)),
            end => targets.extend(end.leads_to(found.next())),
        }
    }
    targets
}

impl End {
    /// What a block leads to that ends so before `next`, and whether by a return.
    pub(super) fn leads_to(self, next: u64) -> Vec<(u64, bool)> {
        match self {
            Self::Falls => vec![(next, false)],
            Self::Jump(target) => vec![(target, false)],
            Self::Branch(target) => vec![(next, false), (target, false)],
            Self::Call(target) => vec![(next, true), (target, false)],
            Self::IndirectCall => vec![(next, true)],
            _ => vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::exits::Exit;
    use super::super::layout;
    use super::super::memory::Trust;
    use super::super::region::Region;
    use super::super::runtime::Runtime;
    use super::*;

    /// A chain that may be left for code that changes, which leads to the middle of the chain.
    fn read(at: u64) -> Source {
        let (code, start, trust): (&[u8], u64, Trust) = if at < 0x50_0000 {
            // cmp rax, 1; je 0x500000; nop; ret
            (&[0x48, 0x83, 0xF8, 1, 0x0F, 0x84, 0xF6, 0xFF, 0x0F, 0, 0x90, 0xC3], 0x40_0000, Trust::Fixed)
        } else {
            (&[0xE9, 0x05, 0x00, 0xF0, 0xFF], 0x50_0000, Trust::Verified) // jmp 0x40000a
        };
        Source::new(code.into(), (at - start) as usize, trust)
    }

    #[test]
    fn jumps_to_what_is_translated_do_not_ask_the_observer() {
        for order in [[0x40_0000, 0x50_0000], [0x50_0000, 0x40_0000]] {
            let base = 0x7000_0000;
            let mut cache = CodeCache::new(Arc::new(Region::new().unwrap()), base, &Runtime::new());
            for pc in order {
                cache.find(pc, Kind::Counting, 0, &mut read);
            }
            assert_eq!(cache.blocks().len(), 3);
            for exit in &cache.exits {
                if let Exit::Link { target, patch, .. } = *exit {
                    let distance = cache.region.get_half(patch - base) as i32;
                    let to = patch.wrapping_add(4).wrapping_add_signed(distance.into());
                    assert!(to < base + layout::COLD, "{order:x?}: a jump to {target:#x} leaves the cache");
                }
            }
        }
    }
}
