//! The code cache: what is translated, how blocks are linked, and how their addresses are looked up.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use iced_x86::InstructionInfoFactory;

use super::assemble::Code;
use super::block::{self, Found, Operand, Purpose, Reach, Repeated};
use super::chain::{Chained, Owed};
use super::executions::{Counter, Executions};
use super::exits::{self, Entries, Exit};
use super::guard::Guarded;
use super::layout::{self, shared};
use super::memory::{Source, Trust, page_of};
use super::recording::{Forms, RUNS};
use super::region::Region;
use super::runs::Runs;
use super::runtime::{Runtime, hash};
use super::translate::{Kind, Translator};
use crate::engine::hash::FastMap;

/// Blocks translated for one request.
const AHEAD: usize = 32;
/// Room that a block and its stubs never exceed.
const RESERVE: u64 = 1 << 16;
/// Room to cut a way into code.
const GATE: u64 = 32;

/// In the place of number 0, which means none.
const NO_EXIT: Exit = Exit::Unsupported { pc: 0, why: "" };

/// A block of the program.
#[derive(Debug)]
pub(super) struct Block {
    pub pc: u64,
    pub instructions: u32,
    pub lengths: Vec<u8>, // of its instructions, where fetches are handed out
    pub operands: Vec<Operand>,
    /// Operands that are loaded and stored.
    pub updates: u32,
    /// Operands whose places a vector of indices says.
    pub scattered: u32,
    pub repeated: Option<Repeated>,
    pub trust: Trust,
    /// Where it may change.
    pub bytes: Vec<u8>,
}

impl Block {
    /// With the lengths of its instructions if they are to be handed out.
    pub(super) fn new(found: &Found, fetches: bool) -> Self {
        let instructions = if fetches { &found.instructions[..] } else { &[] };
        let operands: Vec<Operand> = found.operands().collect();
        Self {
            pc: found.pc,
            instructions: found.instructions.len() as u32,
            lengths: instructions.iter().map(|instruction| instruction.len() as u8).collect(),
            scattered: operands.iter().filter(|operand| operand.reach == Reach::Scattered).count() as u32,
            updates: operands.iter().filter(|operand| operand.loads && operand.stores).count() as u32,
            operands,
            repeated: found.repeated,
            trust: found.source.trust,
            bytes: if found.source.trust == Trust::Fixed { Vec::new() } else { found.bytes().to_vec() },
        }
    }

    /// Whether each execution compares it.
    pub(super) fn is_verified(&self) -> bool {
        self.trust == Trust::Verified
    }

    /// The page that it is on, if that is protected.
    pub(super) fn guard(&self) -> Option<u64> {
        self.trust.guard(self.pc)
    }

    /// Whether it is the same code, trusted as much.
    fn is(&self, found: &Found) -> bool {
        self.trust == found.source.trust && (self.trust == Trust::Fixed || self.bytes == found.bytes())
    }
}

/// A jump that waits for its target to be translated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// Its distance.
    pub patch: u64,
    pub owed: Option<Owed>,
}

/// Code of one kind.
#[derive(Debug, Default)]
pub(super) struct Codes {
    pub entries: FastMap<u64, u64>,                     // by program counter
    indirect: FastMap<u64, u64>,                        // the entries that verify
    pub waiting: FastMap<u64, (Waiting, Vec<Waiting>)>, // by the target they wait for: one, and others
    pub places: Vec<(u64, u64, u32)>, // from where to where in the cache a block is, and its number; ascending
}

impl Codes {
    pub(super) fn wait(&mut self, target: u64, waiting: Waiting) {
        let others = self.waiting.entry(target).and_modify(|(_, others)| others.push(waiting));
        others.or_insert_with(|| (waiting, Vec::new()));
    }
}

/// Where the distance is of the jump that code at `start` begins with.
pub(super) const fn distance_of(start: u64) -> u64 {
    (start + 1).next_multiple_of(4)
}

fn keep(region: &Region, exits: &mut Vec<Exit>, exit: Exit) -> u32 {
    let number = exits.len() as u32;
    region.set(layout::EXIT_PCS + 8 * u64::from(number), exit.pc());
    exits.push(exit);
    number
}

/// Code that was written to the cache.
pub(super) struct Written<T> {
    pub start: u64,
    pub end: u64,
    pub made: T,
    pub links: Vec<(u64, Waiting)>, // by target
}

/// Exits of one kind of code, while a block of it is translated.
pub(super) struct Side<'a> {
    pub region: &'a Region,
    pub exits: &'a mut Vec<Exit>,
    pub codes: &'a Codes,
    pub links: Vec<(u64, Waiting)>, // by target
}

impl exits::Cache for Side<'_> {
    fn exit(&mut self, exit: Exit) -> u32 {
        let number = keep(self.region, self.exits, exit);
        if let Exit::Link { target, patch, owed } = exit {
            self.links.push((target, Waiting { patch, owed }));
        }
        number
    }

    fn translated(&self, pc: u64) -> Option<u64> {
        self.codes.entries.get(&pc).copied()
    }
}

/// The cache of a process.
pub(super) struct CodeCache {
    pub(super) region: Arc<Region>,
    pub(super) base: u64, // of the region in the program
    pub(super) entries: Entries,
    pub(super) hot: u64, // address of free room
    pub(super) cold: u64,
    pub(super) exits: Vec<Exit>,
    crowded: bool,                         // an entry was not found a place in the lookups
    pub(super) numbers: FastMap<u64, u32>, // of blocks, by program counter
    pub(super) blocks: Vec<Block>,
    pub(super) forms: Forms,
    pub(super) chains: Vec<Option<Chained>>, // by the number of the block
    pub(super) executions: Executions,
    pub(super) runs: Runs,
    pub(super) codes: [Codes; layout::KINDS as usize],
    pub(super) complete: Vec<(u64, u64)>, // distances to patch, and where the code is
    pub(super) factory: InstructionInfoFactory,
    fixed: BTreeSet<u64>,                        // pages with code that stays
    pub(super) guarded: FastMap<u64, Guarded>,   // by page
    pub(super) gates: usize,                     // of all
    pub(super) verified: FastMap<u64, Vec<u32>>, // blocks that compare themselves, by page
    pub(super) purpose: Purpose,
    written: [Vec<u8>; 2], // room for what is being written
}

impl std::fmt::Debug for CodeCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeCache").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

impl CodeCache {
    /// `region` holds no lookups.
    pub(super) fn new(region: Arc<Region>, base: u64, runtime: &Runtime) -> Self {
        let at = |offset: u64| base + layout::RUNTIME + offset;
        let [exit, call, probe, share] = [runtime.exit, runtime.call, runtime.probe, runtime.share].map(at);
        let entries = Entries { exit, call, probe, share };
        Self {
            region,
            base,
            entries,
            hot: base + layout::CACHE,
            cold: base + layout::COLD,
            exits: vec![NO_EXIT],
            crowded: false,
            numbers: FastMap::default(),
            blocks: Vec::new(),
            forms: Forms::default(),
            chains: Vec::new(),
            executions: Executions::default(),
            runs: Runs::default(),
            codes: Default::default(),
            complete: Vec::new(),
            factory: InstructionInfoFactory::new(),
            fixed: BTreeSet::new(),
            guarded: FastMap::default(),
            gates: 0,
            verified: FastMap::default(),
            purpose: Purpose::default(),
            written: Default::default(),
        }
    }

    /// Forgets everything. No thread may be in the cache, and lookups are to be emptied.
    pub(super) fn clear(&mut self) {
        self.hot = self.base + layout::CACHE;
        self.cold = self.base + layout::COLD;
        self.exits = vec![NO_EXIT];
        self.numbers.clear();
        self.blocks.clear();
        self.forms.clear();
        self.chains.clear();
        self.executions = Executions::default();
        self.runs = Runs::default();
        self.crowded = false;
        self.fixed.clear();
        self.guarded.clear();
        self.verified.clear();
        self.gates = 0;
        for (kind, codes) in (0..).zip(&mut self.codes) {
            // Most of a table was never written to.
            let table = layout::HASHES + kind * layout::HASH_SIZE;
            for pc in codes.indirect.keys() {
                let places = hash(*pc)..hash(*pc) + layout::PROBES;
                places.for_each(|entry| self.region.set(table + 16 * entry, 0));
            }
            *codes = Codes::default();
        }
    }

    /// Empties the first-level lookups of a thread.
    pub(super) fn clear_lookups(&self, thread: usize) {
        let empty: Vec<u8> = std::iter::repeat_n(
            self.entries.probe.to_le_bytes(),
            layout::KINDS as usize * shared::LOOKUP_SIZE as usize / 8,
        )
        .flatten()
        .collect();
        self.region.write(layout::block(thread) + u64::from(shared::LOOKUPS), &empty);
    }

    /// Whether the cache must be emptied before more is translated.
    pub(super) fn is_full(&self) -> bool {
        self.crowded
            || self.hot + RESERVE * AHEAD as u64 > self.base + layout::COLD
            || self.cold + RESERVE * AHEAD as u64 + GATE * self.gates as u64 > self.base + layout::SIZE
            || self.exits.len() + self.gates + (AHEAD + 1) * 16 > layout::EXITS as usize
            || self.executions.counters() + AHEAD * 64 > shared::COUNTERS as usize
            || self.blocks.len().max(self.forms.next_run() as usize - RUNS) + AHEAD * 64 > RUNS
    }

    pub(super) fn push(&mut self, block: Block) {
        self.forms.push(&block);
        let (page, number) = (page_of(block.pc), self.blocks.len() as u32);
        match block.trust {
            Trust::Fixed => {
                let most = 15 * u64::from(block.instructions + 1);
                self.fixed.extend([page, page_of(block.pc + most)]);
            }
            Trust::Guarded => self.guarded.entry(page).or_default().blocks.push(number),
            Trust::Verified => self.verified.entry(page).or_default().push(number),
        }
        self.blocks.push(block);
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The block at `pc`.
    pub(super) fn block(&self, pc: u64) -> Option<&Block> {
        self.blocks.get(*self.numbers.get(&pc)? as usize)
    }

    pub(super) fn exit(&self, number: u32) -> Option<Exit> {
        self.exits.get(number as usize).copied()
    }

    /// A number for an exit that a thread has taken before the cache was emptied.
    pub(super) fn keep(&mut self, exit: Exit) -> u32 {
        keep(&self.region, &mut self.exits, exit)
    }

    /// Whether a block has code in `start..end` that is taken to stay.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        let start = page_of(start);
        self.fixed.range(start..end.max(start)).next().is_some()
    }

    /// Where the code of `kind` for `pc` is; it is translated if it is not, with what it leads to.
    /// `thread` is about to go there.
    pub(super) fn find(
        &mut self,
        pc: u64,
        kind: Kind,
        thread: usize,
        read: &mut dyn FnMut(u64) -> Source,
    ) -> u64 {
        if let Some(address) = self.entry(pc, kind) {
            return address;
        }
        let mut ahead = VecDeque::from([(pc, false)]);
        let mut done = 0;
        while let Some((mut next, returned_to)) = ahead.pop_front() {
            let first = next;
            while !self.is_translated(next, kind) {
                let (targets, continues) = if kind == Kind::Stepping {
                    done += 1;
                    self.translate(next, kind, done <= AHEAD, read)
                } else {
                    let (targets, blocks) = match kind {
                        Kind::Counting => self.translate_chain(next, read),
                        _ => self.translate_run(next, read),
                    };
                    done += blocks;
                    (targets, None)
                };
                if done < AHEAD {
                    ahead.extend(targets);
                }
                match continues {
                    Some(after) => next = after,
                    None => break,
                }
            }
            self.publish();
            if returned_to {
                self.indirect(first, kind, thread);
            }
            if done >= AHEAD {
                break;
            }
        }
        let address = self.entry(pc, kind).unwrap_or(self.entries.exit);
        self.publish();
        address
    }

    /// Finds the block at `pc`.
    pub(super) fn look(&mut self, pc: u64, read: &mut dyn FnMut(u64) -> Source) -> Found {
        let mut found = block::find(pc, read, &mut self.factory);
        if found.guard().is_some() && found.leaves_page() {
            let mut source = found.source;
            source.trust = Trust::Verified;
            let mut read = |at: u64| if at == pc { source.clone() } else { read(at) };
            found = block::find(pc, &mut read, &mut self.factory);
        }
        self.purpose.apply(&mut found);
        found
    }

    /// Translates one block. Returns what it leads to (and whether by a return), and the block that must follow.
    #[allow(clippy::type_complexity)]
    pub(super) fn translate(
        &mut self,
        pc: u64,
        kind: Kind,
        more: bool,
        read: &mut dyn FnMut(u64) -> Source,
    ) -> (Vec<(u64, bool)>, Option<u64>) {
        let found = self.look(pc, read);
        let same = |number: &u32| self.blocks.get(*number as usize).is_some_and(|block| block.is(&found));
        let known = self.numbers.get(&pc).copied();
        let number = known.filter(same).unwrap_or(self.blocks.len() as u32);
        if let Some(before) = known.filter(|before| *before != number) {
            self.replace(pc, before); // code of the other kind is of what it was
        }
        self.numbers.insert(pc, number);
        let counter = self.counter(Counter::Alone(number));
        let elements = self.elements(&found, number);
        let may_continue = more && !self.codes[kind as usize].entries.contains_key(&found.next());
        let Ok(Written { start: address, end, made: done, links }) =
            self.written(kind, number, counter, |translator| -> Result<_, Infallible> {
                translator.elements = elements;
                Ok(translator.translate(&found, may_continue))
            });
        let (continues, next) = (done.continues, found.next());
        if number as usize == self.blocks.len() {
            self.push(Block::new(&found, self.purpose.fetches));
        }
        let codes = &mut self.codes[kind as usize];
        codes.entries.insert(pc, address);
        codes.places.push((address, end, number));
        self.enter_by(address, (pc, kind), found.guard(), None);
        for (target, waiting) in links.into_iter().chain(self.waiting_for(pc, kind)) {
            self.connect(target, waiting, kind);
        }
        let mut targets = found.end.leads_to(next);
        targets.retain(|&(target, _)| !continues || target != next);
        (targets, continues.then_some(next))
    }

    /// Code of `kind` behind what there is, as far as `write` does not fail.
    pub(super) fn written<T, E>(
        &mut self,
        kind: Kind,
        number: u32,
        counter: u32,
        write: impl FnOnce(&mut Translator<'_, Side<'_>>) -> Result<T, E>,
    ) -> Result<Written<T>, E> {
        let [hot, cold] = std::mem::take(&mut self.written);
        let (mut hot, mut cold) = (Code::again(self.hot, hot), Code::again(self.cold, cold));
        let codes = &self.codes[kind as usize];
        let mut side = Side { region: &self.region, exits: &mut self.exits, codes, links: Vec::new() };
        let made = write(&mut Translator {
            hot: &mut hot,
            cold: &mut cold,
            cache: &mut side,
            entries: self.entries,
            kind,
            factory: &mut self.factory,
            number,
            counter,
            elements: 0,
            owed: None,
        })?;
        let (links, start) = (side.links, self.hot);
        self.region.write(hot.address - self.base, &hot.bytes);
        self.region.write(cold.address - self.base, &cold.bytes);
        self.hot = hot.here();
        self.cold = cold.here();
        self.written = [hot.bytes, cold.bytes];
        Ok(Written { start, end: self.hot, made, links })
    }

    /// The block at `pc` was found to be another than number `number`. Its code leads to the next translation.
    pub(super) fn replace(&mut self, pc: u64, number: u32) {
        if self.numbers.get(&pc) != Some(&number) {
            return; // by another thread, already
        }
        let leads = self.blocks.get(number as usize).is_some_and(Block::is_verified);
        self.numbers.remove(&pc);
        for codes in &mut self.codes {
            if let Some(address) = codes.entries.remove(&pc).filter(|_| leads) {
                codes.wait(pc, Waiting { patch: distance_of(address), owed: None });
            }
        }
    }

    /// The block of this number, found again.
    pub(super) fn found(&mut self, number: u32, read: &mut dyn FnMut(u64) -> Source) -> Option<Found> {
        let &Block { pc, trust, ref bytes, .. } = self.blocks.get(number as usize)?;
        let known = (trust != Trust::Fixed).then(|| Source::new(bytes[..].into(), 0, trust));
        let mut read = |at: u64| known.clone().filter(|_| at == pc).unwrap_or_else(|| read(at));
        Some(self.look(pc, &mut read))
    }

    /// Lets code that waits jump to what is complete now: a block may run into the next one.
    pub(super) fn publish(&mut self) {
        for (patch, address) in self.complete.drain(..) {
            // Threads may execute the jump meanwhile: the distance is aligned, and changes at once.
            let distance = address.wrapping_sub(patch + 4) as i32;
            self.region.set_half(patch - self.base, distance as u32);
        }
    }

    /// The entry for indirect jumps of a translated block, found by lookups from now on, by those of `thread` at once.
    pub(super) fn indirect(&mut self, pc: u64, kind: Kind, thread: usize) {
        let Some(block) = self.entry(pc, kind) else { return };
        let codes = &mut self.codes[kind as usize];
        let address = if let Some(&address) = codes.indirect.get(&pc) {
            address
        } else {
            let mut code = Code::at(self.hot);
            exits::verify(&mut code, pc, block, self.entries);
            self.region.write(code.address - self.base, &code.bytes);
            self.hot = code.here();
            codes.indirect.insert(pc, code.address);
            let table = layout::HASHES + kind as u64 * layout::HASH_SIZE;
            let first = hash(pc);
            // An entry in use does not change: a thread may be reading it.
            let mut places = first..first + layout::PROBES;
            if let Some(free) = places.find(|entry| self.region.get(table + 16 * entry) == 0) {
                self.region.set(table + 16 * free + 8, code.address);
                self.region.set(table + 16 * free, pc);
            } else {
                self.crowded = true;
            }
            code.address
        };
        let lookup = layout::block(thread) + u64::from(shared::LOOKUPS + kind as u32 * shared::LOOKUP_SIZE);
        self.region.set(lookup + 8 * (pc & 0xFFFF), address);
    }
}
