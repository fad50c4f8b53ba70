//! The conversions themselves: read a piece, write a piece, look whether to go on.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reuse_sampler::replay::{Event, EventSource, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::trace::{
    BbWindows, BbWriter, CsvWriter, DinWriter, PerfDataReader, PerfWindowOptions, PerfWindows, TraceContent,
    TraceReader,
};
use reuse_sampler::{LineSize, ReusePlan, ReuseProfile, Sampler, SamplerError, WindowPlan};
use serde::Serialize;

use super::Stopped;
use super::args::{Args, From, To};
use super::perf::SampledAccesses;
use super::profile::write_profile;
use crate::cli::{ByName, Failure, Watch};
use crate::traces::{InputFile, name_of};

/// Events between two looks at the interrupt flag.
const BATCH: u64 = 1 << 14;
/// Accesses in a window from which a profile is gathered: their number shows nowhere.
const PROFILE_WINDOW: u64 = 1 << 16;
/// Instructions in a window of executed code, where nothing else is asked for.
const CODE_WINDOW: u64 = 1_000_000;
/// Microseconds in a window of what perf sampled.
const PERF_WINDOW: u64 = 100_000;

/// A file to be converted, and how.
pub(super) struct Job<'a> {
    args: &'a Args,
    name: String,
    from: &'static str,
    input: Input,
    line_size: LineSize,
    plan: ReusePlan,
    watch: Watch<'a>,
}

type Stream = Box<dyn Read + Send>;

enum Input {
    /// Taken by the conversion.
    Taken,
    Accesses(TraceReader<Stream>),
    /// Samples of reuse, without the accesses between them.
    Samples(Box<dyn Sampler>),
    /// Windows of executed code.
    Code(Box<dyn Sampler>),
    /// Accesses that perf sampled: most are missing.
    Sampled(SampledAccesses<Stream>),
}

/// What a conversion did.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Converted {
    from: &'static str,
    /// Accesses read; where they were sampled before, those that the profile was sampled from.
    accesses: u64,
    /// Instructions in the blocks read, where there are any.
    instructions: u64,
    /// Instruction fetches written, in din.
    #[serde(skip_serializing_if = "Option::is_none")]
    fetches: Option<u64>,
    /// Windows written.
    windows: u64,
    /// Samples in the profile written.
    samples: u64,
    /// Whether the input goes on: the run was interrupted.
    pub(super) incomplete: bool,
    /// Whether the input goes on: there was a limit.
    limited: bool,
}

impl Converted {
    /// In words.
    pub(super) fn describe(&self) -> String {
        let parts = [
            (self.accesses, "accesses"),
            (self.instructions, "instructions"),
            (self.windows, "windows"),
            (self.samples, "samples"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    }

    /// What the format that was written cannot hold.
    pub(super) fn lost(&self) -> Option<String> {
        let fetches = self.fetches.filter(|fetches| *fetches < self.instructions)?;
        Some(format!(
            "{fetches} fetches for {} instructions: code is written by block, so that only data caches can be simulated from it",
            self.instructions
        ))
    }

    /// What a file says of its end, unless it has all of the input.
    fn remark(&self) -> Option<String> {
        match self {
            Self { incomplete: true, .. } => {
                Some(format!("INCOMPLETE: interrupted after {}", self.describe()))
            }
            Self { limited: true, .. } => Some(format!("ended by --limit after {}", self.describe())),
            _ => None,
        }
    }
}

impl<'a> Job<'a> {
    /// Opens the input and checks that what is in it can become what is asked for.
    pub(super) fn open(args: &'a Args, from: From, interrupted: &'a AtomicBool) -> Result<Self, Failure> {
        let name = name_of(&args.input);
        let plan = args.plan()?;
        let line_size = from.trace().map_or(Ok(LineSize::B64), |format| args.line_size(format))?;
        let file = InputFile::open(&args.input)?;
        let watch = Watch::over(interrupted, file.bytes, &file.read);
        let input = match from.trace() {
            Some(format) => {
                let content = TraceReader::new(format, file.reader).content(line_size);
                match content.map_err(|error| Failure::Run(format!("{name}: {error}")))? {
                    TraceContent::Accesses(reader) => Input::Accesses(reader),
                    TraceContent::Samples(samples) => Input::Samples(samples),
                }
            }
            None if from == From::Bb => Input::Code(Box::new(BbWindows::new(file.reader))),
            None if args.to == To::Csv => {
                Input::Sampled(SampledAccesses::new(PerfDataReader::new(file.reader)))
            }
            None => {
                let length = Duration::from_micros(args.window.unwrap_or(PERF_WINDOW));
                let options = PerfWindowOptions::windows_of(length);
                let windows = PerfWindows::new(PerfDataReader::new(file.reader), options);
                Input::Code(Box::new(windows.map_err(Failure::usage)?))
            }
        };
        let from = from.name();
        let wrong = match (&input, args.to) {
            (Input::Samples(_), To::Csv | To::Din | To::Bb) => {
                Some("holds samples, which become only a profile")
            }
            (Input::Code(_), To::Csv | To::Din | To::Profile) => {
                Some("holds executed code, which becomes only bb")
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Err(Failure::Usage(format!(
                "{name} {wrong}: it cannot be converted to {}",
                args.to.name()
            )));
        }
        Ok(Self { args, name, from, input, line_size, plan, watch })
    }

    /// Converts all there is, or until the limit or an interrupt.
    pub(super) fn run(&mut self, out: &mut dyn Write) -> Result<Converted, Stopped> {
        let mut converted = match (std::mem::replace(&mut self.input, Input::Taken), self.args.to) {
            (Input::Accesses(reader), To::Csv) => {
                let mut writer = CsvWriter::new(out);
                let converted = self.events(reader, |event| writer.event(event))?;
                if let Some(remark) = converted.remark() {
                    writer.remark(&remark)?;
                }
                writer.finish()?;
                converted
            }
            (Input::Accesses(reader), To::Din) => {
                let mut writer = DinWriter::new(out);
                let mut converted = self.events(reader, |event| writer.event(event))?;
                if let Some(remark) = converted.remark() {
                    writer.remark(&remark)?;
                }
                converted.fetches = Some(writer.fetches());
                writer.finish()?;
                converted
            }
            (Input::Accesses(reader), To::Profile) => {
                let options = ReplayOptions::windows_of(WindowLength::Accesses(PROFILE_WINDOW));
                let options = options.line_size(self.line_size).seed(self.args.common.seed);
                let mut sampler = ReplaySampler::new(reader, options).map_err(Failure::run)?;
                self.profile(&mut sampler, out)?
            }
            (Input::Accesses(reader), To::Bb) => {
                let options = ReplayOptions::windows_of(WindowLength::Instructions(
                    self.args.window.unwrap_or(CODE_WINDOW),
                ));
                let mut sampler = ReplaySampler::new(reader, options).map_err(Failure::run)?;
                self.code(&mut sampler, out)?
            }
            (Input::Sampled(accesses), _) => {
                let mut writer = CsvWriter::new(out);
                writer.remark("accesses that perf sampled; those between them are not here")?;
                let converted = self.events(accesses, |event| writer.event(event))?;
                if let Some(remark) = converted.remark() {
                    writer.remark(&remark)?;
                }
                writer.finish()?;
                converted
            }
            (Input::Samples(mut samples), _) => self.profile(samples.as_mut(), out)?,
            (Input::Code(mut windows), _) => self.code(windows.as_mut(), out)?,
            (Input::Taken, _) => Converted::default(),
        };
        converted.from = self.from;
        Ok(converted)
    }

    fn failed(&self, error: &SamplerError) -> Failure {
        Failure::Run(format!("{}: {error}", self.name))
    }

    /// Hands each event to `write`.
    fn events(
        &self,
        mut source: impl EventSource,
        mut write: impl FnMut(&Event) -> std::io::Result<()>,
    ) -> Result<Converted, Stopped> {
        let limit = self.args.limit.unwrap_or(u64::MAX);
        let mut converted = Converted::default();
        let mut until_look = 0_u64;
        let stopped = source
            .drive(|event| {
                match event {
                    Event::Access(_) if converted.accesses == limit => {
                        converted.limited = true;
                        return ControlFlow::Break(Ok(()));
                    }
                    Event::Access(_) => converted.accesses += 1,
                    Event::Block { instructions, .. } => converted.instructions += u64::from(instructions),
                    _ => {}
                }
                if let Err(error) = write(&event) {
                    return ControlFlow::Break(Err(error));
                }
                if until_look == 0 {
                    until_look = BATCH;
                    if !self.watch.goes_on(converted.accesses, "accesses") {
                        converted.incomplete = true;
                        return ControlFlow::Break(Ok(()));
                    }
                }
                until_look -= 1;
                ControlFlow::Continue(())
            })
            .map_err(|error| self.failed(&error))?;
        stopped.transpose()?;
        Ok(converted)
    }

    /// Hands each window of `sampler` to `take`, until there are `limit` as `measure` counts them.
    fn windows(
        &self,
        sampler: &mut dyn Sampler,
        plan: &WindowPlan,
        what: &str,
        mut take: impl FnMut(&reuse_sampler::Window, &mut Converted) -> Result<u64, Stopped>,
    ) -> Result<Converted, Stopped> {
        let limit = self.args.limit.unwrap_or(u64::MAX);
        let mut converted = Converted::default();
        while let Some(window) = sampler.next_window(plan).map_err(|error| self.failed(&error))? {
            let ended = converted.incomplete || converted.limited;
            let count = take(&window, &mut converted)?;
            if !ended {
                converted.incomplete = !self.watch.goes_on(count, what);
                converted.limited = !converted.incomplete && count >= limit;
                if converted.incomplete || converted.limited {
                    sampler.stop().map_err(|error| self.failed(&error))?;
                }
            }
        }
        Ok(converted)
    }

    fn profile(&self, sampler: &mut dyn Sampler, out: &mut dyn Write) -> Result<Converted, Stopped> {
        let mut profile = ReuseProfile::new(self.line_size);
        let plan = WindowPlan::new(self.plan);
        let mut converted = self.windows(sampler, &plan, "accesses", |window, converted| {
            profile.record_window(window).map_err(Failure::run)?;
            converted.instructions += window.instructions;
            Ok(profile.accesses())
        })?;
        (converted.accesses, converted.samples) = (profile.accesses(), profile.samples());
        write_profile(out, &profile, &self.name, converted.incomplete)?;
        Ok(converted)
    }

    fn code(&self, sampler: &mut dyn Sampler, out: &mut dyn Write) -> Result<Converted, Stopped> {
        let mut writer = BbWriter::new(out);
        let plan = WindowPlan::count_only();
        let mut converted = self.windows(sampler, &plan, "windows", |window, converted| {
            // What was begun when the limit was reached is not asked for.
            if !converted.limited {
                writer.window(window)?;
                converted.instructions += window.instructions;
                converted.accesses += window.accesses.get().unwrap_or(0);
            }
            Ok(writer.windows())
        })?;
        converted.windows = writer.windows();
        if converted.windows == 0 {
            let remedy = "bb can be made of lackey, csv with blocks, din with fetches, and perf-data with samples of the program";
            return Err(Failure::Run(format!("{}: no executed code in it: {remedy}", self.name)).into());
        }
        if let Some(remark) = converted.remark() {
            writer.remark(&remark)?;
        }
        writer.finish()?;
        Ok(converted)
    }
}
