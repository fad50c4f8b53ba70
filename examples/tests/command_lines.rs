//! Every pipeline takes the program to run, with the program's own flags, after its own flags, with `--` or without.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Debug;

use clap::Parser;
use examples::tools::{
    cache_pirate, compare_detectors, detect_phases, miss_ratio_curve, phase_guided_cache,
    phase_guided_vs_periodic, power_frequency,
};

fn takes_a_program<A: Parser + Debug>() {
    let read = |words: &[&str]| A::try_parse_from([&["pipeline"], words].concat());
    let bare = read(&["--seed", "7", "sort", "--json", "-r", "words"]).unwrap();
    let dashed = read(&["--seed", "7", "--", "sort", "--json", "-r", "words"]).unwrap();
    assert_eq!(format!("{bare:?}"), format!("{dashed:?}"));
    assert!(format!("{bare:?}").contains(r#"["sort", "--json", "-r", "words"]"#), "{bare:?}");
    assert!(format!("{bare:?}").contains("json: false"), "{bare:?}");
    // A mistyped flag of the pipeline's is not a program.
    assert!(read(&["--sead", "7", "sort"]).is_err());
}

#[test]
fn a_program_and_its_flags_come_last() {
    takes_a_program::<cache_pirate::Args>();
    takes_a_program::<compare_detectors::Args>();
    takes_a_program::<detect_phases::Args>();
    takes_a_program::<miss_ratio_curve::Args>();
    takes_a_program::<phase_guided_cache::Args>();
    takes_a_program::<phase_guided_vs_periodic::Args>();
    takes_a_program::<power_frequency::Args>();
}
