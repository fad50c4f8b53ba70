//! Where windows come from: block vectors, ready signatures, a program, an embedded workload.

use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use phase_detect::Signature;
use phase_detect::signature::read_csv;
use phase_detect::simpoint::{BlockVector, read_bb};
use reuse_sampler::{LineSize, WindowPlan};

use super::args::Args;
use crate::cli::Failure;
use crate::target::{EMBEDDED_WINDOW, Outcome, PROGRAM_WINDOW, Target, TargetOptions};
use crate::traces::InputFile;

/// One window as it comes in.
pub struct Observed {
    pub thread: u32,
    /// 0 where the input does not tell.
    pub instructions: u64,
    pub seen: Seen,
}

/// What was seen in a window.
pub enum Seen {
    Blocks(BlockVector),
    Ready(Signature),
}

/// How the input ended.
pub struct Ended {
    pub name: String,
    pub incomplete: bool,
    pub outcome: Outcome,
    /// The program, to name its code.
    pub target: Option<Target>,
}

/// Takes a window; false ends the run.
pub type Take<'a> = &'a mut dyn FnMut(Observed) -> Result<bool, Failure>;

/// Gives every window of whatever the command line names to `take`, until `interrupted` is set.
pub fn each_window(args: &Args, interrupted: &AtomicBool, take: Take<'_>) -> Result<Ended, Failure> {
    if let Some(path) = &args.bbv {
        let read = |reader: &mut dyn BufRead| read_bb(reader);
        let whole = |window: BlockVector| Observed {
            thread: 0,
            instructions: window.total() as u64,
            seen: Seen::Blocks(window),
        };
        return file(path, interrupted, read, whole, take);
    }
    if let Some(path) = &args.signatures {
        let read = |reader: &mut dyn BufRead| read_csv(reader, args.kind());
        let whole = |signature| Observed { thread: 0, instructions: 0, seen: Seen::Ready(signature) };
        return file(path, interrupted, read, whole, take);
    }
    run(args, interrupted, take)
}

/// All windows of a file.
fn file<W>(
    path: &Path,
    interrupted: &AtomicBool,
    read: impl FnOnce(&mut dyn BufRead) -> Result<Vec<W>, phase_detect::Error>,
    observed: impl Fn(W) -> Observed,
    take: Take<'_>,
) -> Result<Ended, Failure> {
    let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
    let input = InputFile::open(path).map_err(Failure::run)?;
    let bar = Bar::new(input.bytes);
    let told = Told { input: input.reader, tell: || bar.at(input.read.get()) };
    let mut reader = WholeLines { input: BufReader::with_capacity(1 << 16, told), interrupted, ended: false };
    let failed = |error: phase_detect::Error| Failure::Run(format!("{name}: {error}"));
    let windows = read(&mut reader).map_err(failed)?;
    let incomplete = reader.ended;
    drop(bar);
    if windows.is_empty() && !incomplete {
        return Err(failed(phase_detect::Error::NoWindows));
    }
    for window in windows {
        if !take(observed(window))? {
            break;
        }
    }
    Ok(Ended { name, incomplete, outcome: Outcome::Unknown, target: None })
}

/// All windows of a program or an embedded workload.
fn run(args: &Args, interrupted: &AtomicBool, take: Take<'_>) -> Result<Ended, Failure> {
    let embedded = args.program.is_empty();
    let options = TargetOptions {
        window: args.window.unwrap_or(if embedded { EMBEDDED_WINDOW } else { PROGRAM_WINDOW }),
        line_size: LineSize::B64,
        seed: args.common.seed,
        output_to_stderr: args.common.json,
    };
    let mut target = if embedded {
        Target::embedded(&args.workload, args.scale, options).map_err(Failure::usage)?
    } else {
        Target::program(&args.program, options).map_err(Failure::run)?
    };
    let bar = Bar::new(None);
    let plan = WindowPlan::count_only();
    let mut incomplete = false;
    let mut windows = 0;
    while let Some(window) = target.sampler().next_window(&plan).map_err(Failure::run)? {
        // A thread that ends right after the end of a window leaves an empty one, which is none.
        let blocks = BlockVector::new(window.code.iter().map(|&(address, n)| (address, n as f64)));
        let goes_on = match blocks {
            Err(_) => true,
            Ok(blocks) => {
                windows += 1;
                bar.at(windows);
                let seen = Seen::Blocks(blocks);
                take(Observed { thread: window.thread.0, instructions: window.instructions, seen })?
            }
        };
        if !incomplete && (!goes_on || interrupted.load(Ordering::Relaxed)) {
            incomplete = true;
            target.sampler().stop().map_err(Failure::run)?;
        }
    }
    let outcome = target.outcome();
    incomplete |= matches!(outcome, Outcome::Signalled(_));
    Ok(Ended { name: target.name().to_owned(), incomplete, outcome, target: Some(target) })
}

/// Ends at the end of a line once interrupted, so that what was read until then is well formed.
struct WholeLines<'a, R> {
    input: R,
    interrupted: &'a AtomicBool,
    ended: bool,
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
        self.ended |= line_ends && self.interrupted.load(Ordering::Relaxed);
    }
}

/// Tells of progress at every read.
struct Told<R, F> {
    input: R,
    tell: F,
}

impl<R: Read, F: Fn()> Read for Told<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.tell)();
        self.input.read(buffer)
    }
}

/// Progress on a terminal.
struct Bar(Option<ProgressBar>);

impl Bar {
    fn new(bytes: Option<u64>) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let (bar, template) = match bytes {
            Some(bytes) => (ProgressBar::new(bytes), "{bar:40} {percent} % of the file"),
            None => (ProgressBar::new_spinner(), "{spinner} {pos} windows"),
        };
        Self(Some(match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }))
    }

    fn at(&self, position: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(position);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
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
            let mut reader = WholeLines { input, interrupted: &interrupted, ended: false };
            let mut first = String::new();
            reader.read_line(&mut first).unwrap();
            interrupted.store(true, Ordering::Relaxed);
            let mut rest = String::new();
            reader.read_to_string(&mut rest).unwrap();
            assert_eq!(first, "one\n");
            assert!(text["one\n".len()..].starts_with(&rest) && rest.ends_with('\n'), "{capacity}: {rest:?}");
        }
    }
}
