//! Puts files back when the process that changed them is gone, even if it was killed.
//!
//! A shell waits at the end of a pipe that nobody writes to. When the process ends, for whatever reason, the pipe is
//! closed, and the shell writes what it was given. It is a process group of its own, so that Ctrl-C in a terminal does
//! not reach it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::files::failed;
use crate::Error;

/// Waits for a line or the end of the pipe. A line means that nothing is left to do; else pairs of a file and a text are
/// written, in order.
const SCRIPT: &str =
    "read -r line && exit 0; while [ $# -ge 2 ]; do printf %s \"$2\" > \"$1\"; shift 2; done 2> /dev/null";

/// The waiting shell. Dropped, it is let go without writing anything.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
}

impl Guard {
    /// Watches over this process from now on; `files` are paths below `root` with their texts.
    ///
    /// # Errors
    /// [`Error::File`] if no shell can be started.
    pub fn start(root: &Path, files: impl IntoIterator<Item = (String, String)>) -> Result<Self, Error> {
        const SHELL: &str = "bin/sh";
        let mut command = Command::new(format!("/{SHELL}"));
        command.args(["-c", SCRIPT, "guard"]).process_group(0);
        for (path, text) in files {
            command.arg(root.join(path)).arg(text);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let remedy = "nothing was changed: without it a kill would leave the frequencies as they are set";
        Ok(Self { shell: command.spawn().map_err(failed("run", SHELL, remedy))? })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(pipe) = &mut self.shell.stdin {
            // Whoever killed it has taken over its task.
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.shell.wait();
    }
}
