//! The pipeline `compare_detectors` as its users meet it: known phases, the papers' claims, bad input.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::AtomicBool;

use crate::support::{Ended, run_pipeline};
use examples::tools::compare_detectors::{Args, run_until};
use serde_json::Value;

fn run_with(arguments: &[&str], interrupted: bool) -> Ended {
    let interrupted = AtomicBool::new(interrupted);
    run_pipeline(arguments, |args: &Args, out, messages| run_until(&interrupted, args, out, messages))
}

fn run(arguments: &[&str]) -> Ended {
    run_with(arguments, false)
}

/// The tables by name, the first of several of one name.
fn tables(arguments: &[&str]) -> BTreeMap<String, Value> {
    let objects = run(&[&["--json"], arguments].concat()).objects();
    let [object] = &objects[..] else { panic!("one object, not {}", objects.len()) };
    assert_eq!(object["incomplete"], false);
    let mut tables = BTreeMap::new();
    for table in object["tables"].as_array().unwrap() {
        let width = table["columns"].as_array().unwrap().len();
        for row in table["rows"].as_array().unwrap() {
            assert_eq!(row.as_array().unwrap().len(), width);
        }
        tables.entry(table["name"].as_str().unwrap().to_owned()).or_insert_with(|| table.clone());
    }
    tables
}

/// The number in the row that begins with `labels` and the column named `column`.
fn number(table: &Value, labels: &[&str], column: &str) -> f64 {
    let columns = table["columns"].as_array().unwrap();
    let at = columns.iter().position(|c| c == column).unwrap_or_else(|| panic!("no column {column}"));
    let rows = table["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| labels.iter().enumerate().all(|(i, label)| row[i] == *label));
    row.unwrap_or_else(|| panic!("no row {labels:?}"))[at].as_f64().unwrap()
}

/// The quality row on wavelets: where memory changes under one code path, code sees one phase and leaves all of the
/// misses' deviation, wavelets most of it out.
#[test]
fn wavelets_see_what_code_does_not() {
    let tables = tables(&["--workload", "layouts", "--limit", "80"]);
    let table = &tables["detectors"];
    let of = |labels: &[&str], column| number(table, labels, column);
    assert_eq!(of(&["BBV", "leader-follower 0.1"], "phases"), 1.0);
    let blind = of(&["BBV", "leader-follower 0.1"], "sigma misses");
    let seeing = of(&["wavelet", "k-means 10"], "sigma misses");
    // a twelfth of the windows lie across a change, and the order of visits within a window shifts the picture
    assert!(seeing < 0.25 * blind, "{seeing} of {blind}");
    let bound = of(&["wavelet of L2 misses", "k-means 10"], "sigma misses");
    assert!(bound < 0.25 * blind, "{bound} of {blind}");
    // one loop and nothing else: every vector of code sees one phase
    for vector in ["EIPV", "MBBV", "BRV", "CBRV"] {
        assert_eq!(of(&[vector, "leader-follower 0.4"], "phases"), 1.0, "{vector}");
        assert_eq!(of(&[vector, "leader-follower 0.4"], "sigma misses"), blind);
    }
}

/// What ScarPhase says of its figures I.4 and I.5: more samples bring the similarity matrix nearer to the one of all
/// blocks, and instruction pointers need the most.
#[test]
fn more_samples_are_better_and_instruction_pointers_worst() {
    let tables = tables(&["--workload", "phased", "--limit", "120", "--experiment", "samples"]);
    let table = &tables["similarity_error"];
    for vector in ["EIPV", "MBBV", "BRV", "CBRV"] {
        let errors: Vec<f64> =
            ["25", "100", "400", "1600"].iter().map(|n| number(table, &[vector], n)).collect();
        assert!(errors.windows(2).all(|pair| pair[1] <= pair[0] * 1.02), "{vector}: {errors:?}");
        let pointers = number(table, &["EIPV"], "25");
        assert!(vector == "EIPV" || errors[0] < pointers, "{vector}: {errors:?} {pointers}");
    }
    // Mapped to blocks, the samples are those of the reference: sampling noise halves with four times as many.
    let mapped = |n| number(table, &["MBBV"], n);
    let ratio = mapped("100") / mapped("1600");
    assert!((2.5..5.5).contains(&ratio), "{ratio} instead of 4");
}

/// What SimPoint is for: its points give the mean better than as many windows at equal distances, whatever the seed.
#[test]
fn simulation_points_give_the_mean() {
    let workloads = ["--workload", "phased", "--workload", "dual"];
    let tables = tables(&[&workloads[..], &["--experiment", "points"]].concat());
    let table = &tables["points"];
    for program in ["phased", "dual"] {
        let of = |column| number(table, &[program], column);
        assert!((2.0..=30.0).contains(&of("points")), "{program}: {}", of("points"));
        assert!(of("SimPoint") <= of("SimPoint, largest") && of("SimPoint, largest") < 0.1, "{program}");
        assert!(of("SimPoint") < of("periodic") / 2.0, "{program}: {} {}", of("SimPoint"), of("periodic"));
    }
}

/// POP's first step, and what it is for: no counter that the machine decides is chosen, and the phases stay what they
/// are when the machine changes.
#[test]
fn chosen_counters_do_not_depend_on_the_machine() {
    let tables = tables(&["--workload", "few", "--experiment", "counters"]);
    let rows = tables["counters"]["rows"].as_array().unwrap();
    let machine =
        ["cycles", "stall cycles", "L1 misses", "L2 accesses", "L2 misses", "prefetches", "TLB misses"];
    for row in rows {
        let name = row[0].as_str().unwrap();
        assert_eq!(machine.contains(&name), row[3] == "depends on the machine", "{name}");
        assert!(!machine.contains(&name) || row[1].as_f64().unwrap() >= 0.01, "{name}");
        assert!(machine.contains(&name) || row[1] == 0.0, "{name}");
    }
    assert_eq!(rows.iter().filter(|row| row[3] == "yes").count(), 8);
    let detected = &tables["counters_detected"];
    assert_eq!(number(detected, &["few"], "agreement"), 1.0);
    assert_eq!(number(detected, &["few"], "phases"), number(detected, &["few"], "phases, other"));
}

/// The verdict over embedded programs: the same on every run, intervals about their means, and what theory says of STAB.
#[test]
fn a_verdict_has_intervals_and_says_what_holds() {
    let arguments = ["--workload", "dual,few,phased,layouts", "--limit", "60", "--experiment", "verdict"];
    let found = tables(&arguments);
    let (ranking, claims) = (&found["verdict_embedded"], &found["claims"]);
    let title = ranking["title"].as_str().unwrap();
    assert_eq!(title, "4 embedded programs: dual, few, phased, layouts");
    let columns = ranking["columns"].as_array().unwrap();
    let at = |name: &str| columns.iter().position(|column| column == name).unwrap();
    for row in ranking["rows"].as_array().unwrap() {
        for name in ["CCoV CPI", "STAB ppm", "STAB ppm, twice", "sigma left"] {
            let (value, range) = (row[at(name)].as_f64().unwrap(), &row[at(name) + 1]);
            let (low, high) = (range[0].as_f64().unwrap(), range[1].as_f64().unwrap());
            assert!(low <= value && value <= high, "{name}: {row}");
        }
        // a floor can only add, and adds at most two windows a phase: their mean over programs, not that of logarithms
        let (plain, twice) =
            (row[at("STAB ppm")].as_f64().unwrap(), row[at("STAB ppm, twice")].as_f64().unwrap());
        assert!(plain <= twice, "{row}");
        assert!(
            row[at("phases")].as_f64().unwrap() * row[at("windows a phase")].as_f64().unwrap() <= 60.0 + 1e-9
        );
    }
    for row in claims["rows"].as_array().unwrap() {
        let (value, low, high) =
            (row[3].as_f64().unwrap(), row[4][0].as_f64().unwrap(), row[4][1].as_f64().unwrap());
        assert!(low <= high && value > 0.0, "{row}");
        let holds = row[5].as_str().unwrap();
        let limit = if row[2] == "1.55" { 1.55 } else { 1.0 };
        let expected = if high <= limit {
            "yes"
        } else if low > limit {
            "no"
        } else {
            "open"
        };
        assert_eq!(holds, expected, "{row}");
    }
    // the figures are those of the experiment `detectors`
    let detectors = tables(&["--workload", "layouts", "--limit", "60"]);
    let sigma = |signature| number(&detectors["detectors"], &[signature, "k-means 10"], "sigma misses");
    let alone = tables(&["--workload", "layouts", "--limit", "60", "--experiment", "verdict"]);
    let ratio = number(
        &alone["claims"],
        &["wavelets", "sigma of wavelets, of that of all blocks"],
        "embedded programs",
    );
    assert!((ratio / (sigma("wavelet") / sigma("BBV")) - 1.0).abs() < 1e-12);
    assert!(alone["claims"]["rows"][0][4].is_null(), "an interval from one program");
}

/// A lackey trace of two loops whose misses can be counted by hand: four windows of 1,600 instructions of a loop that
/// touches one line, then four of one that touches a new line with every fourth instruction.
#[test]
fn a_trace_is_recorded_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.lackey");
    let mut text = String::new();
    for step in 0..3200_u64 {
        let (code, data) =
            if step < 1600 { (0x1000, 0x10_0000) } else { (0x2000, 0x20_0000 + 64 * (step - 1600)) };
        text += &format!("I  {code:x},4\n L {data:x},4\n");
        for k in 1..4 {
            text += &format!("I  {:x},4\n", code + 4 * k);
        }
    }
    fs::write(&path, &text).unwrap();
    let path = path.to_str().unwrap();
    let arguments = ["--trace", path, "--window", "1600", "--experiment", "detectors,rate"];
    let tables = tables(&arguments);
    let table = &tables["detectors"];
    assert!(table["title"].as_str().unwrap().ends_with("two.lackey: 8 windows of 1600 instructions"));
    for (signature, method) in
        [("BBV", "leader-follower 0.1"), ("BBV", "SimPoint"), ("CBRV", "leader-follower 0.4")]
    {
        assert_eq!(number(table, &[signature, method], "phases"), 2.0, "{signature}");
        // misses: 1 0 0 0, then 400 in each window; the phases differ in nothing else
        let sigma = number(table, &[signature, method], "sigma misses");
        assert!((sigma - 0.5 * (3.0_f64 / 16.0).sqrt()).abs() < 1e-9, "{signature}: {sigma}");
    }
    // a window in each phase: after four of the first, the change cannot be foreseen
    assert!((number(table, &["BBV", "SimPoint"], "last value") - 6.0 / 7.0).abs() < 1e-12);
    assert!(number(&tables["dynamic_rate"], &[path], "samples") <= 200.0);
}

#[test]
fn files_hold_what_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let ended = run(&["--workload", "dual", "--limit", "40", "--experiment", "rate,profiling", "--out", out]);
    assert_eq!(ended.status, 0, "{}", ended.messages);
    let csv = fs::read_to_string(folder.path().join("02_profiling.csv")).unwrap();
    assert_eq!(csv.lines().count(), 3); // header, program, mean
    assert!(csv.lines().nth(1).unwrap().starts_with("dual,"));
    assert!(ended.out.contains("CPI from few profiled windows"));
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    let picture = fs::read_to_string(folder.path().join("02_profiling.svg")).unwrap();
    assert!(page.contains(&picture) && picture.matches("<polyline").count() >= 3);
    assert!(page.contains("<h2>CPI from few profiled windows</h2>") && !page.contains("src="));
}

#[test]
fn bad_input_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.lackey");
    fs::write(&broken, "I  1000,4\n L nonsense\n").unwrap();
    let broken = broken.to_str().unwrap();
    for (arguments, status, message) in [
        (&["--workload", "nonesuch"][..], 2, "no embedded workload \"nonesuch\""),
        (
            &["--workload", "stream", "--window", "900000000"],
            1,
            "makes 0 windows of 900000000 instructions: give shorter",
        ),
        (&["--trace", broken], 1, "broken.lackey: "),
        (&["--trace", "missing.lackey"], 1, "missing.lackey: No such file"),
        (&["--trace", "x.unknown"], 2, "cannot determine the format of x.unknown"),
        (&["--samples", "0"], 2, "0 is not in 1..=1000000"),
        (&["--limit", "1"], 2, "give a number of windows of at least 2"),
        (&["--experiment", "nonesuch"], 2, "invalid value 'nonesuch'"),
        (&["--workload", "stream", "--stride-entries", "0"], 2, "a stride vector has 1 to 2^20 entries"),
    ] {
        let ended = run(arguments);
        assert!(ended.messages.contains(message), "{message:?} in {:?}", ended.messages);
        assert_eq!((ended.status, ended.messages.lines().count()), (status, 1), "{}", ended.messages);
        assert_eq!(ended.out, "");
    }
}

#[test]
fn an_interrupted_run_says_so() {
    let ended = run_with(&["--workload", "stream", "--window", "20000", "--json"], true);
    assert_eq!(ended.status, 130, "{}", ended.messages);
    assert!(ended.messages.contains("interrupted; the tables show the windows until then"));
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(object["incomplete"], true);
    assert!(object["tables"][0]["rows"].as_array().unwrap().len() > 20);
    // within the first window there is nothing to compare
    let ended = run_with(&["--workload", "stream", "--window", "2000000"], true);
    assert_eq!((ended.status, ended.messages.lines().count()), (1, 1));
    assert!(ended.messages.contains("interrupted before there were windows"), "{}", ended.messages);
}

/// A real program, where there is an emulator.
#[test]
fn a_program_is_traced() {
    let shell = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done";
    let arguments = ["--limit", "12", "--window", "100000", "--json", "--", "sh", "-c", shell];
    let ended = run(&arguments);
    if ended.status != 0 {
        assert!(std::env::var_os("REQUIRE_QEMU").is_none(), "REQUIRE_QEMU is set, but {}", ended.messages);
        eprintln!("skipped: {}", ended.messages);
        return;
    }
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    let title = object["tables"][0]["title"].as_str().unwrap();
    let (windows, rest) = title.rsplit_once(": ").unwrap().1.split_once(' ').unwrap();
    assert_eq!(rest, "windows of 100000 instructions", "{title}");
    // The limit is looked at now and then, while the trace comes in.
    assert!((11..=13).contains(&windows.parse::<u32>().unwrap()), "{title}");
    let missing = run(&["--", "/nonexistent/program"]);
    assert_eq!((missing.status, missing.messages.lines().count()), (1, 1), "{}", missing.messages);
    assert!(missing.messages.contains("/nonexistent/program"));
}

/// The quality row on real programs, where there is an emulator: one pass over a program with phases finds what a
/// clustering of the whole run finds.
#[test]
fn one_pass_agrees_with_a_batch_clustering_of_a_real_program() {
    let shell = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; for r in 1 2 3; do \
                 s=; for k in 1 2 3 4 5 6 7 8 9; do s=\"$s$s$k\"; done; case $s in *x*) ;; esac; \
                 i=0; while [ $i -lt 4000 ]; do i=$((i*1+1)); done; done";
    let arguments = ["--experiment", "agreement", "--window", "200000", "--json", "--", "sh", "-c", shell];
    let ended = run(&arguments);
    if ended.status != 0 {
        assert!(std::env::var_os("REQUIRE_QEMU").is_none(), "REQUIRE_QEMU is set, but {}", ended.messages);
        eprintln!("skipped: {}", ended.messages);
        return;
    }
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    let rows = object["tables"][0]["rows"].as_array().unwrap();
    let (windows, agreement) = (rows[0][1].as_u64().unwrap(), rows[0][3].as_f64().unwrap());
    assert!(windows > 50, "{windows}");
    assert!(agreement >= 0.9, "{agreement}");
    // and run lengths are no worse than the last value by more than a point
    let predicted = |column: usize| rows.last().unwrap()[column].as_f64().unwrap();
    assert!(predicted(6) >= predicted(7) - 0.01, "{} {}", predicted(6), predicted(7));
}

/// Paper II's table on a real program with threads, where there is an emulator: each thread goes through the steps, all
/// threads share the phases, and phases tell what windows cost.
#[test]
fn threads_of_a_real_program_share_their_phases() {
    let arguments = ["--experiment", "real-threads", "--window", "300000", "--limit", "150", "--json"];
    let ended = run(&arguments);
    if ended.status != 0 {
        assert!(std::env::var_os("REQUIRE_QEMU").is_none(), "REQUIRE_QEMU is set, but {}", ended.messages);
        eprintln!("skipped: {}", ended.messages);
        return;
    }
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    let tables = object["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 2);
    for (table, threads) in tables.iter().zip([&[1, 2, 4, 8, 16][..], &[1, 2, 4, 8]]) {
        let rows = table["rows"].as_array().unwrap();
        let column = |name: &str| {
            let columns = table["columns"].as_array().unwrap();
            columns.iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}"))
        };
        let numbers =
            |name: &str| -> Vec<f64> { rows.iter().map(|row| row[column(name)].as_f64().unwrap()).collect() };
        assert_eq!(numbers("threads"), threads.iter().map(|&n| f64::from(n)).collect::<Vec<_>>());
        assert!(numbers("windows").iter().all(|&n| n > 50.0), "{:?}", numbers("windows"));
        // The program has four steps; how many of them fit into a window depends on the threads.
        assert!(numbers("phases").iter().all(|&n| n >= 2.0), "{:?}", numbers("phases"));
        let (program, phase) = (numbers("off by program"), numbers("off by phase"));
        assert!(phase.iter().zip(&program).all(|(phase, program)| phase <= program), "{phase:?} {program:?}");
        // Alone, a thread stays in a step for many windows.
        assert!(numbers("run")[0] > 2.0, "{:?}", numbers("run"));
    }
}
