//! The phases of a service from the counters that it exports anyway: no code addresses, no special hardware.
//!
//! Each line of input is a scrape: counts of events since the last one, separated by commas. The detector compares
//! them as percentages, so that an event of a million and one of a hundred weigh the same.
//!
//! ```text
//! cargo run --release --example phases_of_my_counters                    # made-up counters
//! cargo run --release --example phases_of_my_counters -- - < counters.csv
//! ```

use std::error::Error;
use std::io;

use phase_detect::metrics::phases_for_coverage;
use phase_detect::signature::CounterVector;
use phase_detect::{Clusterer, Pop, PopConfig, Ppm, Predictor};

/// Requests, cache misses, bytes written: serving, and every tenth minute a compaction.
fn made_up() -> Vec<String> {
    let minute = |n: u64| {
        let noise = n * 7 % 5;
        if n % 10 < 8 {
            format!("{},{},{}", 12_000 + 100 * noise, 300 + 3 * noise, 40_000 + 500 * noise)
        } else {
            format!("{},{},{}", 9_000 + 100 * noise, 2_500 + 30 * noise, 900_000 + 9_000 * noise)
        }
    };
    (0..60).map(minute).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let scrapes = match std::env::args().nth(1).as_deref() {
        Some("-") => io::stdin().lines().collect::<Result<_, _>>()?,
        _ => made_up(),
    };
    let mut phases = Pop::new(PopConfig { threshold: 0.2, ..PopConfig::default() })?;
    let mut next = Ppm::default();
    let (mut labels, mut predicted, mut right) = (Vec::new(), None, 0);
    for (number, scrape) in scrapes.iter().enumerate() {
        let counts = scrape.split(',').map(|count| count.trim().parse()).collect::<Result<Vec<u64>, _>>()?;
        let mut vector = CounterVector::new(counts.len())?;
        for (counter, events) in counts.into_iter().enumerate() {
            vector.add(counter, events)?;
        }
        let seen = phases.classify(&vector.finish()?)?;
        if seen.founded {
            println!("scrape {number}: a new phase, {}", seen.phase);
        }
        right += usize::from(predicted == Some(seen.phase));
        next.observe(seen.phase);
        predicted = next.predict().map(|prediction| prediction.phase);
        labels.push(seen.phase);
    }
    println!("{} scrapes; {right} of them predicted from those before", labels.len());
    println!("{} phases hold 90 % of them", phases_for_coverage(&labels, 0.9).unwrap_or(0));
    for (phase, members, centre) in phases.phases() {
        let centre: Vec<String> = centre.iter().map(|count| format!("{count:.0}")).collect();
        println!("{phase}: {members} scrapes, about {}", centre.join(", "));
    }
    Ok(())
}
