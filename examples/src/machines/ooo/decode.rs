//! From the blocks and accesses of an embedded kernel to instructions that wait for each other.
//!
//! A block has a number of instructions and the memory they touch, but not what computes what. That is
//! filled in from what the kernel does, written down by hand in [`style_of`]: whether an address is counted
//! up or was loaded, whether a sum is carried from one round to the next, whether a branch looks at data.
//! Which computation uses which other, within that, is drawn once per place in the code.

use std::collections::HashMap;

use reuse_sampler::replay::Event;
use reuse_sampler::{Access, AccessKind};

use super::predict::NextBlock;
use crate::machines::random;
use crate::workloads;

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Computes on integers.
    Integer,
    /// Computes on floating-point numbers.
    Float,
    /// Reads memory.
    Load,
    /// Writes memory.
    Store,
    /// Ends a block.
    Branch,
}

/// An instruction on its way to the core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Op {
    /// What it does.
    pub kind: Kind,
    /// How many instructions before it those are whose results it needs; 0 for none.
    pub sources: [u64; 2],
    /// What it accesses, if it is a load or a store.
    pub access: Option<Access>,
    /// Whether it is a branch that was guessed wrong.
    pub mispredicted: bool,
}

/// Where the address of an access comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Address {
    /// Counted up, or computed from what is at hand.
    Computed,
    /// From the load before it.
    Loaded,
    /// From the same load in the round before: a list.
    Chased,
}

/// What the code of a block is like.
#[derive(Clone, Copy)]
struct Style {
    first: Address,    // of the block's first access
    rest: Address,     // of its further ones
    float: bool,       // computes on floating-point numbers
    carried: bool,     // its last computation needs the one of the round before
    data_branch: bool, // its branch looks at what was loaded or computed
}

fn style_of(block: u64) -> Style {
    let name = workloads::locate(block).unwrap_or_default();
    let code = name.split_once("::").unwrap_or((&name, ""));
    Style {
        first: match code {
            ("hash_join", "chain")
            | ("btree", "descend" | "child" | "compare")
            | ("key_value", "read" | "write") => Address::Loaded,
            ("pointer_chase", _) => Address::Chased,
            _ => Address::Computed,
        },
        rest: match code {
            ("hash_join", "build" | "probe") | ("bfs", "visit" | "edge") | ("pagerank", "gather") => {
                Address::Loaded
            }
            _ => Address::Computed,
        },
        float: matches!(code.0, "matmul_naive" | "matmul_blocked" | "stream" | "pagerank"),
        carried: matches!(code, ("matmul_naive", "inner") | ("pagerank", "gather") | ("gather", _)),
        data_branch: matches!(
            code,
            ("quicksort" | "mergesort", _)
                | ("hash_join", "chain")
                | ("btree", "descend" | "child" | "compare")
                | ("bfs", "edge")
                | ("key_value", "probe")
        ),
    }
}

/// Numbers of the last instructions of the block at hand; 0 for none.
#[derive(Clone, Copy, Default)]
struct Here {
    load: u64,
    computed: u64,
}

impl Here {
    fn last(self) -> u64 {
        self.load.max(self.computed)
    }
}

/// Turns events into instructions, a block at a time.
pub struct Decoder {
    predictor: NextBlock,
    styles: HashMap<u64, Style>,
    block: Option<(u64, u32)>, // whose accesses are being gathered
    accesses: Vec<Access>,
    made: u64, // instructions so far
    last_load: u64,
    last_of: HashMap<u64, u64>, // instruction that last ran at an address
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("made", &self.made).finish_non_exhaustive()
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            predictor: NextBlock::new(),
            styles: HashMap::new(),
            block: None,
            accesses: Vec::new(),
            made: 0,
            last_load: 0,
            last_of: HashMap::new(),
        }
    }
}

impl Decoder {
    /// Takes the next event. When a block is complete, `take` gets its instructions, in order, and its address
    /// with the first of them.
    pub fn event(&mut self, event: Event, mut take: impl FnMut(Op, Option<u64>)) {
        match event {
            Event::Access(access) => self.accesses.push(access),
            Event::Block { address, instructions } => {
                let mispredicted = !self.predictor.enter(address);
                if let Some((block, instructions)) = self.block.replace((address, instructions)) {
                    self.block_ends(block, instructions, mispredicted, &mut take);
                }
            }
            _ => {}
        }
    }

    /// The program has ended: the last block.
    pub fn finish(&mut self, mut take: impl FnMut(Op, Option<u64>)) {
        if let Some((block, instructions)) = self.block.take() {
            self.block_ends(block, instructions, false, &mut take);
        }
    }

    fn block_ends(
        &mut self,
        block: u64,
        instructions: u32,
        mispredicted: bool,
        take: &mut impl FnMut(Op, Option<u64>),
    ) {
        let style = *self.styles.entry(block).or_insert_with(|| style_of(block));
        let accesses = std::mem::take(&mut self.accesses);
        let count = accesses.len() as u64;
        // All but the branch, accesses spread evenly among the computations.
        let body = u64::from(instructions).saturating_sub(1).max(count);
        let mut entered = Some(block);
        let mut here = Here::default();
        for place in 0..body {
            // Rounded up, so that the first access comes first.
            let access = (place * count).div_ceil(body);
            let due = ((place + 1) * count).div_ceil(body) > access;
            let op = if due {
                self.memory_op(&accesses[access as usize], style, access == 0, here)
            } else {
                self.compute_op(block, style, place, place + 1 == body, here)
            };
            match op.kind {
                Kind::Load => (self.last_load, here.load) = (self.made, self.made),
                Kind::Integer | Kind::Float => here.computed = self.made,
                Kind::Store | Kind::Branch => {}
            }
            take(op, entered.take());
        }
        let source = if style.data_branch { self.distance_to(here.last()) } else { 0 };
        self.made += 1;
        take(Op { kind: Kind::Branch, sources: [source, 0], access: None, mispredicted }, entered.take());
        self.accesses = accesses;
        self.accesses.clear();
    }

    fn memory_op(&mut self, access: &Access, style: Style, first: bool, here: Here) -> Op {
        let address = match if first { style.first } else { style.rest } {
            Address::Computed => 0,
            Address::Loaded => self.distance_to(self.last_load),
            Address::Chased => self.distance_to(self.last_of.get(&access.pc).copied().unwrap_or(0)),
        };
        let kind = if access.kind == AccessKind::Store { Kind::Store } else { Kind::Load };
        let data = if kind == Kind::Store { self.distance_to(here.last()) } else { 0 };
        self.made += 1;
        if style.first == Address::Chased {
            self.last_of.insert(access.pc, self.made);
        }
        Op { kind, sources: [address, data], access: Some(*access), mispredicted: false }
    }

    fn compute_op(&mut self, block: u64, style: Style, place: u64, last: bool, here: Here) -> Op {
        // No access has this address, and `last_of` is asked for both.
        let pc = block + (1 << 40) + place;
        let drawn = random::nth(pc, 1);
        let kind = if style.float && drawn % 8 < 5 { Kind::Float } else { Kind::Integer };
        let loaded = if (drawn >> 8) % 4 == 0 { 0 } else { self.distance_to(here.load) };
        let carried = style.carried && last;
        let computed = if carried {
            self.distance_to(self.last_of.get(&pc).copied().unwrap_or(0))
        } else if (drawn >> 16) % 2 == 0 {
            self.distance_to(here.computed)
        } else {
            0
        };
        self.made += 1;
        if carried {
            self.last_of.insert(pc, self.made);
        }
        Op { kind, sources: [loaded, computed], access: None, mispredicted: false }
    }

    /// From the instruction about to be made back to one that was; 0 if there was none.
    const fn distance_to(&self, earlier: u64) -> u64 {
        if earlier == 0 { 0 } else { self.made + 1 - earlier }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::Workload;

    fn ops(name: &str, limit: usize) -> Vec<Op> {
        let mut decoder = Decoder::default();
        let mut ops = Vec::new();
        for event in Workload::by_name(name, 1, 1).unwrap().events().unwrap() {
            decoder.event(event, |op, _| ops.push(op));
            if ops.len() >= limit {
                break;
            }
        }
        ops
    }

    #[test]
    fn instructions_and_accesses_are_those_of_the_events() {
        for name in ["quicksort", "hash_join", "stream", "btree"] {
            let events: Vec<Event> =
                Workload::by_name(name, 1, 1).unwrap().events().unwrap().take(50_000).collect();
            let mut decoder = Decoder::default();
            let (mut made, mut blocks, mut accesses) = (0, Vec::new(), Vec::new());
            let mut take = |op: Op, block: Option<u64>| {
                made += 1;
                blocks.extend(block);
                accesses.extend(op.access);
            };
            for &event in &events {
                decoder.event(event, &mut take);
            }
            decoder.finish(&mut take);
            let expected: u64 = events
                .iter()
                .map(|e| if let Event::Block { instructions, .. } = e { u64::from(*instructions) } else { 0 })
                .sum();
            // A block with as many accesses as instructions gets a branch besides.
            assert!(made >= expected && made <= expected + expected / 5, "{name}: {made} {expected}");
            let visited = events.iter().filter_map(|e| match e {
                Event::Block { address, .. } => Some(*address),
                _ => None,
            });
            assert!(visited.eq(blocks), "{name}");
            let touched =
                events.iter().filter_map(|e| if let Event::Access(a) = e { Some(*a) } else { None });
            assert!(touched.eq(accesses), "{name}");
        }
    }

    #[test]
    fn sources_lie_in_the_past_and_say_what_the_kernel_does() {
        for name in ["quicksort", "hash_join", "matmul_naive", "bfs", "key_value"] {
            for (at, op) in ops(name, 20_000).iter().enumerate() {
                assert!(op.sources.iter().all(|&s| s <= at as u64), "{name} {at}");
            }
        }
        // Each hop needs the one before, three instructions back.
        let hops = ops("pointer_chase", 3000);
        let loads = hops.iter().filter(|op| op.kind == Kind::Load).skip(1);
        assert!(loads.into_iter().all(|op| op.sources[0] == 3));
        // No load of STREAM needs another.
        assert!(ops("stream", 3000).iter().all(|op| op.kind != Kind::Load || op.sources == [0, 0]));
    }
}
