//! Which few intervals of a program stand for all of it? SimPoint, from a `.bb` file to simulation points and weights.
//!
//! ```text
//! valgrind --tool=exp-bbv --interval-size=1000000 --bb-out-file=xz.bb xz --keep --stdout Cargo.lock > /dev/null
//! cargo run --release --example simpoint_of_bb -- xz.bb
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor};

use phase_detect::SimPointConfig;
use phase_detect::simpoint::{BlockVector, bb_windows, simpoints_file, weights_file};

/// A program of three loops: 30, 50 and 20 intervals of them.
fn recorded_earlier() -> String {
    let interval = |n: u64| match n % 100 {
        0..30 => format!("T:1:{} :2:{}\n", 900 + n % 7, 100),
        30..80 => format!("T:3:{} :4:{}\n", 500 + n % 5, 500),
        _ => format!("T:1:{} :5:{}\n", 300, 700 + n % 3),
    };
    (0..200).map(interval).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let input: Box<dyn BufRead> = match std::env::args().nth(1) {
        Some(path) => Box::new(BufReader::new(File::open(path)?)),
        None => Box::new(Cursor::new(recorded_earlier())),
    };
    let intervals: Vec<BlockVector> = bb_windows(input).collect::<Result<_, _>>()?;
    let chosen = SimPointConfig::default().fit_blocks(intervals.iter().map(Ok))?;

    println!("{} intervals, {} simulation points", intervals.len(), chosen.points().len());
    print!("{}", simpoints_file(chosen.points()));
    print!("{}", weights_file(chosen.points()));

    // What the points are worth: an estimate of something that is known of all intervals.
    let total = |interval: usize| intervals[interval].blocks().iter().map(|(_, count)| count).sum::<f64>();
    let truth = (0..intervals.len()).map(total).sum::<f64>() / intervals.len() as f64;
    let estimate = chosen.estimate(total);
    println!("instructions in an interval: {truth:.1} on average, {estimate:.1} estimated from the points");
    Ok(())
}
