//! The core: when each instruction is dispatched, executed and retired, at several frequencies side by side.

use super::decode::{Kind, Op};
use super::hierarchy::{Found, IN_FLIGHT, Level};
use super::slots::Slots;

/// What the core is like. Cycles are the core's, nanoseconds the memory's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreSettings {
    /// Instructions dispatched and retired in a cycle.
    pub width: f64,
    /// Cycles from a mispredicted branch's execution to the first instruction after it.
    pub redirect: f64,
    /// Cycles of a floating-point computation.
    pub float: f64,
    /// Cycles of a hit in each level, the ones before included; for memory, those spent on the chip.
    pub cycles: [f64; 4],
    /// Nanoseconds of memory where it has the row open, and where it has not.
    pub memory_ns: [f64; 2],
    /// How far these vary from request to request, up and down, for refresh and other banks' business: a share.
    pub jitter: f64,
    /// Nanoseconds for which a line keeps the channel busy.
    pub line_ns: f64,
}

impl Default for CoreSettings {
    /// Nehalem's, as far as it is known.
    fn default() -> Self {
        Self {
            width: 4.0,
            redirect: 14.0,
            float: 4.0,
            cycles: [4.0, 10.0, 38.0, 42.0],
            memory_ns: [38.0, 56.0],
            jitter: 0.15,
            line_ns: 5.0,
        }
    }
}

/// Instructions in the reorder buffer.
const REORDER_BUFFER: usize = 128;
/// Lines that may be on their way from memory.
const LINE_BUFFERS: usize = 10;
/// Stores that have retired and wait to be written.
const STORE_BUFFER: usize = 32;

/// What a clock has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clock {
    /// Cycles until the last instruction retired.
    pub cycles: f64,
    /// Cycles in which an instruction began to execute.
    pub busy: f64,
    /// Cycles in which dispatch waited for room in the reorder buffer.
    pub resource_stalls: f64,
    /// Requests to memory sent while no other leading one was on its way.
    pub leading_misses: f64,
}

/// A core at one frequency.
#[derive(Debug)]
pub struct Core {
    settings: CoreSettings,
    ghz: f64,
    made: usize,
    complete: Vec<f64>, // of the last instructions, by number
    retire: Vec<f64>,
    dispatched: f64, // the last instruction
    retired: f64,
    redirected: f64,    // when dispatch can go on after a wrong guess
    arrivals: Vec<f64>, // of lines from memory, by the number of the request
    requests: usize,
    drained: Vec<f64>, // stores, by number
    stores: usize,
    executing: Slots,
    channel: Slots,
    leading_until: f64,
    clock: Clock,
}

impl Core {
    /// With an empty pipeline at cycle 0.
    pub fn new(settings: CoreSettings, ghz: f64) -> Self {
        Self {
            settings,
            ghz,
            made: 0,
            complete: vec![0.0; REORDER_BUFFER],
            retire: vec![0.0; REORDER_BUFFER],
            dispatched: 0.0,
            retired: 0.0,
            redirected: 0.0,
            arrivals: vec![0.0; IN_FLIGHT],
            requests: 0,
            drained: vec![0.0; STORE_BUFFER],
            stores: 0,
            executing: Slots::new(),
            channel: Slots::new(),
            leading_until: 0.0,
            clock: Clock::default(),
        }
    }

    /// What has been counted so far.
    pub fn clock(&self) -> Clock {
        Clock { cycles: self.retired, busy: self.executing.taken() as f64, ..self.clock }
    }

    /// Lets the next instruction of the program through; `found` is what its access met.
    pub fn execute(&mut self, op: &Op, found: Option<Found>) {
        let slot = self.made % REORDER_BUFFER;
        let step = 1.0 / self.settings.width;
        let in_turn = (self.dispatched + step).max(self.redirected);
        let dispatch = in_turn.max(self.retire[slot]); // of the instruction a buffer's length before
        self.clock.resource_stalls += dispatch - in_turn;
        self.dispatched = dispatch;

        let result = |distance: u64| {
            let inside = distance > 0 && distance <= REORDER_BUFFER.min(self.made) as u64;
            if inside { self.complete[(self.made - distance as usize) % REORDER_BUFFER] } else { 0.0 }
        };
        let issue = (dispatch + 1.0).max(result(op.sources[0])).max(result(op.sources[1]));
        self.executing.advance(dispatch as u64);
        self.executing.take(issue as u64);

        let complete = match (op.kind, found) {
            (Kind::Integer | Kind::Branch, _) => issue + 1.0,
            (Kind::Float, _) => issue + self.settings.float,
            (Kind::Load, Some(found)) => self.data_at(issue, found),
            (Kind::Load | Kind::Store, _) => issue + self.settings.cycles[0],
        };
        let mut retire = complete.max(self.retired + step);
        if op.kind == Kind::Store {
            let oldest = self.stores % STORE_BUFFER;
            retire = retire.max(self.drained[oldest]);
            let written = found.map_or(retire, |found| self.data_at(retire, found));
            let before = self.drained[(self.stores + STORE_BUFFER - 1) % STORE_BUFFER];
            self.drained[oldest] = written.max(before + 1.0);
            self.stores += 1;
        }
        if op.mispredicted {
            self.redirected = complete + self.settings.redirect;
        }
        self.complete[slot] = complete;
        self.retire[slot] = retire;
        self.retired = retire;
        self.made += 1;
    }

    /// When the data of an access that goes out at `issue` is here.
    fn data_at(&mut self, issue: f64, found: Found) -> f64 {
        let on_chip = issue + self.settings.cycles[found.level as usize];
        if found.level != Level::Memory {
            let coming =
                found.asked_ago.map(|ago| self.arrivals[(self.requests + IN_FLIGHT - ago) % IN_FLIGHT]);
            return coming.map_or(on_chip, |arrival| on_chip.max(arrival));
        }
        // A line buffer is free when the request that many before has its data.
        let buffer = self.arrivals[(self.requests + IN_FLIGHT - LINE_BUFFERS) % IN_FLIGHT];
        let asked = issue.max(buffer);
        let per_line = self.settings.line_ns * self.ghz;
        self.channel.advance((self.dispatched / per_line) as u64);
        // One line in each slot of that length, from anywhere within it: rounding to slots would beat with the clock.
        let turn = self.channel.take_free((asked / per_line) as u64) as f64 * per_line;
        // The same for the same request at every clock.
        let drawn = (self.requests as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let varied = 1.0 + self.settings.jitter * (drawn as f64 / f64::from(1_u32 << 31) - 1.0);
        let memory = self.settings.memory_ns[usize::from(!found.row_open)] * varied * self.ghz;
        let arrival = asked.max(turn) + self.settings.cycles[3] + memory;
        if asked >= self.leading_until {
            self.clock.leading_misses += 1.0;
            self.leading_until = arrival;
        }
        self.arrivals[self.requests % IN_FLIGHT] = arrival;
        self.requests += 1;
        arrival
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIT: Found = Found { level: Level::L1, row_open: false, asked_ago: None };
    const FAR: Found = Found { level: Level::Memory, row_open: false, asked_ago: None };

    fn op(kind: Kind, source: u64) -> Op {
        Op { kind, sources: [source, 0], access: None, mispredicted: false }
    }

    /// Counts of `rounds` rounds of `body` at `ghz`, after as many to warm up.
    fn rounds(ghz: f64, rounds: usize, body: &[(Op, Option<Found>)]) -> Clock {
        let mut core = Core::new(CoreSettings::default(), ghz);
        let mut run = || {
            for (op, found) in body.iter().cycle().take(rounds * body.len()) {
                core.execute(op, *found);
            }
            core.clock()
        };
        let (before, after) = (run(), run());
        Clock {
            cycles: after.cycles - before.cycles,
            busy: after.busy - before.busy,
            resource_stalls: after.resource_stalls - before.resource_stalls,
            leading_misses: after.leading_misses - before.leading_misses,
        }
    }

    fn close(got: f64, expected: f64, tolerance: f64) {
        assert!((got / expected - 1.0).abs() <= tolerance, "{got} instead of {expected}");
    }

    #[test]
    fn computation_runs_at_the_pace_of_its_width_or_its_chain() {
        // Independent: four a cycle. A chain: one a cycle, floating-point one in four.
        close(rounds(2.0, 10_000, &[(op(Kind::Integer, 0), None)]).cycles, 2500.0, 1e-3);
        close(rounds(2.0, 10_000, &[(op(Kind::Integer, 1), None)]).cycles, 10_000.0, 1e-3);
        let chain = rounds(2.0, 10_000, &[(op(Kind::Float, 1), None)]);
        close(chain.cycles, 40_000.0, 1e-3);
        // One instruction begins every four cycles: three of them execute nothing new.
        close(chain.busy, 10_000.0, 1e-3);
    }

    #[test]
    fn a_chase_takes_the_latency_at_any_clock() {
        let settings = CoreSettings::default();
        for ghz in [1.6, 2.0, 8.0 / 3.0] {
            let hops = rounds(ghz, 2000, &[(op(Kind::Load, 1), Some(FAR))]);
            let latency = settings.cycles[3] + settings.memory_ns[1] * ghz;
            close(hops.cycles, 2000.0 * latency, 1e-3);
            close(hops.leading_misses, 2000.0, 1e-3);
            close(rounds(ghz, 2000, &[(op(Kind::Load, 1), Some(HIT))]).cycles, 8000.0, 1e-3);
        }
    }

    #[test]
    fn independent_misses_are_limited_by_line_buffers_or_the_channel() {
        // Ten at a time: ten latencies in one, unless the channel (5 ns a line) is slower. At 10 lines in
        // 56 ns + 42 cycles the buffers are.
        for ghz in [1.6, 8.0 / 3.0] {
            let stream = rounds(ghz, 5000, &[(op(Kind::Load, 0), Some(FAR))]);
            let latency = 42.0 + 56.0 * ghz;
            close(stream.cycles, 5000.0 * latency / 10.0, 0.05);
        }
        let open = Found { row_open: true, ..FAR };
        let settings = CoreSettings { cycles: [4.0, 10.0, 38.0, 0.0], ..CoreSettings::default() };
        let mut core = Core::new(settings, 1.0);
        (0..5000).for_each(|_| core.execute(&op(Kind::Load, 0), Some(open)));
        // 38 ns a latency is 3.8 ns a line: now the channel is, at any clock.
        close(core.clock().cycles, 5000.0 * 5.0, 0.02);
    }

    #[test]
    fn misses_a_reorder_buffer_apart_do_not_overlap_and_nearer_ones_do() {
        // A miss and then `apart` instructions: within the buffer of 128 the next miss goes out beside it.
        let cycles = |apart: usize| {
            let mut body = vec![(op(Kind::Load, 0), Some(FAR))];
            body.resize(apart, (op(Kind::Integer, 0), None));
            rounds(2.0, 1000, &body)
        };
        let latency = 42.0 + 56.0 * 2.0;
        // Twice the buffer: each is waited for alone, but the buffer fills and the rest runs meanwhile.
        let alone = cycles(256);
        assert!(alone.cycles >= 1000.0 * latency && alone.cycles <= 1000.0 * (latency + 45.0), "{alone:?}");
        assert!(alone.resource_stalls >= 1000.0 * (latency - 45.0), "{alone:?}");
        close(alone.leading_misses, 1000.0, 1e-3);
        // A quarter of it: four wait together.
        let together = cycles(32);
        close(together.leading_misses, 250.0, 0.05);
        assert!(together.cycles <= 260.0 * (latency + 45.0), "{together:?}");
    }

    #[test]
    fn a_wrong_guess_waits_for_the_branch_and_the_way_back() {
        let settings = CoreSettings::default();
        let mut branch = op(Kind::Branch, 0);
        let right = rounds(2.0, 1000, &[(branch, None)]).cycles;
        branch.mispredicted = true;
        let wrong = rounds(2.0, 1000, &[(branch, None)]).cycles;
        close(right, 250.0, 0.01);
        // Dispatch to execution is one cycle, the branch another, then the way back.
        close(wrong, 1000.0 * (2.0 + settings.redirect), 0.01);
    }

    #[test]
    fn stores_do_not_wait_until_their_buffer_is_full() {
        let mut core = Core::new(CoreSettings::default(), 2.0);
        for _ in 0..32 {
            core.execute(&op(Kind::Store, 0), Some(FAR));
        }
        assert!(core.clock().cycles < 20.0, "{:?}", core.clock());
        // In the long run they take what memory takes: the line buffers' ten at a time.
        let many = rounds(2.0, 5000, &[(op(Kind::Store, 0), Some(FAR))]);
        close(many.cycles, 5000.0 * (42.0 + 112.0) / 10.0, 0.05);
    }

    #[test]
    fn a_hit_on_a_line_still_on_its_way_waits_for_it() {
        let mut core = Core::new(CoreSettings::default(), 2.0);
        core.execute(&op(Kind::Load, 0), Some(FAR));
        let arrival = core.clock().cycles;
        core.execute(&op(Kind::Load, 0), Some(Found { asked_ago: Some(1), ..HIT }));
        close(core.clock().cycles, arrival + 0.25, 1e-9);
    }
}
