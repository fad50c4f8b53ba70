//! Runs: blocks whose accesses are recorded together.
//!
//! Where a block is followed by another one whatever happens, or unless a forward jump is taken, their code is written one
//! behind the other, with one pair of registers for recording. A run is counted as a whole where it is entered. Each jump
//! out of it takes off what is not executed, and writes the word that says how far the run went: a form of its own, with
//! the operands of all blocks up to there. So the observer goes through a few words with many operands. A run that is
//! longer than what is left of the window is executed block by block.

use super::assemble::{Code, Gpr};
use super::block::{End, Found, Operand};
use super::cache::{Block, CodeCache, Written};
use super::chain::leads_to;
use super::executions::Counter;
use super::exits::{Cache, Exit, Next};
use super::layout::shared;
use super::memory::Source;
use super::recording;
use super::runtime::LEAST;
use super::translate::{Kind, Mark, Scratch, Translation, Translator, scratch, share_of};
use crate::engine::hash::FastMap;

/// Instructions of a run.
const LONGEST: usize = 128;
const _: () = assert!(LONGEST <= LEAST as usize);
/// Blocks of a run.
const MOST: usize = 8;

/// What is written in runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    lengths: FastMap<u64, u32>,   // instructions, by program counter
    places: Vec<(u64, u64, u32)>, // from where to where in the cache a run is, and its number; ascending
    /// Forms of runs that a fault cut short, by the number of the run and that of the blocks before the fault.
    pub cut: FastMap<(u32, usize), u32>,
}

impl Runs {
    /// Instructions of the run that begins at `pc`.
    pub(super) fn length(&self, pc: u64) -> Option<u32> {
        self.lengths.get(&pc).copied()
    }

    /// There is none at `pc` any more.
    pub(super) fn forget(&mut self, pc: u64) {
        self.lengths.remove(&pc);
    }

    /// Where the run begins that has code at `address`, and its number.
    pub(super) fn at(&self, address: u64) -> Option<(u64, u32)> {
        let after = self.places.partition_point(|&(start, ..)| start <= address);
        let &(start, end, number) = self.places.get(after.checked_sub(1)?)?;
        (address < end).then_some((start, number))
    }
}

/// What was written of a run.
pub(super) struct Made {
    pub operands: Vec<Operand>,
    pub ends: Vec<usize>, // of each block's operands
    pub marks: Vec<Mark>,
    pub starts: Vec<usize>, // of each block's marks
    pub released: usize,    // the first mark from which on the run's accesses are recorded
}

impl CodeCache {
    /// Translates the run that begins at `pc`. Returns what it leads to, and whether by a return, and its blocks.
    pub(super) fn translate_run(
        &mut self,
        pc: u64,
        read: &mut dyn FnMut(u64) -> Source,
    ) -> (Vec<(u64, bool)>, usize) {
        let mut run = self.find_run(pc, read);
        while !run.is_empty() {
            match self.place_run(&run) {
                Ok(()) => return (leads_to(&run, false), run.len()),
                Err(cannot) => run.truncate(cannot),
            }
        }
        self.runs.forget(pc);
        (self.translate(pc, Kind::Recording, false, read).0, 1)
    }

    /// The blocks of the run that begins at `pc`; none where a block is to be written by itself.
    fn find_run(&mut self, pc: u64, read: &mut dyn FnMut(u64) -> Source) -> Vec<Found> {
        let mut run: Vec<Found> = Vec::new();
        let (mut at, mut length, mut free) = (Some(pc), 0, u16::MAX);
        while let Some(pc) = at.filter(|at| run.len() < MOST && run.iter().all(|found| found.pc != *at)) {
            let found = self.look(pc, read);
            length += found.instructions.len();
            free &= found.untouched;
            let alone = found.is_alone() || found.repeated.is_some();
            let elsewhere = |first: &Found| first.guard() != found.guard();
            let fits = length <= LONGEST && free.count_ones() >= 2;
            if alone || !run.is_empty() && !fits || run.first().is_some_and(elsewhere) {
                break;
            }
            at = found.follows();
            run.push(found);
        }
        run
    }

    /// Writes the run; fails with the position of a block that cannot be moved.
    fn place_run(&mut self, run: &[Found]) -> Result<(), usize> {
        self.trust_bytes_of(run);
        let numbers = self.numbers_of(run);
        let first = self.executions.run(&numbers);
        let all = numbers.len() as u32;
        let counter = self.counter(Counter::Run(first, all));
        let less: Vec<u32> =
            (1..all).map(|rest| self.counter(Counter::RunLess(first + rest, all - rest))).collect();
        let form = self.forms.next_run();
        let Written { start, end, made, links } =
            self.written(Kind::Recording, form, counter, |translator| translator.run(run, &less))?;
        for (found, &number) in run.iter().zip(&numbers) {
            if number as usize == self.blocks.len() {
                self.numbers.insert(found.pc, number);
                self.push(Block::new(found, self.purpose.fetches));
            }
        }
        let ways_out = (1..).zip(run.iter().zip(&made.ends)).filter_map(|(members, (found, &end))| {
            let out = members == run.len() || matches!(found.end, End::Branch(_));
            out.then_some((members, end))
        });
        self.forms.push_runs(&numbers, &made.operands, ways_out);
        let (pc, length) = (run[0].pc, run.iter().map(|found| found.instructions.len() as u32).sum());
        self.runs.places.push((start, end, self.forms.next_run() - 1));
        self.runs.lengths.insert(pc, length);
        self.codes[Kind::Recording as usize].entries.insert(pc, start);
        self.enter_by(start, (pc, Kind::Recording), run[0].guard(), None);
        for (target, waiting) in links.into_iter().chain(self.waiting_for(pc, Kind::Recording)) {
            self.connect(target, waiting, Kind::Recording);
        }
        Ok(())
    }
}

impl<C: Cache> Translator<'_, C> {
    /// Writes a run. `less` are the counters of its end from the second block on, from the third one on, and so on.
    pub(super) fn run(&mut self, run: &[Found], less: &[u32]) -> Result<Made, usize> {
        let registers = scratch(run.iter().fold(u16::MAX, |all, found| all & found.untouched));
        let mut left: usize = run.iter().map(|found| found.instructions.len()).sum();
        let mut done = Translation::default();
        let (mut starts, mut ends) = (Vec::with_capacity(run.len()), Vec::with_capacity(run.len()));
        if let Some(first) = run.first() {
            self.gate(first.guard().is_some());
            self.prologue(first, left, Some(registers), &mut done.marks);
        }
        let mut released = 0;
        for (at, found) in run.iter().enumerate() {
            starts.push(done.marks.len());
            self.body(found, Some(registers), &mut done).ok_or(at)?;
            ends.push(done.operands.len());
            left -= found.instructions.len();
            if at + 1 == run.len() {
                self.hot.put_value(registers.buffer, recording::header_of(self.number, &done.operands));
                self.release(registers, 1 + done.operands.len());
                released = done.marks.len();
                self.end(found, Next::Linked, &mut done.marks).ok_or(at)?;
                continue;
            }
            let last = found.instructions.last().ok_or(at)?;
            match found.end {
                End::Branch(target) => {
                    let out = self.way_out(target, registers, &done.operands, left as i32, less[at]);
                    self.hot.jump_if((last.condition_code() as u8).wrapping_sub(1) & 15, out);
                    self.number += 1;
                }
                End::Call(_) => {
                    done.marks.push(self.mark(last.ip(), Some(registers), None));
                    self.push(found.next());
                }
                _ => {}
            }
        }
        Ok(Made { operands: done.operands, ends, marks: done.marks, starts, released })
    }

    /// Code that leaves a run for the block at `target`, `left` instructions before its end. Changes no flag.
    fn way_out(
        &mut self,
        target: u64,
        Scratch { buffer, value }: Scratch,
        operands: &[Operand],
        left: i32,
        less: u32,
    ) -> u64 {
        let code = &mut *self.cold;
        let out = code.here();
        code.put_value(buffer, recording::header_of(self.number, operands));
        advance(code, buffer, 1 + operands.len());
        code.load(value, share_of(less));
        code.lea(value, value, left);
        code.store(value, share_of(less));
        code.load_half(value, shared::COUNTS + 4 * less);
        code.lea(value, value, 1);
        code.store_half(value, shared::COUNTS + 4 * less);
        code.load(buffer, shared::SLOT_A);
        code.load(value, shared::SLOT_B);
        if let Some(known) = self.cache.translated(target) {
            code.jump(known);
        } else {
            code.align(1);
            let patch = code.here() + 1;
            code.jump(patch + 4); // to what is written next
            self.exit_stub(Exit::Link { target, patch, owed: None });
        }
        out
    }
}

/// So many words were written to the buffer.
pub(super) fn advance(code: &mut Code, buffer: Gpr, words: usize) {
    code.lea(buffer, buffer, 8 * words as i32);
    code.store(buffer, shared::BUFFER);
}
