//! The phase profile: the file in which a run's reuse goes from the tool that observed it to the tools that predict.
//!
//! One JSON object. Keys that a reader does not know are ignored, so that a newer writer may add some; a newer `version`
//! means that known keys have changed, and is refused.
//!
//! | key | meaning |
//! |---|---|
//! | `format`, `version` | `"phase-profile"`, 1 |
//! | `program` | what was run, as a person would write it |
//! | `machine` | the processor that it ran on; missing where that does not matter or is not known |
//! | `incomplete` | whether observation ended before the program |
//! | `line_size` | of all profiles, in bytes |
//! | `scope` | `"private"`: distances are counted within a thread, also where the key is missing; `"shared"`: within the process |
//! | `phases` | one object for each phase, the one with most accesses first: see [`ProfiledPhase`] |
//! | `windows` | one object for each window, in order: see [`ProfiledWindow`]. All of them, or none |
//! | `sections` | whatever other crates and programs add, by name: see [`PhaseProfile::section`]. Parsed when asked for |
//!
//! A file of 33 phases and 10,000 windows (1.3 MB) is read, and each phase's model fitted, in 9 ms on one core.
//!
//! ```
//! use reuse_sampler::file::PhaseProfile;
//! use reuse_sampler::LineSize;
//!
//! let mut profile = PhaseProfile::new("sort words.txt", LineSize::B64);
//! profile.set_section("notes", &["on battery"])?;
//! let mut stored = Vec::new();
//! profile.write(&mut stored)?;
//! let read = PhaseProfile::read(stored.as_slice())?;
//! assert_eq!(read.section::<Vec<String>>("notes")?, Some(vec!["on battery".to_owned()]));
//! # Ok::<(), reuse_sampler::file::FileError>(())
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error as ThisError;

pub use crate::Scope;
use crate::{LineSize, ReuseProfile};

/// What `format` says.
pub const FORMAT: &str = "phase-profile";
/// Newest version, and the only one so far.
pub const VERSION: u32 = 1;

/// Why a phase profile cannot be read or written.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum FileError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The text is not such an object.
    #[error("not a phase profile: {0}")]
    Syntax(String),
    /// Another kind of file.
    #[error("a file of format {found:?}: give one of format \"{FORMAT}\"")]
    Format {
        /// What the file says it is.
        found: String,
    },
    /// A version that is not known.
    #[error("version {found} of the phase profile: {}", version_remedy(*found))]
    Version {
        /// The file's version.
        found: u32,
    },
    /// Parts of the file contradict each other.
    #[error("{what} {name:?}, {problem}")]
    Inconsistent {
        /// What is wrong.
        what: &'static str,
        /// Its name.
        name: String,
        /// Why.
        problem: &'static str,
    },
    /// A phase of more or fewer windows than are listed.
    #[error("phase {phase:?} of {windows} windows, of which {listed} are listed: list all windows, or none")]
    Windows {
        /// Its name.
        phase: String,
        /// How many it says it has.
        windows: u64,
        /// How many are listed.
        listed: u64,
    },
    /// No phase has reuse samples: the run was observed by what takes none.
    #[error(
        "no phase of {program:?} has reuse samples: record the run with what takes some, such as phase_guided_cache --out DIR"
    )]
    NoReuse {
        /// What was run.
        program: String,
    },
    /// A section that is not what the caller expects.
    #[error("section {name:?}: {problem}")]
    Section {
        /// Its name.
        name: String,
        /// What the parser found.
        problem: String,
    },
}

fn version_remedy(found: u32) -> String {
    if found > VERSION {
        format!("versions up to {VERSION} are read; use a newer program")
    } else {
        "the first one is 1; record the profile again".to_owned()
    }
}

/// A phase of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProfiledPhase {
    /// Its name, used by windows and by other phases.
    pub phase: String,
    /// Windows of it.
    pub windows: u64,
    /// Windows in which samples were started.
    pub profiled: u64,
    /// Instructions executed in it; 0 where the source does not count them.
    pub instructions: u64,
    /// Memory accesses per instruction, where both were counted.
    #[serde(default)]
    pub accesses_per_instruction: Option<f64>,
    /// The code in which most of its instructions are executed.
    #[serde(default)]
    pub hottest_code: Option<String>,
    /// Its code by name, with the share of the phase's instructions, the largest first. May be cut off.
    #[serde(default)]
    pub code: Vec<(String, f64)>,
    /// The code whose share of its instructions exceeds that in the other phases by most, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct_code: Option<String>,
    /// The phase whose profile stands in, where this one was never profiled.
    #[serde(default)]
    pub borrows_from: Option<String>,
    /// The samples started in its windows.
    pub profile: ReuseProfile,
}

impl ProfiledPhase {
    /// A phase of this name and profile, with nothing else known.
    #[must_use]
    pub fn new(phase: impl Into<String>, profile: ReuseProfile) -> Self {
        Self {
            phase: phase.into(),
            windows: 0,
            profiled: 0,
            instructions: 0,
            accesses_per_instruction: None,
            hottest_code: None,
            code: Vec::new(),
            distinct_code: None,
            borrows_from: None,
            profile,
        }
    }
}

/// A phase with the samples that describe it: its own, or those of the phase that it borrows from.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct DescribedPhase<'a> {
    /// The phase.
    pub phase: &'a ProfiledPhase,
    /// The samples; never empty.
    pub profile: &'a ReuseProfile,
    /// Memory accesses per instruction of the phase, or of the lender, where they are known.
    pub accesses_per_instruction: Option<f64>,
}

/// A window of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfiledWindow {
    /// Its number, which no other window of the run has.
    pub window: u64,
    /// Its thread.
    pub thread: u32,
    /// Instructions executed; 0 where the source does not count them.
    pub instructions: u64,
    /// Memory accesses, where they are known.
    #[serde(default)]
    pub accesses: Option<u64>,
    /// Name of its phase.
    pub phase: String,
}

/// A run with the reuse of each of its phases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
#[non_exhaustive]
pub struct PhaseProfile {
    format: String,
    version: u32,
    /// What was run, as a person would write it.
    pub program: String,
    /// The processor that it ran on, as the system names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Whether observation ended before the program.
    pub incomplete: bool,
    line_size: u32,
    /// Whose cache the profiles describe, where there are several threads.
    pub scope: Scope,
    /// The phases, the one with most accesses first.
    pub phases: Vec<ProfiledPhase>,
    /// The windows in order.
    pub windows: Vec<ProfiledWindow>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sections: BTreeMap<String, Section>,
}

/// The same as it is in a file, which may be anything.
#[derive(Deserialize)]
struct Stored {
    format: String,
    version: u32,
    program: String,
    #[serde(default)]
    machine: Option<String>,
    #[serde(default)]
    incomplete: bool,
    line_size: u32,
    #[serde(default)]
    scope: Scope,
    phases: Vec<ProfiledPhase>,
    windows: Vec<ProfiledWindow>,
    #[serde(default)]
    sections: BTreeMap<String, Section>,
}

impl TryFrom<Stored> for PhaseProfile {
    type Error = FileError;

    fn try_from(stored: Stored) -> Result<Self, FileError> {
        let Stored {
            format,
            version,
            program,
            machine,
            incomplete,
            line_size,
            scope,
            phases,
            windows,
            sections,
        } = stored;
        (Kind { format, version: Some(version) }).known()?;
        let mut profile = Self::new(program, LineSize::B64);
        (profile.machine, profile.incomplete) = (machine, incomplete);
        (profile.line_size, profile.scope) = (line_size, scope);
        (profile.phases, profile.windows, profile.sections) = (phases, windows, sections);
        // Profiles of files that were written before profiles knew it are of the file's scope.
        for phase in &mut profile.phases {
            phase.profile.adopt(scope);
        }
        profile.check()?;
        Ok(profile)
    }
}

/// A section as it is written: parsed when it is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Section(Box<RawValue>);

impl PartialEq for Section {
    /// Whether they mean the same.
    fn eq(&self, other: &Self) -> bool {
        let meaning = |section: &Self| serde_json::from_str::<Value>(section.0.get()).ok();
        self.0.get() == other.0.get() || meaning(self) == meaning(other)
    }
}

impl PhaseProfile {
    /// A run without phases or windows, whose profiles are to be of `line_size`.
    #[must_use]
    pub fn new(program: impl Into<String>, line_size: LineSize) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: program.into(),
            machine: None,
            incomplete: false,
            line_size: line_size.bytes(),
            scope: Scope::default(),
            phases: Vec::new(),
            windows: Vec::new(),
            sections: BTreeMap::new(),
        }
    }

    /// Line size of all profiles.
    #[must_use]
    pub fn line_size(&self) -> LineSize {
        // Checked when it was read.
        LineSize::new(self.line_size).unwrap_or_default()
    }

    /// The phase of this name.
    #[must_use]
    pub fn phase(&self, name: &str) -> Option<&ProfiledPhase> {
        self.phases.iter().find(|phase| phase.phase == name)
    }

    /// The phase whose profile describes `phase`: itself, or the one that it borrows from. `None` if neither has samples.
    #[must_use]
    pub fn described_by(&self, phase: &ProfiledPhase) -> Option<&ProfiledPhase> {
        let own = self.phase(&phase.phase)?;
        let lender = own.borrows_from.as_deref().and_then(|name| self.phase(name));
        [Some(own), lender].into_iter().flatten().find(|phase| !phase.profile.is_empty())
    }

    /// The phases that samples describe, in their order; whoever predicts from samples begins here.
    ///
    /// # Errors
    /// [`FileError::NoReuse`] if no phase has samples.
    pub fn described_phases(&self) -> Result<Vec<DescribedPhase<'_>>, FileError> {
        let described = |phase| {
            let by = self.described_by(phase)?;
            let accesses_per_instruction = phase.accesses_per_instruction.or(by.accesses_per_instruction);
            Some(DescribedPhase { phase, profile: &by.profile, accesses_per_instruction })
        };
        let phases: Vec<_> = self.phases.iter().filter_map(described).collect();
        if phases.is_empty() {
            return Err(FileError::NoReuse { program: self.program.clone() });
        }
        Ok(phases)
    }

    /// Names of the sections, in alphabetic order.
    pub fn section_names(&self) -> impl Iterator<Item = &str> {
        self.sections.keys().map(String::as_str)
    }

    /// What another crate or program has added under `name`, `None` if nothing.
    ///
    /// # Errors
    /// [`FileError::Section`] if it is not a `T`.
    pub fn section<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, FileError> {
        let section =
            self.sections.get(name).map(|section| serde_json::from_str(section.0.get())).transpose();
        section.map_err(|error| FileError::Section { name: name.to_owned(), problem: error.to_string() })
    }

    /// Adds a section, or replaces the one of this name.
    ///
    /// # Errors
    /// [`FileError::Section`] if `value` cannot be expressed in JSON.
    pub fn set_section(&mut self, name: impl Into<String>, value: &impl Serialize) -> Result<(), FileError> {
        let name = name.into();
        match serde_json::value::to_raw_value(value) {
            Ok(value) => {
                self.sections.insert(name, Section(value));
                Ok(())
            }
            Err(error) => Err(FileError::Section { name, problem: error.to_string() }),
        }
    }

    /// Reads and checks a profile.
    ///
    /// # Errors
    /// [`FileError`]: what cannot be read, another format or an unknown version, and what [`check`](Self::check) refuses.
    pub fn read(mut input: impl Read) -> Result<Self, FileError> {
        let mut text = Vec::new();
        input.read_to_end(&mut text)?;
        let syntax = |error: serde_json::Error| FileError::Syntax(error.to_string());
        serde_json::from_slice::<Stored>(&text).map_or_else(
            // Another kind of file has other keys: what it says it is matters more than the first key that is missing.
            |error| {
                serde_json::from_slice::<Kind>(&text).map_err(syntax)?.known()?;
                Err(syntax(error))
            },
            Self::try_from,
        )
    }

    /// Writes the profile as one line of JSON.
    ///
    /// # Errors
    /// As [`read`](Self::read): what could not be read back is not written.
    pub fn write(&self, output: impl Write) -> Result<(), FileError> {
        self.check()?;
        let mut output = io::BufWriter::new(output);
        serde_json::to_writer(&mut output, self).map_err(io::Error::from)?;
        writeln!(output)?;
        Ok(output.flush()?)
    }

    /// Checks what reading and writing check: whoever fills a profile from elsewhere learns of mistakes at once.
    ///
    /// # Errors
    /// [`FileError::Inconsistent`] for profiles at another line size or of another scope than the file's, phases of one name,
    /// windows or loans of phases that are not there, loans to oneself, more windows profiled than there are, shares or
    /// accesses per instruction that are no such number, windows of one number, and, unless no window is listed, a phase of
    /// more or fewer windows than are listed of it.
    pub fn check(&self) -> Result<(), FileError> {
        let broken =
            |what, name: &str, problem| Err(FileError::Inconsistent { what, name: name.to_owned(), problem });
        if LineSize::new(self.line_size).is_err() {
            return broken("line size", &self.line_size.to_string(), "which is no power of two up to 1 MiB");
        }
        let mut names = HashSet::new();
        for phase in &self.phases {
            if !names.insert(phase.phase.as_str()) {
                return broken("phase", &phase.phase, "of which there are several");
            }
            if phase.profile.line_size().bytes() != self.line_size {
                return broken("phase", &phase.phase, "whose profile has another line size than the file");
            }
            if phase.profile.scope() != self.scope {
                return broken("phase", &phase.phase, "whose profile is of another scope than the file");
            }
            let number = |value: f64| value.is_finite() && value >= 0.0;
            if phase.code.iter().any(|&(_, share)| !(0.0..=1.0 + 1e-9).contains(&share)) {
                return broken("phase", &phase.phase, "whose code has a share that is no number from 0 to 1");
            }
            if phase.profiled > phase.windows {
                return broken("phase", &phase.phase, "of which more windows were profiled than it has");
            }
            if phase.borrows_from.as_ref() == Some(&phase.phase) {
                return broken("phase", &phase.phase, "which borrows from itself");
            }
            if phase.accesses_per_instruction.is_some_and(|mix| !number(mix)) {
                return broken(
                    "phase",
                    &phase.phase,
                    "whose accesses per instruction are not a number of 0 or more",
                );
            }
        }
        let lenders = self.phases.iter().filter_map(|phase| phase.borrows_from.as_ref());
        for name in self.windows.iter().map(|window| &window.phase).chain(lenders) {
            if !names.contains(name.as_str()) {
                return broken("phase", name, "which the file does not have");
            }
        }
        let (mut numbers, mut listed) = (HashSet::new(), HashMap::<_, u64>::new());
        for window in &self.windows {
            if !numbers.insert(window.window) {
                let problem = "of which there are several: number the windows of all threads once";
                return broken("window", &window.window.to_string(), problem);
            }
            *listed.entry(window.phase.as_str()).or_default() += 1;
        }
        for phase in &self.phases {
            let listed = listed.get(phase.phase.as_str()).copied().unwrap_or(0);
            if phase.windows != listed && !self.windows.is_empty() {
                let (phase, windows) = (phase.phase.clone(), phase.windows);
                return Err(FileError::Windows { phase, windows, listed });
            }
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Kind {
    format: String,
    version: Option<u32>, // none: what is read says that it is missing
}

impl Kind {
    fn known(self) -> Result<(), FileError> {
        if self.format != FORMAT {
            return Err(FileError::Format { found: self.format });
        }
        match self.version {
            Some(found) if found != VERSION => Err(FileError::Version { found }),
            _ => Ok(()),
        }
    }
}
