//! Which instruction of the program was executed where in the cache.

use super::assemble::Code;
use super::block::Found;
use super::cache::CodeCache;
use super::exits::{self, Exit, Next};
use super::memory::Source;
use super::recording;
use super::translate::{Kind, Mark, Translation, Translator};

/// Where a program was interrupted.
#[derive(Debug)]
pub(super) struct Place {
    pub block: u32,
    pub mark: Mark,
    /// The blocks after it that were counted already.
    pub counted: Vec<u32>,
    /// The word to be written for the blocks before it, and how many words follow, if they are not recorded yet.
    pub passed: Option<(u32, usize)>,
}

/// In place of the cache, for a translation that is thrown away.
struct Nowhere;

impl exits::Cache for Nowhere {
    fn exit(&mut self, _: Exit) -> u32 {
        0
    }

    fn translated(&self, _: u64) -> Option<u64> {
        None
    }
}

impl CodeCache {
    /// How many instructions of the block come before `pc`.
    pub(super) fn instructions_before(
        &mut self,
        number: u32,
        pc: u64,
        read: &mut dyn FnMut(u64) -> Source,
    ) -> u64 {
        let Some(found) = self.found(number, read) else { return 0 };
        found.instructions.iter().filter(|instruction| instruction.ip() < pc).count() as u64
    }

    /// The program's instruction that the code at `address` belongs to, with the registers that are in slots. The
    /// block is translated once more to find out, which writes the same code.
    pub(super) fn instruction_at(
        &mut self,
        address: u64,
        read: &mut dyn FnMut(u64) -> Source,
    ) -> Option<Place> {
        if let Some(place) = self.instruction_of_run(address, read) {
            return Some(place);
        }
        for kind in [Kind::Counting, Kind::Recording, Kind::Stepping] {
            let codes = &self.codes[kind as usize];
            let after = codes.places.partition_point(|&(start, ..)| start <= address);
            let Some(&(start, end, number)) = after.checked_sub(1).and_then(|at| codes.places.get(at)) else {
                continue;
            };
            if address >= end {
                continue;
            }
            let found = self.found(number, read)?;
            let chained = self.chained(number).filter(|_| kind == Kind::Counting);
            let (mut hot, mut cold) = (Code::at(start), Code::at(self.cold));
            let mut side = Nowhere;
            let again = Translator::again(&mut hot, &mut cold, &mut side, self.entries, &mut self.factory);
            let mut translator = Translator { kind, ..again };
            let mut done = Translation::default();
            match chained {
                Some(_) => translator.chained(&found, Next::Linked, &mut done)?,
                None => done = translator.translate(&found, false),
            }
            let mark = *done.marks.iter().rev().find(|mark| mark.address <= address)?;
            let counted = match chained {
                Some(chained) => self.chain(chained.next).into_iter().map(|(block, _)| block).collect(),
                None => Vec::new(),
            };
            return Some(Place { block: number, mark, counted, passed: None });
        }
        None
    }

    /// The program's instruction that the code at `address` belongs to, if it is a run's.
    fn instruction_of_run(&mut self, address: u64, read: &mut dyn FnMut(u64) -> Source) -> Option<Place> {
        let (start, number) = self.runs.at(address)?;
        let members = self.forms.run(number as usize)?.to_vec();
        let run: Option<Vec<Found>> = members.iter().map(|&block| self.found(block, read)).collect();
        let run = run?;
        let (mut hot, mut cold) = (Code::at(start), Code::at(self.cold));
        let mut side = Nowhere;
        let mut translator =
            Translator::again(&mut hot, &mut cold, &mut side, self.entries, &mut self.factory);
        let made = translator.run(&run, &vec![0; run.len()]).ok()?;
        let at = made.marks.iter().rposition(|mark| mark.address <= address)?;
        let block = made.starts.partition_point(|&start| start <= at).checked_sub(1)?;
        let words = block.checked_sub(1).filter(|_| at < made.released).map(|before| made.ends[before]);
        let passed = words.map(|words| {
            let forms = &mut self.forms;
            let form = *self.runs.cut.entry((number, block)).or_insert_with(|| {
                let form = forms.next_run();
                forms.push_runs(&members[..block], &made.operands[..words], [(block, words)].into_iter());
                form
            });
            (recording::header_of(form, &made.operands[..words]), words)
        });
        let counted = members[block + 1..].to_vec();
        Some(Place { block: members[block], mark: made.marks[at], counted, passed })
    }
}
