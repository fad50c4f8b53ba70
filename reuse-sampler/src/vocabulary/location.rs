//! What an address of the observed program's code is.

use std::fmt;
use std::path::{Path, PathBuf};

/// What an address of the observed program's code is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeLocation {
    /// The program or library, or where the program wrote down what it calls the code that it made.
    pub file: PathBuf,
    /// Offset of the address in the file; the address itself for code that the program made.
    pub offset: u64,
    /// Function, demangled, and offset of the address in it. Only with the feature `symbols`, and if the file
    /// (or its separate debug file) names it.
    pub symbol: Option<(String, u64)>,
    /// Source file and line. Only with the feature `symbols`, and if there is debug information.
    pub line: Option<(PathBuf, u32)>,
}

impl fmt::Display for CodeLocation {
    /// `function (main.c:12)`, or what is known of it: `main.c:12`, `function+0x10`, `program+0x1234`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &Path| {
            path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        };
        match (&self.line, &self.symbol) {
            (Some((file, line)), Some((symbol, _))) => write!(f, "{symbol} ({}:{line})", name(file)),
            (Some((file, line)), None) => write!(f, "{}:{line}", name(file)),
            (None, Some((symbol, offset))) => write!(f, "{symbol}+{offset:#x}"),
            (None, None) => write!(f, "{}+{:#x}", name(&self.file), self.offset),
        }
    }
}
