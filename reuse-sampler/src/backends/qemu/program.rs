//! Looks at the program before anything is started: is it there, and can it be emulated?

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::shared::script::interpreter;
use crate::SamplerError;

/// What a program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    /// Name of the emulator.
    pub(super) const fn emulator(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-x86_64",
            Self::Aarch64 => "qemu-aarch64",
        }
    }
}

/// A program that can be emulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Its file; the interpreter's if it is a script.
    pub path: PathBuf,
    pub architecture: Architecture,
    /// The words of a script's first line and its name, which come before the arguments; empty for other programs.
    pub script: Vec<OsString>,
}

/// Scripts that name a script as their interpreter are followed so far, as by the kernel.
const DEPTH: usize = 5;

impl Program {
    /// Finds `name` as a shell would, as seen from `directory`, and looks into it.
    pub(super) fn find(name: &OsStr, directory: Option<&Path>) -> Result<Self, SamplerError> {
        let refuse =
            |problem: String| SamplerError::Target { program: name.to_string_lossy().into_owned(), problem };
        if name.is_empty() {
            return Err(refuse("its name is empty".into()));
        }
        // The program runs in that directory, where a relative path would mean something else.
        let directory = directory.map(std::path::absolute).transpose();
        let directory = directory.map_err(|error| refuse(describe(&error)))?;
        let directory = directory.as_deref();
        let path = if name.as_encoded_bytes().contains(&b'/') {
            directory.map_or_else(|| PathBuf::from(name), |directory| directory.join(name))
        } else {
            look_up(name).ok_or_else(|| {
                let here = directory.unwrap_or(Path::new(".")).join(name).is_file();
                let hint = if here { " (for the file in this directory, write ./ before it)" } else { "" };
                refuse(format!("there is no such program in PATH{hint}"))
            })?
        };
        Self::open(path, directory).map_err(refuse)
    }

    /// Looks into a file, and into the interpreter that a script names.
    fn open(mut path: PathBuf, directory: Option<&Path>) -> Result<Self, String> {
        let mut script: Vec<OsString> = Vec::new();
        for _ in 0..DEPTH {
            let start = beginning(&path)?;
            let Some((interpreter, argument)) = interpreter(&start) else {
                return Ok(Self { architecture: architecture_of(&start)?, path, script });
            };
            if interpreter.is_empty() {
                return Err(
                    "it is a script whose first line names no interpreter (run it as: sh SCRIPT)".into()
                );
            }
            let words = argument.map(|word| OsStr::from_bytes(word).to_owned());
            // What was the interpreter so far gives way to its own, whose words and whose name come before the others.
            script = words.into_iter().chain([path.into_os_string()]).chain(script).collect();
            let interpreter = Path::new(OsStr::from_bytes(interpreter));
            path = directory.map_or_else(|| interpreter.to_owned(), |directory| directory.join(interpreter));
        }
        Err(format!("scripts name each other as their interpreters {DEPTH} times over"))
    }
}

/// The first bytes of a file that may be executed.
fn beginning(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = path.metadata().map_err(|error| describe(&error))?;
    if metadata.is_dir() {
        return Err("it is a directory".into());
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err("it is not executable (chmod +x makes it so)".into());
    }
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(256).read_to_end(&mut start))
        .map_err(|error| describe(&error))?;
    Ok(start)
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "it may not be read (permission denied)".into(),
        _ => error.to_string(),
    }
}

/// The first executable file of this name in the directories of `PATH`.
pub(super) fn look_up(name: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| {
        candidate.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

/// What the file that starts with these bytes is compiled for, or why it cannot be run.
fn architecture_of(start: &[u8]) -> Result<Architecture, String> {
    const CLASS: usize = 4;
    const DATA: usize = 5;
    if !start.starts_with(b"\x7FELF") || start.len() < 20 {
        return Err("it is not an ELF program (a shell script without a #! line is run as: sh SCRIPT)".into());
    }
    let kind = u16::from_le_bytes([start[16], start[17]]);
    let machine = u16::from_le_bytes([start[18], start[19]]);
    if start[CLASS] != 2 {
        return Err("it is a 32-bit program; only x86-64 and aarch64 programs can be observed".into());
    }
    if start[DATA] != 1 {
        return Err("it is a big-endian program; only x86-64 and aarch64 programs can be observed".into());
    }
    if kind != 2 && kind != 3 {
        return Err("it is an ELF file but not a program (an object file or a core dump?)".into());
    }
    match machine {
        62 => Ok(Architecture::X86_64),
        183 => Ok(Architecture::Aarch64),
        243 => Err("it is a RISC-V program; only x86-64 and aarch64 programs can be observed".into()),
        other => Err(format!(
            "it is for another architecture (ELF machine {other}); only x86-64 and aarch64 programs can be \
             observed"
        )),
    }
}

/// Whether an x86-64 instruction has AVX-512's prefix.
pub(super) fn is_avx512(code: &[u8]) -> bool {
    code.first() == Some(&0x62)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(class: u8, data: u8, kind: u8, machine: u8) -> Vec<u8> {
        let mut bytes = b"\x7FELF".to_vec();
        bytes.extend([class, data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, kind, 0, machine, 0]);
        bytes
    }

    #[test]
    fn elf_headers_are_distinguished() {
        assert_eq!(architecture_of(&elf(2, 1, 3, 62)), Ok(Architecture::X86_64));
        assert_eq!(architecture_of(&elf(2, 1, 2, 183)), Ok(Architecture::Aarch64));
        for (bytes, says) in [
            (elf(1, 1, 2, 3), "32-bit"),
            (elf(2, 2, 2, 22), "big-endian"),
            (elf(2, 1, 1, 62), "not a program"),
            (elf(2, 1, 2, 243), "RISC-V"),
            (elf(2, 1, 2, 8), "machine 8"),
            (b"MZ".to_vec(), "not an ELF"),
            (b"\x7FELF".to_vec(), "not an ELF"),
            (vec![], "not an ELF"),
        ] {
            let problem = architecture_of(&bytes).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
