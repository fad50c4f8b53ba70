//! What the crate makes can be sent to other threads, and shared between them.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste

use statcc::walk::{ProfiledWindow, Walked, WindowedProgram};
use statcc::{CoRun, Error, LinearLatency, Prediction, Program, Sensitivity, SolveError};

fn shared<T: Send + Sync>() {}

#[test]
fn threads_may_share_what_the_crate_makes() {
    shared::<(CoRun, Program, LinearLatency, Prediction, Sensitivity)>();
    shared::<(ProfiledWindow, WindowedProgram, Walked)>();
    shared::<(Error, SolveError<Error>)>();
}
