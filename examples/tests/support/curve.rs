//! The command `miss_ratio_curve`, as tests run it.

use std::sync::atomic::AtomicBool;

use examples::tools::miss_ratio_curve::{Args, run_until};
use serde_json::Value;

use super::{Ended, run_pipeline};

pub fn run_with(arguments: &[&str], interrupted: bool) -> Ended {
    let interrupted = AtomicBool::new(interrupted);
    run_pipeline(arguments, |args: &Args, out, messages| run_until(&interrupted, args, out, messages))
}

pub fn run(arguments: &[&str]) -> Ended {
    run_with(arguments, false)
}

/// Runs with `--json`, expects success and a single line, and gives the object.
pub fn json(arguments: &[&str]) -> Value {
    run(&[arguments, &["--json"]].concat()).object()
}

/// The miss ratios of the object, by size.
pub fn ratios(object: &Value) -> Vec<f64> {
    let points = object["points"].as_array().unwrap();
    points.iter().map(|point| point["miss_ratio"].as_f64().unwrap()).collect()
}
