//! What has to be done to leave the machine as it was found, as data: for the end of a measurement, for a guardian
//! process, and in a journal for the next start.

use std::io;

use super::ResctrlFiles;

/// First word of a journal.
const HEAD: &str = "cache-pirate-resctrl";
/// The kernel's number for a process that is gone.
pub(super) const ESRCH: i32 = 3;

/// One step back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Writes a line to a file.
    Write { path: String, line: String },
    /// Writes every number of one file to another, one at a time.
    Move { from: String, to: String },
    /// Removes a folder.
    RemoveFolder { path: String },
}

/// Steps back, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Undo {
    /// The measuring process, and when it began.
    pub owner: (i32, u64),
    pub steps: Vec<Step>,
    pub journal: String, // removed once all steps are done
}

impl Undo {
    /// Takes all steps, the remaining ones even if one fails, and forgets the journal if none did.
    pub(super) fn perform(&self, files: &impl ResctrlFiles) -> io::Result<()> {
        let mut first = Ok(());
        for step in &self.steps {
            first = first.and(step.perform(files));
        }
        first?;
        gone_is_fine(files.remove_file(&self.journal))
    }

    /// The journal's text.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{HEAD} {} {}\n", self.owner.0, self.owner.1);
        for step in &self.steps {
            let line = match step {
                Step::Write { path, line } => format!("write\t{path}\t{line}\n"),
                Step::Move { from, to } => format!("move\t{from}\t{to}\n"),
                Step::RemoveFolder { path } => format!("remove\t{path}\t\n"),
            };
            text.push_str(&line);
        }
        text
    }

    /// The same read back; `None` if it is no journal of ours. A last line that was cut off is left out: nothing was
    /// changed before the journal was whole.
    pub(super) fn parse(journal: &str, text: &str) -> Option<Self> {
        let (head, rest) = text.split_once('\n')?;
        let mut words = head.split(' ');
        if words.next()? != HEAD {
            return None;
        }
        let owner = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let mut steps = Vec::new();
        for line in rest.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let mut fields = line.split('\t').map(str::to_owned);
            let (kind, path, second) = (fields.next()?, fields.next()?, fields.next()?);
            steps.push(match &*kind {
                "write" => Step::Write { path, line: second },
                "move" => Step::Move { from: path, to: second },
                "remove" => Step::RemoveFolder { path },
                _ => return None,
            });
        }
        Some(Self { owner, steps, journal: journal.to_owned() })
    }
}

impl Step {
    fn perform(&self, files: &impl ResctrlFiles) -> io::Result<()> {
        gone_is_fine(match self {
            Self::Write { path, line } => files.write(path, &format!("{line}\n")),
            Self::Move { from, to } => files.read(from).and_then(|numbers| {
                numbers.lines().try_for_each(|number| gone_is_fine(files.write(to, &format!("{number}\n"))))
            }),
            Self::RemoveFolder { path } => files.remove_folder(path),
        })
    }
}

/// Somebody else removed the group, or the process has ended: nothing is left to undo there.
pub(super) fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) => {
            Ok(())
        }
        other => other,
    }
}
