//! What cachegrind counts, and the programs that backends are compared with it on.
//!
//! valgrind shows programs a processor of the level `x86-64-v3`, by which libraries choose their functions; ours are shown
//! the same. It preloads a library, which makes the dynamic linker's work longer: the programs that we observe preload it
//! too. Four differences are cachegrind's own: it counts a locked read-modify-write twice, and the elements of the memory
//! operand of a fused multiplication and addition one by one; `bt` of two registers counts a store and a load, because
//! valgrind makes it through memory (1.8 % of the references of gcc's `cc1`); and valgrind executes the second condition of
//! `a && b` before it knows the first, so that cachegrind and lackey count its instructions in vain (1.5 % more in
//! `sort -n`): callgrind does not, nor do they with `--vex-guest-chase=no`.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::{Cpu, LineSize, TargetExit};

/// Largest difference of references: this share, and so many for starting up.
pub const SHARE: f64 = 0.005;
pub const START: f64 = 30_000.0;
/// Largest difference of miss rates.
const POINTS: f64 = 0.003;
/// The same for python, whose rate depends on where the emulator and valgrind put its heap: 1.5 to 1.9 % from run to run, and
/// as much between stacks that begin at other places of a page.
const POINTS_OF_PYTHON: f64 = 0.006;

/// By how much ours differ from so many references for a reason that is cachegrind's.
fn known(name: &str, references: f64) -> f64 {
    match name {
        // When it is loaded it prints the limits of `long double`, whose 80 bits valgrind computes with 64: the digits are
        // soon zero, and `BigInt_Multiply` has that much less to do.
        "numpy" => 1_300_000.0,
        // Sets of bits, of the borrow checker above all: `bt` of two registers.
        "rustc" => -0.004 * references,
        _ => 0.0,
    }
}

/// The processor that valgrind shows.
pub const CPU: Cpu = Cpu::X86_64V3;

/// The same choices under both.
pub const ENVIRONMENT: [(&str, &str); 5] = [
    (
        "GLIBC_TUNABLES",
        // Nor repeated string instructions, each repetition of which is an instruction to valgrind.
        "glibc.cpu.x86_non_temporal_threshold=0xc0000:\
         glibc.cpu.x86_rep_movsb_threshold=0x10000000:glibc.cpu.x86_rep_stosb_threshold=0x10000000",
    ),
    ("PERL_HASH_SEED", "0"),
    ("PYTHONHASHSEED", "0"),
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
];

/// A command and its name in the tables.
pub type Named = (&'static str, Vec<String>);

/// A cache of 32 KiB in sets of 8 lines of 64 bytes, the line used last in front.
pub struct Cache(Vec<VecDeque<u64>>);

impl Cache {
    pub fn new() -> Self {
        Self(vec![VecDeque::new(); 64])
    }

    pub fn misses(&mut self, line: u64) -> bool {
        let count = self.0.len() as u64;
        let set = &mut self.0[(line % count) as usize];
        let found = set.iter().position(|&other| other == line);
        match found {
            Some(place) => drop(set.remove(place)),
            None => set.truncate(7),
        }
        set.push_front(line);
        found.is_none()
    }
}

/// References and misses, and how the program ended.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub references: u64,
    pub misses: u64,
    pub instructions: u64, // each repetition of a string instruction is one
    pub fetch_misses: u64,
    pub status: Option<i32>,
    pub warnings: Vec<String>,
    /// Those that are said to be missing.
    pub missing: Option<f64>,
}

impl Counts {
    /// Misses of the accesses of a trace.
    pub fn of(trace: &mut impl EventSource) -> Self {
        let (mut cache, mut counts) = (Cache::new(), Self::default());
        let line_size = LineSize::new(64).unwrap();
        while let Some(event) = trace.next_event().unwrap() {
            if let Event::Access(access) = event {
                counts.misses += line_size.lines(&access).filter(|line| cache.misses(line.0)).count() as u64;
            }
        }
        counts
    }

    /// The same once the trace has ended.
    pub fn ended(mut self, operands: u64, exit: Option<TargetExit>, warnings: &[String]) -> Self {
        self.references = operands;
        self.status = exit.and_then(|exit| if let TargetExit::Code(code) = exit { Some(code) } else { None });
        self.warnings = warnings.to_vec();
        self
    }

    fn rate(&self) -> f64 {
        self.misses as f64 / self.references as f64
    }
}

/// Compares what is observed of all commands with cachegrind and with their native status.
pub fn compare(commands: &[Named], folder: &Path, ours: impl Fn(&[&str]) -> Counts) {
    println!(
        "{:14} {:>12} {:>12} {:>8}   {:>8} {:>8}",
        "", "cachegrind", "operands", "", "D1 miss", "misses"
    );
    let mut wrong = Vec::new();
    for (name, command) in commands {
        let command = words(command);
        let native = started(Command::new(command[0]).args(&command[1..]), folder).unwrap().code();
        let Some(theirs) = cachegrinds(&command, folder) else { break };
        let ours = ours(&command);
        let (a, b) = (ours.references as f64, theirs.references as f64);
        println!(
            "{name:14} {b:12} {a:12} {:+7.2}%   {:7.2}% {:7.2}%",
            100.0 * (a - b) / b,
            100.0 * theirs.rate(),
            100.0 * ours.rate()
        );
        let points = if *name == "python3" { POINTS_OF_PYTHON } else { POINTS };
        let is_said = |warning: &String| *name == "vforks" && warning.contains("process(es) ran unobserved");
        let counted = match ours.missing {
            Some(missing) => (b - a - missing).abs() <= START,
            None => {
                (a - b - known(name, b)).abs() <= SHARE * b + START
                    && (ours.rate() - theirs.rate()).abs() <= points
            }
        };
        if !counted || ours.status != native || !ours.warnings.iter().all(is_said) {
            wrong.push(*name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The same of the kernels; and locked or not, an operand is one.
pub fn compare_kernels(kernels: &[Named], folder: &Path, ours: impl Fn(&[&str]) -> Counts) {
    let (locked, others) = kernels.split_last().unwrap();
    compare(others, folder, &ours);
    let plain = others.iter().find(|(name, _)| *name == "increments").unwrap();
    let [plain, locked] = [plain, locked].map(|(_, command)| ours(&words(command)).references);
    assert!(plain.abs_diff(locked) < 1_000, "{plain} {locked}");
}

/// A command as it is passed on.
pub fn words(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

/// A program's end. Its output is kept in a file: `grep` does nothing where it is thrown away.
fn started(command: &mut Command, folder: &Path) -> std::io::Result<std::process::ExitStatus> {
    let output = std::fs::File::create(folder.join("output"))?;
    let command = command.envs(ENVIRONMENT).current_dir(folder).stdin(Stdio::null());
    command.stdout(output).stderr(Stdio::null()).status()
}

/// What cachegrind makes of it; `None`, which is said, where there is no valgrind.
pub fn cachegrinds(command: &[&str], folder: &Path) -> Option<Counts> {
    let file = folder.join("cachegrind.out");
    let _ = std::fs::remove_file(&file);
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=cachegrind", "--cache-sim=yes", "--D1=32768,8,64", "--LL=8388608,16,64", "-q"])
        .args(["--I1=32768,8,64", "--vex-guest-chase=no"])
        .arg(format!("--cachegrind-out-file={}", file.display()))
        .args(command);
    let ended = started(&mut valgrind, folder);
    let Ok(text) = std::fs::read_to_string(file) else {
        assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "valgrind {command:?}: {ended:?}");
        eprintln!("skipped: no valgrind");
        return None;
    };
    let numbers = |key: &str| -> Vec<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let (names, values) = (numbers("events:"), numbers("summary:"));
    let of = |wanted: [&str; 2]| -> u64 {
        let chosen = names.iter().zip(&values).filter(|(name, _)| wanted.contains(&name.as_str()));
        chosen.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
    };
    Some(Counts {
        references: of(["Dr", "Dw"]),
        misses: of(["D1mr", "D1mw"]),
        instructions: of(["Ir", ""]),
        fetch_misses: of(["I1mr", ""]),
        status: ended.unwrap().code(),
        ..Counts::default()
    })
}

/// The environment of programs that are to run as they do under valgrind, which preloads a library whatever the tool.
pub fn environment() -> Vec<(OsString, OsString)> {
    let folders = ["/usr/libexec/valgrind", "/usr/lib/valgrind", "/usr/lib/x86_64-linux-gnu/valgrind"];
    let files = folders.map(|folder| Path::new(folder).join("vgpreload_core-amd64-linux.so"));
    let preloaded = files.into_iter().find(|file| file.exists());
    let chosen = ENVIRONMENT.iter().map(|&(name, value)| (name.into(), value.into()));
    chosen.chain(preloaded.map(|file| ("LD_PRELOAD".into(), file.into()))).collect()
}

pub fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // A script, such as a version manager's, starts something else; the system's own programs are the ones to compare.
    std::iter::once(PathBuf::from("/usr/bin"))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(program))
        .find(|file| std::fs::read(file).is_ok_and(|content| content.starts_with(b"\x7FELF")))
}

/// Loops whose operands are mostly of one sort.
const KERNELS: &str = r#"
#include <stdlib.h>
#include <string.h>
#define N 16384
float a[N], b[N], c[N];
double m[3][128][128];
long v[4096];
char bytes[1 << 16];
int main(int argc, char **argv) {
  if (!strcmp(argv[1], "triad"))
    for (int pass = 0; pass < 300; pass++) {
      for (int i = 0; i < N; i++) a[i] = b[i] + argc * c[i];
      __asm__ volatile("" ::: "memory");
    }
  if (!strcmp(argv[1], "product"))
    for (int i = 0; i < 128; i++)
      for (int k = 0; k < 128; k++)
        for (int j = 0; j < 128; j++) m[0][i][j] += m[1][i][k] * m[2][k][j];
  if (!strcmp(argv[1], "increments"))
    for (int i = 0; i < 2000000; i++) __asm__ volatile("incq %0" : "+m"(v[i % 4096]));
  if (!strcmp(argv[1], "locked"))
    for (int i = 0; i < 2000000; i++) __asm__ volatile("lock incq %0" : "+m"(v[i % 4096]));
  if (!strcmp(argv[1], "straddling"))
    for (int i = 0; i < 2000000; i++) __asm__ volatile("movq %0, %%rax" :: "m"(bytes[i * 61 % 65000]) : "rax");
  if (!strcmp(argv[1], "x87"))
    for (int i = 0; i < 1000000; i++) __asm__ volatile("fldt %0\n fstpt %0" : "+m"(bytes[i * 16 % 65000]));
  if (!strcmp(argv[1], "strings"))
    for (int i = 0; i < 3000; i++) {
      char *to = bytes + 8192, *from = bytes;
      long n = 1000;
      __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) :: "memory");
    }
  return 0;
}
"#;

/// A C program compiled in `folder`; `None`, which is said, where there is no compiler.
fn compiled(folder: &Path, name: &str, source: &str, flags: &[&str]) -> Option<String> {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).unwrap();
    let built = Command::new("gcc").args(flags).arg("-o").arg(&program).arg(file).status();
    if !built.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "gcc does not compile");
        eprintln!("skipped: no gcc");
        return None;
    }
    Some(program.to_str().unwrap().to_owned())
}

/// The kernels compiled for SSE and for AVX2, the locked one last.
pub fn kernels(folder: &Path) -> Option<Vec<Named>> {
    let sse = compiled(folder, "sse", KERNELS, &["-O3", "-static"])?;
    let avx2 = compiled(folder, "avx2", KERNELS, &["-O3", "-static", "-mavx2"])?;
    let runs = [
        ("SSE triad", &sse, "triad"),
        ("AVX2 triad", &avx2, "triad"),
        ("SSE product", &sse, "product"),
        ("AVX2 product", &avx2, "product"),
        ("increments", &sse, "increments"),
        ("straddling", &sse, "straddling"),
        ("x87", &sse, "x87"),
        ("rep movsb", &sse, "strings"),
        ("locked", &sse, "locked"),
    ];
    Some(runs.map(|(name, program, kernel)| (name, vec![program.clone(), kernel.to_owned()])).into())
}

/// Programs that do what observers stumble over; their status depends on what they counted.
pub fn hostile(folder: &Path) -> Option<Vec<Named>> {
    let program = compiled(folder, "hostile", include_str!("hostile.c"), &["-O1", "-pthread"])?;
    let names = [
        "nothing",
        "faults",
        "barrier",
        "recursion",
        "modifies",
        "threads",
        "sparse",
        "descriptors",
        "coroutines",
        "strings",
        "returns",
        "signals",
        "vforks",
    ];
    Some(names.map(|name| (name, vec![program.clone(), name.to_owned()])).into())
}

/// Real programs with input that is written to `folder`. Those that are not installed are said and left out.
pub fn programs(folder: &Path) -> Vec<Named> {
    let mut state = 1_u64;
    let words: String = (0..20_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x}\n", state >> 44)
        })
        .collect();
    std::fs::write(folder.join("words"), &words).unwrap();
    std::fs::write(folder.join("others"), words.replace("7\n", "8\n")).unwrap();
    let functions: String = (0..40)
        .map(|n| format!("pub fn f{n}(x: &[u64]) -> u64 {{ x.iter().map(|v| v * {n}).sum() }}\n"))
        .collect();
    std::fs::write(folder.join("sums.rs"), functions).unwrap();
    let sum = "my %h; $h{$_ % 997} .= chr(65 + $_ % 26) for 1..30000; my $n = 0; $n += length for values %h;";
    let tree = "d = {}\nfor i in range(30000): d[i * 7919 % 10007] = str(i)\nsorted(d.values())";
    let product = "import numpy as n\na = n.arange(40000.).reshape(200, 200)\nfor i in range(9): a = a @ a.T / a.sum()\n\
                   n.sort(a, None).cumsum()";
    let table = "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select \
                 i + 1 from n where i < 4000) insert into t select i, 'row ' || (i * 7919 % 4000) from n; create index \
                 x on t(b); delete from t where b like '%7';";
    let count = "{ n[substr($1, 1, 3)]++ } END { for (k in n) s += n[k] * n[k]; print s }";
    let commands: [(&str, &[&str]); 16] = [
        ("openssl", &["openssl", "dgst", "-sha256", "-out", "sum", "words"]),
        ("git", &["git", "hash-object", "words", "others", "words", "others"]),
        ("sqlite3", &["sqlite3", ":memory:", table]),
        ("xz", &["xz", "-kf", "-1", "words"]),
        ("gzip", &["gzip", "-kf", "words"]),
        ("bzip2", &["bzip2", "-kf", "words"]),
        ("zstd", &["zstd", "-qf", "--single-thread", "words"]),
        ("sort", &["sort", "--parallel=1", "-o", "sorted", "words"]),
        ("grep", &["grep", "-c", "a[0-9]*[b-f]$", "words"]),
        ("sed", &["sed", "-n", "s/\\(a.\\)\\(.\\)/\\2\\1/w changed", "words"]),
        ("mawk", &["mawk", count, "words"]),
        ("tar", &["tar", "cf", "archive", "words", "others"]),
        ("perl", &["perl", "-e", sum]),
        ("python3", &["python3", "-S", "-c", tree]),
        ("numpy", &["python3", "-c", product]),
        ("rustc", &["rustc", "--crate-type=lib", "--emit=metadata", "sums.rs"]),
    ];
    let mut found = Vec::new();
    for (name, command) in commands {
        let program = if name == "rustc" { toolchain_rustc() } else { in_path(command[0]) };
        let imported = || Command::new("/usr/bin/python3").args(["-c", "import numpy"]).output();
        let Some(program) =
            program.filter(|_| name != "numpy" || imported().is_ok_and(|output| output.status.success()))
        else {
            println!("{name:14} is not installed");
            continue;
        };
        let arguments = command[1..].iter().map(|&word| word.to_owned());
        found.push((name, std::iter::once(program.to_str().unwrap().to_owned()).chain(arguments).collect()));
    }
    found
}

/// The compiler itself: the one in the path executes it.
fn toolchain_rustc() -> Option<PathBuf> {
    let root = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?.stdout;
    let program = Path::new(String::from_utf8(root).ok()?.trim()).join("bin/rustc");
    program.exists().then_some(program)
}
