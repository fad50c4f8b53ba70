//! How would my data structure behave in a smaller cache? A Rust program observes its own vectors.
//!
//! Two ways to sum a matrix: row by row, and column by column.

use std::error::Error;

use reuse_sampler::in_process::{Profiler, ProfilerOptions, Traced};
use reuse_sampler::{CacheLines, CacheModel, LineSize, ReusePlan, ReuseProfile};
use statstack::StatStack;

const SIDE: usize = 256;

/// Runs `sum` on a matrix whose accesses are recorded.
fn profile(sum: impl Fn(&Traced<'_, Vec<f64>>) -> f64) -> Result<ReuseProfile, Box<dyn Error>> {
    let profiler = Profiler::new(ProfilerOptions::new(ReusePlan::Every))?;
    let recorder = profiler.recorder();
    let matrix = Traced::new(vec![1.0; SIDE * SIDE], &recorder);
    if sum(&matrix) != (SIDE * SIDE) as f64 {
        return Err("the sum is wrong".into());
    }
    drop(recorder); // the thread ends: what is not used again by now never will be
    Ok(profiler.take_profile())
}

fn main() -> Result<(), Box<dyn Error>> {
    let by_rows = profile(|matrix| (0..SIDE * SIDE).map(|i| matrix[i]).sum())?;
    let by_columns = profile(|matrix| {
        (0..SIDE).flat_map(|column| (0..SIDE).map(move |row| row * SIDE + column)).map(|i| matrix[i]).sum()
    })?;
    let (rows, columns) = (StatStack::fit(&by_rows)?, StatStack::fit(&by_columns)?);

    println!("{:>10}  {:>8}  {:>10}", "bytes", "by rows", "by columns");
    for power in [4, 6, 8, 9, 10, 13] {
        let size = CacheLines(1 << power);
        let bytes = size.bytes(LineSize::B64);
        println!("{bytes:>10}  {:>8.3}  {:>10.3}", rows.miss_ratio(size), columns.miss_ratio(size));
    }
    // By columns, a line is used again after one access to each of the 256 rows.
    println!("A cache of 256 lines makes the order unimportant.");
    Ok(())
}
