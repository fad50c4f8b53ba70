//! The lackey reader on a trace that valgrind writes here and now, against valgrind's own counts of the same run.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::process::Command;

use reuse_sampler::AccessKind;
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::trace::LackeyReader;

/// Traces `true` and gives what valgrind wrote, or `None` where there is no valgrind.
fn trace_of_true() -> Option<Vec<u8>> {
    let file = std::env::temp_dir().join(format!("reuse-sampler-lackey-{}", std::process::id()));
    let log = format!("--log-file={}", file.display());
    let arguments = ["--tool=lackey", "--trace-mem=yes", "--basic-counts=yes", "--detailed-counts=yes", &log];
    let ended = Command::new("valgrind").args(arguments).arg("true").status();
    let trace = fs::read(&file).ok();
    let _ = fs::remove_file(&file);
    match ended {
        Ok(status) if status.success() => Some(trace.expect("valgrind wrote its log")),
        other => {
            assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "valgrind: {other:?}");
            eprintln!("skipped: valgrind does not run here ({other:?})");
            None
        }
    }
}

/// A number of valgrind's summary: in the line that holds `label`, the word at `place` after it.
fn told(text: &str, label: &str, place: usize) -> u64 {
    let line = text.lines().rev().find(|line| line.contains(label)).expect(label);
    let rest = line.split_once(label).unwrap().1;
    rest.split_whitespace().nth(place).unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn instructions_loads_and_stores_are_those_valgrind_counts() {
    let Some(trace) = trace_of_true() else { return };
    let mut reader = LackeyReader::new(&trace[..]);
    let (mut instructions, mut loads, mut stores) = (0, 0, 0);
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Block { instructions: count, .. } => instructions += u64::from(count),
            Event::Access(access) if access.kind == AccessKind::Load => loads += 1,
            Event::Access(_) => stores += 1,
            other => panic!("{other:?}"),
        }
    }
    let text = String::from_utf8(trace).unwrap();
    assert_eq!(instructions, told(&text, "guest instrs:", 0));
    let types = ["I8", "I16", "I32", "I64", "I128", "F32", "F64", "F128", "V128", "V256"];
    let total = |column| types.iter().map(|name| told(&text, &format!("    {name} "), column)).sum::<u64>();
    // Compare-and-swap and the like are traced as a load and a store but counted as neither: a handful per run.
    for (read, counted) in [(loads, total(0)), (stores, total(1))] {
        assert!(read >= counted && read - counted <= counted / 1000 + 10, "{read} read, {counted} counted");
        assert!(read > 1000);
    }
}
