//! A stream prefetcher in front of the shared cache: it sees what misses the private caches, finds runs of
//! neighbouring lines and fetches ahead of them.
//!
//! After two steps in one direction a run is a stream, and from then on each of its references keeps the next
//! lines on their way. Streams end at a 4 KiB page, as hardware prefetchers' do. Prefetched lines arrive at
//! once: lateness is left out, so a stream's coverage is an upper bound.

use super::ChipError;

/// Bytes that a stream does not cross.
const PAGE_BYTES: u64 = 4096;
/// Largest number of streams, and of lines ahead.
const LIMIT: usize = 64;

/// How eager the prefetcher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetcherSettings {
    /// Streams followed at a time, in [1, 64]; the one not advanced for longest gives way.
    pub streams: usize,
    /// Lines fetched ahead of a stream, in [1, 64].
    pub ahead: u64,
}

impl Default for PrefetcherSettings {
    fn default() -> Self {
        Self { streams: 16, ahead: 4 }
    }
}

impl PrefetcherSettings {
    pub(super) fn check(&self) -> Result<(), ChipError> {
        let Self { streams, ahead } = *self;
        if (1..=LIMIT).contains(&streams) && (1..=LIMIT as u64).contains(&ahead) {
            Ok(())
        } else {
            Err(ChipError::Prefetcher { streams, ahead })
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    page: u64,
    last: u64,      // line within the page
    direction: i64, // -1, 0 (not known yet) or 1
    confirmed: bool,
}

/// The streams of one core.
#[derive(Clone, Debug)]
pub(super) struct Prefetcher {
    settings: PrefetcherSettings,
    lines_per_page: u64,
    streams: Vec<Stream>, // most recently advanced first
}

impl Prefetcher {
    pub(super) fn new(settings: PrefetcherSettings, line_bytes: u32) -> Self {
        let lines_per_page = (PAGE_BYTES / u64::from(line_bytes)).max(1);
        Self { settings, lines_per_page, streams: Vec::with_capacity(settings.streams) }
    }

    /// Sees a reference to `line` and calls `fetch` for each line that should be on its way, nearest first.
    pub(super) fn observe(&mut self, line: u64, mut fetch: impl FnMut(u64)) {
        let (page, at) = (line / self.lines_per_page, line % self.lines_per_page);
        let Some(found) = self.streams.iter().position(|s| s.page == page) else {
            self.streams.truncate(self.settings.streams - 1);
            self.streams.insert(0, Stream { page, last: at, direction: 0, confirmed: false });
            return;
        };
        self.streams[..=found].rotate_right(1);
        let stream = &mut self.streams[0];
        let step = at as i64 - stream.last as i64;
        if step == 0 {
            return;
        }
        let direction = step.signum();
        // A prefetched line is not seen missing, but its use is: steps of one, or a few where lines of the
        // stream are in the private caches.
        let near = step.unsigned_abs() <= self.settings.ahead;
        stream.confirmed = near && stream.direction == direction;
        stream.direction = if near { direction } else { 0 };
        stream.last = at;
        if !stream.confirmed {
            return;
        }
        let room = if direction > 0 { self.lines_per_page - 1 - at } else { at };
        for ahead in 1..=self.settings.ahead.min(room) {
            fetch(if direction > 0 { line + ahead } else { line - ahead });
        }
    }
}
