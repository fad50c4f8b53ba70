//! Finds the emulator and asks it what it can do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::program::{Architecture, look_up};
use crate::{Cpu, SamplerError};

const PACKAGES: &str = "install it (Debian, Ubuntu: apt install qemu-user; Fedora: dnf install qemu-user; \
                        Arch: pacman -S qemu-user)";
const BUILD: &str = "Debian 13, Ubuntu 25.04 and later ship it like this: scripts/qemu-with-plugins in the sources of \
                     reuse-sampler builds one from the distribution's source in a minute (elsewhere: ./configure \
                     --enable-plugins --target-list=x86_64-linux-user,aarch64-linux-user)";

/// An emulator that loads plugins.
#[derive(Clone, Debug)]
pub(super) struct Emulator {
    pub path: PathBuf,
    /// Whether it is older than version 8, which cleans up after an instruction's callbacks.
    pub leaves_stale: bool,
}

impl Emulator {
    /// The emulator for programs of `architecture`: the one given, or the one in `PATH`.
    pub(super) fn find(architecture: Architecture, given: Option<&PathBuf>) -> Result<Self, SamplerError> {
        let name = architecture.emulator();
        let path = match given {
            Some(given) => given.clone(),
            None => look_up(name.as_ref()).ok_or_else(|| {
                let fixed = format!("{name}-static");
                missing(if look_up(fixed.as_ref()).is_some() {
                    format!("{fixed} cannot load plugins and {name} is not in PATH: {PACKAGES}")
                } else {
                    format!("{name} is not in PATH: {PACKAGES}")
                })
            })?,
        };
        if !ask(&path, "--help")?.contains("-plugin") {
            return Err(missing(format!(
                "{} was built without plugins (static builds are): {PACKAGES}; {BUILD}",
                path.display()
            )));
        }
        let version = major_version(&ask(&path, "--version")?);
        Ok(Self { path, leaves_stale: version.is_none_or(|version| version < 8) })
    }
}

/// What the emulator prints when it is given `option`.
fn ask(emulator: &Path, option: &str) -> Result<String, SamplerError> {
    let answer =
        Command::new(emulator).arg(option).stdin(Stdio::null()).stderr(Stdio::null()).output().map_err(
            |source| SamplerError::Io { operation: "run", object: emulator.display().to_string(), source },
        )?;
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}

/// The 7 of "qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7)".
fn major_version(answer: &str) -> Option<u32> {
    let digits = answer.split("version ").nth(1)?;
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The emulator's name for a processor, less what it warns that it does not have; `None` for its own choice.
pub(super) fn model(cpu: Cpu, architecture: Architecture) -> Result<Option<&'static str>, SamplerError> {
    Ok(match cpu {
        Cpu::Host => None,
        _ if architecture != Architecture::X86_64 => {
            return Err(missing(format!("{cpu} is no processor for programs of another architecture")));
        }
        Cpu::X86_64 => Some("Conroe,-ssse3,-pni,-cx16,-lahf-lm"),
        Cpu::X86_64V2 => Some("Nehalem"),
        Cpu::X86_64V3 => Some("Haswell-noTSX,-pcid,-x2apic,-tsc-deadline,-invpcid,-rdrand,-fsgsbase"),
        Cpu::X86_64V4 => return Err(missing(format!("it emulates no AVX-512, which {cpu} has"))),
    })
}

fn missing(missing: String) -> SamplerError {
    SamplerError::Unsupported { backend: "qemu", missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_one_architecture() {
        assert_eq!(model(Cpu::Host, Architecture::Aarch64).unwrap(), None);
        let refused = model(Cpu::X86_64V2, Architecture::Aarch64).unwrap_err().to_string();
        assert!(refused.contains("x86-64-v2"), "{refused}");
    }

    #[test]
    fn versions_are_read_from_what_emulators_print() {
        let debian = "qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright (c) 2003-2022";
        assert_eq!(major_version(debian), Some(7));
        assert_eq!(major_version("qemu-aarch64 version 10.1.50 (v10.1.0-654-g8415b0619f)"), Some(10));
        assert_eq!(major_version("something else"), None);
    }
}
