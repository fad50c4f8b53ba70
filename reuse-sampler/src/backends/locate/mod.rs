//! Where an executed address comes from: file, symbol and source line.
//!
//! The program's mappings are looked at while it lives, when code turns up at an address that was not seen
//! before, and when the plugin lists them at its end; they are kept for questions after that. Code that belongs to no file
//! has the name that the program has written down for `perf`.

mod jit;
mod maps;
#[cfg(feature = "symbols")]
mod symbols;

#[cfg(feature = "symbols")]
use std::collections::HashMap;
#[cfg(feature = "symbols")]
use std::path::{Path, PathBuf};

use std::time::SystemTime;

use crate::CodeLocation;
use jit::Methods;
use maps::Maps;
#[cfg(feature = "symbols")]
use symbols::Symbols;

/// Knows the mappings of the processes that execute one program, and the symbols of the files that were asked for.
#[derive(Debug)]
pub(crate) struct Locator {
    since: SystemTime,
    maps: Maps,
    methods: Vec<Methods>, // of each process that wrote down any
    #[cfg(feature = "symbols")]
    symbols: HashMap<PathBuf, Option<Symbols>>,
}

impl Default for Locator {
    fn default() -> Self {
        Self {
            since: SystemTime::now(),
            maps: Maps::default(),
            methods: Vec::new(),
            #[cfg(feature = "symbols")]
            symbols: HashMap::new(),
        }
    }
}

impl Locator {
    /// Takes note of executed code (addresses ascending) of process `pid`. `base` is where the program's address 0 is in
    /// the emulator; `last` are the mappings that the process had, for one that a signal has ended.
    pub(crate) fn see(&mut self, pid: i32, base: u64, code: &[(u64, u64)], last: &str) {
        self.maps.see(pid, base, code, last);
    }

    /// Takes note of the mappings that the process listed before it ended.
    #[cfg_attr(not(any(qemu_plugin, dbi_backend)), allow(dead_code))]
    pub(crate) fn take(&mut self, maps: &str, base: u64) {
        self.maps.take(maps, base);
    }

    /// Takes over the names that process `pid`, which has ended, gave to the code that it made.
    #[cfg_attr(not(any(qemu_plugin, dbi_backend)), allow(dead_code))]
    pub(crate) fn ended(&mut self, pid: u32) {
        let found =
            i32::try_from(pid).ok().map(|pid| Methods::of_process(pid, self.since, &self.maps.dumps()));
        self.methods.extend(found.flatten());
    }

    /// Code that the program made: none where two of its processes call it by different names.
    fn method(&self, address: u64) -> Option<CodeLocation> {
        let mut found =
            self.methods.iter().filter_map(|methods| Some((methods, methods.symbol_at(address)?)));
        let (methods, symbol) = found.next()?;
        let file = methods.file().to_owned();
        found.all(|(_, other)| other == symbol).then_some(CodeLocation {
            file,
            offset: address,
            symbol: Some(symbol),
            line: None,
        })
    }

    /// What is at `address`, if a file was mapped there or the program has named it.
    pub(crate) fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        let Some((file, offset)) = self.maps.file_at(address) else { return self.method(address) };
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
    #[cfg_attr(not(feature = "symbols"), allow(clippy::unused_self))]
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
