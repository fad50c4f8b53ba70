//! What cachegrind counts, and the programs that backends are compared with it on.
//!
//! valgrind shows programs a processor of its own, by whose features the C library and OpenSSL choose functions: variables
//! in the environment make the choice the same. It preloads a library, which makes the dynamic linker's work longer: the
//! programs that we observe preload it too. Four differences are cachegrind's own: it counts a locked read-modify-write
//! twice, and the elements of the memory operand of a fused multiplication and addition one by one; `bt` of two registers
//! counts a store and a load, because valgrind makes it through memory (1.8 % of the references of gcc's `cc1`); and
//! valgrind executes the second condition of `a && b` before it knows the first, so that cachegrind and lackey count its
//! instructions in vain (1.5 % more in `sort -n`): callgrind does not, nor do they with `--vex-guest-chase=no`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Largest difference of references: this share, and so many for starting up.
pub const SHARE: f64 = 0.005;
pub const START: f64 = 30_000.0;

/// The same functions under both.
pub const ENVIRONMENT: [(&str, &str); 6] = [
    (
        "GLIBC_TUNABLES",
        "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX2,-AVX,-ERMS,-FSRM,-XSAVE,-XSAVEC,-BMI1,-BMI2,-LZCNT,-MOVBE,\
         -POPCNT,-SSE4_1,-SSE4_2,-SSSE3,-Fast_Unaligned_Copy,-AVX_Fast_Unaligned_Load,-Slow_BSF,-Fast_Unaligned_Load,-Fast_Copy_Backward:\
         glibc.cpu.x86_non_temporal_threshold=0xc0000",
    ),
    ("OPENSSL_ia32cap", "0x7800000:0"),
    ("PERL_HASH_SEED", "0"),
    ("PYTHONHASHSEED", "0"),
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
];

/// References and misses.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub references: u64,
    pub misses: u64,
    pub instructions: u64, // each repetition of a string instruction is one
    pub fetch_misses: u64,
    pub warnings: Vec<String>, // of the emulator
}

impl Counts {
    pub fn rate(&self) -> f64 {
        self.misses as f64 / self.references as f64
    }
}

/// What cachegrind makes of it; `None` where there is no valgrind.
pub fn cachegrinds(command: &[&str], folder: &Path) -> Option<Counts> {
    cachegrinds_with(&ENVIRONMENT, command, folder)
}

/// The same, in this environment.
pub fn cachegrinds_with(environment: &[(&str, &str)], command: &[&str], folder: &Path) -> Option<Counts> {
    let file = folder.join("cachegrind.out");
    let status = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--D1=32768,8,64", "--LL=8388608,16,64", "-q"])
        .args(["--I1=32768,8,64", "--vex-guest-chase=no"])
        .arg(format!("--cachegrind-out-file={}", file.display()))
        .args(command)
        .envs(environment.iter().copied())
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => {
            assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "valgrind {command:?}: {other:?}");
            return None;
        }
    }
    let text = std::fs::read_to_string(file).unwrap();
    let numbers = |key: &str| -> Vec<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let (names, values) = (numbers("events:"), numbers("summary:"));
    let of = |wanted: [&str; 2]| -> u64 {
        let chosen = names.iter().zip(&values).filter(|(name, _)| wanted.contains(&name.as_str()));
        chosen.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
    };
    let (references, misses) = (of(["Dr", "Dw"]), of(["D1mr", "D1mw"]));
    let (instructions, fetch_misses) = (of(["Ir", ""]), of(["I1mr", ""]));
    Some(Counts { references, misses, instructions, fetch_misses, warnings: Vec::new() })
}

/// What valgrind preloads, whatever the tool.
pub fn preloaded() -> Option<PathBuf> {
    let folders = ["/usr/libexec/valgrind", "/usr/lib/valgrind", "/usr/lib/x86_64-linux-gnu/valgrind"];
    let files = folders.map(|folder| Path::new(folder).join("vgpreload_core-amd64-linux.so"));
    files.into_iter().find(|file| file.exists())
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

/// The kernels compiled for SSE and for AVX2; `None` where there is no compiler.
pub fn compiled_kernels(folder: &Path) -> Option<[String; 2]> {
    std::fs::write(folder.join("kernels.c"), KERNELS).unwrap();
    let compiled = [("sse", &["-O3"][..]), ("avx2", &["-O3", "-mavx2"])].map(|(name, flags)| {
        let output = folder.join(name);
        let mut compiler = Command::new("gcc");
        compiler.args(flags).arg("-static").arg("-o").arg(&output).arg(folder.join("kernels.c"));
        compiler.status().is_ok_and(|status| status.success()).then(|| output.to_str().unwrap().to_owned())
    });
    let [Some(sse), Some(avx2)] = compiled else {
        assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "gcc does not compile");
        eprintln!("skipped: no gcc");
        return None;
    };
    Some([sse, avx2])
}

/// The runs of them that both are compared on, by name.
pub fn kernels<'a>(sse: &'a str, avx2: &'a str) -> [(&'static str, Vec<&'a str>); 8] {
    [
        ("SSE triad", vec![sse, "triad"]),
        ("AVX2 triad", vec![avx2, "triad"]),
        ("SSE product", vec![sse, "product"]),
        ("AVX2 product", vec![avx2, "product"]),
        ("increments", vec![sse, "increments"]),
        ("straddling", vec![sse, "straddling"]),
        ("x87", vec![sse, "x87"]),
        ("rep movsb", vec![sse, "strings"]),
    ]
}

/// Real programs, by name, with input that is written to `folder`. Those that are not installed are left out.
pub fn programs(folder: &Path) -> Vec<(&'static str, Vec<String>)> {
    let mut state = 1_u64;
    let words: String = (0..20_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x}\n", state >> 44)
        })
        .collect();
    std::fs::write(folder.join("words"), &words).unwrap();
    std::fs::write(folder.join("others"), words.replace("7\n", "8\n")).unwrap();
    let sum = "my %h; $h{$_ % 997} .= chr(65 + $_ % 26) for 1..30000; my $n = 0; $n += length for values %h;";
    let tree = "d = {}\nfor i in range(30000): d[i * 7919 % 10007] = str(i)\nsorted(d.values())";
    let table = "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select \
                 i + 1 from n where i < 4000) insert into t select i, 'row ' || (i * 7919 % 4000) from n; create index \
                 x on t(b); delete from t where b like '%7';";
    let commands: [(&str, &[&str]); 8] = [
        ("openssl", &["openssl", "dgst", "-sha256", "-out", "sum", "words"]),
        ("git", &["git", "hash-object", "words", "others", "words", "others"]),
        ("sqlite3", &["sqlite3", ":memory:", table]),
        ("xz", &["xz", "-kf", "-1", "words"]),
        ("gzip", &["gzip", "-kf", "words"]),
        ("sort", &["sort", "--parallel=1", "-o", "sorted", "words"]),
        ("perl", &["perl", "-e", sum]),
        ("python3", &["python3", "-S", "-c", tree]),
    ];
    let mut found = Vec::new();
    for (name, command) in commands {
        let Some(program) = in_path(command[0]) else {
            println!("{name:14} is not installed");
            continue;
        };
        let arguments = command[1..].iter().map(|&word| word.to_owned());
        found.push((name, std::iter::once(program.to_str().unwrap().to_owned()).chain(arguments).collect()));
    }
    found
}
