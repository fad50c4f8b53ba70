//! Writes the table that [`CsvReader`](super::CsvReader) reads back without loss.

use std::io::{self, Write};

use super::super::digits::{decimal_digits, hexadecimal_digits};
use crate::replay::Event;
use crate::{AccessKind, ThreadId};

/// Writes events as rows of `kind,address,bytes,pc,thread,instructions`.
///
/// A [`CsvReader`](super::CsvReader) reads back the same events; a switch to a thread becomes the thread of the rows
/// that follow. Give it a buffered output; each row is one small write.
#[derive(Debug)]
pub struct CsvWriter<W> {
    output: W,
    thread: ThreadId,
    begun: bool, // the header was written
    row: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// A writer that has written nothing yet.
    pub const fn new(output: W) -> Self {
        Self { output, thread: ThreadId(0), begun: false, row: Vec::new() }
    }

    /// Writes an event; the header comes before the first one.
    ///
    /// # Errors
    /// Whatever the output answers.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.begin()?;
        self.row.clear();
        match *event {
            Event::Access(access) => {
                let kind = if access.kind == AccessKind::Load { "load" } else { "store" };
                self.field(kind, access.address);
                decimal_digits(&mut self.row, u64::from(access.bytes));
                self.row.push(b',');
                if access.pc != 0 {
                    prefixed(&mut self.row, access.pc);
                }
                self.row.push(b',');
                decimal_digits(&mut self.row, u64::from(self.thread.0));
                self.row.push(b',');
            }
            Event::Block { address, instructions } => {
                self.field("block", address);
                self.row.extend(b",,");
                decimal_digits(&mut self.row, u64::from(self.thread.0));
                self.row.push(b',');
                decimal_digits(&mut self.row, u64::from(instructions));
            }
            Event::Thread(thread) => {
                self.thread = thread;
                return Ok(());
            }
            Event::Exit(thread) => {
                self.row.extend(b"exit,,,,");
                decimal_digits(&mut self.row, u64::from(thread.0));
                self.row.push(b',');
            }
        }
        self.row.push(b'\n');
        self.output.write_all(&self.row)
    }

    /// Writes a line that readers skip. A remark of several lines becomes one.
    ///
    /// # Errors
    /// Whatever the output answers.
    pub fn remark(&mut self, remark: &str) -> io::Result<()> {
        self.begin()?;
        writeln!(self.output, "# {}", remark.replace(['\n', '\r'], " "))
    }

    /// Flushes the output and gives it back. What has no event has a header all the same.
    ///
    /// # Errors
    /// Whatever the output answers.
    pub fn finish(mut self) -> io::Result<W> {
        self.begin()?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        self.output.write_all(b"kind,address,bytes,pc,thread,instructions\n")
    }

    fn field(&mut self, kind: &str, address: u64) {
        self.row.extend(kind.as_bytes());
        self.row.push(b',');
        prefixed(&mut self.row, address);
        self.row.push(b',');
    }
}

fn prefixed(row: &mut Vec<u8>, value: u64) {
    row.extend(b"0x");
    hexadecimal_digits(row, value);
}
