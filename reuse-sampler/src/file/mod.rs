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

mod check;

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::io::{self, Read, Write};

use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error as ThisError;

pub use crate::Scope;
use crate::{LineSize, ReuseProfile};

/// What `format` says.
pub const FORMAT: &str = "phase-profile";
/// Newest version, and the only one so far.
pub const VERSION: u32 = 1;
/// What a file compressed by gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

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
    /// A value that no run has, or that contradicts another part of the file.
    #[error("{path} is {value}: {limit}")]
    Inconsistent {
        /// Where it is, such as `phases["A"].profiled`.
        path: String,
        /// The value.
        value: String,
        /// What it must be, and what to do.
        limit: String,
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
    /// Instructions executed in it: those of its windows, or what the phase says where none are listed. 0 where the source does
    /// not count them.
    pub instructions: u64,
}

impl DescribedPhase<'_> {
    /// Memory accesses, where accesses per instruction are known.
    #[must_use]
    pub fn accesses(&self) -> Option<f64> {
        self.accesses_per_instruction.map(|ratio| ratio * self.instructions as f64)
    }
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
    #[serde(default, deserialize_with = "sections")]
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
        let mut listed: HashMap<&str, u64> = HashMap::new();
        for window in &self.windows {
            let sum = listed.entry(&window.phase).or_default();
            *sum = sum.saturating_add(window.instructions);
        }
        let phases = self.phases.iter().filter_map(|phase| {
            let by = self.described_by(phase)?;
            let accesses_per_instruction = phase.accesses_per_instruction.or(by.accesses_per_instruction);
            let instructions = listed.get(&*phase.phase).copied().unwrap_or(phase.instructions);
            Some(DescribedPhase { phase, profile: &by.profile, accesses_per_instruction, instructions })
        });
        let phases: Vec<_> = phases.collect();
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
        if text.starts_with(&GZIP) {
            return Err(FileError::Syntax("a file compressed by gzip: decompress it first".to_owned()));
        }
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
}

/// Sections, each of another name: of two, one would be lost in silence.
fn sections<'de, D: Deserializer<'de>>(input: D) -> Result<BTreeMap<String, Section>, D::Error> {
    struct Named;

    impl<'de> Visitor<'de> for Named {
        type Value = BTreeMap<String, Section>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("sections by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut sections = BTreeMap::new();
            while let Some((name, section)) = map.next_entry::<String, Section>()? {
                match sections.entry(name) {
                    Entry::Occupied(known) => {
                        let problem = format!("two sections {:?}: give each its own name", known.key());
                        return Err(A::Error::custom(problem));
                    }
                    Entry::Vacant(free) => free.insert(section),
                };
            }
            Ok(sections)
        }
    }

    input.deserialize_map(Named)
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
