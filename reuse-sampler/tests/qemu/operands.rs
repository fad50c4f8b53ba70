//! Operands and misses of a 32 KiB cache against valgrind's cachegrind, on real programs and on compiled kernels.
//!
//! Both show programs a processor of their own, by whose features the C library and OpenSSL choose functions: variables
//! in the environment make the choice the same. valgrind preloads a library, which makes the dynamic linker's work longer:
//! the emulated programs preload it too. Two differences are cachegrind's own: it counts a locked read-modify-write twice,
//! and the elements of the memory operand of a fused multiplication and addition one by one.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use reuse_sampler::qemu::{QemuOptions, QemuSampler, QemuTrace, TargetExit};
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::{LineSize, Sampler};

use crate::run::{emulator_version, every, off, qemu_is_missing, sampler};

/// Largest difference of references: this share, and so many for starting up.
const SHARE: f64 = 0.005;
const START: f64 = 30_000.0;
/// Largest difference of miss rates.
const POINTS: f64 = 0.003;
/// The same for python, whose rate depends on where the emulator and valgrind put its heap: 1.5 to 1.9 % from run to run, and
/// as much between stacks that begin at other places of a page.
const POINTS_OF_PYTHON: f64 = 0.006;

/// The same functions under both.
pub const ENVIRONMENT: [(&str, &str); 6] = [
    (
        "GLIBC_TUNABLES",
        "glibc.cpu.hwcaps=-AVX2,-AVX,-ERMS,-FSRM,-XSAVE,-XSAVEC,-BMI1,-BMI2,-LZCNT,-MOVBE,-POPCNT,-SSE4_1,-SSE4_2,\
         -SSSE3,-Fast_Unaligned_Copy,-AVX_Fast_Unaligned_Load,-Slow_BSF,-Fast_Unaligned_Load,-Fast_Copy_Backward:\
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
struct Counts {
    references: u64,
    misses: u64,
    warnings: Vec<String>, // of the emulator
}

impl Counts {
    fn rate(&self) -> f64 {
        self.misses as f64 / self.references as f64
    }
}

/// 32 KiB in sets of 8 lines of 64 bytes, the line used last in front.
struct Cache(Vec<VecDeque<u64>>);

impl Cache {
    fn misses(&mut self, line: u64) -> bool {
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

/// What the emulator makes of a command.
fn ours(command: &[&str], folder: &Path) -> Counts {
    let mut options = QemuOptions::default().directory(folder);
    for (name, value) in ENVIRONMENT {
        options = options.env(name, value);
    }
    if let Some(library) = preloaded() {
        options = options.env("LD_PRELOAD", library);
    }
    let mut trace = QemuTrace::spawn(command[0], &command[1..], &options).unwrap();
    let (mut cache, mut counts) = (Cache(vec![VecDeque::new(); 64]), Counts::default());
    let line_size = LineSize::new(64).unwrap();
    while let Some(event) = trace.next_event().unwrap() {
        if let Event::Access(access) = event {
            counts.misses += line_size.lines(&access).filter(|line| cache.misses(line.0)).count() as u64;
        }
    }
    assert_eq!(trace.exit_status(), Some(TargetExit::Code(0)), "{command:?}");
    counts.references = trace.operands();
    counts.warnings = trace.warnings().to_vec();
    counts
}

/// What cachegrind makes of it; `None` where there is no valgrind.
fn cachegrinds(command: &[&str], folder: &Path) -> Option<Counts> {
    let file = folder.join("cachegrind.out");
    let status = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--D1=32768,8,64", "--LL=8388608,16,64", "-q"])
        .arg(format!("--cachegrind-out-file={}", file.display()))
        .args(command)
        .envs(ENVIRONMENT)
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
    Some(Counts { references: of(["Dr", "Dw"]), misses: of(["D1mr", "D1mw"]), warnings: Vec::new() })
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

/// Compares both on all commands and asserts the tolerances; a program that is not installed is left out.
fn compare(commands: &[(&str, Vec<&str>)], folder: &Path) {
    println!(
        "{:14} {:>12} {:>12} {:>8}   {:>8} {:>8}",
        "", "cachegrind", "operands", "", "D1 miss", "misses"
    );
    let mut wrong = Vec::new();
    for (name, command) in commands {
        let Some(program) =
            in_path(command[0]).or_else(|| Some(PathBuf::from(command[0])).filter(|p| p.exists()))
        else {
            println!("{name:14} is not installed");
            continue;
        };
        let mut command = command.clone();
        let program = program.to_str().unwrap().to_owned();
        command[0] = &program;
        let Some(theirs) = cachegrinds(&command, folder) else {
            eprintln!("skipped: no valgrind");
            return;
        };
        let ours = ours(&command, folder);
        let (a, b) = (ours.references as f64, theirs.references as f64);
        println!(
            "{name:14} {:12} {:12} {:+7.2}%   {:7.2}% {:7.2}%",
            theirs.references,
            ours.references,
            100.0 * (a - b) / b,
            100.0 * theirs.rate(),
            100.0 * ours.rate()
        );
        let points = if *name == "python3" { POINTS_OF_PYTHON } else { POINTS };
        if *name == "x87" && emulator_version() > 9 {
            // They are missing, and the output says so.
            let missing = b - a;
            let said = ours.warnings.iter().find_map(|warning| {
                let (before, _) = warning.split_once(" executions")?;
                before.split(' ').next_back()?.parse::<f64>().ok()
            });
            assert!(
                said.is_some_and(|said| (said - missing).abs() <= START),
                "{missing}: {:?}",
                ours.warnings
            );
            continue;
        }
        assert_eq!(ours.warnings, [""; 0], "{name}");
        if (a - b).abs() > SHARE * b + START || (ours.rate() - theirs.rate()).abs() > points {
            wrong.push(*name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("reuse-sampler-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

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

#[test]
#[cfg(target_arch = "x86_64")]
fn operands_of_compiled_kernels_are_cachegrinds() {
    if qemu_is_missing() {
        return;
    }
    let folder = folder("kernels");
    std::fs::write(folder.join("kernels.c"), KERNELS).unwrap();
    let (sse, avx2) = (folder.join("sse"), folder.join("avx2"));
    for (output, flags) in [(&sse, &["-O3"][..]), (&avx2, &["-O3", "-mavx2"])] {
        let compiled = Command::new("gcc")
            .args(flags)
            .arg("-static")
            .arg("-o")
            .arg(output)
            .arg(folder.join("kernels.c"))
            .status();
        if !compiled.is_ok_and(|status| status.success()) {
            assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "gcc does not compile");
            eprintln!("skipped: no gcc");
            return;
        }
    }
    let (sse, avx2) = (sse.to_str().unwrap(), avx2.to_str().unwrap());
    compare(
        &[
            ("SSE triad", vec![sse, "triad"]),
            ("AVX2 triad", vec![avx2, "triad"]),
            ("SSE product", vec![sse, "product"]),
            ("AVX2 product", vec![avx2, "product"]),
            ("increments", vec![sse, "increments"]),
            ("straddling", vec![sse, "straddling"]),
            ("x87", vec![sse, "x87"]),
            ("rep movsb", vec![sse, "strings"]),
        ],
        &folder,
    );
    // Locked or not, an operand is one.
    let [plain, locked] = ["increments", "locked"].map(|kernel| ours(&[sse, kernel], &folder).references);
    assert!(plain.abs_diff(locked) < 1_000, "{plain} {locked}");
    // Windows count the same as traces.
    for kernel in ["triad", "increments", "straddling", "x87"] {
        let options = ENVIRONMENT
            .iter()
            .fold(QemuOptions::default(), |options, (name, value)| options.env(name, value));
        let mut sampler = QemuSampler::spawn(avx2, [kernel], &options).unwrap();
        let mut accesses = 0;
        while let Some(window) = sampler.next_window(&every()).unwrap() {
            accesses += window.accesses.get().unwrap();
        }
        let operands = (accesses as f64 * sampler.operands_per_access().unwrap()).round() as u64;
        let traced = ours(&[avx2, kernel], &folder).references;
        assert!(traced.abs_diff(operands) < 1_000, "{kernel}: {operands} {traced}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn operands_of_real_programs_are_cachegrinds() {
    if qemu_is_missing() {
        return;
    }
    let folder = folder("programs");
    let mut state = 1_u64;
    let words: String = (0..40_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x}\n", state >> 44)
        })
        .collect();
    std::fs::write(folder.join("words"), &words).unwrap();
    std::fs::write(folder.join("others"), words.replace("7\n", "8\n")).unwrap();
    let sum = "my %h; $h{$_ % 997} .= chr(65 + $_ % 26) for 1..60000; my $n = 0; $n += length for values %h;";
    let tree = "d = {}\nfor i in range(60000): d[i * 7919 % 10007] = str(i)\nsorted(d.values())";
    let table = "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select \
                 i + 1 from n where i < 8000) insert into t select i, 'row ' || (i * 7919 % 8000) from n; create index \
                 x on t(b); delete from t where b like '%7';";
    compare(
        &[
            ("openssl", vec!["openssl", "dgst", "-sha256", "-out", "sum", "words"]),
            ("git", vec!["git", "hash-object", "words", "others", "words", "others"]),
            ("sqlite3", vec!["sqlite3", ":memory:", table]),
            ("xz", vec!["xz", "-kf", "-1", "words"]),
            ("gzip", vec!["gzip", "-kf", "words"]),
            ("sort", vec!["sort", "--parallel=1", "-o", "sorted", "words"]),
            ("perl", vec!["perl", "-e", sum]),
            ("python3", vec!["python3", "-S", "-c", tree]),
        ],
        &folder,
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What `objdump -d` shows, and its operands.
#[test]
fn vector_operands_of_aarch64_are_known() {
    use crate::operand::Operand;
    for (word, operand) in [
        (0x3DC0_0020, Operand::Wide(16)), // ldr q0, [x1]
        (0xFD40_0020, Operand::Wide(8)),  // ldr d0, [x1]
        (0xAD40_0420, Operand::Wide(16)), // ldp q0, q1, [x1]: two operands
        (0x6D40_0420, Operand::Wide(8)),  // ldp d0, d1, [x1]
        (0x9C00_0080, Operand::Wide(16)), // ldr q0, .+16
        (0x4C40_A020, Operand::Wide(16)), // ld1 {v0.16b, v1.16b}, [x1]
        (0x0C40_7020, Operand::Wide(8)),  // ld1 {v0.8b}, [x1]
        (0xF940_0020, Operand::Single),   // ldr x0, [x1]
        (0xA940_0420, Operand::Single),   // ldp x0, x1, [x1]
        (0xF820_0041, Operand::Modified), // ldadd x0, x1, [x2]
        (0xF860_6841, Operand::Single),   // ldr x1, [x2, x0]
    ] {
        assert_eq!(Operand::of_aarch64(word), operand, "{word:#x}");
    }
}

/// Likewise on x86-64, prefixes in front.
#[test]
fn operands_of_x86_are_known() {
    use crate::operand::{Operand, STATE};
    let cases: [(&[u8], Operand); 16] = [
        (&[0x48, 0x8B, 0x03], Operand::Single),               // mov rax, [rbx]
        (&[0x0F, 0x28, 0x03], Operand::Wide(16)),             // movaps xmm0, [rbx]
        (&[0xF3, 0x0F, 0x6F, 0x03], Operand::Wide(16)),       // movdqu xmm0, [rbx]
        (&[0x66, 0x0F, 0x38, 0x00, 0x03], Operand::Wide(16)), // pshufb xmm0, [rbx]
        (&[0xC5, 0xFE, 0x6F, 0x03], Operand::Wide(32)),       // vmovdqu ymm0, [rbx]
        (&[0xC4, 0x41, 0x7C, 0x28, 0x03], Operand::Wide(32)), // vmovaps ymm8, [r11]
        (&[0xC4, 0xE2, 0x75, 0x90, 0x04, 0x93], Operand::Single), // vpgatherdd ymm0, [rbx+ymm2*4], ymm1
        (&[0xC4, 0xE2, 0x75, 0x2C, 0x03], Operand::Single),   // vmaskmovps ymm0, ymm1, [rbx]
        (&[0x83, 0x03, 0x01], Operand::Modified),             // add dword [rbx], 1
        (&[0x83, 0x3B, 0x01], Operand::Single),               // cmp dword [rbx], 1
        (&[0xF0, 0x48, 0x0F, 0xB1, 0x0B], Operand::Modified), // lock cmpxchg [rbx], rcx
        (&[0xF7, 0x1B], Operand::Modified),                   // neg dword [rbx]
        (&[0xF7, 0x03, 1, 0, 0, 0], Operand::Single),         // test dword [rbx], 1
        (&[0xF3, 0x48, 0xA5], Operand::Single),               // rep movsq
        (&[0xDB, 0x2B], Operand::Wide(16)),                   // fld tbyte [rbx]
        (&[0x0F, 0xAE, 0x03], Operand::Wide(STATE)),          // fxsave [rbx]
    ];
    for (code, operand) in cases {
        assert_eq!(Operand::of_x86(code), operand, "{code:x?}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn an_instruction_that_the_emulator_lacks_is_named() {
    if qemu_is_missing() {
        return;
    }
    for options in [QemuOptions::default(), QemuOptions::windows_of(1_000)] {
        let mut sampler = sampler("avx-512", options);
        while sampler.next_window(&off()).unwrap().is_some() {}
        // An emulator that has it runs on.
        if sampler.exit_status() == Some(TargetExit::Signal(4)) {
            let said = sampler.warnings().join("\n");
            assert!(said.contains("62 f1 7c 48 28") && said.contains("AVX-512"), "{said}");
        }
    }
}
