//! The chip's caches against valgrind's cachegrind, on the same accesses of the same run: lackey writes down what
//! cachegrind simulates, instruction fetches included, because both see the program through the same valgrind.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use examples::machines::chip::{
    Cache, CacheSettings, Chip, ChipSettings, CoreSettings, Player, Recording, Reference,
};
use reuse_sampler::{AccessKind, LineSize};

/// Sizes and ways of first level and last level.
struct Sizes {
    l1: (u64, u64),
    last: (u64, u64),
}

/// Misses, each counted once per access.
#[derive(Debug, Default, PartialEq)]
struct Misses {
    i1: u64,
    d1: u64,
    last_instructions: u64,
    last_data: u64,
}

/// Sorts some lines of text under a tool of valgrind and gives its log, or `None` where there is no valgrind.
fn valgrind(folder: &Path, options: &[&str]) -> Option<String> {
    let mut text = String::new();
    let mut state = 7_u32;
    for _ in 0..1500 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        writeln!(text, "{state:08x}").unwrap();
    }
    let input = folder.join("lines");
    fs::write(&input, text).unwrap();
    let log = folder.join("log");
    let mut command = Command::new("valgrind");
    // One environment for all tools: it lies on the stack, and decides how the stack is aligned. Only the path
    // stays, to find the programs.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let ended = command
        .args(options)
        .arg(format!("--log-file={}", log.display()))
        .args(["--cachegrind-out-file=/dev/null"].iter().filter(|_| options[0].ends_with("cachegrind")))
        // Its own choice of a buffer asks the system for the memory that is free, which is not the same in two runs.
        .args(["sort", "--parallel=1", "--buffer-size=1M"])
        .arg(&input)
        .output();
    match ended {
        Ok(output) if output.status.success() => Some(fs::read_to_string(log).unwrap()),
        other => {
            assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "valgrind: {other:?}");
            eprintln!("skipped: valgrind does not run here ({other:?})");
            None
        }
    }
}

/// A number of cachegrind's summary.
fn told(log: &str, label: &str) -> u64 {
    let line = log.lines().find(|line| line.contains(label)).expect(label);
    line.split_once(label).unwrap().1.split_whitespace().next().unwrap().replace(',', "").parse().unwrap()
}

fn settings((bytes, ways): (u64, u64)) -> CacheSettings {
    CacheSettings::lru(bytes, ways, LineSize::B64).unwrap()
}

/// Looks a line up and brings it in if it is missing.
fn misses(cache: &mut Cache, line: u64) -> bool {
    let missing = !cache.touch(line);
    if missing {
        cache.insert(line);
    }
    missing
}

/// Accesses in lackey's trace: whether it is a fetch, and the first and the last line.
fn accesses(trace: &str) -> impl Iterator<Item = (bool, u64, u64)> + '_ {
    trace.lines().filter_map(|line| {
        let (kind, place) = (line.get(..3)?, line.get(3..)?);
        if !matches!(kind, "I  " | " L " | " S " | " M ") {
            return None;
        }
        let (address, bytes) = place.split_once(',')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        // Cachegrind takes what is longer than a line (saved vector registers) as one line long.
        let bytes = bytes.trim().parse::<u64>().ok()?.clamp(1, 64);
        Some((kind == "I  ", address / 64, (address + bytes - 1) / 64))
    })
}

/// Cachegrind's rule on the chip's caches: an access that straddles two lines misses once if either is missing,
/// and then the last level is asked for both. Fetches and data share the last level.
fn simulate(trace: &str, sizes: &Sizes) -> Misses {
    let cache = |size| Cache::new(settings(size).geometry, settings(size).policy);
    let (mut i1, mut d1, mut last) = (cache(sizes.l1), cache(sizes.l1), cache(sizes.last));
    let mut counted = Misses::default();
    for (fetch, first, end) in accesses(trace) {
        let any = |cache: &mut Cache| (first..=end).fold(false, |any, line| misses(cache, line) | any);
        let (l1, l1_misses, last_misses) = if fetch {
            (&mut i1, &mut counted.i1, &mut counted.last_instructions)
        } else {
            (&mut d1, &mut counted.d1, &mut counted.last_data)
        };
        if any(l1) {
            *l1_misses += 1;
            *last_misses += u64::from(any(&mut last));
        }
    }
    counted
}

/// The same through the whole chip, as two cores: one makes the fetches, the other the data accesses. An access
/// that straddles two lines is two references, of which the last level sees those that miss; the two cores do not
/// share lines.
fn through_the_chip(trace: &str, sizes: &Sizes) -> Misses {
    let settings = ChipSettings {
        l1: settings(sizes.l1),
        shared: settings(sizes.last),
        ..ChipSettings::paper().unwrap()
    };
    let idle = || {
        let recording = Recording::of_lines([0], LineSize::B64).unwrap();
        CoreSettings::new(Player::new(recording.into(), 1.0).unwrap())
    };
    let mut chip = Chip::new(&settings, vec![idle(), idle()]).unwrap();
    let mut counted = Misses::default();
    for (fetch, first, end) in accesses(trace) {
        let core = usize::from(fetch);
        let before = chip.counters(core);
        for line in first..=end {
            let reference = Reference { line, kind: AccessKind::Load, instructions: 1.0, dependent: false };
            chip.reference(core, reference);
        }
        let made = chip.counters(core) - before;
        let (l1_misses, last_misses) = if fetch {
            (&mut counted.i1, &mut counted.last_instructions)
        } else {
            (&mut counted.d1, &mut counted.last_data)
        };
        *l1_misses += u64::from(made.l1_misses > 0);
        *last_misses += u64::from(made.shared_misses > 0);
    }
    counted
}

#[test]
fn first_and_last_level_misses_are_cachegrinds() {
    let folder = tempfile::tempdir().unwrap();
    let Some(trace) = valgrind(folder.path(), &["--tool=lackey", "--trace-mem=yes"]) else { return };
    let cases = [
        Sizes { l1: (32 << 10, 8), last: (2 << 20, 16) },
        Sizes { l1: (4 << 10, 2), last: (64 << 10, 8) },
        Sizes { l1: (1 << 10, 1), last: (16 << 10, 16) },
    ];
    for sizes in cases {
        let cache = |name: &str, (bytes, ways): (u64, u64)| format!("--{name}={bytes},{ways},64");
        let options = [cache("I1", sizes.l1), cache("D1", sizes.l1), cache("LL", sizes.last)];
        let options: Vec<&str> = ["--tool=cachegrind", "--cache-sim=yes"]
            .into_iter()
            .chain(options.iter().map(String::as_str))
            .collect();
        let Some(log) = valgrind(folder.path(), &options) else { return };
        assert_eq!(told(&log, "D   refs:"), accesses(&trace).filter(|a| !a.0).count() as u64, "one stream");
        let theirs = Misses {
            i1: told(&log, "I1  misses:"),
            d1: told(&log, "D1  misses:"),
            last_instructions: told(&log, "LLi misses:"),
            last_data: told(&log, "LLd misses:"),
        };
        let ours = simulate(&trace, &sizes);
        let chip = through_the_chip(&trace, &sizes);
        println!("cachegrind {theirs:?}\nours       {ours:?}\nchip       {chip:?}");
        let near = |ours: u64, theirs: u64, tolerance: f64| {
            assert!(theirs > 500, "too few misses to compare");
            assert!(ours.abs_diff(theirs) as f64 <= tolerance * theirs as f64, "{ours} {theirs}");
        };
        // What the chip's last level sees differs as said above, which moves single misses, not their number.
        for (last, ours) in [(0.001, &ours), (0.02, &chip)] {
            near(ours.i1, theirs.i1, 0.001);
            near(ours.d1, theirs.d1, 0.001);
            near(ours.last_instructions, theirs.last_instructions, last);
            near(ours.last_data, theirs.last_data, last);
        }
    }
}
