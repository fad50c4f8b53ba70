//! Finds the emulator and asks it whether it can load plugins.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::program::{Architecture, look_up};
use crate::SamplerError;

const PACKAGES: &str = "install it (Debian, Ubuntu: apt install qemu-user; Fedora: dnf install qemu-user; \
                        Arch: pacman -S qemu-user)";

/// The emulator for programs of `architecture`: the one given, or the one in `PATH`.
pub(super) fn find(architecture: Architecture, given: Option<&PathBuf>) -> Result<PathBuf, SamplerError> {
    let name = architecture.emulator();
    let emulator = match given {
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
    let help =
        Command::new(&emulator).arg("--help").stdin(Stdio::null()).stderr(Stdio::null()).output().map_err(
            |source| SamplerError::Io { operation: "run", object: emulator.display().to_string(), source },
        )?;
    if !String::from_utf8_lossy(&help.stdout).contains("-plugin") {
        return Err(missing(format!(
            "{} was built without plugins (a static build, usually): {PACKAGES}, or build QEMU with \
             --enable-plugins",
            emulator.display()
        )));
    }
    Ok(emulator)
}

fn missing(missing: String) -> SamplerError {
    SamplerError::Unsupported { backend: "qemu", missing }
}
