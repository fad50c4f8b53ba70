//! The phase of every window of a run, by its code. Counting code costs next to nothing beside sampling, so that it can be
//! done in all windows; samples are taken in few.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use phase_detect::signature::DEFAULT_ENTRIES;
use phase_detect::{Clusterer, CodeVector, LeaderFollower, LeaderFollowerConfig, Signature};

/// Instructions executed in blocks, by their addresses.
pub type CodeCounts = HashMap<u64, u64, BuildHasherDefault<AddressHasher>>;

/// Code addresses are spread well enough by one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Windows being classified.
#[derive(Debug)]
pub struct CoursePhases {
    vector: CodeVector,
    clusterer: LeaderFollower,
    length: u64, // accesses in a window, at least 1
    accesses: u64,
    code: CodeCounts,
    windows: Vec<u32>,
    founders: Vec<Signature>, // the first signature of each phase
}

/// The phases of a run, window by window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// Accesses in each window but the last.
    pub length: u64,
    /// Accesses of the run.
    pub accesses: u64,
    /// Phase of each window.
    pub windows: Vec<u32>,
    /// By phase, all phases, the most similar first.
    pub similar: Vec<Vec<u32>>,
}

impl CoursePhases {
    /// Nothing seen, windows of `length` accesses.
    ///
    /// # Errors
    /// None: the detector's settings are in range.
    pub fn new(length: u64, seed: u64) -> Result<Self, phase_detect::Error> {
        Ok(Self {
            vector: CodeVector::new(DEFAULT_ENTRIES, seed)?,
            clusterer: LeaderFollower::new(LeaderFollowerConfig::default())?,
            length: length.max(1),
            accesses: 0,
            code: CodeCounts::default(),
            windows: Vec::new(),
            founders: Vec::new(),
        })
    }

    /// A block is executed.
    #[inline]
    pub fn block(&mut self, address: u64, instructions: u32) {
        *self.code.entry(address).or_default() += u64::from(instructions);
    }

    /// A line is accessed.
    ///
    /// # Errors
    /// Those of the detector.
    #[inline]
    pub fn access(&mut self) -> Result<(), phase_detect::Error> {
        self.accesses += 1;
        if self.accesses % self.length == 0 { self.end_window() } else { Ok(()) }
    }

    fn end_window(&mut self) -> Result<(), phase_detect::Error> {
        let mut code: Vec<(u64, u64)> = self.code.drain().collect();
        if code.is_empty() {
            // No window has code: all are of one phase.
            code.push((0, 1));
        }
        code.sort_unstable();
        self.vector.extend(code.into_iter().map(|(address, count)| (address, count as f64)));
        let signature = self.vector.finish()?;
        let phase = self.clusterer.classify(&signature)?.phase.index();
        if phase == self.founders.len() {
            self.founders.push(signature);
        }
        self.windows.push(phase as u32);
        Ok(())
    }

    /// What was found.
    ///
    /// # Errors
    /// Those of the detector.
    pub fn finish(mut self) -> Result<Course, phase_detect::Error> {
        if self.accesses % self.length != 0 {
            self.end_window()?;
        }
        let apart = |a: &Signature, b: &Signature| -> f64 {
            a.values().iter().zip(b.values()).map(|(a, b)| (a - b).abs()).sum()
        };
        let by_similarity = |own: &Signature| {
            let mut order: Vec<(f64, u32)> =
                self.founders.iter().zip(0..).map(|(other, k)| (apart(own, other), k)).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            order.into_iter().map(|(_, phase)| phase).collect()
        };
        let similar = self.founders.iter().map(by_similarity).collect();
        Ok(Course { length: self.length, accesses: self.accesses, windows: self.windows, similar })
    }
}

impl Course {
    /// Accesses of window `index`.
    pub fn accesses_of(&self, index: usize) -> u64 {
        let start = index as u64 * self.length;
        self.accesses.saturating_sub(start).min(self.length)
    }

    /// The phase of the window that access number `access` belongs to; 0 of a run without windows.
    pub fn phase_at(&self, access: u64) -> u32 {
        let window = (access / self.length) as usize;
        self.windows.get(window).or(self.windows.last()).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_distinguished_by_code() {
        let mut phases = CoursePhases::new(100, 1).unwrap();
        for window in [0, 0, 1, 0, 2, 1] {
            for access in 0..if window == 2 { 50 } else { 100 } {
                if access % 10 == 0 {
                    // The third is half the first.
                    let address = if window == 2 { access / 10 % 2 } else { window };
                    phases.block(0x1000 * (1 + address), 5);
                }
                phases.access().unwrap();
            }
            if window == 2 {
                (0..50).for_each(|_| phases.access().unwrap());
            }
        }
        (0..30).for_each(|_| phases.access().unwrap());
        let course = phases.finish().unwrap();
        assert_eq!(course.windows[..6], [0, 0, 1, 0, 2, 1]);
        assert_eq!((course.windows.len(), course.accesses_of(5), course.accesses_of(6)), (7, 100, 30));
        assert_eq!(course.similar[0][0], 0);
        assert_eq!(course.similar[1].len(), course.similar.len());
        assert_eq!((course.phase_at(199), course.phase_at(200)), (0, 1));
    }
}
