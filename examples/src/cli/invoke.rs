//! From arguments to an exit status: one clear line for each mistake, never a panic on a closed pipe.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::thread;
use std::time::{Duration, Instant};

use clap::error::ErrorKind;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use super::CommandLine;
use crate::output::OutputFile;

/// Exit status for a command line that makes no sense.
pub const USAGE: u8 = 2;
/// Exit status of a run that was interrupted: what a shell gives to a command ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Why a pipeline ends without its result, in one line for the user. Any error fails the run; that one is the command
/// line's fault is said where it is.
#[derive(Debug)]
pub enum Failure {
    /// The command line makes no sense: exit status 2.
    Usage(String),
    /// The run failed: exit status 1.
    Run(String),
    /// The program ended before there was anything to report: the status it ended with.
    Program(u8, String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Run(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(problem) | Self::Run(problem) | Self::Program(_, problem)) = self;
        f.write_str(problem)
    }
}

impl Failure {
    /// The command line makes no sense, as `problem` says.
    #[allow(clippy::needless_pass_by_value)] // so that it serves as `map_err(Failure::usage)`
    pub fn usage(problem: impl ToString) -> Self {
        Self::Usage(problem.to_string())
    }

    /// The run failed, as `problem` says.
    #[allow(clippy::needless_pass_by_value)] // so that it serves as `map_err(Failure::run)`
    pub fn run(problem: impl ToString) -> Self {
        Self::Run(problem.to_string())
    }

    /// The status the process exits with.
    pub const fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Run(_) => 1,
            Self::Program(status, _) => *status,
        }
    }
}

/// The `main` of an example: parses the process's arguments and runs `pipeline` on its output and messages.
pub fn main<A: CommandLine>(
    pipeline: impl FnOnce(&A, &mut dyn Write, &mut dyn Write) -> Result<u8, Failure>,
) -> ExitCode {
    ExitCode::from(invoke(std::env::args_os(), &mut io::stdout().lock(), &mut io::stderr(), pipeline))
}

/// The same on given arguments (the program's name first), output and messages. Returns the exit status.
///
/// With `-o` the result goes into that file, which is whole or absent. Where a program runs, standard output is the
/// program's: without `--json` and `-o` the result goes to `messages`.
pub fn invoke<A: CommandLine, I: IntoIterator<Item: Into<OsString> + Clone>>(
    arguments: I,
    out: &mut dyn Write,
    messages: &mut dyn Write,
    pipeline: impl FnOnce(&A, &mut dyn Write, &mut dyn Write) -> Result<u8, Failure>,
) -> u8 {
    let parsed = command::<A>().try_get_matches_from(arguments);
    let result = match parsed.and_then(|matches| A::from_arg_matches(&matches)) {
        Ok(args) => route(&args, out, messages, pipeline),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let written = write!(out, "{}", error.render()).and_then(|()| out.flush());
            unless_closed(written).map(|()| 0)
        }
        Err(error) => Err(Failure::Usage(one_line(&error.render().to_string()))),
    };
    result.unwrap_or_else(|failure| {
        let _ = writeln!(messages, "{}: {failure}", A::command().get_name());
        failure.status()
    })
}

/// The command with its examples, and help of at most 100 columns. A subcommand has those that begin with its name.
pub fn command<A: CommandLine>() -> clap::Command {
    let mut command = A::command();
    let name = command.get_name().to_owned();
    let example = |(what, arguments): &(&str, &str)| {
        let separator = if arguments.is_empty() { "" } else { " -- " };
        format!("  # {what}\n  cargo run --release --example {name}{separator}{arguments}")
    };
    let help = |begin: &str| {
        let of_it = A::EXAMPLES.iter().filter(|(_, arguments)| arguments.starts_with(begin));
        format!("Examples:\n{}", of_it.map(example).collect::<Vec<_>>().join("\n"))
    };
    let subcommands: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for sub in &subcommands {
        command = command.mut_subcommand(sub, |sub_command| {
            sub_command.max_term_width(100).after_help(help(&format!("{sub} ")))
        });
    }
    command.max_term_width(100).after_help(help(""))
}

/// Runs the pipeline with its output, and what else it has to say, where the command line says.
fn route<A: CommandLine>(
    args: &A,
    out: &mut dyn Write,
    messages: &mut dyn Write,
    pipeline: impl FnOnce(&A, &mut dyn Write, &mut dyn Write) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let common = args.common();
    let mut nowhere = io::sink();
    let remarks: &mut dyn Write = if args.is_quiet() {
        super::progress::hide();
        &mut nowhere
    } else {
        &mut *messages
    };
    let owned_by_program = !args.program().is_empty() && !common.claims_stdout();
    if args.streams() || common.output.is_none() && !owned_by_program {
        return pipeline(args, out, remarks);
    }
    let file = common.output.as_deref().map(OutputFile::prepare).transpose()?;
    let mut result = Vec::new();
    let status = pipeline(args, &mut result, remarks);
    let Some(file) = file else {
        // A closed standard error is no failure.
        let _ = messages.write_all(&result);
        return status;
    };
    if status.is_err() && result.is_empty() {
        return status;
    }
    file.write(&result).map_err(|failure| {
        let _ = if owned_by_program { messages.write_all(&result) } else { out.write_all(&result) };
        Failure::Run(format!("-o {failure}; the result is printed above"))
    })?;
    status
}

/// The first paragraph of clap's message in one line, without the word "error".
fn one_line(message: &str) -> String {
    let paragraph = message.split("\n\n").next().unwrap_or(message);
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// The exit status of a command that has printed its result; where it was interrupted, a remark says what `shown` has.
pub fn ended(interrupted: bool, command: &str, shown: &str, messages: &mut dyn Write) -> u8 {
    if !interrupted {
        return 0;
    }
    let _ = writeln!(messages, "{command}: interrupted; {shown} until then");
    INTERRUPTED
}

/// Passes on what writing to standard output answered, except that a reader who has seen enough
/// (`... | head`) is no failure.
///
/// # Errors
/// Any other failure to write.
pub fn unless_closed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::Run(format!("cannot write the result: {error}"))),
    }
}

/// From when on a second signal is another request: `timeout` sends its own twice, to the command and to its group.
const AGAIN: Duration = Duration::from_millis(500);

/// A flag that the first Ctrl-C, SIGTERM or SIGHUP (the terminal was closed) sets, so that the run can end with a report
/// of what it has. One half a second later, or after that, ends the process at once. SIGHUP stays ignored under `nohup`.
///
/// # Errors
/// [`Failure::Run`] if the system refuses the handler.
pub fn interrupt_flag() -> Result<Arc<AtomicBool>, Failure> {
    static WATCHED: Once = Once::new();
    let interrupted = Arc::new(AtomicBool::new(false));
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&s| s != SIGHUP || !ignores_hangup());
    let refused = |error| Failure::Run(format!("cannot catch Ctrl-C: {error}"));
    for signal in signals.clone() {
        flag::register(signal, interrupted.clone()).map_err(refused)?;
    }
    let mut watched = Ok(());
    WATCHED.call_once(|| watched = watch(signals));
    watched.map_err(refused)?;
    // A file that may not grow fails what writes it, and not this process.
    flag::register(SIGXFSZ, Arc::default())?;
    Ok(interrupted)
}

/// Ends the process with a signal that comes long after the first.
fn watch(signals: impl Iterator<Item = i32>) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    let watch = move || {
        let mut first = None;
        for _ in signals.forever() {
            if first.get_or_insert_with(Instant::now).elapsed() >= AGAIN {
                signal_hook::low_level::exit(INTERRUPTED.into());
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(watch).map(drop)
}

/// Whether whoever started this process, `nohup` for example, made it ignore SIGHUP.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Common;

    #[derive(clap::Parser)]
    #[command(name = "tool")]
    struct Args {
        #[command(flatten)]
        common: Common,
        #[arg(long)]
        count: u8,
        #[arg(trailing_var_arg = true)]
        program: Vec<OsString>,
    }

    impl CommandLine for Args {
        const EXAMPLES: &'static [(&'static str, &'static str)] = &[("all of it", "")];

        fn common(&self) -> &Common {
            &self.common
        }

        fn program(&self) -> &[OsString] {
            &self.program
        }
    }

    fn invoke_with(arguments: &[&str], result: Result<u8, Failure>) -> (u8, String, String) {
        let (mut out, mut messages) = (Vec::new(), Vec::new());
        let arguments = std::iter::once("tool").chain(arguments.iter().copied());
        let status = invoke(arguments, &mut out, &mut messages, |args: &Args, out, _| {
            write!(out, "count {}", args.count)?;
            result
        });
        (status, String::from_utf8(out).unwrap(), String::from_utf8(messages).unwrap())
    }

    #[test]
    fn every_mistake_is_one_line_and_a_status() {
        assert_eq!(invoke_with(&["--count", "3"], Ok(0)), (0, "count 3".into(), String::new()));
        for (arguments, message) in [
            (
                &["--count", "x"][..],
                "tool: invalid value 'x' for '--count <COUNT>': invalid digit found in string\n",
            ),
            (&[], "tool: the following required arguments were not provided: --count <COUNT>\n"),
            (&["--count", "3", "--cuont", "4"], "tool: unexpected argument '--cuont' found\n"),
        ] {
            assert_eq!(invoke_with(arguments, Ok(0)), (2, String::new(), message.into()));
        }
        let failed = invoke_with(&["--count", "3"], Err(Failure::run("no luck")));
        assert_eq!(failed, (1, "count 3".into(), "tool: no luck\n".into()));
        let (status, out, messages) = invoke_with(&["--help"], Ok(0));
        assert!(status == 0 && out.contains("--count <COUNT>") && messages.is_empty());
    }

    /// Not a test of its own: gets SIGTERM twice at a time, and once later.
    #[test]
    #[ignore = "started by another test"]
    fn a_process_that_is_to_end() {
        let interrupted = interrupt_flag().unwrap();
        let end = || signal_hook::low_level::raise(SIGTERM).unwrap();
        end();
        end();
        thread::sleep(AGAIN / 2);
        println!("goes on, {}", interrupted.load(std::sync::atomic::Ordering::SeqCst));
        thread::sleep(AGAIN);
        end();
        thread::sleep(10 * AGAIN);
        println!("still goes on");
    }

    #[test]
    fn a_signal_sent_twice_is_one_request_and_a_later_one_another() {
        let this = "cli::invoke::tests::a_process_that_is_to_end";
        let mut ended = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = ended.args(["--exact", this, "--ignored", "--nocapture"]).output().unwrap();
        let text = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(INTERRUPTED.into()), "{text}");
        assert!(text.contains("goes on, true") && !text.contains("still"), "{text}");
    }

    #[test]
    fn a_hangup_ends_a_run_with_a_report_unless_it_is_ignored() {
        let interrupted = interrupt_flag().unwrap();
        signal_hook::low_level::raise(SIGHUP).unwrap();
        assert_eq!(interrupted.load(std::sync::atomic::Ordering::SeqCst), !ignores_hangup());
    }

    #[test]
    fn the_result_leaves_standard_output_to_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("result");
        let path = file.to_str().unwrap();
        let (count, nothing) = ("count 3".to_owned(), String::new());
        assert_eq!(invoke_with(&["--count", "3", "sort"], Ok(5)), (5, nothing.clone(), count.clone()));
        assert_eq!(
            invoke_with(&["--count", "3", "--json", "sort"], Ok(0)),
            (0, count.clone(), nothing.clone())
        );
        for more in [&["sort"][..], &["--json", "sort"], &["--json"], &[]] {
            let arguments = [&["--count", "3", "-o", path][..], more].concat();
            assert_eq!(invoke_with(&arguments, Ok(7)), (7, nothing.clone(), nothing.clone()));
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "count 3");
            std::fs::remove_file(&file).unwrap();
        }
        assert_eq!(invoke_with(&["--count", "3", "-o", "/nowhere/x"], Ok(0)).0, USAGE);
    }

    /// `/dev/full` accepts no byte.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_leaves_the_result_on_the_terminal() {
        let (status, out, messages) = invoke_with(&["--count", "3", "-o", "/dev/full"], Ok(0));
        assert_eq!((status, out.as_str()), (1, "count 3"));
        assert!(
            messages.contains("/dev/full: No space left on device") && messages.contains("printed above")
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn help_that_cannot_be_written_is_a_failure() {
        let mut full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut messages = Vec::new();
        let status = invoke::<Args, _>(["demo", "--help"], &mut full, &mut messages, |_, _, _| Ok(0));
        let messages = String::from_utf8(messages).unwrap();
        assert!(status == 1 && messages.contains("No space left on device"), "{status}: {messages}");
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
        assert!(unless_closed(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        let full = unless_closed(Err(io::Error::other("disk full"))).unwrap_err();
        assert_eq!((full.status(), full.to_string().as_str()), (1, "cannot write the result: disk full"));
    }
}
