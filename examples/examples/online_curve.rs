//! How large should the cache of a running service be? A miss ratio curve of its keys, at any moment, in 1 MiB.
//!
//! The last requests have a curve of their own, which follows where the service changes.

use reuse_sampler::CacheLines;
use statstack::{Error, OnlineCurve};

/// A service whose working set grows from 1,000 to 8,000 users.
fn requests() -> impl Iterator<Item = String> {
    (0..4_000_000_u64).map(|i| {
        let users = 1_000 << (i / 1_000_000);
        format!("user:{}", i.wrapping_mul(0x9e37_79b9) % users)
    })
}

fn main() -> Result<(), Error> {
    let sizes = [512, 1_024, 2_048, 4_096, 8_192].map(CacheLines);
    let mut curve = OnlineCurve::default();

    println!("requests  miss ratio of the last 200,000 in {:?} objects", sizes.map(|size| size.0));
    for (number, key) in (1_u64..).zip(requests()) {
        curve.observe(&key); // in the service's own lookup
        if number % 500_000 == 0 {
            let recent = curve.recent_curve(200_000, &sizes)?;
            let ratios: Vec<String> = recent.points.iter().map(|(_, ratio)| format!("{ratio:.2}")).collect();
            println!("{:>7}k  {}", number / 1000, ratios.join("  "));
        }
    }

    let ratios = curve.miss_ratios(sizes.map(|size| size.0))?;
    println!("all       {}", ratios.map(|ratio| format!("{ratio:.2}")).join("  "));
    println!("one request in {} is followed now", curve.sampled_one_in());
    Ok(())
}
