//! Phase profiles: written, read, of the first version for ever, and hostile ones.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use quickcheck::quickcheck;
use reuse_sampler::file::{FileError, PhaseProfile, ProfiledPhase, ProfiledWindow, Scope};
use reuse_sampler::{Clock, LineSize, Outcome, ReuseDistance, ReuseProfile};

/// As version 1 was written first. Never changed: files live longer than programs.
const FIRST: &str = include_str!("data/phase-profile-v1.json");

fn example(line_size: LineSize, windows: u64) -> PhaseProfile {
    let mut reuse = ReuseProfile::new(line_size);
    reuse.record_many(Outcome::Reused(ReuseDistance(7)), 90, 10);
    reuse.record_many(Outcome::Censored { at_least: 400 }, 8, 10);
    reuse.record_many(Outcome::Dangling, 2, 10);
    reuse.add_accesses(1_000);
    let mut profile = PhaseProfile::new("sort words.txt", line_size);
    let mut a = ProfiledPhase::new("A", reuse);
    (a.windows, a.profiled, a.instructions) = (windows - 1, 1, 5_000);
    a.accesses_per_instruction = Some(0.2);
    a.hottest_code = Some("compare".to_owned());
    a.code = vec![("compare".to_owned(), 0.75), ("main".to_owned(), 0.125)];
    let mut b = ProfiledPhase::new("B", ReuseProfile::new(line_size));
    b.windows = 1;
    b.borrows_from = Some("A".to_owned());
    profile.phases = vec![a, b];
    let window = |window| ProfiledWindow {
        window,
        thread: 0,
        instructions: 2_500,
        accesses: (window > 0).then_some(500),
        phase: if window == 1 { "B" } else { "A" }.to_owned(),
    };
    profile.windows = (0..windows).map(window).collect();
    profile.set_section("levels", &[("L1", 32 << 10)]).unwrap();
    profile
}

fn stored(profile: &PhaseProfile) -> String {
    let mut text = Vec::new();
    profile.write(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn read(text: &str) -> Result<PhaseProfile, FileError> {
    PhaseProfile::read(text.as_bytes())
}

/// Whoever predicts from samples learns that there are none, and what to do.
#[test]
fn phases_are_described_by_their_samples_or_the_lenders() {
    let mut profile = PhaseProfile::new("sort words.txt", LineSize::B64);
    let mut samples = ReuseProfile::new(LineSize::B64);
    let empty = samples.clone();
    samples.record(Outcome::Dangling, 1);
    let mut lender = ProfiledPhase::new("A", samples.clone());
    lender.accesses_per_instruction = Some(0.25);
    let mut borrower = ProfiledPhase::new("B", empty.clone());
    borrower.borrows_from = Some("A".to_owned());
    borrower.distinct_code = Some("merge".to_owned());
    (profile.machine, profile.phases) =
        (Some("a processor".to_owned()), vec![lender, borrower, ProfiledPhase::new("C", empty.clone())]);
    let profile = read(&stored(&profile)).unwrap();
    assert_eq!(profile.machine.as_deref(), Some("a processor"));
    assert_eq!(profile.phases[1].distinct_code.as_deref(), Some("merge"));
    let described = profile.described_phases().unwrap();
    assert_eq!(described.iter().map(|of| of.accesses()).collect::<Vec<_>>(), [Some(0.0), Some(0.0)]);
    let described = described.iter().map(|of| (&*of.phase.phase, of.profile, of.accesses_per_instruction));
    assert_eq!(described.collect::<Vec<_>>(), [("A", &samples, Some(0.25)), ("B", &samples, Some(0.25))]);

    let mut unsampled = profile;
    unsampled.phases[0].profile = empty;
    let error = unsampled.described_phases().unwrap_err();
    assert!(matches!(&error, FileError::NoReuse { program } if program == "sort words.txt"));
    assert_eq!(
        error.to_string(),
        "no phase of \"sort words.txt\" has reuse samples: record the run with what takes some, such as \
         phase_guided_cache --out DIR"
    );
}

#[test]
fn what_is_written_is_read_back() {
    let profile = example(LineSize::B64, 3);
    assert_eq!(read(&stored(&profile)).unwrap(), profile);
    let b = profile.phase("B").unwrap();
    assert_eq!(profile.described_by(b).unwrap().phase, "A");
    // B does not say how many instructions it has, its window does.
    let described = profile.described_phases().unwrap();
    let described = described.iter().map(|of| (of.instructions, of.accesses()));
    assert_eq!(described.collect::<Vec<_>>(), [(5_000, Some(1_000.0)), (2_500, Some(500.0))]);
    let mut unlisted = profile.clone();
    unlisted.windows.clear();
    let described = unlisted.described_phases().unwrap();
    assert_eq!(described.iter().map(|of| of.instructions).collect::<Vec<_>>(), [5_000, 0]);
    assert_eq!(
        profile.section::<Vec<(String, u64)>>("levels").unwrap(),
        Some(vec![("L1".to_owned(), 32 << 10)])
    );
    assert_eq!(profile.section::<u64>("none").unwrap(), None);
    assert!(matches!(profile.section::<u64>("levels"), Err(FileError::Section { .. })));
}

#[test]
fn serde_alone_checks_what_reading_checks() {
    let profile = example(LineSize::B64, 3);
    assert_eq!(serde_json::from_str::<PhaseProfile>(&stored(&profile)).unwrap(), profile);
    for (from, to) in
        [("\"line_size\":64", "\"line_size\":3"), ("\"version\":1", "\"version\":2"), ("0.75", "-0.75")]
    {
        let text = stored(&profile).replacen(from, to, 1);
        assert!(read(&text).is_err() && serde_json::from_str::<PhaseProfile>(&text).is_err(), "{to}");
    }
    assert_eq!(profile.section_names().collect::<Vec<_>>(), ["levels"]);
}

#[test]
fn the_scope_is_kept_and_private_where_it_is_missing() {
    // As it was written before profiles had a scope of their own.
    let text = stored(&example(LineSize::B64, 3)).replace("\"private\"", "\"shared\"");
    assert!(text.contains("\"scope\":\"shared\""), "{text}");
    assert_eq!(read(&text).unwrap().scope, Scope::Shared);
    assert!(matches!(read(&text.replacen("shared", "numa", 1)), Err(FileError::Syntax(_))));
    assert_eq!(read(FIRST).unwrap().scope, Scope::Private);
}

#[test]
fn a_profile_of_all_threads_is_none_of_each_thread() {
    let shared = |file: Scope, phase: Scope| {
        let mut profile = PhaseProfile::new("p", LineSize::B64);
        profile.scope = file;
        let reuse = ReuseProfile::with_units(LineSize::B64, Clock::Accesses, phase);
        profile.phases = vec![ProfiledPhase::new("A", reuse)];
        profile
    };
    let (own, all) = (Scope::Private, Scope::Shared);
    for (file, phase) in [(own, all), (all, own)] {
        let error = shared(file, phase).write(std::io::sink()).unwrap_err().to_string();
        let (phase, file) = (phase.name(), file.name());
        let limit = format!("the file's is {file:?}: record all phases in one");
        assert_eq!(error, format!("phases[\"A\"].profile.scope is {phase:?}: {limit}"));
    }
    let profile = shared(all, all);
    let text = stored(&profile);
    assert_eq!(read(&text).unwrap(), profile);
    // Profiles did not say so before files of all threads had other readers: those are what the file says.
    let before = text.replace("\"clock\":\"Accesses\",\"scope\":\"shared\"", "\"clock\":\"Accesses\"");
    assert!(before != text && read(&before).unwrap() == profile);
    assert!(read(&text.replacen("\"scope\":\"shared\"", "\"scope\":\"private\"", 1)).is_err());
}

#[test]
fn the_first_version_is_read_for_ever() {
    assert_eq!(read(FIRST).unwrap(), example(LineSize::B64, 3));
    // As `phase_guided_cache` wrote it before this module was: without code and sections.
    let before = r#"{"format":"phase-profile","version":1,"program":"p","incomplete":true,"line_size":64,"phases":[{
        "phase":"A","windows":1,"profiled":1,"instructions":10,"accesses_per_instruction":null,"hottest_code":"f",
        "borrows_from":null,"profile":{"version":1,"line_size":64,"clock":"Accesses","samples":1,"accesses":1,
        "reused":[],"censored":[],"dangling":1}}],
        "windows":[{"window":0,"thread":0,"instructions":10,"accesses":null,"phase":"A"}]}"#;
    let profile = read(before).unwrap();
    assert!(profile.incomplete && profile.phases[0].profile.dangling_weight() == 1);
}

#[test]
fn newer_keys_are_ignored_and_newer_versions_refused() {
    let text = stored(&example(LineSize::B64, 3));
    let more = text
        .replacen("{\"format\"", "{\"colour\":[1],\"format\"", 1)
        .replace("\"thread\":0", "\"thread\":0,\"node\":3");
    assert_eq!(read(&more).unwrap(), read(&text).unwrap());
    let newer = text.replacen("\"version\":1", "\"version\":2", 1);
    let message = read(&newer).unwrap_err().to_string();
    assert_eq!(message, "version 2 of the phase profile: versions up to 1 are read; use a newer program");
    let none = read(&text.replacen("\"version\":1", "\"version\":0", 1)).unwrap_err();
    assert!(matches!(none, FileError::Version { found: 0 }));
    assert_eq!(
        none.to_string(),
        "version 0 of the phase profile: the first one is 1; record the profile again"
    );
    let missing = read(&text.replacen("\"version\":1,", "", 1)).unwrap_err().to_string();
    assert!(missing.contains("missing field `version`"), "{missing}");
    let other = read("{\"format\":\"cache-curve\",\"version\":9}").unwrap_err();
    assert!(matches!(other, FileError::Format { found } if found == "cache-curve"));
    assert!(matches!(read("{"), Err(FileError::Syntax(_))));
    assert!(matches!(read("[]"), Err(FileError::Format { .. })));
}

#[test]
fn contradictions_are_named() {
    type Case = (fn(&mut PhaseProfile), &'static str);
    let cases: [Case; 20] = [
        (
            |p| p.windows[0].phase = "C".into(),
            "windows[0].phase is \"C\": the file has no such phase: list all phases",
        ),
        (
            |p| p.phases[1].borrows_from = Some("Z".into()),
            "phases[\"B\"].borrows_from is \"Z\": the file has no such phase; name one with samples, or null",
        ),
        (
            |p| p.phases[1].borrows_from = Some("B".into()),
            "phases[\"B\"].borrows_from is \"B\": a phase cannot borrow from itself; name one with samples, or null",
        ),
        (
            |p| p.phases[0].profile = ReuseProfile::new(LineSize::B64),
            "phases[\"B\"].borrows_from is \"A\": that phase has no samples to lend; name one with samples, or null",
        ),
        (
            |p| p.phases[1].phase = "A".into(),
            "phases[1].phase is \"A\": another phase has this name: give each its own",
        ),
        (
            |p| p.windows[2].window = 0,
            "windows[2].window is 0: another window has this number: give each its own",
        ),
        (
            |p| p.phases[0].windows = 3,
            "phases[\"A\"].windows is 3: 2 of its windows are listed: list all windows, or none",
        ),
        (
            |p| drop(p.windows.pop()),
            "phases[\"A\"].windows is 2: 1 of its windows are listed: list all windows, or none",
        ),
        (
            |p| p.phases[0].profiled = 9,
            "phases[\"A\"].profiled is 9: the phase has 2 windows: count no window twice",
        ),
        (
            |p| p.phases[0].profiled = 0,
            "phases[\"A\"].profiled is 0: 100 samples were started in them: count the windows",
        ),
        (
            |p| p.phases[0].instructions = 5_003,
            "phases[\"A\"].instructions is 5003: its windows have 5000: give their sum, or 0 where none are counted",
        ),
        (
            |p| p.windows[1].instructions = u64::MAX,
            "windows[1].instructions is 18446744073709551615: all windows together have 2^64 or more",
        ),
        (
            |p| p.phases[1].instructions = u64::MAX,
            "phases[\"B\"].instructions is 18446744073709551615: all phases together have 2^64 or more",
        ),
        (|p| p.phases[0].code[0].1 = 75.0, "phases[\"A\"].code[\"compare\"] is 75: give a share from 0 to 1"),
        (
            |p| p.phases[0].code[0].1 = f64::NAN,
            "phases[\"A\"].code[\"compare\"] is NaN: give a share from 0 to 1",
        ),
        (
            |p| p.phases[0].code[1].1 = 0.5,
            "phases[\"A\"].code is shares that add up to 1.25: give shares of one whole, 1",
        ),
        (
            |p| p.phases[0].accesses_per_instruction = Some(-0.5),
            "phases[\"A\"].accesses_per_instruction is -0.5: give a number from 0 to 2^64, or null",
        ),
        (
            |p| p.phases[0].accesses_per_instruction = Some(f64::INFINITY),
            "phases[\"A\"].accesses_per_instruction is inf: give a number from 0 to 2^64, or null",
        ),
        (
            |p| p.phases[1].profile = ReuseProfile::new(LineSize::new(32).unwrap()),
            "phases[\"B\"].profile.line_size is 32: the file's is 64: record all phases at one",
        ),
        (
            |p| {
                let mut other = ReuseProfile::with_clock(LineSize::B64, Clock::Instructions);
                other.record(Outcome::Dangling, 1);
                (p.phases[1].profile, p.phases[1].profiled) = (other, 1);
            },
            "phases[\"B\"].profile.clock is instructions: other phases count accesses: record all phases by one clock",
        ),
    ];
    for (change, message) in cases {
        let mut profile = example(LineSize::B64, 3);
        change(&mut profile);
        assert_eq!(profile.write(std::io::sink()).unwrap_err().to_string(), message);
    }
    let mut unlisted = example(LineSize::B64, 3);
    unlisted.windows.clear();
    assert_eq!(read(&stored(&unlisted)).unwrap(), unlisted);
    let text = stored(&example(LineSize::B64, 3)).replacen("\"line_size\":64", "\"line_size\":33", 1);
    let message = read(&text).unwrap_err().to_string();
    assert_eq!(message, "line_size is 33: give a power of two from 1 byte to 1 MiB");
}

#[test]
fn keys_that_are_there_twice_are_refused() {
    let text = stored(&example(LineSize::B64, 3));
    let twice = text.replacen("\"sections\":{", "\"sections\":{\"levels\":[],", 1);
    let message = read(&twice).unwrap_err().to_string();
    assert!(message.contains("two sections \"levels\": give each its own name"), "{message}");
    for key in ["\"line_size\":64", "\"program\":\"sort words.txt\"", "\"windows\":1"] {
        let message = read(&text.replacen(key, &format!("{key},{key}"), 1)).unwrap_err().to_string();
        assert!(message.contains("duplicate field"), "{message}");
    }
    let message = PhaseProfile::read([0x1f, 0x8b, 8].as_slice()).unwrap_err().to_string();
    assert_eq!(message, "not a phase profile: a file compressed by gzip: decompress it first");
}

quickcheck! {
    /// Cut off anywhere, and with bytes changed: an error or a profile that can be written, never a panic.
    fn hostile_files_are_refused(cut: usize, changes: Vec<(usize, u8)>) -> bool {
        let mut bytes = FIRST.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let whole = PhaseProfile::read(bytes.as_slice());
        bytes.truncate(cut % bytes.len());
        let cut = PhaseProfile::read(bytes.as_slice());
        [whole, cut].into_iter().flatten().all(|profile| profile.write(std::io::sink()).is_ok())
    }
}
