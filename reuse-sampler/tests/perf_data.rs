//! The `perf.data` reader on files that perf writes here and now, against what perf itself reads from them.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use reuse_sampler::trace::{PerfDataReader, PerfSample, PerfWindowOptions, PerfWindows};
use reuse_sampler::{AccessKind, Sampler, WindowPlan};

/// A file that perf wrote, deleted in the end.
struct Recorded(PathBuf);

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Records with these arguments, or says why not: perf is missing, does not match the kernel, or may not measure.
fn record(name: &str, arguments: &[&str]) -> Option<Recorded> {
    let file = std::env::temp_dir().join(format!("reuse-sampler-{name}-{}.data", std::process::id()));
    let recorded = Recorded(file.clone());
    let perf = Command::new("perf").args(["record", "-q", "-o"]).arg(&file).args(arguments).output();
    let why = match perf {
        Err(error) => format!("perf does not start: {error}; install linux-perf"),
        Ok(output) if !output.status.success() || fs::metadata(&file).map_or(0, |about| about.len()) == 0 => {
            let told = String::from_utf8_lossy(&output.stderr);
            format!("perf record {} does not work here: {}", arguments.join(" "), told.trim())
        }
        Ok(_) => return Some(recorded),
    };
    println!("skipped: {why}");
    None
}

/// What `perf script` prints of these fields, one line of words for each sample.
fn script(file: &Recorded, fields: &str) -> Vec<Vec<String>> {
    let output = Command::new("perf")
        .args(["script", "--ns", "-F", fields, "-i"])
        .arg(&file.0)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn read(file: &Recorded) -> (Vec<PerfSample>, Vec<String>) {
    let mut reader = PerfDataReader::new(fs::File::open(&file.0).unwrap());
    let mut samples = Vec::new();
    while let Some(sample) = reader.next_sample().unwrap() {
        samples.push(sample);
    }
    (samples, reader.events().unwrap())
}

/// Seconds with nine digits after the point, as perf prints them, in nanoseconds.
fn nanoseconds(text: &str) -> u64 {
    text.trim_end_matches(':').replace('.', "").parse().unwrap()
}

const BUSY: [&str; 3] = [
    "sh",
    "-c",
    "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; (j=0; while [ $j -lt 30000 ]; do j=$((j+1)); done)",
];

#[test]
fn samples_of_time_are_those_perf_reads() {
    let Some(file) = record("clock", &[&["-e", "cpu-clock", "-F", "2000"][..], &BUSY].concat()) else {
        return;
    };
    let (samples, events) = read(&file);
    assert_eq!(events, ["cpu-clock"]);
    let expected: Vec<(u32, u64, u64, u64)> = script(&file, "tid,time,period,ip")
        .iter()
        .map(|words| {
            let [thread, time, period, pc] = &words[..] else { panic!("{words:?}") };
            let pc = u64::from_str_radix(pc, 16).unwrap();
            (thread.parse().unwrap(), nanoseconds(time), period.parse().unwrap(), pc)
        })
        .collect();
    assert!(expected.len() > 5, "{} samples", expected.len());
    assert_eq!(samples.iter().map(|s| (s.thread, s.time, s.period, s.pc)).collect::<Vec<_>>(), expected);

    // All of it, and nothing twice, is in the windows, whose clock is that of the samples.
    let reader = PerfDataReader::new(fs::File::open(&file.0).unwrap());
    let options = PerfWindowOptions::windows_of(Duration::from_millis(10)).with_kernel();
    let mut windows = PerfWindows::new(reader, options).unwrap();
    let (mut weight, mut by_thread) = (0, BTreeMap::new());
    while let Some(window) = windows.next_window(&WindowPlan::count_only()).unwrap() {
        let code: u64 = window.code.iter().map(|(_, weight)| weight).sum();
        assert_eq!(window.counters, [("cpu-clock".to_owned(), code)]);
        *by_thread.entry(window.thread.0).or_insert(0) += code;
        weight += code;
    }
    let mut expected_by_thread = BTreeMap::new();
    expected.iter().for_each(|sample| *expected_by_thread.entry(sample.0).or_insert(0) += sample.2);
    assert_eq!(weight, expected.iter().map(|sample| sample.2).sum::<u64>());
    let sorted = |weights: Vec<u64>| {
        let mut weights = weights;
        weights.sort_unstable();
        weights
    };
    assert_eq!(sorted(by_thread.into_values().collect()), sorted(expected_by_thread.into_values().collect()));
}

#[test]
fn samples_of_memory_are_those_perf_reads() {
    let arguments = ["-e", "page-faults", "-c", "1", "-d", "sort", "/etc/passwd", "-o", "/dev/null"];
    let Some(file) = record("faults", &arguments) else { return };
    let (samples, events) = read(&file);
    assert_eq!(events, ["page-faults"]);
    let expected: Vec<(u64, u64, u64)> = script(&file, "time,addr,ip")
        .iter()
        .map(|words| {
            let [time, address, pc] = &words[..] else { panic!("{words:?}") };
            let hexadecimal = |text: &str| u64::from_str_radix(text, 16).unwrap();
            (nanoseconds(time), hexadecimal(address), hexadecimal(pc))
        })
        .collect();
    assert!(expected.len() > 20, "{} samples", expected.len());
    let found: Vec<_> = samples.iter().map(|s| (s.time, s.address.unwrap_or(0), s.pc)).collect();
    assert_eq!(found, expected);
    assert!(samples.iter().all(|sample| sample.period == 1 && sample.kind.is_none()));
}

/// A watchpoint sees every access to a word: as many as the program makes, at the address it says.
#[test]
fn watched_accesses_are_those_the_program_makes() {
    const WRITES: u64 = 300;
    let folder = std::env::temp_dir().join(format!("reuse-sampler-watched-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("watched.c"), folder.join("watched"));
    // Loaded where the linker says, so that its address is known before it runs.
    fs::write(
        &source,
        format!(
            "volatile long watched; int main(void) {{ for (long i = 0; i < {WRITES}; i++) watched = i; return 0; }}"
        ),
    )
    .unwrap();
    let built = Command::new("cc").args(["-no-pie", "-o"]).arg(&program).arg(&source).status();
    let symbols = Command::new("nm").arg(&program).output();
    let (Ok(true), Ok(symbols)) = (built.map(|status| status.success()), symbols) else {
        println!("skipped: no C compiler");
        return;
    };
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let address = symbols.lines().find(|line| line.ends_with(" watched")).unwrap().split(' ').next().unwrap();
    let address = u64::from_str_radix(address, 16).unwrap();
    let event = format!("mem:{address:#x}/8:w:u");
    let recorded = record("watched", &["-e", &event, "-c", "1", "-d", program.to_str().unwrap()]);
    fs::remove_dir_all(&folder).unwrap();
    let Some(file) = recorded else { return };
    let (samples, events) = read(&file);
    assert_eq!(events, ["mem"]);
    assert_eq!(samples.len() as u64, WRITES);
    for sample in &samples {
        assert_eq!(
            (sample.address, sample.kind, sample.in_kernel),
            (Some(address), Some(AccessKind::Store), false)
        );
    }
}

#[test]
fn a_pipe_is_read_as_a_file_is() {
    let piped = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", "2000", "-o", "-"])
        .args(BUSY)
        .output();
    let Some(piped) = piped.ok().filter(|output| output.status.success() && !output.stdout.is_empty()) else {
        println!("skipped: perf does not record here; install linux-perf");
        return;
    };
    let mut reader = PerfDataReader::new(&piped.stdout[..]);
    let mut samples = Vec::new();
    while let Some(sample) = reader.next_sample().unwrap() {
        samples.push(sample);
    }
    assert!(samples.len() > 5 && samples.is_sorted_by_key(|sample| sample.time));
    assert_eq!(reader.events().unwrap(), ["cpu-clock"]);
}
