//! Every block and every access of a program, one after the other.

use std::ffi::OsStr;

#[cfg(qemu_plugin)]
use super::sampler::Run;
#[cfg(qemu_plugin)]
use super::shared::message::{TraceMessage, word};
use super::{QemuOptions, TargetExit};
use crate::SamplerError;
#[cfg(qemu_plugin)]
use crate::replay::Event;
use crate::replay::EventSource;
#[cfg(qemu_plugin)]
use crate::{Access, AccessKind, ThreadId};

/// A program that runs under the emulator, as a stream of [events](Event): for exact simulation, or to
/// record it once and replay it often.
///
/// Blocks and accesses are those a [`QemuSampler`](super::QemuSampler) counts; the instruction that makes an access is
/// not told (its program counter is 0), and addresses keep 48 bits. Threads run in parallel and are told in stretches of
/// some thousand events, so that how they interleave is not what it was. When a thread ends the process, or a signal
/// does, up to 8192 events of each other thread are lost. The program waits while nobody asks for events; dropping
/// the trace kills it.
///
/// # Cost
/// The events pass through shared memory, eight bytes each: on a run of `sort`, 60 million events for each second of CPU
/// time of both processes together, eight times what the emulator alone takes.
///
/// ```no_run
/// use reuse_sampler::qemu::{QemuOptions, QemuTrace};
/// use reuse_sampler::replay::{ReplayOptions, ReplaySampler};
///
/// let trace = QemuTrace::spawn("sort", ["words.txt"], &QemuOptions::default())?;
/// let sampler = ReplaySampler::new(trace, ReplayOptions::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct QemuTrace {
    #[cfg(qemu_plugin)]
    run: Run,
    #[cfg(qemu_plugin)]
    stretch: TraceMessage,
    #[cfg(qemu_plugin)]
    told: usize, // words of the stretch
    #[cfg(qemu_plugin)]
    thread: u32,
    #[cfg(not(qemu_plugin))]
    run: std::convert::Infallible,
}

#[cfg(qemu_plugin)]
impl QemuTrace {
    /// Starts `program` (found as a shell finds it) with `arguments`. Of the options, the length of a window, the line
    /// size and the seed mean nothing here. Standard input, output and error are the caller's.
    ///
    /// # Errors
    /// As [`QemuSampler::spawn`](super::QemuSampler::spawn).
    pub fn spawn<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
        let run = Run::start(program.as_ref(), &arguments, options, true)?;
        Ok(Self { run, stretch: TraceMessage::default(), told: 0, thread: 0 })
    }

    /// How the program ended, once all events were told.
    #[must_use]
    pub fn exit_status(&self) -> Option<TargetExit> {
        self.run.exit_status()
    }

    /// What the user should know about the run: parts that went unobserved. Complete after the end.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.run.warnings
    }
}

#[cfg(qemu_plugin)]
impl EventSource for QemuTrace {
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        loop {
            if let Some(&packed) = self.stretch.words.get(self.told) {
                self.told += 1;
                return Ok(Some(match word::read(packed) {
                    word::Word::Block(address, instructions) => Event::Block { address, instructions },
                    word::Word::Access(address, bytes, store) => {
                        let kind = if store { AccessKind::Store } else { AccessKind::Load };
                        Event::Access(Access { address, bytes, kind, pc: 0 })
                    }
                }));
            }
            if std::mem::take(&mut self.stretch.ended) {
                return Ok(Some(Event::Exit(ThreadId(self.stretch.thread))));
            }
            match self.run.next_trace()? {
                Some(stretch) => self.stretch = stretch,
                None => return Ok(None),
            }
            self.told = 0;
            if self.stretch.thread != self.thread {
                self.thread = self.stretch.thread;
                return Ok(Some(Event::Thread(ThreadId(self.thread))));
            }
        }
    }
}

#[cfg(not(qemu_plugin))]
impl QemuTrace {
    /// Always an error: the emulator runs Linux programs on Linux.
    ///
    /// # Errors
    /// [`SamplerError::Unsupported`].
    pub fn spawn<A: AsRef<OsStr>>(
        _program: impl AsRef<OsStr>,
        _arguments: impl IntoIterator<Item = A>,
        _options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        Err(SamplerError::Unsupported {
            backend: "qemu",
            missing: "qemu's user-mode emulation runs on 64-bit Linux only".into(),
        })
    }

    /// How the program ended.
    #[must_use]
    pub fn exit_status(&self) -> Option<TargetExit> {
        match self.run {}
    }

    /// What the user should know about the run.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        match self.run {}
    }
}

#[cfg(not(qemu_plugin))]
impl EventSource for QemuTrace {
    fn next_event(&mut self) -> Result<Option<crate::replay::Event>, SamplerError> {
        match self.run {}
    }
}

#[cfg(all(test, qemu_plugin))]
mod tests {
    use quickcheck::quickcheck;

    use super::super::shared::message::Message;
    use super::*;

    quickcheck! {
        fn words_keep_what_they_are_made_from(address: u64, count: u16, store: bool) -> bool {
            let (kept, instructions) = (address & ((1 << 48) - 1), u32::from(count).min((1 << 15) - 1));
            let shift = u32::from(count % 8);
            word::read(word::block(address, count.into())) == word::Word::Block(kept, instructions)
                && word::read(word::access(address, shift, store)) == word::Word::Access(kept, 1 << shift, store)
        }

        fn stretches_arrive_as_they_were_sent(thread: u32, ended: bool, words: Vec<u64>) -> bool {
            let sent = Message::Trace(TraceMessage { thread, ended, words });
            let mut bytes = Vec::new();
            sent.encode(&mut bytes);
            let cut = Message::decode(&bytes[..bytes.len() - 1]);
            cut == Ok(None) && Message::decode(&bytes) == Ok(Some((sent, bytes.len())))
        }
    }
}
