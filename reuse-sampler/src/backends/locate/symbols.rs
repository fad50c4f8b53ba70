//! Symbols and source lines of one ELF file.

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimli::{Dwarf, EndianArcSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

const PAGE: u64 = 4096;

type Bytes = EndianArcSlice<RunTimeEndian>;

/// Address, bytes (0 if the file does not say) and name as in the file.
type Symbol = (u64, u64, String);

/// What one file says of its code and data.
pub(super) struct Symbols {
    segments: Vec<(u64, u64, u64)>, // offset in the file, bytes, address
    functions: Vec<Symbol>,         // ascending
    variables: Vec<Symbol>,         // ascending
    lines: Option<addr2line::Context<Bytes>>,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

impl Symbols {
    /// Reads a file and its separate debug file. None if it is not an object file any more.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let content = fs::read(path).ok()?;
        let file = object::File::parse(&*content).ok()?;
        let segments = file.segments().map(|s| (s.file_range().0, s.file_range().1, s.address())).collect();
        let mut functions = symbols_of(&file, SymbolKind::Text);
        let mut variables = symbols_of(&file, SymbolKind::Data);
        let mut lines = lines_of(&file);
        if lines.is_none() || file.symbols().next().is_none() {
            // Distributions keep this information in files of their own, named by the build's number.
            if let Some(debug) = debug_file(&file).and_then(|path| fs::read(path).ok()) {
                if let Ok(debug) = object::File::parse(&*debug) {
                    functions.extend(symbols_of(&debug, SymbolKind::Text));
                    variables.extend(symbols_of(&debug, SymbolKind::Data));
                    lines = lines.or_else(|| lines_of(&debug));
                }
            }
        }
        for symbols in [&mut functions, &mut variables] {
            symbols.sort_unstable();
            symbols.dedup_by_key(|symbol| symbol.0);
        }
        Some(Self { segments, functions, variables, lines })
    }

    fn address(&self, offset: u64) -> Option<u64> {
        let &(start, _, address) = self.segments.iter().find(|s| (s.0..s.0 + s.1).contains(&offset))?;
        Some(offset - start + address)
    }

    /// The function at an offset in the file, and the offset in it.
    pub(super) fn symbol_at(&self, offset: u64) -> Option<(String, u64)> {
        find(&self.functions, self.address(offset)?)
    }

    /// The variable `behind` bytes after the start of a mapping that begins at an offset in the file, and the offset in it.
    /// The bytes may lie behind all that the file holds.
    pub(super) fn variable_at(&self, offset: u64, behind: u64) -> Option<(String, u64)> {
        // Mappings begin at whole pages. Of two segments in one page, the later is the one that is written to.
        let holds =
            |&&(start, bytes, _): &&(u64, u64, u64)| (start & !(PAGE - 1)..start + bytes).contains(&offset);
        let &(start, _, address) = self.segments.iter().filter(holds).max_by_key(|segment| segment.0)?;
        find(&self.variables, (address + offset + behind).checked_sub(start)?)
    }

    /// The source line at an offset in the file.
    pub(super) fn line_at(&self, offset: u64) -> Option<(PathBuf, u32)> {
        let location = self.lines.as_ref()?.find_location(self.address(offset)?).ok()??;
        Some((PathBuf::from(location.file?), location.line?))
    }
}

/// The symbol of `symbols`, which ascend, at `address`, and the offset in it.
fn find(symbols: &[Symbol], address: u64) -> Option<(String, u64)> {
    let after = symbols.partition_point(|symbol| symbol.0 <= address);
    let (start, size, name) = symbols.get(after.checked_sub(1)?)?;
    if *size > 0 && address - start >= *size {
        return None;
    }
    Some((demangled(name), address - start))
}

/// The name in the program's own language. Of names that are not mangled, many a short one would pass for that of a C++
/// type: `f` for `float`, `w` for `wchar_t`.
fn demangled(name: &str) -> String {
    let mangled = ["_Z", "__Z", "_R", "_GLOBAL_"].iter().any(|prefix| name.starts_with(prefix));
    if mangled { addr2line::demangle_auto(Cow::from(name), None).into_owned() } else { name.to_owned() }
}

fn symbols_of(file: &object::File, kind: SymbolKind) -> Vec<Symbol> {
    file.symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.is_definition() && symbol.kind() == kind)
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
        .collect()
}

fn lines_of(file: &object::File) -> Option<addr2line::Context<Bytes>> {
    file.section_by_name(".debug_info")?;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |id: SectionId| -> Result<Bytes, gimli::Error> {
        let section = file.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
        Ok(EndianArcSlice::new(Arc::from(section.unwrap_or_default().as_ref()), endian))
    };
    addr2line::Context::from_dwarf(Dwarf::load(load).ok()?).ok()
}

fn debug_file(file: &object::File) -> Option<PathBuf> {
    let number = file.build_id().ok()??;
    let (first, rest) = number.split_first()?;
    let hex: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{hex}.debug")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_of_our_own() -> u32 {
        line!()
    }

    #[test]
    fn names_of_c_are_not_those_of_types() {
        for name in ["f", "w", "a", "v", "Pc", "PKc", "St", "main", "_exit", "_Rest"] {
            assert_eq!(demangled(name), name);
        }
        let mangled = ["_Z1wPKc", "_ZN4core3fmt5write17h0123456789abcdefE", "_RNvC6crate_1f"];
        assert_eq!(mangled.map(demangled), ["w(char const*)", "core::fmt::write", "crate_::f"]);
    }

    #[test]
    fn finds_a_function_of_this_very_program() {
        let symbols = Symbols::read(&std::env::current_exe().unwrap()).unwrap();
        // Where the function is in the file: its address less the start of its mapping, from the system.
        let address = a_function_of_our_own as *const () as u64;
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let offset = maps
            .lines()
            .find_map(|line| {
                let (range, rest) = line.split_once(' ')?;
                let (start, end) = range.split_once('-')?;
                let hex = |text| u64::from_str_radix(text, 16).unwrap();
                let mapped = hex(rest.split(' ').nth(1)?);
                (hex(start)..hex(end)).contains(&address).then(|| address - hex(start) + mapped)
            })
            .unwrap();
        let (name, distance) = symbols.symbol_at(offset).unwrap();
        assert!(name.ends_with("a_function_of_our_own"), "{name}");
        assert_eq!(distance, 0);
        let (file, line) = symbols.line_at(offset).unwrap();
        assert!(file.ends_with("symbols.rs"), "{}", file.display());
        assert!(line.abs_diff(a_function_of_our_own()) <= 2, "{line}");
        assert_eq!(symbols.symbol_at(u64::MAX), None);
    }

    #[test]
    fn finds_variables_of_this_very_program() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static ZEROED: AtomicU64 = AtomicU64::new(0);
        static FILLED: AtomicU64 = AtomicU64::new(0x1234);
        ZEROED.store(FILLED.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut locator = crate::backends::locate::Locator::default();
        locator.take(&fs::read_to_string("/proc/self/maps").unwrap(), 0);
        for (variable, name) in [(&ZEROED, "ZEROED"), (&FILLED, "FILLED")] {
            let address = std::ptr::from_ref(variable) as u64;
            let (found, offset) = locator.variable(address + 3).unwrap();
            assert!(found.contains(name) && offset == 3, "{found}+{offset}");
        }
        let local = 0_u64;
        assert_eq!(locator.variable(std::ptr::from_ref(&local) as u64), None);
    }

    #[test]
    fn what_is_no_object_file_has_no_symbols() {
        assert!(Symbols::read(Path::new("/proc/self/maps")).is_none());
        assert!(Symbols::read(Path::new("/no/such/file")).is_none());
    }
}
