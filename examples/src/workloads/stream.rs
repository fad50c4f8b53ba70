//! A kernel as a lazy stream of events: it runs on a thread of its own, a few thousand events ahead of whoever
//! reads, so that a trace of any length is never held in memory.

use std::io;
use std::panic;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use reuse_sampler::replay::Event;

use super::tracer::Sink;

/// Events handed over at a time: few enough to stay in the second-level cache, many enough that the
/// handshake costs nothing per event.
const CHUNK: usize = 4096;
/// Chunks on their way: the kernel fills one, the reader empties one, and one waits.
const CHUNKS: usize = 3;

/// The events of a running kernel, in order. Dropping it ends the kernel.
#[derive(Debug)]
pub struct EventStream {
    chunk: Vec<Event>,
    taken: usize, // <= chunk.len()
    full: Receiver<Vec<Event>>,
    empty: SyncSender<Vec<Event>>,
    kernel: Option<JoinHandle<()>>,
}

impl EventStream {
    /// Starts `kernel` on a thread of its own.
    ///
    /// # Errors
    /// What the operating system answers if it has no thread to give.
    pub fn start(kernel: impl FnOnce(&mut ChunkSink) + Send + 'static) -> io::Result<Self> {
        let (to_reader, full) = sync_channel(CHUNKS);
        let (empty, from_reader) = sync_channel(CHUNKS);
        for _ in 1..CHUNKS {
            // The channel has room for all chunks and its receiver is alive.
            let _ = empty.try_send(Vec::with_capacity(CHUNK));
        }
        let mut sink = ChunkSink { chunk: Vec::with_capacity(CHUNK), full: to_reader, empty: from_reader };
        let kernel = thread::Builder::new().name("workload".into()).spawn(move || {
            kernel(&mut sink);
            // Fails only when nobody wants to know any more.
            let _ = sink.full.send(sink.chunk);
        });
        let kernel = kernel.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start a thread for an embedded workload: {error}"))
        })?;
        Ok(Self { chunk: Vec::new(), taken: 0, full, empty, kernel: Some(kernel) })
    }

    #[cold]
    fn next_chunk(&mut self) -> Option<Event> {
        let Ok(chunk) = self.full.recv() else {
            self.join();
            return None;
        };
        let emptied = std::mem::replace(&mut self.chunk, chunk);
        if emptied.capacity() > 0 {
            // Fails only when the kernel has ended and needs no more chunks.
            let _ = self.empty.try_send(emptied);
        }
        self.taken = 1;
        self.chunk.first().copied()
    }

    /// The kernel has hung up: by ending, or by a panic that must not pass for an end.
    fn join(&mut self) {
        if let Some(Err(panic)) = self.kernel.take().map(JoinHandle::join) {
            panic::resume_unwind(panic);
        }
    }
}

impl Iterator for EventStream {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        if let Some(&event) = self.chunk.get(self.taken) {
            self.taken += 1;
            return Some(event);
        }
        self.next_chunk()
    }
}

/// The kernel's end of an [`EventStream`].
#[derive(Debug)]
pub struct ChunkSink {
    chunk: Vec<Event>, // never longer than CHUNK
    full: SyncSender<Vec<Event>>,
    empty: Receiver<Vec<Event>>,
}

impl ChunkSink {
    #[cold]
    fn hand_over(&mut self) {
        let filled = std::mem::take(&mut self.chunk);
        if let (Ok(()), Ok(mut chunk)) = (self.full.send(filled), self.empty.recv()) {
            chunk.clear();
            self.chunk = chunk;
        } else {
            // The reader is gone: leave the kernel from within, however deep it is. Nobody sees this unwinding.
            panic::resume_unwind(Box::new("the reader of the workload is gone"));
        }
    }
}

impl Sink for ChunkSink {
    #[inline]
    fn event(&mut self, event: Event) {
        self.chunk.push(event);
        if self.chunk.len() == CHUNK {
            self.hand_over();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    fn block(address: u64) -> Event {
        Event::Block { address, instructions: 1 }
    }

    #[test]
    fn every_event_arrives_once_and_in_order() {
        for count in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 20 * CHUNK + 7] {
            let mut stream =
                EventStream::start(move |sink| (0..count as u64).for_each(|i| sink.event(block(i)))).unwrap();
            assert!(stream.by_ref().eq((0..count as u64).map(block)));
            assert_eq!(stream.next(), None);
        }
    }

    #[test]
    fn dropping_the_stream_ends_an_endless_kernel() {
        struct Flag(Arc<AtomicBool>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Flag(ended.clone());
        let mut stream = EventStream::start(move |sink| {
            let _flag = flag;
            loop {
                sink.event(block(1));
            }
        })
        .unwrap();
        assert_eq!(stream.next(), Some(block(1)));
        drop(stream);
        let patience = Instant::now() + Duration::from_secs(60);
        while !ended.load(Ordering::SeqCst) {
            assert!(Instant::now() < patience, "the kernel runs on");
            thread::yield_now();
        }
    }

    #[test]
    #[should_panic(expected = "a defect in the kernel")]
    fn a_panic_in_the_kernel_does_not_pass_for_its_end() {
        let stream = EventStream::start(|sink| {
            sink.event(block(1));
            panic!("a defect in the kernel");
        });
        stream.unwrap().for_each(drop);
    }
}
