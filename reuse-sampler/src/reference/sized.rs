//! LRU caches of objects of different sizes, limited in bytes.

use std::collections::HashMap;

use crate::trace::ObjectRequest;

const NONE: u32 = u32::MAX;

/// Caches of objects, each limited to a number of bytes: the least recently used objects make room for a new one.
///
/// A hit does not change what an object takes, even if the request names another size. An object larger than a cache is
/// never kept in it. libCacheSim's LRU counts the same, without its metadata per object.
///
/// Memory: 12 bytes for each object and cache, and some 20 bytes for each object. Time: one look-up a request, and a few
/// nanoseconds for each cache.
///
/// ```
/// use reuse_sampler::reference::SizedLru;
/// use reuse_sampler::trace::ObjectRequest;
///
/// let mut caches = SizedLru::new(&[10, 100]);
/// for (object, bytes) in [(1, 6), (2, 6), (1, 6)] {
///     caches.request(ObjectRequest::new(object, bytes));
/// }
/// let misses: Vec<u64> = caches.misses().map(|of| of.requests).collect();
/// assert_eq!(misses, [3, 2]); // objects 1 and 2 do not fit into 10 bytes together
/// ```
///
/// # References
/// Yang, *libCacheSim*, `LRU`, whose counts on its sample traces the tests compare with.
#[derive(Clone, Debug)]
pub struct SizedLru {
    numbers: HashMap<u64, u32>, // objects, in the order of their first request
    caches: Vec<Cache>,
    requests: u64,
    bytes: u64,
}

/// Misses of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizedMisses {
    /// The cache's size in bytes.
    pub size: u64,
    /// Requests that missed.
    pub requests: u64,
    /// Sum of their sizes in bytes.
    pub bytes: u64,
}

impl SizedLru {
    /// Empty caches of so many bytes each.
    #[must_use]
    pub fn new(sizes: &[u64]) -> Self {
        let caches = sizes.iter().map(|&size| Cache::new(size)).collect();
        Self { numbers: HashMap::new(), caches, requests: 0, bytes: 0 }
    }

    /// Requests an object of every cache.
    pub fn request(&mut self, request: ObjectRequest) {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(request.object).or_insert(next);
        self.requests += 1;
        self.bytes += u64::from(request.bytes);
        for cache in &mut self.caches {
            cache.request(number, request.bytes);
        }
    }

    /// Requests so far.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Sum of the requests' sizes in bytes.
    #[must_use]
    pub const fn requested_bytes(&self) -> u64 {
        self.bytes
    }

    /// Misses of each cache, in the order of the sizes given.
    pub fn misses(&self) -> impl ExactSizeIterator<Item = SizedMisses> + '_ {
        self.caches.iter().map(|cache| cache.misses)
    }
}

/// An object in one cache: its neighbours by recency, and what it takes.
#[derive(Clone, Copy, Debug)]
struct Node {
    newer: u32, // NONE for the newest
    older: u32, // NONE for the oldest
    bytes: u32,
}

#[derive(Clone, Debug)]
struct Cache {
    nodes: Vec<Node>,   // by number of the object
    present: Vec<bool>, // same length
    newest: u32,
    oldest: u32,
    used: u64, // <= misses.size
    misses: SizedMisses,
}

impl Cache {
    const fn new(size: u64) -> Self {
        let misses = SizedMisses { size, requests: 0, bytes: 0 };
        Self { nodes: Vec::new(), present: Vec::new(), newest: NONE, oldest: NONE, used: 0, misses }
    }

    fn request(&mut self, object: u32, bytes: u32) {
        let at = object as usize;
        if at >= self.nodes.len() {
            self.nodes.resize(at + 1, Node { newer: NONE, older: NONE, bytes: 0 });
            self.present.resize(at + 1, false);
        }
        if self.present[at] {
            if object != self.newest {
                self.unlink(object);
                self.push(object);
            }
            return;
        }
        self.misses.requests += 1;
        self.misses.bytes += u64::from(bytes);
        if u64::from(bytes) > self.misses.size {
            return;
        }
        while self.used + u64::from(bytes) > self.misses.size {
            let victim = self.oldest;
            self.unlink(victim);
            self.present[victim as usize] = false;
            self.used -= u64::from(self.nodes[victim as usize].bytes);
        }
        self.nodes[at].bytes = bytes;
        self.present[at] = true;
        self.used += u64::from(bytes);
        self.push(object);
    }

    /// Takes an object that is present out of the order.
    fn unlink(&mut self, object: u32) {
        let Node { newer, older, .. } = self.nodes[object as usize];
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Puts an object that is in no order before all others.
    fn push(&mut self, object: u32) {
        let second = self.newest;
        let node = &mut self.nodes[object as usize];
        (node.newer, node.older) = (NONE, second);
        match self.nodes.get_mut(second as usize) {
            Some(node) => node.newer = object,
            None => self.oldest = object,
        }
        self.newest = object;
    }
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    /// The same by definition: a list, the oldest first.
    fn simple(size: u64, requests: &[(u64, u32)]) -> SizedMisses {
        let mut kept: Vec<(u64, u32)> = Vec::new();
        let mut misses = SizedMisses { size, requests: 0, bytes: 0 };
        for &(object, bytes) in requests {
            if let Some(at) = kept.iter().position(|known| known.0 == object) {
                let hit = kept.remove(at);
                kept.push(hit);
                continue;
            }
            misses.requests += 1;
            misses.bytes += u64::from(bytes);
            if u64::from(bytes) > size {
                continue;
            }
            while kept.iter().map(|known| u64::from(known.1)).sum::<u64>() + u64::from(bytes) > size {
                kept.remove(0);
            }
            kept.push((object, bytes));
        }
        misses
    }

    quickcheck! {
        fn agrees_with_the_definition(requests: Vec<(u8, u8)>, sizes: Vec<u8>) -> bool {
            let requests: Vec<(u64, u32)> =
                requests.into_iter().map(|(object, bytes)| (u64::from(object % 16), u32::from(bytes % 32))).collect();
            let sizes: Vec<u64> = sizes.into_iter().map(u64::from).collect();
            let mut caches = SizedLru::new(&sizes);
            for &(object, bytes) in &requests {
                caches.request(ObjectRequest::new(object, bytes));
            }
            let expected: Vec<SizedMisses> = sizes.iter().map(|&size| simple(size, &requests)).collect();
            caches.requests() == requests.len() as u64 && caches.misses().eq(expected)
        }
    }

    #[test]
    fn objects_of_one_size_are_an_ordinary_cache() {
        use crate::reference::ExactLru;
        use crate::{CacheLines, Line, LineSize};

        let objects: Vec<u64> = (0..3000).map(|i: u64| (i * i + i / 7) % 97).collect();
        let sizes: Vec<u64> = (0..8).map(|k| 8 << k).collect();
        let (mut caches, mut exact) = (SizedLru::new(&sizes), ExactLru::new());
        for &object in &objects {
            caches.request(ObjectRequest::new(object, 8));
            exact.access(Line(object));
        }
        let lines: Vec<CacheLines> = sizes.iter().map(|size| CacheLines(size / 8)).collect();
        let curve = exact.total().curve(LineSize::B64, &lines);
        for (misses, (size, ratio)) in caches.misses().zip(curve.points) {
            assert_eq!(misses.requests as f64 / 3000.0, ratio, "{size:?}");
            assert_eq!(misses.bytes, 8 * misses.requests);
        }
    }
}
