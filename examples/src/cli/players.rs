//! Traces that are played as programs: files with a number of accesses per instruction each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::trace::TraceFormat;
use reuse_sampler::{Line, LineSize};

use super::Failure;
use super::values::number;
use crate::machines::chip::{Recorder, Recording};
use crate::machines::testbed::programs::Recorded;
use crate::traces::{TraceFile, format_of, name_of};
use reuse_sampler::reference::LineIds;

/// Recorded traces, and how many accesses per instruction each makes.
#[derive(Clone, Debug, clap::Args)]
pub struct TraceArgs {
    /// Play this trace; once for each program. Plain, .gz, .xz or .zst by its content; - is standard input
    #[arg(long = "trace", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Format of the traces [default: by each file's name, as in x.din or x.lackey.gz]
    #[arg(long, value_parser = trace_formats(), requires = "files")]
    format: Option<TraceFormat>,
    /// Memory accesses per instruction of each trace, or one number for all
    #[arg(long, value_name = "M,...", value_delimiter = ',', default_value = "1", value_parser = mix,
          requires = "files")]
    mix: Vec<f64>,
}

impl TraceArgs {
    /// Whether any trace is named.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Reads all traces as lines of `line_size`. A file named twice is read once.
    ///
    /// # Errors
    /// [`Failure::Usage`] unless there are at least `least` traces and a mix for each, [`Failure::Run`] if one
    /// cannot be read.
    pub fn load(&self, least: usize, line_size: LineSize) -> Result<Vec<Recorded>, Failure> {
        let count = self.files.len();
        if count < least {
            return Err(Failure::Usage(format!("{count} traces: give --trace at least {least} times")));
        }
        let mixes = match self.mix.as_slice() {
            &[one] => vec![one; count],
            mixes if mixes.len() == count => mixes.to_vec(),
            mixes => {
                let given = mixes.len();
                return Err(Failure::Usage(format!(
                    "--mix has {given} numbers for {count} traces: give one each"
                )));
            }
        };
        if self.files.iter().filter(|path| *path == Path::new("-")).count() > 1 {
            return Err(Failure::usage("standard input can be played only once: give it as a file"));
        }
        let formats: Result<Vec<TraceFormat>, Failure> =
            self.files.iter().map(|path| self.format.map_or_else(|| format_of(path), Ok)).collect();
        let mut loaded: Vec<(&Path, Arc<Recording>)> = Vec::new();
        let mut programs = Vec::new();
        for ((path, mix), format) in self.files.iter().zip(mixes).zip(formats?) {
            let known = loaded.iter().find(|(known, _)| known == path).map(|(_, r)| Arc::clone(r));
            let recording = match known {
                Some(recording) => recording,
                None => Arc::new(record(path, format, line_size, &|| false)?),
            };
            loaded.push((path, Arc::clone(&recording)));
            programs.push(Recorded { name: path.display().to_string(), recording, mix });
        }
        Ok(programs)
    }
}

/// References from one look at whether to stop to the next.
const LOOK: u64 = 1 << 16;

/// Reads a trace to its end. Objects, which have no addresses, become lines in the order of first touch.
pub(crate) fn record(
    path: &Path,
    format: TraceFormat,
    line_size: LineSize,
    stop: &dyn Fn() -> bool,
) -> Result<Recording, Failure> {
    let failed = |problem: String| Failure::Run(format!("{}: {problem}", name_of(path)));
    let mut trace = TraceFile::open(path, format)?.stream;
    let mut recorder = Recorder::new(line_size);
    let mut objects = format.names_objects().then(LineIds::new);
    while let Some(event) = trace.next_event().map_err(|error| failed(error.to_string()))? {
        let Event::Access(access) = event else { continue };
        match &mut objects {
            Some(objects) => recorder.reference(u64::from(objects.id(Line(access.address)).0), access.kind),
            None => recorder.access(&access),
        }
        if recorder.references() % LOOK == 0 && stop() {
            break;
        }
    }
    recorder.finish().map_err(|error| failed(error.to_string()))
}

/// The names of trace formats as values of an option.
pub fn trace_formats() -> impl TypedValueParser<Value = TraceFormat> {
    let names = TraceFormat::ALL.iter().map(|format| format.name());
    PossibleValuesParser::new(names).try_map(|name| TraceFormat::named(&name).ok_or("no such format"))
}

fn mix(text: &str) -> Result<f64, String> {
    let wanted = "give a finite number of memory accesses per instruction above 0, for example 0.35";
    number(text, |mix| mix > 0.0 && mix.recip().is_finite(), wanted)
}
