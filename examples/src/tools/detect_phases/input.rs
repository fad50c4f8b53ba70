//! Where windows come from: block vectors, ready signatures, a program, an embedded workload.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use phase_detect::signature::read_csv;
use phase_detect::simpoint::BlockVector;
use phase_detect::{Signature, SignatureKind};
use reuse_sampler::trace::BbWindows;
use reuse_sampler::{Sampler, Window, WindowPlan};

use super::args::Args;
use crate::cli::{Failure, Watch};
use crate::target::{EMBEDDED_WINDOW, Outcome, PROGRAM_WINDOW, Target, observing};
use crate::traces::{InputFile, name_of};

/// One window as it comes in.
pub struct Observed {
    pub thread: u32,
    /// 0 if the input does not count them.
    pub instructions: u64,
    /// Where they are counted.
    pub accesses: Option<u64>,
    pub seen: Seen,
}

impl Observed {
    fn new(window: &Window, seen: Seen) -> Self {
        let (thread, instructions) = (window.thread.0, window.instructions);
        Self { thread, instructions, accesses: window.accesses.get(), seen }
    }
}

/// What was seen in a window.
pub enum Seen {
    Blocks(BlockVector),
    Ready(Signature),
}

/// How the input ended.
pub struct Ended {
    pub name: String,
    /// Whether it was observed in part.
    pub incomplete: bool,
    /// Whether that is because it was interrupted.
    pub interrupted: bool,
    pub outcome: Outcome,
    /// The program, to name its code.
    pub target: Option<Target>,
}

/// Takes a window; false ends the run.
pub type Take<'a> = &'a mut dyn FnMut(Observed) -> Result<bool, Failure>;

/// Gives every window of whatever the command line names to `take`, until `interrupted` is set.
pub fn each_window(args: &Args, interrupted: &AtomicBool, take: Take<'_>) -> Result<Ended, Failure> {
    if let Some(path) = &args.bbv {
        return block_vectors(path, interrupted, take);
    }
    if let Some(path) = &args.signatures {
        return ready_signatures(path, args.kind(), interrupted, take);
    }
    run(args, interrupted, take)
}

/// The windows of a `.bb` file, each as soon as it is read: the file may be longer than memory.
fn block_vectors(path: &Path, interrupted: &AtomicBool, take: Take<'_>) -> Result<Ended, Failure> {
    let name = name_of(path);
    let input = InputFile::open(path)?;
    let watch = Watch::over(interrupted, input.bytes, &input.read);
    let mut windows = BbWindows::new(input.reader);
    let failed = |error: &dyn std::fmt::Display| Failure::Run(format!("{name}: {error}"));
    let mut incomplete = false;
    while let Some(window) = windows.next_window(&WindowPlan::count_only()).map_err(|e| failed(&e))? {
        let goes_on = watch.goes_on(window.index.0 + 1, "windows");
        let blocks = blocks(&window).map_err(|e| failed(&e))?;
        let seen = Seen::Blocks(blocks);
        if !take(Observed::new(&window, seen))? {
            break;
        }
        if !goes_on {
            incomplete = true;
            break;
        }
    }
    watch.clear();
    Ok(Ended { name, incomplete, interrupted: incomplete, outcome: Outcome::Unknown, target: None })
}

fn blocks(window: &Window) -> Result<BlockVector, phase_detect::Error> {
    BlockVector::new(window.code.iter().map(|&(address, n)| (address, n as f64)))
}

/// All rows of a table.
fn ready_signatures(
    path: &Path,
    kind: SignatureKind,
    interrupted: &AtomicBool,
    take: Take<'_>,
) -> Result<Ended, Failure> {
    let name = name_of(path);
    let input = InputFile::open(path)?;
    let watch = Watch::over(interrupted, input.bytes, &input.read);
    let input = BufReader::with_capacity(1 << 16, input.reader);
    let mut reader = WholeLines { input, watch, ended: false, lines: 0 };
    let failed = |error: phase_detect::Error| Failure::Run(format!("{name}: {error}"));
    let signatures = read_csv(&mut reader, kind).map_err(failed)?;
    let incomplete = reader.ended;
    drop(reader);
    if signatures.is_empty() && !incomplete {
        return Err(failed(phase_detect::Error::NoWindows));
    }
    for signature in signatures {
        let seen = Seen::Ready(signature);
        if !take(Observed { thread: 0, instructions: 0, accesses: None, seen })? {
            break;
        }
    }
    Ok(Ended { name, incomplete, interrupted: incomplete, outcome: Outcome::Unknown, target: None })
}

/// All windows of a program or an embedded workload.
fn run(args: &Args, interrupted: &AtomicBool, take: Take<'_>) -> Result<Ended, Failure> {
    let embedded = args.program.is_empty();
    let mut options = observing(args.backend, args.children, args.cpu, args.common.claims_stdout());
    options.window = args.window.unwrap_or(if embedded { EMBEDDED_WINDOW } else { PROGRAM_WINDOW });
    options.seed = args.common.seed;
    let mut target = if embedded {
        Target::embedded(&args.workload, args.scale, &options).map_err(Failure::usage)?
    } else {
        Target::program(&args.program, &options)?
    };
    let watch = Watch::new(interrupted);
    let plan = WindowPlan::count_only();
    let mut stopped = false;
    let mut windows = 0;
    while let Some(window) = target.sampler().next_window(&plan)? {
        // A thread that ends right after the end of a window leaves an empty one, which is none.
        let goes_on = match blocks(&window) {
            Err(_) => true,
            Ok(blocks) => {
                windows += 1;
                watch.goes_on(windows, "windows");
                let seen = Seen::Blocks(blocks);
                take(Observed::new(&window, seen))?
            }
        };
        if !stopped && (!goes_on || watch.is_interrupted()) {
            stopped = true;
            target.sampler().stop()?;
        }
    }
    Ok(Ended {
        name: target.name().to_owned(),
        incomplete: stopped || target.ended_early(),
        interrupted: stopped,
        outcome: target.outcome(),
        target: Some(target),
    })
}

/// Ends at the end of a line once interrupted, so that what was read until then is well formed.
struct WholeLines<'a, R> {
    input: R,
    watch: Watch<'a>,
    ended: bool,
    lines: u64,
}

impl<R: BufRead> Read for WholeLines<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for WholeLines<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.ended {
            return Ok(&[]);
        }
        self.input.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        let line_ends =
            count > 0 && self.input.fill_buf().is_ok_and(|buffer| buffer.get(count - 1) == Some(&b'\n'));
        self.input.consume(count);
        self.lines += u64::from(line_ends);
        let goes_on = self.watch.goes_on(self.lines, "lines");
        self.ended |= line_ends && !goes_on;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the buffer's size, an interrupted reader gives whole lines, and the one that was begun.
    #[test]
    fn an_interrupted_file_ends_with_a_line() {
        let text = "one\ntwo two\nthree\n";
        for capacity in 1..20 {
            let interrupted = AtomicBool::new(false);
            let input = BufReader::with_capacity(capacity, text.as_bytes());
            let watch = Watch::new(&interrupted);
            let mut reader = WholeLines { input, watch, ended: false, lines: 0 };
            let mut first = String::new();
            reader.read_line(&mut first).unwrap();
            interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
            let mut rest = String::new();
            reader.read_to_string(&mut rest).unwrap();
            assert_eq!(first, "one\n");
            assert!(text["one\n".len()..].starts_with(&rest) && rest.ends_with('\n'), "{capacity}: {rest:?}");
        }
    }
}
