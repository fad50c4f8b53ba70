//! A service that knows its phase: each thousand requests are a window of the loop's own counters.
//!
//! The detector keeps at most eight phases and can be shared between threads (`Send`). Stopped, stored and resumed it
//! gives the same phases as if it had never stopped: here it is stored as JSON in the middle of the run.
//!
//! ```text
//! cargo run --release --example phases_of_a_service
//! ```

use std::error::Error;
use std::sync::{Arc, Mutex};

use phase_detect::online::{Histories, PrivateHistories};
use phase_detect::signature::CounterVector;
use phase_detect::{Detector, PhaseId, Pop, PopConfig, Ppm};

const WINDOW: u64 = 1000;

type ServiceDetector = Detector<Pop, PrivateHistories<Ppm>>;

/// What one request did: lines read, bytes written, cache misses. A scan now and then, a compaction every 12,000.
fn serve(request: u64) -> [u64; 3] {
    match request {
        n if n % 12_000 >= 9_000 => [5, 4_000 + n % 7, 40],
        n if n % 50 == 0 => [900, 0, 60],
        n => [20 + n % 3, 100, 2],
    }
}

/// Serves requests, passing each window to the detector.
fn work(
    detector: &Mutex<ServiceDetector>,
    worker: u64,
    requests: std::ops::Range<u64>,
) -> Result<(), phase_detect::Error> {
    let mut counters = CounterVector::new(3)?;
    for request in requests {
        for (counter, events) in serve(request).into_iter().enumerate() {
            counters.add(counter, events)?;
        }
        if (request + 1) % WINDOW == 0 {
            let mut detector = detector.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let seen = detector.observe(worker, &counters.finish()?)?;
            if seen.changed {
                let left = detector.histories().windows_to_change(worker, 0.5);
                let left =
                    left.map_or("for long".to_owned(), |windows| format!("for about {windows} windows"));
                println!(
                    "worker {worker}, window {}: phase {}, {left}",
                    seen.window,
                    seen.phase.map_or(0, PhaseId::number)
                );
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let pop = Pop::new(PopConfig { capacity: Some(8), ..PopConfig::default() })?;
    let mut state = serde_json::to_string(&ServiceDetector::new(pop, PrivateHistories::new(Ppm::default())))?;
    for requests in [0..60_000, 60_000..120_000] {
        // a start of the service: what the last run has learned is read
        let detector: Arc<Mutex<ServiceDetector>> = Arc::new(Mutex::new(serde_json::from_str(&state)?));
        let shared = Arc::clone(&detector);
        std::thread::spawn(move || work(&shared, 0, requests))
            .join()
            .map_err(|_| "the worker panicked")??;
        state = serde_json::to_string(&*detector.lock().map_err(|_| "the worker panicked")?)?;
        println!("stopped; {} bytes stored", state.len());
    }
    Ok(())
}
