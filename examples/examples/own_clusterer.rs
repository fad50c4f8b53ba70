//! A phase detector of one's own behind `Clusterer`: prediction, thread histories and metrics come with it.
//!
//! This one asks only which entry of the signature is the largest: the hottest code names the phase.

use std::error::Error;

use phase_detect::metrics::adjusted_rand_index;
use phase_detect::online::PrivateHistories;
use phase_detect::{
    Classification, Clusterer, CodeVector, Detector, LeaderFollower, LeaderFollowerConfig, PhaseId, Ppm,
    Signature,
};

/// One phase for each entry that was ever the largest.
#[derive(Default)]
struct Hottest {
    entries: Vec<usize>, // by number of the phase
}

impl Hottest {
    fn largest(signature: &Signature) -> (usize, f64) {
        let entries = signature.values().iter().copied().enumerate();
        entries.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    }
}

impl Clusterer for Hottest {
    fn classify(&mut self, signature: &Signature) -> Result<Classification, phase_detect::Error> {
        let (entry, share) = Self::largest(signature);
        let known = self.entries.iter().position(|&known| known == entry);
        let number = known.unwrap_or_else(|| {
            self.entries.push(entry);
            self.entries.len() - 1
        });
        let mut found = Classification::new(PhaseId::new(number as u32), 1.0 - share);
        found.founded = known.is_none();
        Ok(found)
    }

    fn nearest(&self, signature: &Signature) -> Result<Option<(PhaseId, f64)>, phase_detect::Error> {
        let (entry, share) = Self::largest(signature);
        let known = self.entries.iter().position(|&known| known == entry);
        Ok(known.map(|number| (PhaseId::new(number as u32), 1.0 - share)))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut own = Detector::new(Hottest::default(), PrivateHistories::new(Ppm::default()));
    let mut reference = LeaderFollower::new(LeaderFollowerConfig::default())?;
    let mut code = CodeVector::new(32, 1)?;
    let (mut mine, mut theirs, mut predicted, mut right) = (Vec::new(), Vec::new(), None, 0);
    for window in 0..200_u64 {
        // Three loops in turn, with some noise.
        let base = [0x1000, 0x1000, 0x2000, 0x3000][window as usize / 5 % 4];
        for block in 0..6 {
            code.add(base + 20 * block, (10 * (6 - block) + window * 7 % 3) as f64);
        }
        let signature = code.finish()?;
        let seen = own.observe(0_u64, &signature)?;
        right += u32::from(predicted.is_some() && predicted == seen.phase);
        predicted = seen.prediction.map(|prediction| prediction.phase);
        mine.extend(seen.phase);
        theirs.push(reference.classify(&signature)?.phase);
    }
    println!("{right} of {} windows were predicted from those before", mine.len());
    println!("agreement with leader-follower: {:.2} (1 is perfect)", adjusted_rand_index(&mine, &theirs)?);
    Ok(())
}
