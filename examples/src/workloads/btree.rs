//! A B-tree of 8-byte keys in nodes of 256 bytes: random insertions with splits on the way down, then
//! lookups of which half find their key.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tracer::{Array, Block, Sink, Tracer};

const DESCEND: Block = Block::new(5, 0, "btree::descend", 6);
const COMPARE: Block = Block::new(5, 1, "btree::compare", 4);
const CHILD: Block = Block::new(5, 2, "btree::child", 4);
const SHIFT: Block = Block::new(5, 3, "btree::shift", 5);
const PUT: Block = Block::new(5, 4, "btree::put", 5);
const SPLIT: Block = Block::new(5, 5, "btree::split", 14);
const MOVE: Block = Block::new(5, 6, "btree::move", 5);

pub(super) const CODE: &[Block] = &[DESCEND, COMPARE, CHILD, SHIFT, PUT, SPLIT, MOVE];

/// Words of a node: a header (number of keys, and whether it is a leaf), the keys, the children.
const NODE: usize = 32;
const KEYS: usize = 15; // odd: a full node splits into two of KEYS / 2 around its middle key
const LEAF: u64 = 1 << 32;

/// A tree in an array of nodes. Node 0 is the root and stays it.
struct Tree {
    words: Array<u64>,
    nodes: usize, // >= 1
}

const fn key_at(node: usize, slot: usize) -> usize {
    node * NODE + 1 + slot
}

const fn child_at(node: usize, slot: usize) -> usize {
    node * NODE + 1 + KEYS + slot
}

impl Tree {
    fn new<S: Sink>(t: &mut Tracer<'_, S>, capacity: usize) -> Self {
        // Splits leave nodes at least KEYS / 2 full, the root excepted, and those are all there is room for.
        let nodes = 4 + capacity / (KEYS / 2);
        let mut words = t.zeros::<u64>(nodes * NODE);
        t.store(&mut words, 0, LEAF);
        Self { words, nodes: 1 }
    }

    /// Slot of the first key not below `key`, and whether it is `key`.
    fn search<S: Sink>(&self, t: &mut Tracer<'_, S>, node: usize, count: usize, key: u64) -> (usize, bool) {
        for slot in 0..count {
            t.block(COMPARE);
            let found = t.load(&self.words, key_at(node, slot));
            if found >= key {
                return (slot, found == key);
            }
        }
        (count, false)
    }

    fn header<S: Sink>(&self, t: &mut Tracer<'_, S>, node: usize) -> (usize, bool) {
        t.block(DESCEND);
        let header = t.load(&self.words, node * NODE);
        ((header & 0xffff) as usize, header & LEAF != 0)
    }

    fn child<S: Sink>(&self, t: &mut Tracer<'_, S>, node: usize, slot: usize) -> usize {
        t.block(CHILD);
        t.load(&self.words, child_at(node, slot)) as usize
    }

    fn contains<S: Sink>(&self, t: &mut Tracer<'_, S>, key: u64) -> bool {
        let mut node = 0;
        loop {
            let (count, leaf) = self.header(t, node);
            let (slot, found) = self.search(t, node, count, key);
            if found || leaf {
                return found;
            }
            node = self.child(t, node, slot);
        }
    }

    fn insert<S: Sink>(&mut self, t: &mut Tracer<'_, S>, key: u64) {
        let mut node = 0;
        if self.header(t, 0).0 == KEYS {
            self.grow_root(t);
        }
        loop {
            let (count, leaf) = self.header(t, node);
            let (slot, found) = self.search(t, node, count, key);
            if found {
                return;
            }
            if leaf {
                self.open_slot(t, node, slot, count, leaf);
                t.block(PUT);
                t.store(&mut self.words, key_at(node, slot), key);
                t.store(&mut self.words, node * NODE, (count as u64 + 1) | LEAF);
                return;
            }
            let child = self.child(t, node, slot);
            if self.header(t, child).0 == KEYS {
                self.split(t, node, slot, count, child);
            } else {
                node = child;
            }
        }
    }

    /// Moves keys from `slot` on, and the children right of them, one place up.
    fn open_slot<S: Sink>(
        &mut self,
        t: &mut Tracer<'_, S>,
        node: usize,
        slot: usize,
        count: usize,
        leaf: bool,
    ) {
        for from in (slot..count).rev() {
            t.block(SHIFT);
            let key = t.load(&self.words, key_at(node, from));
            t.store(&mut self.words, key_at(node, from + 1), key);
            if !leaf {
                let child = t.load(&self.words, child_at(node, from + 1));
                t.store(&mut self.words, child_at(node, from + 2), child);
            }
        }
    }

    /// Splits the full `child` in `slot` of `node`, which is not full, around its middle key.
    fn split<S: Sink>(
        &mut self,
        t: &mut Tracer<'_, S>,
        node: usize,
        slot: usize,
        count: usize,
        child: usize,
    ) {
        let right = self.nodes;
        self.nodes += 1;
        let half = KEYS / 2;
        self.open_slot(t, node, slot, count, false);
        t.block(SPLIT);
        let leaf = t.load(&self.words, child * NODE) & LEAF;
        let middle = t.load(&self.words, key_at(child, half));
        t.store(&mut self.words, key_at(node, slot), middle);
        t.store(&mut self.words, child_at(node, slot + 1), right as u64);
        t.store(&mut self.words, node * NODE, count as u64 + 1);
        t.store(&mut self.words, child * NODE, half as u64 | leaf);
        t.store(&mut self.words, right * NODE, half as u64 | leaf);
        for i in 0..half {
            self.move_word(t, key_at(child, half + 1 + i), key_at(right, i));
        }
        if leaf == 0 {
            for i in 0..=half {
                self.move_word(t, child_at(child, half + 1 + i), child_at(right, i));
            }
        }
    }

    /// Moves all of the full root into a new node, its only child, and splits that.
    fn grow_root<S: Sink>(&mut self, t: &mut Tracer<'_, S>) {
        let child = self.nodes;
        self.nodes += 1;
        for word in 0..NODE {
            self.move_word(t, word, child * NODE + word);
        }
        t.block(PUT);
        t.store(&mut self.words, child_at(0, 0), child as u64);
        t.store(&mut self.words, 0, 0);
        self.split(t, 0, 0, 0, child);
    }

    fn move_word<S: Sink>(&mut self, t: &mut Tracer<'_, S>, from: usize, to: usize) {
        t.block(MOVE);
        let word = t.load(&self.words, from);
        t.store(&mut self.words, to, word);
    }
}

/// Inserts `keys` random keys and then looks up `lookups`, about half of them present. Gives for each lookup
/// the key and whether it was found.
pub fn btree<S: Sink>(t: &mut Tracer<'_, S>, keys: usize, lookups: usize, seed: u64) -> Vec<(u64, bool)> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut tree = Tree::new(t, keys);
    let inserted: Vec<u64> = (0..keys).map(|_| random.random()).collect();
    for &key in &inserted {
        tree.insert(t, key);
    }
    let wanted = |random: &mut StdRng| {
        if keys > 0 && random.random() { inserted[random.random_range(0..keys)] } else { random.random() }
    };
    (0..lookups)
        .map(|_| {
            let key = wanted(&mut random);
            (key, tree.contains(t, key))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn finds_exactly_the_keys_that_a_standard_set_finds() {
        for (keys, modulus) in [(0, 1), (1, 10), (15, 100), (16, 1000), (300, 250), (20_000, u64::MAX)] {
            let mut random = StdRng::seed_from_u64(keys as u64);
            let mut sink = |_| ();
            let mut t = Tracer::new(&mut sink, 0);
            let mut tree = Tree::new(&mut t, keys);
            let mut set = BTreeSet::new();
            for _ in 0..keys {
                let key = random.random_range(0..modulus);
                tree.insert(&mut t, key);
                set.insert(key);
            }
            for key in set.iter().copied().chain((0..1000).map(|_| random.random_range(0..modulus))) {
                assert_eq!(tree.contains(&mut t, key), set.contains(&key));
            }
        }
    }

    #[test]
    fn ascending_keys_fill_the_tree_to_its_least_and_still_find_room() {
        let mut sink = |_| ();
        let mut t = Tracer::new(&mut sink, 0);
        let mut tree = Tree::new(&mut t, 5000);
        (0..5000).for_each(|key| tree.insert(&mut t, key));
        assert!((0..5000).all(|key| tree.contains(&mut t, key)));
        assert!(!tree.contains(&mut t, 5000));
    }

    #[test]
    fn about_half_of_the_lookups_find_their_key() {
        let mut sink = |_| ();
        let results = btree(&mut Tracer::new(&mut sink, 0), 1000, 4000, 3);
        let found = results.iter().filter(|r| r.1).count();
        assert!((1800..2200).contains(&found), "{found}"); // 2000 with a standard deviation of 32
    }
}
