//! Where an executed address comes from: file, symbol and source line.
//!
//! The program's mappings are looked at while it lives, when code turns up at an address that was not seen
//! before, and when the plugin lists them at its end; they are kept for questions after that.

mod maps;
#[cfg(feature = "symbols")]
mod symbols;

#[cfg(feature = "symbols")]
use std::collections::HashMap;
#[cfg(feature = "symbols")]
use std::path::{Path, PathBuf};

use crate::CodeLocation;
use maps::Maps;
#[cfg(feature = "symbols")]
use symbols::Symbols;

/// Knows the mappings of one process, and the symbols of the files that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Locator {
    maps: Maps,
    #[cfg(feature = "symbols")]
    symbols: HashMap<PathBuf, Option<Symbols>>,
}

impl Locator {
    /// Takes note of executed code (addresses ascending) of process `pid`, which is alive. `base` is where
    /// the program's address 0 is in the emulator.
    pub(crate) fn see(&mut self, pid: i32, base: u64, code: &[(u64, u64)]) {
        self.maps.see(pid, base, code);
    }

    /// Takes note of the mappings that the process listed before it ended.
    #[cfg_attr(not(any(qemu_plugin, dbi_backend)), allow(dead_code))]
    pub(crate) fn take(&mut self, maps: &str, base: u64) {
        self.maps.take(maps, base);
    }

    /// What is at `address`, if a file was mapped there.
    pub(crate) fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        let (file, offset) = self.maps.file_at(address)?;
        #[cfg_attr(not(feature = "symbols"), allow(unused_mut))]
        let mut location = CodeLocation { file, offset, symbol: None, line: None };
        #[cfg(feature = "symbols")]
        {
            if let Some(symbols) = self.symbols_of(&location.file) {
                location.symbol = symbols.symbol_at(offset);
                location.line = symbols.line_at(offset);
            }
        }
        Some(location)
    }

    /// The variable at `address`, and how far into it the address is, if the file that it belongs to names it.
    #[cfg_attr(not(qemu_plugin), allow(dead_code))]
    pub(crate) fn variable(&mut self, address: u64) -> Option<(String, u64)> {
        #[cfg(feature = "symbols")]
        {
            let (file, offset, behind) = self.maps.data_at(address)?;
            self.symbols_of(&file)?.variable_at(offset, behind)
        }
        #[cfg(not(feature = "symbols"))]
        {
            let _ = address;
            None
        }
    }

    #[cfg(feature = "symbols")]
    fn symbols_of(&mut self, file: &Path) -> Option<&Symbols> {
        let symbols = self.symbols.entry(file.to_owned()).or_insert_with(|| Symbols::read(file));
        symbols.as_ref()
    }
}
