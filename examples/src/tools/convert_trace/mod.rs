//! Traces from one format to another.

mod args;
mod convert;
mod perf;
mod profile;

pub use args::Args;

use std::io::{self, BufWriter, Write};
use std::sync::atomic::AtomicBool;

use serde_json::json;

use self::args::To;
use self::convert::{Converted, Job};
use crate::cli::{ByName, Failure, INTERRUPTED, interrupt_flag, unless_closed};
use crate::output::{OutputDir, OutputFile};
use crate::traces::name_of;

/// Runs the command until its end or Ctrl-C; writes the result to `out` and remarks to `messages`.
///
/// # Errors
/// [`Failure`] with one line for the user.
pub fn run(args: &Args, out: &mut dyn Write, messages: &mut dyn Write) -> Result<u8, Failure> {
    run_until(&*interrupt_flag()?, args, out, messages)
}

/// The same until `interrupted` is set. Returns the exit status.
///
/// # Errors
/// As [`run`].
pub fn run_until(
    interrupted: &AtomicBool,
    args: &Args,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<u8, Failure> {
    let from = args.from()?;
    if args.common.json && args.folder_and_name().is_none() && args.to != To::Profile {
        return Err(Failure::usage(
            "--json describes the result on standard output, where the result itself would go: give --out DIR or -o FILE",
        ));
    }
    let place = args.folder_and_name();
    let file = args.common.output.as_deref().map(OutputFile::prepare).transpose()?;
    let folder = place.as_ref().filter(|_| file.is_none());
    let folder = folder.map(|(folder, _)| OutputDir::prepare(folder)).transpose()?;
    let mut job = Job::open(args, from, interrupted)?;
    // What the job says is wrong comes before what the file system makes of it.
    let mut failure = None;
    let converted = if let Some((_, name)) = &place {
        let mut converted = None;
        let content = |out: &mut dyn Write| {
            converted = Some(job.run(out).map_err(|error| keep(error, &mut failure))?);
            Ok(())
        };
        let written = match (file, &folder) {
            (Some(file), _) => file.write_with(content),
            (None, Some(folder)) => folder.write(name, content).and_then(|()| folder.publish()),
            (None, None) => Ok(()),
        };
        if let Some(failure) = failure {
            return Err(failure);
        }
        written?;
        converted.unwrap_or_default()
    } else {
        let mut out = BufWriter::with_capacity(1 << 16, &mut *out);
        let written = job.run(&mut out).map_err(|error| keep(error, &mut failure));
        // Whatever was converted before a mistake stays in the pipe: let it be complete lines.
        let flushed = out.flush();
        if let Some(failure) = failure {
            return Err(failure);
        }
        match written.and_then(|converted| flushed.map(|()| converted)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            other => other.map_err(|error| Failure::Run(format!("cannot write the result: {error}")))?,
        }
    };
    let file = place.map(|(folder, name)| folder.join(name).display().to_string());
    report_result(args, &converted, file, out, messages)?;
    Ok(if converted.incomplete { INTERRUPTED } else { 0 })
}

/// Why a job ended early.
pub(super) enum Stopped {
    Failed(Failure),
    Output(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Puts a failure of the job aside, which an error of the output cannot carry.
fn keep(stopped: Stopped, failure: &mut Option<Failure>) -> io::Error {
    match stopped {
        Stopped::Output(error) => error,
        Stopped::Failed(failed) => {
            *failure = Some(failed);
            io::Error::other("the conversion failed")
        }
    }
}

fn report_result(
    args: &Args,
    converted: &Converted,
    file: Option<String>,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<(), Failure> {
    if args.common.json && file.is_some() {
        let mut summary = json!(converted);
        summary["source"] = json!(name_of(&args.input));
        summary["to"] = json!(args.to.name());
        summary["file"] = json!(file);
        summary["seed"] = json!(args.common.seed);
        return unless_closed(writeln!(out, "{summary}").and_then(|()| out.flush()));
    }
    let target = file.unwrap_or_else(|| "standard output".to_owned());
    // A message that nobody reads is no failure.
    let mut say = |what: &str| drop(writeln!(messages, "convert_trace: {what}"));
    say(&format!("{}, written to {target}", converted.describe()));
    converted.lost().iter().for_each(|lost| say(lost));
    if converted.incomplete {
        say("interrupted; the result holds the trace until then and says so");
    }
    Ok(())
}
