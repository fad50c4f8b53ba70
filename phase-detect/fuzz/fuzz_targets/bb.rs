//! The `.bb` reader: no panic, mistakes have a place in the input, and what was read survives being written and read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phase_detect::Error;
use phase_detect::simpoint::{BlockVector, bb_windows, write_bb};

fn read_bb(input: &[u8]) -> Result<Vec<BlockVector>, Error> {
    bb_windows(input).collect()
}

fuzz_target!(|input: &[u8]| match read_bb(input) {
    Ok(windows) => {
        for window in &windows {
            assert!(window.total() > 0.0 && window.total().is_finite());
            assert!(window.blocks().iter().all(|&(_, count)| count > 0.0 && count.is_finite()));
        }
        let mut written = Vec::new();
        write_bb(&mut written, &windows).expect("a vector takes everything");
        assert_eq!(read_bb(&written[..]).expect("what was written can be read"), windows);
    }
    Err(Error::Parse { line, column, .. }) => {
        let line = input.split(|&byte| byte == b'\n').nth(line - 1).expect("the line exists");
        assert!((1..=line.len() + 1).contains(&column));
    }
    Err(other) => panic!("{other}"),
});
