//! The target's control group, and everybody else's masks.

use std::io;

use super::ResctrlFiles;
use super::undo::{ESRCH, Step, Undo, gone_is_fine};
use super::ways::Ways;
use crate::error::PirateError;
use crate::testbed::SharedCache;

const FOLDER: &str = "sys/fs/resctrl";
const JOURNAL: &str = "run/cache-pirate.resctrl";
/// Names of our groups, before the number of the process that made them.
const OURS: &str = "cache-pirate-";

/// One process confined to some ways of its last-level cache, and all else to the others.
///
/// Nothing is changed before [`begin`](Self::begin). Dropped, it puts everything back.
#[derive(Debug)]
pub struct Partition<F: ResctrlFiles> {
    files: F,
    process: i32,
    group: String,
    masks: Vec<String>,     // resources with a mask each: L3, or L3CODE and L3DATA
    others: Vec<String>,    // folders of the groups that are kept out
    inherited: Vec<String>, // lines of the target's schemata that are not of the cache
    domain: u32,
    ways: Ways,
    cache: SharedCache,
    undo: Undo,
    begun: bool,
    occupancy: Option<String>,
    traffic: Option<String>,
}

impl<F: ResctrlFiles> Partition<F> {
    /// Reads what processor `cpu`'s cache, of `cache` bytes in all, allows, and plans to confine `process` for
    /// `owner`, the measuring process. What a measurement that died has left behind is put back first; otherwise
    /// nothing is written.
    ///
    /// # Errors
    /// [`PirateError::System`] if resctrl is not mounted, a file of it cannot be read or is not understood, or another
    /// measurement is under way. [`PirateError::Machine`] if the cache cannot be divided.
    pub fn prepare(
        files: F,
        cache: SharedCache,
        cpu: usize,
        process: i32,
        owner: i32,
    ) -> Result<Self, PirateError> {
        let root = format!("{FOLDER}/schemata");
        files.read(&root).map_err(|source| {
            let remedy = "mount it: mount -t resctrl resctrl /sys/fs/resctrl, and run as root";
            PirateError::system("read", root.clone(), source, remedy)
        })?;
        recover(&files)?;
        let schemata = read_schemata(&files, &root)?;
        let domain = domain(&files, cpu)?;
        let masks: Vec<String> = lines(&schemata)
            .filter(|(name, _)| matches!(*name, "L3" | "L3CODE" | "L3DATA"))
            .map(|(name, _)| name.to_owned())
            .collect();
        let Some(first) = masks.first() else {
            let reason = "cannot divide its last-level cache: no CAT";
            return Err(PirateError::Machine { cpu, reason });
        };
        let info = |file: &str| format!("{FOLDER}/info/{first}/{file}");
        let number = |file: &str, radix| {
            let path = info(file);
            let text = read(&files, &path)?;
            u32::from_str_radix(text.trim(), radix).map_err(|_| malformed(path, &text))
        };
        // Older kernels lack the file, and processors of theirs the feature.
        let sparse = flag(&files, info("sparse_masks"))?;
        let all = number("cbm_mask", 16)?;

        let mut others = vec![FOLDER.to_owned()];
        let mut home = FOLDER.to_owned();
        let mut reserved = 0;
        let mut steps = Vec::new();
        for name in groups(&files)? {
            // A group may be removed while we look.
            let folder = format!("{FOLDER}/{name}");
            let path = format!("{folder}/schemata");
            let Some(schemata) = optional(&files, &path)? else { continue };
            // Older kernels have no modes.
            let mode = optional(&files, &format!("{folder}/mode"))?.unwrap_or_default();
            let tasks = found(&files, &format!("{folder}/tasks"))?.unwrap_or_default();
            for task in tasks.lines() {
                let number: u32 =
                    task.trim().parse().map_err(|_| malformed(format!("{folder}/tasks"), &tasks))?;
                if i32::try_from(number) == Ok(process) {
                    home.clone_from(&folder);
                }
            }
            if mode.trim().is_empty() || mode.trim() == "shareable" {
                others.push(folder);
            } else {
                let schemata = with_lines(&path, schemata)?;
                for (_, values) in lines(&schemata).filter(|(name, _)| masks.iter().any(|mask| mask == name))
                {
                    // A group that is to be locked and has no ways yet.
                    if values == "uninitialized" {
                        continue;
                    }
                    reserved |= mask_of(values, domain).ok_or_else(|| malformed(path.clone(), &schemata))?;
                }
            }
        }
        for folder in &others {
            let path = format!("{folder}/schemata");
            let schemata = read_schemata(&files, &path)?;
            for (name, values) in lines(&schemata).filter(|(name, _)| masks.iter().any(|mask| mask == name)) {
                let mask = mask_of(values, domain).ok_or_else(|| malformed(path.clone(), &schemata))?;
                steps.push(Step::Write { path: path.clone(), line: format!("{name}:{domain}={mask:x}") });
            }
        }
        let group = format!("{FOLDER}/{OURS}{owner}");
        if home != FOLDER {
            steps.push(Step::Move { from: format!("{group}/tasks"), to: format!("{home}/tasks") });
        }
        // Its other tasks return to the default group with it.
        steps.push(Step::RemoveFolder { path: group.clone() });

        let ways =
            Ways::new(all, reserved, number("shareable_bits", 16)?, number("min_cbm_bits", 10)?, sparse);
        if ways.choices().count() < 2 {
            let reason =
                "has too few ways of its last-level cache that are not reserved by other resctrl groups";
            return Err(PirateError::Machine { cpu, reason });
        }
        let line = u64::from(cache.line_size);
        let way = cache.bytes / u64::from(all.count_ones().max(1)) / line * line;
        let inherited = lines(&read(&files, &format!("{home}/schemata"))?)
            .filter(|(name, _)| !masks.iter().any(|mask| mask == name) && !name.starts_with("L2"))
            .map(|(name, values)| format!("{name}:{values}"))
            .collect();
        let features = optional(&files, &format!("{FOLDER}/info/L3_MON/mon_features"))?.unwrap_or_default();
        let monitor = |event: &str| {
            let counted = features.lines().any(|feature| feature.trim() == event);
            counted.then(|| format!("{group}/mon_data/mon_L3_{domain:02}/{event}"))
        };
        Ok(Self {
            process,
            masks,
            others,
            inherited,
            domain,
            ways,
            cache: SharedCache { bytes: way * u64::from(ways.count()), ..cache },
            undo: Undo { owner: (owner, began(&files, owner)), steps, journal: JOURNAL.to_owned() },
            begun: false,
            occupancy: monitor("llc_occupancy"),
            traffic: monitor("mbm_total_bytes"),
            group,
            files,
        })
    }

    /// Writes the journal, makes the group and moves the process into it, with all ways.
    ///
    /// # Errors
    /// [`PirateError::System`] for what the kernel refuses; everything is put back then.
    pub fn begin(&mut self) -> Result<(), PirateError> {
        let remedy = "another measurement is under way, or remove the file";
        self.files
            .make_file(JOURNAL, &self.undo.to_text())
            .map_err(|source| PirateError::system("write the journal", JOURNAL, source, remedy))?;
        self.begun = true;
        let made = self.files.make_folder(&self.group);
        let remedy = "no control group is free: remove those that are not needed, or use the pirate";
        made.map_err(|source| self.said("make the control group", self.group.clone(), source, remedy))?;
        let schemata = format!("{}/schemata", self.group);
        for line in &self.inherited {
            self.write(&schemata, line)?;
        }
        self.confine(self.ways.count())?;
        let tasks = format!("{}/tasks", self.group);
        let listed = format!("proc/{}/task", self.process);
        let threads = match self.files.folders(&listed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(|source| self.said("list", listed, source, "run as root"))?,
        };
        let threads = threads.iter().filter_map(|name| name.parse::<i32>().ok());
        for thread in threads.filter(|&thread| thread != self.process) {
            // A thread may end meanwhile; the process itself must be there.
            let moved = gone_is_fine(self.files.write(&tasks, &format!("{thread}\n")));
            moved.map_err(|source| self.said("write", tasks.clone(), source, ""))?;
        }
        self.write(&tasks, &self.process.to_string())
    }

    /// The part of the cache that can be divided.
    #[must_use]
    pub const fn cache(&self) -> SharedCache {
        self.cache
    }

    /// Bytes of a way.
    #[must_use]
    pub const fn way_bytes(&self) -> u64 {
        self.cache.bytes / self.ways.count() as u64
    }

    /// Ways of that part.
    #[must_use]
    pub const fn ways(&self) -> u32 {
        self.ways.count()
    }

    /// Sizes that the target can be confined to, in bytes, the smallest first; the last is the whole.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.ways.choices().map(|ways| u64::from(ways) * self.way_bytes())
    }

    /// How many of the ways of a target confined to `bytes` devices use as well, such as network cards that write to
    /// the cache.
    #[must_use]
    pub fn shared_with_hardware(&self, bytes: u64) -> u32 {
        self.ways.shared_with_hardware((bytes / self.way_bytes()) as u32)
    }

    /// Whether the kernel counts the target's lines.
    #[must_use]
    pub const fn counts_occupancy(&self) -> bool {
        self.occupancy.is_some()
    }

    /// Whether the kernel counts the target's memory traffic.
    #[must_use]
    pub const fn counts_traffic(&self) -> bool {
        self.traffic.is_some()
    }

    /// Confines the target to `bytes`, and the others to the rest. Lines that are there stay there.
    ///
    /// # Errors
    /// [`PirateError::Ways`] unless that is a number of ways that the processor allows, [`PirateError::System`] for
    /// what the kernel refuses.
    pub fn leave(&mut self, bytes: u64) -> Result<(), PirateError> {
        let way = self.way_bytes();
        let ways = (bytes / way) as u32;
        if bytes % way != 0 || !self.ways.allows(ways) {
            let least = self.sizes().next().unwrap_or(0);
            return Err(PirateError::Ways { bytes, way, least, whole: self.cache.bytes });
        }
        self.confine(ways)
    }

    fn confine(&self, ways: u32) -> Result<(), PirateError> {
        let set = |folder: &str, mask: u32| {
            let path = format!("{folder}/schemata");
            self.masks
                .iter()
                .try_for_each(|name| self.write(&path, &format!("{name}:{}={mask:x}", self.domain)))
        };
        for folder in &self.others {
            match set(folder, self.ways.others(ways)) {
                // A group that somebody removed uses no ways any more.
                Err(PirateError::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        set(&self.group, self.ways.target(ways))
    }

    /// Bytes of the cache that hold lines of the target, wherever they lie; `None` if the counter has no answer now.
    ///
    /// # Errors
    /// [`PirateError::System`] for a file that cannot be read or is not understood.
    pub fn occupancy(&self) -> Result<Option<u64>, PirateError> {
        self.monitored(self.occupancy.as_ref())
    }

    /// Bytes moved between the cache and memory for the target since the group was made; `None` as for the occupancy.
    ///
    /// # Errors
    /// [`PirateError::System`] for a file that cannot be read or is not understood.
    pub fn traffic(&self) -> Result<Option<u64>, PirateError> {
        self.monitored(self.traffic.as_ref())
    }

    fn monitored(&self, path: Option<&String>) -> Result<Option<u64>, PirateError> {
        let Some(path) = path else { return Ok(None) };
        let text = read(&self.files, path)?;
        match text.trim() {
            // No counter is free at the moment, or it was reset since the last reading.
            "Unavailable" | "Unassigned" | "Error" => Ok(None),
            number => number.parse().map(Some).map_err(|_| malformed(path.clone(), &text)),
        }
    }

    /// Puts everything back, and returns an error if that fails, which dropping cannot.
    ///
    /// # Errors
    /// [`PirateError::System`] with the first failure. The journal stays then, for the next start.
    pub fn restore(&mut self) -> Result<(), PirateError> {
        if !std::mem::take(&mut self.begun) {
            return Ok(());
        }
        let undone = self.undo.perform(&self.files);
        undone
            .map_err(|source| self.said("put back", FOLDER.to_owned(), source, "the next start tries again"))
    }

    #[cfg(all(feature = "native", target_os = "linux"))]
    pub(crate) const fn undo(&self) -> &Undo {
        &self.undo
    }

    fn write(&self, path: &str, line: &str) -> Result<(), PirateError> {
        let written = self.files.write(path, &format!("{line}\n"));
        written.map_err(|source| self.said("write", format!("{line} to {path}"), source, ""))
    }

    /// A refusal, with the kernel's own words for it.
    fn said(
        &self,
        operation: &'static str,
        object: String,
        source: io::Error,
        remedy: &'static str,
    ) -> PirateError {
        let status = self.files.read(&format!("{FOLDER}/info/last_cmd_status")).unwrap_or_default();
        let object = match status.trim() {
            "" | "ok" => object,
            status => format!("{object} ({status})"),
        };
        PirateError::system(operation, object, source, remedy)
    }
}

impl<F: ResctrlFiles> Drop for Partition<F> {
    fn drop(&mut self) {
        // Nobody is left to report it to; the journal stays if it fails.
        let _ = self.restore();
    }
}

/// Puts back what measurements that died have left.
fn recover(files: &impl ResctrlFiles) -> Result<(), PirateError> {
    let journal = match files.read(JOURNAL) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(PirateError::system("read", JOURNAL, source, "run as root")),
    };
    if let Some(text) = journal {
        // A first line that was cut off: it died before anything was changed.
        if text.contains('\n') {
            let undo = Undo::parse(JOURNAL, &text).ok_or_else(|| malformed(JOURNAL.to_owned(), &text))?;
            let (owner, start) = undo.owner;
            if is_running(files, owner) && began(files, owner) == start {
                let busy = io::Error::from(io::ErrorKind::ResourceBusy);
                let object = format!("process {owner}");
                return Err(PirateError::system("measure beside", object, busy, "wait for its end"));
            }
            let remedy = "put the masks back as the file says, and remove it";
            undo.perform(files).map_err(|source| PirateError::system("undo", JOURNAL, source, remedy))?;
        } else {
            files
                .remove_file(JOURNAL)
                .map_err(|e| PirateError::system("remove", JOURNAL, e, "run as root"))?;
        }
    }
    for name in groups(files)? {
        let owner = name.strip_prefix(OURS).and_then(|number| number.parse().ok());
        if owner.is_some_and(|owner| !is_running(files, owner)) {
            let folder = format!("{FOLDER}/{name}");
            gone_is_fine(files.remove_folder(&folder))
                .map_err(|source| PirateError::system("remove", folder, source, "run as root"))?;
        }
    }
    Ok(())
}

/// Names of the control groups but the default one.
fn groups(files: &impl ResctrlFiles) -> Result<Vec<String>, PirateError> {
    let names = files.folders(FOLDER).map_err(|e| PirateError::system("list", FOLDER, e, "run as root"))?;
    let is_group = |name: &String| !matches!(&**name, "info" | "mon_groups" | "mon_data");
    Ok(names.into_iter().filter(is_group).collect())
}

/// Number of the last-level cache of a processor.
fn domain(files: &impl ResctrlFiles, cpu: usize) -> Result<u32, PirateError> {
    let at = |index: u32, file| format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{file}");
    let mut last = 3;
    for index in 0..8 {
        let path = at(index, "level");
        let Some(level) = optional(files, &path)? else { continue };
        if level.trim().parse::<u32>().map_err(|_| malformed(path, &level))? == 3 {
            last = index;
        }
    }
    let path = at(last, "id");
    let text = read(files, &path)?;
    text.trim().parse().map_err(|_| malformed(path, &text))
}

/// When a process began, in the kernel's ticks; 0 if it is gone.
fn began(files: &impl ResctrlFiles, process: i32) -> u64 {
    let stat = files.read(&format!("proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rfind(')').map_or("", |end| &stat[end + 1..]);
    after_name.split_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn is_running(files: &impl ResctrlFiles, process: i32) -> bool {
    match files.read(&format!("proc/{process}/stat")) {
        Ok(_) => true,
        // Whoever must not be looked at is there.
        Err(error) => error.kind() != io::ErrorKind::NotFound && error.raw_os_error() != Some(ESRCH),
    }
}

/// A `schemata` file, which has at least one line of a name and values.
fn read_schemata(files: &impl ResctrlFiles, path: &str) -> Result<String, PirateError> {
    with_lines(path, read(files, path)?)
}

fn with_lines(path: &str, schemata: String) -> Result<String, PirateError> {
    if lines(&schemata).next().is_some() { Ok(schemata) } else { Err(malformed(path.to_owned(), &schemata)) }
}

/// Names and values of a `schemata` file.
fn lines(schemata: &str) -> impl Iterator<Item = (&str, &str)> {
    schemata
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, values)| (name.trim(), values.trim()))
}

/// The mask of one cache in `0=ff;1=ff`.
fn mask_of(values: &str, domain: u32) -> Option<u32> {
    let value = values.split(';').filter_map(|value| value.split_once('='));
    let mut of_domain = value.filter(|(id, _)| id.trim().parse() == Ok(domain));
    of_domain.next().and_then(|(_, mask)| u32::from_str_radix(mask.trim(), 16).ok())
}

fn read(files: &impl ResctrlFiles, path: &str) -> Result<String, PirateError> {
    files.read(path).map_err(|source| PirateError::system("read", path, source, "run as root"))
}

/// The same, which must not be empty; `None` if there is no such file.
fn optional(files: &impl ResctrlFiles, path: &str) -> Result<Option<String>, PirateError> {
    match found(files, path)? {
        Some(text) if text.trim().is_empty() => Err(malformed(path.to_owned(), "")),
        other => Ok(other),
    }
}

/// 0 or 1; 0 if there is no such file.
fn flag(files: &impl ResctrlFiles, path: String) -> Result<bool, PirateError> {
    match optional(files, &path)?.as_deref().map(str::trim) {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(text) => Err(malformed(path, text)),
    }
}

fn found(files: &impl ResctrlFiles, path: &str) -> Result<Option<String>, PirateError> {
    match files.read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some).map_err(|source| PirateError::system("read", path, source, "run as root")),
    }
}

fn malformed(path: String, text: &str) -> PirateError {
    let text: String = text.chars().take(80).collect();
    let source = io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is not what it should hold"));
    PirateError::system(
        "understand",
        path,
        source,
        "this kernel's resctrl is not understood: use the pirate instead",
    )
}
