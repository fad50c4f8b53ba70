//! The pipeline `convert_trace` as its users meet it: arguments in; files, messages and exit status out.

use std::fs;
use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

use crate::support::{Ended, Folder, run_pipeline};
use examples::tools::convert_trace::{Args, run_until};
use reuse_sampler::replay::{Event, EventSource, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::trace::{BbWindows, TraceFormat, TraceReader};
use reuse_sampler::{LineSize, ReusePlan, ReuseProfile, Sampler, WindowPlan};
use serde_json::Value;

fn run_with(arguments: &[&str], interrupted: bool) -> Ended {
    let interrupted = AtomicBool::new(interrupted);
    run_pipeline(arguments, |args: &Args, out, messages| run_until(&interrupted, args, out, messages))
}

fn run(arguments: &[&str]) -> Ended {
    run_with(arguments, false)
}

fn events(format: TraceFormat, input: impl Read) -> Vec<Event> {
    let mut reader = TraceReader::new(format, input);
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    events
}

/// A walk over 100 lines, with code, as lackey writes it.
fn lackey(rounds: u64) -> String {
    let step = |i: u64| {
        let kind = ['L', 'S', 'M'][(i % 3) as usize];
        format!(
            "I  {:08x},4\nI  {:08x},4\n {kind} {:08x},8\n",
            0x1000 + i % 5 * 64,
            0x1004 + i % 5 * 64,
            i % 100 * 64
        )
    };
    (0..rounds * 100).map(step).collect()
}

#[test]
fn csv_keeps_every_event_and_din_every_address() {
    let folder = Folder::new();
    let trace = folder.file("walk.lackey", lackey(20));
    let original = events(TraceFormat::Lackey, lackey(20).as_bytes());

    let csv = run(&[&trace, "--to", "csv"]);
    assert_eq!((csv.status, events(TraceFormat::Csv, csv.out.as_bytes())), (0, original.clone()));
    assert!(
        csv.messages.contains("2666 accesses, 4000 instructions, written to standard output"),
        "{}",
        csv.messages
    );

    let din = run(&[&trace, "--to", "din"]);
    let addresses = |events: &[Event]| -> Vec<(u64, bool, u64)> {
        let address = |event: &Event| match event {
            Event::Access(a) => Some((a.address, a.kind == reuse_sampler::AccessKind::Store, a.pc)),
            _ => None,
        };
        events.iter().filter_map(address).collect()
    };
    assert_eq!(addresses(&events(TraceFormat::Din, din.out.as_bytes())), addresses(&original));

    // Code is written by block: of three instructions the one in between has no fetch.
    let long = folder.file("long.lackey", "I  1000,4\nI  1004,4\nI  1008,4\n L 40,8\n".repeat(100));
    let long = run(&[&long, "--to", "din"]);
    assert_eq!(long.out.lines().filter(|line| line.starts_with('2')).count(), 200);
    assert!(long.messages.contains("200 fetches for 300 instructions"), "{}", long.messages);
    assert!(!din.messages.contains("fetches"), "{}", din.messages);

    // There and back again, compressed in between and told apart by name and content.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(csv.out.as_bytes()).unwrap();
    let again = folder.file("walk.csv.gz", gzip.finish().unwrap());
    assert_eq!(run(&[&again, "--to", "csv"]).out, csv.out);
    assert_eq!(run(&[&again, "--to", "din"]).out, din.out);
}

#[test]
fn a_profile_is_that_of_replaying_the_trace() {
    let folder = Folder::new();
    let trace = folder.file("walk.lackey", lackey(20));
    for (rate, plan) in
        [("1", ReusePlan::Every), ("0.1", ReusePlan::Sparse(reuse_sampler::SampleGap::mean(10.0).unwrap()))]
    {
        let stored =
            run(&[&trace, "--to", "profile", "--sample-rate", rate, "--seed", "7", "--json"]).object();
        assert_eq!(
            (&stored["format"], &stored["version"], &stored["incomplete"]),
            (&"reuse-profile".into(), &1.into(), &false.into())
        );
        let profile: ReuseProfile = serde_json::from_value(stored).unwrap();
        let source = TraceReader::new(TraceFormat::Lackey, lackey(20).leak().as_bytes());
        let options = ReplayOptions::windows_of(WindowLength::Accesses(1 << 16)).seed(7);
        let mut sampler = ReplaySampler::new(source, options).unwrap();
        let mut expected = ReuseProfile::new(LineSize::B64);
        while let Some(window) = sampler.next_window(&WindowPlan::new(plan)).unwrap() {
            expected.record_window(&window).unwrap();
        }
        assert_eq!(profile, expected);
    }
    // Each of 100 lines, a third of them touched twice in a row: 33 reuses at once a round.
    let exact: ReuseProfile = serde_json::from_value(run(&[&trace, "--to", "profile"]).object()).unwrap();
    assert_eq!((exact.accesses(), exact.dangling_weight()), (2666, 100));
    assert_eq!(exact.reused_bins().next(), Some((0, 0, 666)));
}

#[test]
fn windows_of_code_become_bb_and_bb_becomes_bb() {
    let folder = Folder::new();
    let trace = folder.file("walk.lackey", lackey(20));
    let bb = run(&[&trace, "--to", "bb", "--window", "1000"]);
    let read = |text: &str| -> Vec<(u64, Vec<(u64, u64)>)> {
        let mut windows = BbWindows::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(window) = windows.next_window(&WindowPlan::count_only()).unwrap() {
            all.push((window.instructions, window.code));
        }
        all
    };
    // Five blocks of two instructions in turn.
    assert_eq!(read(&bb.out), vec![(1000, (1..=5).map(|block| (block, 200)).collect()); 4]);
    let stored = folder.file("walk.bb", &bb.out);
    assert_eq!(run(&[&stored, "--to", "bb"]).out, bb.out);
    let limited = run(&[&stored, "--to", "bb", "--limit", "3"]);
    assert_eq!(read(&limited.out).len(), 3);
    assert!(
        limited.out.ends_with("# ended by --limit after 3000 instructions, 3 windows\n"),
        "{}",
        limited.out
    );
}

#[test]
fn a_directory_gets_a_whole_file_and_json_describes_it() {
    let folder = Folder::new();
    let trace = folder.file("walk.lackey", lackey(2));
    let out = folder.path("out");
    let object = run(&[&trace, "--to", "din", "--out", out.to_str().unwrap(), "--json"]).object();
    assert_eq!(object["accesses"], 266);
    assert_eq!(
        (&object["from"], &object["to"], &object["incomplete"]),
        (&"lackey".into(), &"din".into(), &false.into())
    );
    let file = fs::read(object["file"].as_str().unwrap()).unwrap();
    assert_eq!(file, run(&[&trace, "--to", "din"]).out.as_bytes());
    assert_eq!(object["file"], out.join("walk.din").to_str().unwrap());
}

/// A device or a pipe is written to, not replaced by a file, and a folder that is missing is a mistake.
#[cfg(target_os = "linux")]
#[test]
fn what_o_names_stays_what_it_is() {
    use std::os::unix::fs::FileTypeExt;

    let folder = Folder::new();
    let trace = folder.file("a.lackey", lackey(3));
    let missing = folder.path("no/such/a.din");
    let refused = run(&[&trace, "--to", "din", "-o", missing.to_str().unwrap()]);
    assert_eq!((refused.status, refused.messages.lines().count()), (2, 1), "{}", refused.messages);
    assert!(!folder.path("no").exists());

    let pipe = folder.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    let ended = run(&[&trace, "--to", "din", "-o", pipe.to_str().unwrap()]);
    assert_eq!(ended.status, 0, "{}", ended.messages);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(reader.join().unwrap(), run(&[&trace, "--to", "din"]).out);
}

#[test]
fn an_interrupted_conversion_keeps_what_it_has_and_says_so() {
    let folder = Folder::new();
    let trace = folder.file("walk.lackey", lackey(20));
    for to in ["csv", "din"] {
        let ended = run_with(&[&trace, "--to", to], true);
        assert_eq!(ended.status, 130);
        let last = ended.out.lines().last().unwrap();
        assert!(last.starts_with("# INCOMPLETE: interrupted after "), "{last}");
        assert!(ended.messages.contains("interrupted"), "{}", ended.messages);
    }
    let ended = run_with(&[&trace, "--to", "profile"], true);
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.status, &object["incomplete"]), (130, &true.into()));
    serde_json::from_value::<ReuseProfile>(object).unwrap();
    let out = folder.path("out");
    let ended = run_with(&[&trace, "--to", "bb", "--out", out.to_str().unwrap(), "--window", "100"], true);
    assert_eq!(ended.status, 130);
    assert!(fs::read_to_string(out.join("walk.bb")).unwrap().contains("# INCOMPLETE: "));
}

#[test]
fn mistakes_are_one_line_that_names_the_file_and_the_place() {
    let folder = Folder::new();
    let good = folder.file("good.lackey", lackey(1));
    let bad = folder.file("bad.lackey", format!("{}nonsense\n", lackey(1)));
    let samples_of_code = folder.file("code.bb", "T:1:10\n");
    let binary = folder.file("bad.din", b"\xff\xfe\x00\x01");
    let empty = folder.file("empty.csv", "");
    let huge = folder.file("huge.bb", "T:1:99999999999999999999999\n");
    let short = folder.file("short.oracleGeneral", [0; 30]);
    let usf = folder.file("x.usf", "0 10\n");
    let perf = folder.file("perf.data", "0 10\n1 20\n");
    let cut = folder.file("cut.din.gz", &fs::read("tests/data/trace.din.gz").unwrap()[..3000]);
    let missing = folder.path("missing.din").to_str().unwrap().to_owned();
    let directory = folder.path(".").to_str().unwrap().to_owned();
    let unknown = folder.file("what.ever", "");
    for (arguments, status, problem) in [
        (&[bad.as_str(), "--to", "din"][..], 1, "bad.lackey: lackey trace, line 301: expected"),
        (&[&binary, "--to", "csv"], 1, "bad.din: din trace, line 1: expected label"),
        (&[&empty, "--to", "din"], 1, "empty.csv: csv trace: no memory access"),
        (&[&huge, "--to", "bb"], 1, "huge.bb: bb trace, line 1, column 5: expected a count"),
        (&[&short, "--to", "din"], 1, "oracle-general trace, byte 24: the file ends within a record"),
        (&[&usf, "--to", "din"], 1, "x.usf: usf trace, byte "),
        (&[&perf, "--to", "bb"], 1, "perf.data: perf-data trace, byte "),
        (&[&perf, "--to", "csv"], 1, "does not begin with PERFILE2"),
        (&[&perf, "--to", "din"], 2, "becomes only bb"),
        (&[&cut, "--to", "csv"], 1, "gzip data end early: the file is truncated"),
        (&[&missing, "--to", "csv"], 1, "missing.din: No such file"),
        (&[&directory, "--from", "din", "--to", "csv"], 1, "directory"),
        (
            &[&unknown, "--to", "csv"],
            2,
            "give --from with one of csv, din, lackey, oracle-general, usf, bb, perf-data",
        ),
        (&["--to", "csv"], 2, "cannot determine the format of -"),
        (&[&good, "--to", "csv", "--json"], 2, "give --out DIR"),
        (&[&good], 2, "--to"),
        (&[&good, "--to", "csv", "--limit", "0"], 2, "--limit"),
        (&[&good, "--to", "profile", "--sample-rate", "2"], 2, "more than every access"),
        (&[&good, "--to", "profile", "--line-size", "48"], 2, "power of two"),
        (&[&short, "--to", "profile", "--line-size", "64"], 2, "leave out --line-size"),
        (&[&samples_of_code, "--to", "csv"], 2, "code.bb holds executed code, which becomes only bb"),
        (&[&good, "--to", "csv", "--out", &unknown], 2, "give a directory that can be written to"),
    ] {
        let ended = run(arguments);
        assert_eq!(ended.status, status, "{arguments:?}: {}", ended.messages);
        assert!(ended.messages.contains(problem), "{arguments:?}: {}", ended.messages);
        assert_eq!(ended.messages.lines().count(), 1, "{}", ended.messages);
    }
    // Accesses without code make no windows.
    let plain = folder.file("plain.din", "0 10\n");
    assert!(run(&[&plain, "--to", "bb"]).messages.contains("plain.din: no executed code in it"));
    // A file that is refused in its middle leaves nothing behind.
    let out = folder.path("none");
    let ended = run(&[&bad, "--to", "din", "--out", out.to_str().unwrap()]);
    assert!(ended.messages.contains("bad.lackey: lackey trace, line 301"), "{}", ended.messages);
    assert_eq!(fs::read_dir(out).unwrap().count(), 0);
}

#[test]
fn a_limit_ends_the_trace_and_says_so() {
    let folder = Folder::new();
    let trace = folder.file("walk.lackey", lackey(20));
    let ended = run(&[&trace, "--to", "csv", "--limit", "10"]);
    assert!(ended.out.contains("# ended by --limit after 10 accesses"), "{}", ended.out);
    let count = |events: Vec<Event>| events.iter().filter(|event| matches!(event, Event::Access(_))).count();
    assert_eq!(count(events(TraceFormat::Csv, ended.out.as_bytes())), 10);
    assert_eq!(ended.status, 0);
}
