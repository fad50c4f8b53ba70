//! Writes SimPoint's `.bb`.

use std::io::{self, Write};

use super::super::digits::decimal_digits;
use crate::Window;
use crate::engine::hash::FastMap;

/// Writes the executed code of windows as a `.bb` file.
///
/// SimPoint wants blocks numbered from 1: they are, in the order in which they come; [`blocks`](Self::blocks) lists
/// which address has which number. A window without code has no line in the file. Give it a buffered output.
///
/// # Cost
/// 16 bytes and a little more for each address ever seen.
#[derive(Debug)]
pub struct BbWriter<W> {
    output: W,
    numbers: FastMap<u64, u64>,
    line: Vec<u8>,
    windows: u64,
}

impl<W: Write> BbWriter<W> {
    /// A writer that has written nothing yet.
    pub fn new(output: W) -> Self {
        Self { output, numbers: FastMap::default(), line: Vec::new(), windows: 0 }
    }

    /// Writes a window, unless it has no code.
    ///
    /// # Errors
    /// Whatever the output answers.
    pub fn window(&mut self, window: &Window) -> io::Result<()> {
        self.line.clear();
        self.line.push(b'T');
        for &(address, instructions) in window.code.iter().filter(|(_, instructions)| *instructions > 0) {
            let next = self.numbers.len() as u64 + 1;
            let number = *self.numbers.entry(address).or_insert(next);
            self.line.push(b':');
            decimal_digits(&mut self.line, number);
            self.line.push(b':');
            decimal_digits(&mut self.line, instructions);
            self.line.push(b' ');
        }
        if self.line.len() == 1 {
            return Ok(());
        }
        self.line.push(b'\n');
        self.windows += 1;
        self.output.write_all(&self.line)
    }

    /// Windows written so far.
    pub const fn windows(&self) -> u64 {
        self.windows
    }

    /// The number of each address so far.
    pub fn blocks(&self) -> std::collections::HashMap<u64, u64> {
        self.numbers.iter().map(|(&address, &number)| (address, number)).collect()
    }

    /// Writes a line that readers skip. A remark of several lines becomes one.
    ///
    /// # Errors
    /// Whatever the output answers.
    pub fn remark(&mut self, remark: &str) -> io::Result<()> {
        writeln!(self.output, "# {}", remark.replace(['\n', '\r'], " "))
    }

    /// Flushes the output and gives it back.
    ///
    /// # Errors
    /// Whatever the output answers to flushing.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}
