//! Writes repeated string instructions.

use super::assemble::{Code, Gpr, RCX};
use super::block::{Found, Repeated};
use super::exits::Cache;
use super::layout::shared;
use super::recording;
use super::translate::{Scratch, Translation, Translator, scratch};

impl<C: Cache> Translator<'_, C> {
    /// A repeated string instruction: its elements are counted, and recorded by where it began and where it ended.
    pub(super) fn repeated(
        &mut self,
        found: &Found,
        scratch: Option<Scratch>,
        done: &mut Translation,
    ) -> Option<()> {
        const RSI: Gpr = 6;
        const RDI: Gpr = 7;
        let record = |code: &mut Code, words: [i32; 3]| {
            if let Some(Scratch { buffer, .. }) = scratch {
                for (word, register) in words.into_iter().zip([RSI, RDI, RCX]) {
                    code.put(buffer, 8 * word, register);
                }
            }
        };
        record(self.hot, [1, 2, 3]);
        self.hot.store(RCX, shared::SLOT_C);
        let instruction = found.instructions.first()?;
        done.marks.push(self.mark(instruction.ip(), scratch, None));
        self.hot.raw(found.bytes_of(instruction)?);
        record(self.hot, [4, 5, 6]);
        self.count_elements(found, scratch);
        if let Some(scratch) = scratch {
            self.hot.put_value(scratch.buffer, recording::header_of_repeated(self.number));
            self.release(scratch, Repeated::WORDS);
        }
        Some(())
    }

    /// Adds what rcx has fallen by since it was stored to the count of the block's elements. Changes no flag.
    fn count_elements(&mut self, found: &Found, recording: Option<Scratch>) {
        let elements = shared::COUNTS + 4 * self.elements;
        let Scratch { value, .. } = scratch(found.untouched);
        if recording.is_none() {
            self.hot.store(value, shared::SLOT_B);
        }
        self.hot.store(RCX, shared::SLOT_D);
        self.hot.complement(RCX);
        self.hot.load(value, shared::SLOT_C);
        self.hot.lea_full(value, Some(value), Some((RCX, 1)), 1, true);
        self.hot.load(RCX, elements);
        self.hot.lea_sum(value, value, RCX);
        self.hot.store(value, elements);
        self.hot.load(RCX, shared::SLOT_D);
        if recording.is_none() {
            self.hot.load(value, shared::SLOT_B);
        }
    }
}
