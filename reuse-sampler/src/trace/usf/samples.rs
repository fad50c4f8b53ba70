//! A USF file of samples as a sampler: what was sampled once is reported again, burst by burst.

use std::io::Read;

use super::record::{Record, StoredAccess};
use super::{FORMAT, UsfFile, UsfReader};
use crate::{
    AccessCount, AccessKind, LineSize, Outcome, ReuseDistance, ReuseSample, Sampler, SamplerError, Site,
    ThreadId, Window, WindowIndex, WindowPlan,
};

/// Samples in one window at most, so that a file without bursts is not held in memory.
const MOST: usize = 1 << 16;

/// Reports the samples of a USF file.
///
/// Each burst is a window; a file without bursts is one, returned in pieces. Plans are not followed: the samples
/// are those that were taken. A window's accesses are estimated as the time to the next burst, which it stands for;
/// every sample has weight 1. All belong to one clock in the file, so that distances of a program with several
/// threads count the accesses of all of them.
///
/// # Errors
/// As for a [`UsfReader`], and [`SamplerError::BinaryTrace`] if times do not count accesses or there are no
/// samples at the line size asked for; [`SamplerError::EmptyTrace`] if there are none at all.
#[derive(Debug)]
pub struct UsfSamples<R> {
    file: UsfFile<R>,
    line_size: LineSize,
    bursts: Vec<(u64, WindowIndex)>, // begin and first window of each burst so far, ascending
    window: Window,                  // the one being filled
    begin: u64,                      // time from which its accesses are counted
    latest: u64,                     // last time seen
    empty: bool,                     // no sample so far
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Running,
    Last,
    Ended,
}

impl<R: Read> UsfSamples<R> {
    /// The samples at lines of `line_size` in the file that `reader` has not read further than its header.
    pub fn new(reader: UsfReader<R>, line_size: LineSize) -> Self {
        Self {
            file: reader.file,
            line_size,
            bursts: vec![(0, WindowIndex(0))],
            window: Window::new(WindowIndex(0), ThreadId(0), line_size),
            begin: 0,
            latest: 0,
            empty: true,
            state: State::Fresh,
        }
    }

    fn check(&mut self) -> Result<(), SamplerError> {
        let header = self.file.header()?;
        if header.is_trace() {
            return Err(self.file.input.malformed("a trace of accesses, not samples"));
        }
        if !header.counts_accesses() {
            return Err(self.file.input.malformed("times that do not count memory accesses"));
        }
        if !header.has_line_size(self.line_size.shift()) {
            return Err(self.file.input.malformed("no samples at this line size"));
        }
        Ok(())
    }

    /// Reads on to the end of a window.
    fn fill(&mut self) -> Result<Option<Window>, SamplerError> {
        loop {
            match self.file.next_record()? {
                Some(Record::Sample { begin, end, line }) => {
                    self.latest = self.latest.max(end.time);
                    let Some(distance) = end.time.checked_sub(begin.time).and_then(|d| d.checked_sub(1))
                    else {
                        return Err(self.file.input.malformed("a sample that does not end after it begins"));
                    };
                    self.record(line, &begin, Some(&end), Outcome::Reused(ReuseDistance(distance)));
                }
                Some(Record::Dangling { begin, line }) => {
                    self.latest = self.latest.max(begin.time);
                    self.record(line, &begin, None, Outcome::Dangling);
                }
                Some(Record::Burst { begin }) => {
                    if begin < self.begin {
                        return Err(self
                            .file
                            .input
                            .malformed("a burst that begins before the one before it"));
                    }
                    let first = self.bursts.len() == 1 && self.window.index == WindowIndex(0) && self.empty;
                    if first {
                        // Nothing before the first burst: it is the first window.
                        self.bursts[0].0 = begin;
                        self.begin = begin;
                        self.latest = self.latest.max(begin);
                        continue;
                    }
                    let window = self.next_after(Some(begin));
                    self.bursts.push((begin, self.window.index));
                    return Ok(Some(window));
                }
                Some(Record::Trace(_)) => {}
                None => {
                    self.state = State::Last;
                    return Ok(None);
                }
            }
            if self.window.samples.len() >= MOST {
                return Ok(Some(self.next_after(None)));
            }
        }
    }

    fn record(&mut self, line: u8, begin: &StoredAccess, end: Option<&StoredAccess>, outcome: Outcome) {
        // Samples of instructions and of prefetches say nothing about data.
        let sites = (site(begin), end.map(site));
        let (Some(begin_site), true) = (sites.0, u32::from(line) == self.line_size.shift()) else { return };
        let burst = self.bursts.partition_point(|&(time, _)| time <= begin.time).saturating_sub(1);
        let started_in = self.bursts.get(burst).map_or(WindowIndex(0), |&(_, window)| window);
        self.empty = false;
        self.window.samples.push(ReuseSample {
            outcome,
            started_in,
            thread: begin.thread(),
            begin: begin_site,
            end: sites.1.flatten(),
            weight: 1,
        });
    }

    /// The window so far, which ends with its burst at `end` or has only become too large.
    fn next_after(&mut self, end: Option<u64>) -> Window {
        let next = Window::new(WindowIndex(self.window.index.0 + 1), ThreadId(0), self.line_size);
        let mut window = std::mem::replace(&mut self.window, next);
        let accesses = end.map_or(0, |end| end.saturating_sub(self.begin));
        window.accesses = AccessCount::Estimated(accesses);
        self.begin = end.unwrap_or(self.begin);
        window
    }

    fn advance(&mut self) -> Result<Option<Window>, SamplerError> {
        if self.state == State::Fresh {
            self.check()?;
            self.state = State::Running;
        }
        if self.state == State::Running {
            if let Some(window) = self.fill()? {
                return Ok(Some(window));
            }
        }
        if self.state == State::Last {
            self.state = State::Ended;
            if self.empty {
                return Err(SamplerError::EmptyTrace { format: FORMAT });
            }
            return Ok(Some(self.next_after(Some(self.latest.saturating_add(1)))));
        }
        Ok(None)
    }
}

impl<R: Read> Sampler for UsfSamples<R> {
    fn next_window(&mut self, _plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        self.advance().inspect_err(|_| self.state = State::Ended)
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        if matches!(self.state, State::Fresh | State::Running) {
            self.state = if self.empty { State::Ended } else { State::Last };
        }
        Ok(())
    }
}

fn site(access: &StoredAccess) -> Option<Site> {
    let (kind, modifies) = access.kind()?;
    Some(Site { pc: access.pc, kind: if modifies { AccessKind::Store } else { kind } })
}

#[cfg(test)]
mod tests {
    use super::super::writing::{access, delta_access, header};
    use super::*;
    use crate::ReusePlan;

    fn stored(time: u64) -> StoredAccess {
        StoredAccess { pc: 0x400, address: 64 * time, time, thread: 3, length: 8, kind: 0 }
    }

    fn burst(begin: u64) -> Vec<u8> {
        [&[2][..], &begin.to_le_bytes()].concat()
    }

    fn sample(begin: u64, end: u64, line: u8) -> Vec<u8> {
        [&[0][..], &access(&stored(begin)), &access(&stored(end)), &[line]].concat()
    }

    fn dangling(begin: u64, line: u8) -> Vec<u8> {
        [&[1][..], &access(&stored(begin)), &[line]].concat()
    }

    fn windows(file: &[u8]) -> Result<Vec<Window>, SamplerError> {
        let mut samples = UsfSamples::new(UsfReader::new(file), LineSize::B64);
        let plan = WindowPlan::new(ReusePlan::Every);
        let mut windows = Vec::new();
        while let Some(window) = samples.next_window(&plan)? {
            windows.push(window);
        }
        Ok(windows)
    }

    /// Window index, accesses, and per sample the window that started it and its distance (`None`: dangling).
    type Told = (u64, u64, Vec<(u64, Option<u64>)>);

    fn told(windows: &[Window]) -> Vec<Told> {
        let sample = |s: &ReuseSample| match s.outcome {
            Outcome::Reused(distance) => (s.started_in.0, Some(distance.0)),
            _ => (s.started_in.0, None),
        };
        let window =
            |w: &Window| (w.index.0, w.accesses.get().unwrap(), w.samples.iter().map(sample).collect());
        windows.iter().map(window).collect()
    }

    #[test]
    fn bursts_are_windows_and_samples_belong_to_the_one_that_began_them() {
        let file = [
            header(2, false, 0, 64),
            burst(1000),
            sample(1000, 1001, 6),
            sample(1010, 1110, 6),
            sample(1011, 1050, 7), // another line size
            burst(5000),
            sample(1020, 5001, 6), // began in the burst before
            sample(5003, 5010, 6),
            dangling(1030, 6),
            dangling(5005, 6),
        ]
        .concat();
        let windows = windows(&file).unwrap();
        assert_eq!(
            told(&windows),
            [
                (0, 4000, vec![(0, Some(0)), (0, Some(99))]),
                (1, 11, vec![(0, Some(3980)), (1, Some(6)), (0, None), (1, None)]),
            ]
        );
        let first = windows[0].samples[0];
        assert_eq!((first.thread, first.weight, first.begin.pc), (ThreadId(3), 1, 0x400));
    }

    #[test]
    fn samples_stored_as_differences_are_the_same() {
        let times = [(3, 7), (4, 1_000_000), (1_000_001, 1_000_130)];
        let (mut plain, mut delta) = (header(0, false, 0, 64), header(0, true, 0, 64));
        let mut last = StoredAccess::default();
        for (begin, end) in times {
            plain.extend(sample(begin, end, 6));
            let [begin, end] = [begin, end].map(|time| delta_access(&stored(time), &mut last));
            delta.extend([&[0][..], &begin, &end, &[6]].concat());
        }
        assert!(delta.len() < plain.len());
        assert_eq!(windows(&delta).unwrap(), windows(&plain).unwrap());
        assert_eq!(told(&windows(&delta).unwrap())[0].2, [(0, Some(3)), (0, Some(999_995)), (0, Some(128))]);
    }

    #[test]
    fn a_file_without_bursts_is_one_window_in_pieces() {
        let mut file = header(0, false, 0, 0);
        for time in 0..MOST as u64 + 10 {
            file.extend(sample(2 * time, 2 * time + 3, 6));
        }
        let windows = windows(&file).unwrap();
        assert_eq!(windows.len(), 2);
        assert_eq!(windows.iter().map(|w| w.samples.len()).collect::<Vec<_>>(), [MOST, 10]);
        let all_begin_in_the_first = |w: &Window| w.samples.iter().all(|s| s.started_in == WindowIndex(0));
        assert!(windows.iter().all(all_begin_in_the_first));
        let accesses: u64 = windows.iter().map(|w| w.accesses.get().unwrap()).sum();
        assert_eq!(accesses, 2 * (MOST as u64 + 9) + 4); // up to the last end, included
    }

    #[test]
    fn files_that_give_no_samples_say_why() {
        let good = sample(1, 5, 6);
        for (file, problem) in [
            ([header(1, false, 0, 0), access(&stored(1))].concat(), "a trace of accesses, not samples"),
            ([header(0, false, 1, 0), good.clone()].concat(), "do not count memory accesses"),
            ([header(0, false, 0, 128), good.clone()].concat(), "no samples at this line size"),
            ([header(0, false, 0, 0), sample(5, 5, 6)].concat(), "does not end after it begins"),
            ([header(2, false, 0, 0), burst(9), good.clone(), burst(8)].concat(), "begins before"),
            ([header(0, false, 0, 0), good[..30].to_vec()].concat(), "truncated"),
            ([header(0, false, 0, 0), sample(1, 5, 7)].concat(), "no memory access in it"),
            (header(0, false, 0, 0), "no memory access in it"),
        ] {
            let error = windows(&file).unwrap_err().to_string();
            assert!(error.contains(problem), "{problem}: {error}");
        }
    }

    #[test]
    fn stopping_reports_what_was_read() {
        let file =
            [header(2, false, 0, 64), burst(0), sample(0, 4, 6), burst(10), sample(11, 14, 6), burst(20)]
                .concat();
        let mut samples = UsfSamples::new(UsfReader::new(&file[..]), LineSize::B64);
        let plan = WindowPlan::count_only();
        assert_eq!(samples.next_window(&plan).unwrap().unwrap().samples.len(), 1);
        samples.stop().unwrap();
        assert!(samples.next_window(&plan).unwrap().is_some());
        assert!(samples.next_window(&plan).unwrap().is_none());
    }
}
