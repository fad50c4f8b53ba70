//! The pipeline `what_can_i_measure` as its users meet it, on this machine and on machines that lack everything.

use crate::support::{Ended, run_pipeline};
use examples::tools::what_can_i_measure::{
    Args, Counters, Report, SelfCheck, Trial, Valgrind, WALK, run, walk,
};
use serde_json::Value;

fn measure(arguments: &[&str]) -> Ended {
    run_pipeline(arguments, |args: &Args, out, messages| run(args, out, messages))
}

/// Either it was seen at work, or it says what is missing; never both, never neither.
fn works_or_says_why(trial: &Value) -> bool {
    let works = trial["backend"].is_string();
    let missing = trial["missing"].as_str().unwrap_or_default();
    assert_eq!(works, missing.is_empty(), "{trial}");
    if trial["backend"] == "qemu" {
        let (instructions, accesses) = (trial["instructions"].as_u64(), trial["accesses"].as_u64());
        // The least a program that is linked dynamically does; statically, some tens of thousands.
        assert!(instructions > Some(1000) && accesses > Some(100), "{trial}");
    }
    works
}

#[test]
fn this_machine_is_described_and_what_is_missing_has_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let ended = measure(&["--json", "--seed", "3", "--out", path]);
    let found = ended.object();
    assert_eq!(found["system"], std::env::consts::OS);
    let emulated = works_or_says_why(&found["emulator"]);
    let translated = works_or_says_why(&found["translation"]);
    let chosen = works_or_says_why(&found["chosen"]);
    let counters = &found["counters"];
    let enough = counters["enough"].as_bool().unwrap();
    assert!(chosen || !(enough || emulated || translated), "{found}");
    if chosen {
        let exact = if translated { "dbi" } else { "qemu" };
        assert_eq!(found["chosen"]["backend"], if enough { "perf" } else { exact });
    }
    if !enough {
        assert!(!counters["advice"].as_array().unwrap().is_empty(), "{found}");
    }
    assert_eq!(counters["watchpoints"] == 0, counters["watched_bytes"] == 0);
    assert_eq!(found["valgrind"]["version"].is_null(), found["valgrind"]["missing"].is_string());

    let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(file("what_can_i_measure.json"), ended.out);
    let text = file("what_can_i_measure.txt");
    for part in ["Counters and watchpoints", "Translation", "Emulator", "Valgrind", "(auto)"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    if chosen {
        let line = text.lines().last().unwrap().trim();
        assert!(line.starts_with(found["chosen"]["backend"].as_str().unwrap()), "{text}");
    }
}

#[test]
fn without_json_it_is_for_people() {
    let ended = measure(&[]);
    assert_eq!(ended.status, 0, "{}", ended.messages);
    assert!(
        ended.out.starts_with("This machine: ") && ended.out.contains("debug registers"),
        "{}",
        ended.out
    );
}

#[test]
fn a_machine_that_lacks_everything_is_advised_what_to_get() {
    let missing = |what: &str| Trial { missing: Some(what.to_owned()), ..Trial::default() };
    let mut report = Report {
        system: "plan9".to_owned(),
        architecture: "x86_64".to_owned(),
        counters: Counters { text: "to do: run on Linux\n".to_owned(), ..Counters::default() },
        emulator: missing("apt install qemu-user"),
        translation: missing("use x86-64 Linux"),
        chosen: missing("perf: run on Linux\nqemu: apt install qemu-user"),
        valgrind: Valgrind { version: None, missing: Some("apt install valgrind".to_owned()) },
        self_check: None,
    };
    let text = report.to_string();
    for part in [
        "on Linux only",
        "to do: run on Linux",
        "no: apt install qemu-user",
        "no: use x86-64 Linux",
        "no: apt install valgrind",
        "none: perf",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    report.system = "linux".to_owned();
    report.counters.enough = true;
    report.chosen = Trial { backend: Some("perf"), ..Trial::default() };
    assert!(!report.to_string().contains("on Linux only"));
    assert!(report.choice().starts_with("perf, because instructions"), "{}", report.choice());
    report.counters.enough = false;
    report.chosen.backend = Some("qemu");
    assert!(report.choice().starts_with("qemu, because counters do not suffice"), "{}", report.choice());
}

#[test]
fn a_directory_that_cannot_be_written_is_reported_before_anything_is_tried() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let ended = measure(&["--out", file.path().to_str().unwrap()]);
    assert_eq!((ended.status, ended.out.as_str()), (2, ""));
    assert!(ended.messages.contains("can be written to"), "{}", ended.messages);
}

/// Not a test of its own: the program that the next one observes.
#[test]
#[ignore = "started by another test"]
fn known_walk() {
    assert!(std::env::var_os(WALK).is_some());
    walk();
}

#[test]
fn the_self_check_observes_its_program_or_says_why_not() {
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", "what_can_i_measure::known_walk", "--ignored"];
    let check = SelfCheck::of(&reuse_sampler::perf::probe(), program.as_os_str(), &arguments);
    assert_eq!(check.missing.is_some(), check.clock.is_none(), "{check:?}");
    assert_eq!(check.expected, 511);
    if let Some(missing) = &check.missing {
        return eprintln!("the self-check does not run here: {missing}");
    }
    assert!(check.seconds_alone > 0.0 && check.stops > 0, "{check:?}");
    assert_ne!(check.right, Some(false), "{check:?}");
    let text = check.to_string();
    assert!(text.starts_with(if check.right.is_some() { "right" } else { "not judged" }), "{text}");
}

#[test]
fn a_report_is_one_file_to_send() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.json");
    let ended = measure(&["--report", path.to_str().unwrap()]);
    assert_eq!(ended.status, 0, "{}", ended.messages);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(report["counters"]["processor"].is_string(), report["self_check"].is_object());
    // This is no process of the command's.
    assert!(report["self_check"]["missing"].as_str().unwrap().contains("what_can_i_measure"));
    assert!(ended.out.contains("Self-check"), "{}", ended.out);
    let nowhere = measure(&["--report", folder.path().join("no/such/file").to_str().unwrap()]);
    assert_eq!((nowhere.status, nowhere.out.as_str()), (2, ""));
}
