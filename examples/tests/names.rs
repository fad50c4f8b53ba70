//! What `--hot-spots` says about programs: strides of their instructions, and names for code that they make as they run.

use std::process::{Command, Stdio};

use crate::support::curve::run;
use serde_json::Value;

/// Whether a program can be run; says so if not.
fn is_there(program: &str) -> bool {
    let run = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = run.is_ok_and(|status| status.success());
    if !found {
        println!("skipped: no {program} here");
    }
    found
}

fn spots(flags: &[&str], program: &[&str]) -> Value {
    let flags = [&["--hot-spots", "32KiB", "--json", "--draws", "0"], flags, &["--"], program].concat();
    run(&flags).object()
}

/// The program's own file of names, which nobody else removes.
fn remove_map(object: &Value) {
    for process in object["processes"].as_array().unwrap() {
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", process["pid"]));
    }
}

/// Share of the misses that have names, and whether one of them contains `name`.
fn named(object: &Value, name: &str) -> (f64, bool) {
    let spots = &object["hot_spots"];
    let instructions = spots["by_instruction"].as_array().unwrap();
    let mut codes = instructions.iter().filter_map(|spot| spot["code"].as_str());
    (spots["named"].as_f64().unwrap(), codes.any(|code| code.contains(name)))
}

const WALKS: &str = r"
static double table[1024][1024], sum;
__attribute__((noinline)) void columns(void) {
    for (int i = 0; i < 1024; i++) for (int j = 0; j < 1024; j++) sum += table[j][i];
}
__attribute__((noinline)) void updates(void) {
    for (int i = 0; i < 1024; i++) for (int j = 0; j < 1024; j += 4) table[i][j]++;
}
int main(void) { columns(); updates(); return 0; }
";

#[test]
fn strides_of_a_program_are_those_of_its_loops() {
    if !is_there("gcc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (source, program) = (path("walks.c"), path("walks"));
    std::fs::write(&source, WALKS).unwrap();
    assert!(Command::new("gcc").args(["-O1", "-g", "-o", &program, &source]).status().unwrap().success());
    for backend in ["dbi", "qemu"] {
        if backend == "qemu" && !is_there("qemu-x86_64") {
            continue;
        }
        // The same in a child, whose accesses have strides of their own.
        for command in [&[&*program][..], &["sh", "-c", &format!("{program}; true")]] {
            let object = spots(&["--backend", backend, "--levels", "32KiB,1MiB,4MiB"], command);
            let instructions = object["hot_spots"]["by_instruction"].as_array().unwrap();
            for (function, stride, hint) in [("columns", 8192, "block"), ("updates", 32, "prefetch")] {
                let of = |spot: &&Value| spot["code"].as_str().is_some_and(|code| code.contains(function));
                let spot = instructions.iter().filter(of).find(|spot| spot["misses"].as_f64() > Some(0.1));
                let spot = spot.unwrap_or_else(|| panic!("{backend}: {function} in {instructions:?}"));
                assert_eq!(spot["stride"], stride, "{backend}: {spot}");
                assert!(spot["stride_share"].as_f64() > Some(0.9), "{backend}: {spot}");
                let hints = spot["advice"].as_array().unwrap();
                assert!(hints.iter().any(|given| given["hint"] == hint), "{backend}: {spot}");
            }
        }
    }
}

const JAVA: &str = r"
import java.util.HashMap;
public class Probing {
    static long probe(HashMap<Integer, Long> map, int times) {
        long sum = 0; int at = 1;
        for (int i = 0; i < times; i++) {
            at = at * 1103515245 + 12345;
            Long found = map.get((at >>> 8) % 200000);
            if (found != null) sum += found;
        }
        return sum;
    }
    public static void main(String[] arguments) {
        HashMap<Integer, Long> map = new HashMap<>();
        for (int i = 0; i < 100000; i++) map.put(i, (long) i);
        System.out.println(probe(map, 1000000));
    }
}
";

#[test]
fn misses_of_a_java_program_carry_names() {
    if !is_there("java") || !is_there("javac") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("Probing.java");
    std::fs::write(&source, JAVA).unwrap();
    assert!(Command::new("javac").arg(&source).status().unwrap().success());
    let folder = folder.path().to_str().unwrap();
    let flags = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-XX:+UseSerialGC"];
    let object = spots(&["--backend", "dbi"], &[&["java"], &flags[..], &["-cp", folder, "Probing"]].concat());
    remove_map(&object);
    let (share, found) = named(&object, "Probing.probe");
    println!("java: {:.2} % of the misses are named", 100.0 * share);
    assert!(share > 0.9 && found, "{share} {}", object["hot_spots"]);
}

const SCRIPT: &str = "
const map = new Map(); for (let i = 0; i < 100000; i++) map.set(i, i);
const table = new Int32Array(1 << 19);
function walkTable() { let sum = 0; for (let i = 0; i < table.length; i++) sum += table[i]; return sum; }
let sum = 0; for (let i = 0; i < 20; i++) sum += walkTable() + (map.get(i * 4999) || 0);
console.log(sum);
";

#[test]
fn misses_of_a_script_carry_names() {
    if !is_there("node") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("walk.js");
    std::fs::write(&script, SCRIPT).unwrap();
    let folder = folder.path().to_str().unwrap();
    for flag in ["--perf-basic-prof", "--perf-prof"] {
        // The second leaves its file in the folder that it runs in.
        let script = format!("cd {folder} && exec node {flag} walk.js");
        let command = ["sh", "-c", &script];
        let object = spots(&["--backend", "dbi"], &command);
        remove_map(&object);
        let (share, found) = named(&object, "walkTable");
        println!("node {flag}: {:.2} % of the misses are named", 100.0 * share);
        assert!(share > 0.9 && found, "{flag}: {share} {}", object["hot_spots"]);
    }
}
