//! Every command prints alike: results on standard output or in `-o`, remarks and progress on standard error unless
//! `--quiet`, no colours, and a reader that has seen enough is no failure.

use std::io::{self, Write};
use std::process::Command;

use crate::support::{Folder, binary};
use examples::cli::{CommandLine, Failure, invoke};
use examples::reference::accuracy as model_accuracy;
use examples::tools::{
    cache_pirate, compare_detectors, compare_profiles, convert_trace, corun_variability, detect_phases,
    miss_ratio_curve, phase_guided_cache, phase_guided_vs_periodic, power_frequency, reproduce,
    statcc_accuracy, what_can_i_measure,
};
use serde_json::Value;

/// Standard output whose reader is gone.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Runs a command: its arguments and standard output; exit status and standard error.
type Runner = fn(&[String], &mut dyn Write) -> (u8, String);

macro_rules! commands {
    ($(($($command:ident)::+, $arguments:expr)),* $(,)?) => {
        [$((
            stringify!($($command)::+),
            (|words, out| run(words, out, $($command)::+::run)) as Runner,
            $arguments,
        )),*]
    };
}

fn run<A: CommandLine>(
    words: &[String],
    out: &mut dyn Write,
    pipeline: impl FnOnce(&A, &mut dyn Write, &mut dyn Write) -> Result<u8, Failure>,
) -> (u8, String) {
    let mut messages = Vec::new();
    let words = std::iter::once("command").chain(words.iter().map(String::as_str));
    let status = invoke(words, out, &mut messages, pipeline);
    (status, String::from_utf8(messages).unwrap())
}

#[test]
fn results_and_remarks_go_where_the_command_line_says() {
    let folder = Folder::new();
    let trace: String = (0..4000).map(|i| format!("0 {:x}\n", i % 700 * 64)).collect();
    let trace = folder.file("a.din", trace);
    let report = folder.path("report").to_str().unwrap().to_owned();
    let profile = format!("{report}/profile.json");
    let chip = format!("--llc-size 64KiB --l1-size 1KiB --trace {trace} --trace {trace}");
    let commands = commands![
        (phase_guided_cache, format!("--workload few --out {report}")),
        (compare_profiles, format!("--tolerance 100 {profile} {profile}")),
        (miss_ratio_curve, format!("--trace {trace}")),
        (detect_phases, "--workload few".to_owned()),
        (convert_trace, format!("{trace} --to profile")),
        (model_accuracy, format!("{trace} --windows 4")),
        (compare_detectors, "--workload few --limit 20 --experiment detectors".to_owned()),
        (phase_guided_vs_periodic, "--workload few --limit 40 --seeds 1".to_owned()),
        (cache_pirate, format!("--trace {trace} --mix 0.3 --cache 64KiB")),
        (statcc_accuracy, chip.clone()),
        (corun_variability, format!("{chip} --offsets 2")),
        (power_frequency, "--workload compute --frequencies 1.6,2.67".to_owned()),
        (what_can_i_measure, String::new()),
    ];
    for (name, runner, arguments) in commands {
        let words = |more: &[&str]| -> Vec<String> {
            more.iter().copied().chain(arguments.split_whitespace()).map(str::to_owned).collect()
        };
        let mut out = Vec::new();
        let (status, messages) = runner(&words(&[]), &mut out);
        assert_eq!(status, 0, "{name}: {messages}");
        let table = String::from_utf8(out).unwrap();
        assert!(!table.is_empty(), "{name} prints nothing");
        assert!(!table.contains('\x1b') && !messages.contains('\x1b'), "{name} prints control characters");

        // Into a file, and nowhere else.
        let file = folder.path("result").to_str().unwrap().to_owned();
        let mut out = Vec::new();
        let (status, messages) = runner(&words(&["--quiet", "--json", "-o", &file]), &mut out);
        assert_eq!((status, messages.as_str()), (0, ""), "{name}");
        let written = std::fs::read_to_string(&file).unwrap();
        // The file of convert_trace is what it converts to; which file that is, is its result.
        let result = if name == "convert_trace" { String::from_utf8(out).unwrap() } else { written };
        assert!(!result.is_empty(), "{name} writes nothing");
        for line in result.lines() {
            let _: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
        }

        let ended = runner(&words(&["-q"]), &mut Closed);
        assert_eq!(ended, (0, String::new()), "{name} into a closed pipe");

        let (status, messages) = runner(&words(&["--quiet", "--nothing-of-this-name"]), &mut io::sink());
        assert_eq!((status, messages.lines().count()), (2, 1), "{name}: {messages}");
    }
    // A minute at least: only its command line is tried.
    let (status, messages) = run(&["-q".to_owned(), "--nothing".to_owned()], &mut io::sink(), reproduce::run);
    assert_eq!((status, messages.lines().count()), (2, 1), "{messages}");
}

/// Progress is for terminals, and `--quiet` hides it there too.
#[test]
fn a_terminal_shows_progress_without_colours_unless_quiet() {
    let terminal = |flags: &str| {
        let command = format!("{} {flags} --workload few", binary("phase_guided_cache").display());
        let script =
            Command::new("script").args(["-qec", &command, "/dev/null"]).env("NO_COLOR", "1").output();
        script.ok().map(|ended| String::from_utf8_lossy(&ended.stdout).into_owned())
    };
    let Some(plain) = terminal("") else {
        eprintln!("skipped: script (bsdutils) is not installed");
        return;
    };
    assert!(plain.contains("windows, ") && plain.contains('\r'), "no progress: {plain}");
    // Colours are set by a sequence that ends with m.
    let colours = |text: &str| {
        text.split('\x1b').skip(1).any(|rest| {
            rest.trim_start_matches(['[', ';', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
                .starts_with('m')
        })
    };
    assert!(!colours(&plain), "{plain:?}");
    let quiet = terminal("--quiet").unwrap();
    assert!(!quiet.contains('\x1b') && quiet.contains("KiB"), "{quiet:?}");
}
