//! A kernel's `resctrl` in memory, as strict as the real one: what Linux refuses is refused, with its error numbers.
//!
//! # References
//! Linux, `Documentation/filesystems/resctrl.rst`, and the checks in `fs/resctrl`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cache_pirate::resctrl::ResctrlFiles;

const ROOT: &str = "sys/fs/resctrl";
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;

/// What the processor can do.
#[derive(Clone, Debug)]
pub struct Features {
    /// All bits of a mask.
    pub cbm_mask: u32,
    /// Fewest bits of a mask.
    pub min_cbm_bits: u32,
    /// Bits that devices use as well.
    pub shareable_bits: u32,
    /// Whether a mask may have gaps.
    pub sparse: bool,
    /// Groups with masks of their own, the default one among them.
    pub closids: usize,
    /// Masks for code and for data.
    pub cdp: bool,
    /// Last-level caches.
    pub domains: u32,
    /// Whether occupancy and traffic are counted.
    pub monitoring: bool,
}

impl Default for Features {
    /// 16 ways, any run of them, 16 groups, monitoring, one cache.
    fn default() -> Self {
        Self {
            cbm_mask: 0xffff,
            min_cbm_bits: 1,
            shareable_bits: 0,
            sparse: false,
            closids: 16,
            cdp: false,
            domains: 1,
            monitoring: true,
        }
    }
}

/// The kernel. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Kernel(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    features: Features,
    host: bool, // processes are those of the machine that the simulation runs on
    groups: BTreeMap<String, Group>, // the default one has no name
    processes: BTreeMap<i32, Vec<i32>>,
    monitored: BTreeMap<i32, (u64, u64)>, // bytes in the cache and to memory, by process
    files: BTreeMap<String, String>,      // outside of resctrl
    status: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    masks: BTreeMap<(&'static str, u32), u32>,
    bandwidth: BTreeMap<u32, u32>,
    mode: String,
    tasks: Vec<i32>, // of the default group: those that were put there
}

fn error<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

impl Kernel {
    /// After mounting: one group, with everything.
    pub fn new(features: Features) -> Self {
        let mut state = State {
            groups: BTreeMap::new(),
            processes: BTreeMap::new(),
            monitored: BTreeMap::new(),
            files: BTreeMap::new(),
            status: "ok".to_owned(),
            host: false,
            features,
        };
        let all = state.group_with(|_, _| state.features.cbm_mask);
        state.groups.insert(String::new(), all);
        Self(Arc::new(Mutex::new(state)))
    }

    /// The same for the processes of the machine that the simulation runs on.
    pub fn of_host_processes(features: Features) -> Self {
        let kernel = Self::new(features);
        kernel.state().host = true;
        kernel
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process begins, with threads of these numbers.
    pub fn start(&self, process: i32, threads: &[i32]) {
        self.state().processes.insert(process, threads.to_vec());
    }

    /// A process ends.
    pub fn end(&self, process: i32) {
        let mut state = self.state();
        let threads = state.processes.remove(&process).unwrap_or_default();
        for group in state.groups.values_mut() {
            group.tasks.retain(|task| !threads.contains(task));
        }
    }

    /// The mask for data that a task is subject to.
    pub fn mask_of(&self, task: i32, domain: u32) -> u32 {
        let state = self.state();
        let name = state.group_of(task);
        let masks = &state.groups[name].masks;
        let data = if state.features.cdp { "L3DATA" } else { "L3" };
        masks.get(&(data, domain)).copied().unwrap_or(0)
    }

    /// What the monitors of a process's group shall say: bytes in the cache, and bytes to and from memory.
    pub fn monitor(&self, process: i32, occupancy: u64, traffic: u64) {
        self.state().monitored.insert(process, (occupancy, traffic));
    }

    /// All groups with their masks, modes and tasks, and all other files: to see whether anything was left changed.
    pub fn snapshot(&self) -> String {
        let state = self.state();
        format!("{:?} {:?}", state.groups, state.files)
    }
}

impl State {
    fn resources(&self) -> &'static [&'static str] {
        if self.features.cdp { &["L3CODE", "L3DATA"] } else { &["L3"] }
    }

    fn group_with(&self, mask: impl Fn(&'static str, u32) -> u32) -> Group {
        let domains = 0..self.features.domains;
        let each = self.resources().iter().flat_map(|&name| domains.clone().map(move |id| (name, id)));
        Group {
            masks: each.map(|(name, id)| ((name, id), mask(name, id))).collect(),
            bandwidth: domains.clone().map(|id| (id, 100)).collect(),
            mode: "shareable".to_owned(),
            tasks: Vec::new(),
        }
    }

    fn group_of(&self, task: i32) -> &str {
        self.groups.iter().find(|(_, group)| group.tasks.contains(&task)).map_or("", |(name, _)| name)
    }

    fn refuse<T>(&mut self, number: i32, words: &str) -> io::Result<T> {
        words.clone_into(&mut self.status);
        error(number)
    }

    /// Whether other groups that satisfy `which` have bits of `mask`.
    fn overlaps(&self, but: &str, key: (&str, u32), mask: u32, which: impl Fn(&Group) -> bool) -> bool {
        let domain = key.1;
        let others = self.groups.iter().filter(|(name, group)| *name != but && which(group));
        // Code and data lie in the same ways.
        others.flat_map(|(_, group)| &group.masks).any(|((_, id), used)| *id == domain && used & mask != 0)
    }

    fn check(&mut self, name: &str, key: (&'static str, u32), value: &str) -> io::Result<u32> {
        let Ok(mask) = u32::from_str_radix(value.trim(), 16) else {
            return self.refuse(EINVAL, "Non-hex character in the mask");
        };
        let least = self.features.min_cbm_bits;
        if (least > 0 && mask == 0) || mask & !self.features.cbm_mask != 0 {
            return self.refuse(EINVAL, "Mask out of range");
        }
        let run = if mask == 0 { 0 } else { (mask >> mask.trailing_zeros()).trailing_ones() };
        if !self.features.sparse && run != mask.count_ones() {
            return self.refuse(EINVAL, "The mask has non-consecutive 1-bits");
        }
        if run < least {
            return self.refuse(EINVAL, "Need more bits in the mask");
        }
        if self.overlaps(name, key, mask, |group| group.mode != "shareable") {
            return self.refuse(EINVAL, "Overlaps with exclusive group");
        }
        if self.groups[name].mode == "exclusive" && self.overlaps(name, key, mask, |_| true) {
            return self.refuse(EINVAL, "Overlaps with other group");
        }
        Ok(mask)
    }

    /// All lines or none.
    fn write_schemata(&mut self, name: &str, text: &str) -> io::Result<()> {
        let Some(text) = text.strip_suffix('\n') else { return error(EINVAL) };
        if self.groups[name].mode == "pseudo-locked" {
            return self.refuse(EINVAL, "Resource group is pseudo-locked");
        }
        let mut group = self.groups[name].clone();
        for line in text.split('\n') {
            let Some((resource, values)) = line.split_once(':') else {
                return self.refuse(EINVAL, "Missing ':'");
            };
            let known = self.resources().iter().find(|&&known| known == resource.trim());
            let mut seen = Vec::new();
            for value in values.split(';') {
                let Some((id, value)) = value.split_once('=') else {
                    return self.refuse(EINVAL, "Missing '='");
                };
                let id = id.trim().parse().ok().filter(|&id: &u32| id < self.features.domains);
                let Some(id) = id.filter(|id| !seen.contains(id)) else {
                    return self.refuse(EINVAL, "Unknown or duplicate domain");
                };
                seen.push(id);
                if let Some(&resource) = known {
                    let mask = self.check(name, (resource, id), value)?;
                    group.masks.insert((resource, id), mask);
                } else if resource.trim() == "MB" {
                    match value.trim().parse() {
                        Ok(share @ 10..=100) => group.bandwidth.insert(id, share),
                        _ => return self.refuse(EINVAL, "MB value out of range [10,100]"),
                    };
                } else {
                    return self.refuse(EINVAL, "Unknown or unsupported resource name");
                }
            }
        }
        self.groups.insert(name.to_owned(), group);
        Ok(())
    }

    fn exists(&self, task: i32) -> bool {
        if self.host {
            return fs::exists(format!("/proc/{task}")).unwrap_or(false);
        }
        self.processes.values().any(|threads| threads.contains(&task))
    }

    fn write_tasks(&mut self, name: &str, text: &str) -> io::Result<()> {
        if self.groups[name].mode.starts_with("pseudo") {
            return self.refuse(EINVAL, "Pseudo-locking in progress");
        }
        for task in text.trim().split(',') {
            let Ok(task) = task.parse::<i32>() else { return self.refuse(EINVAL, "Task list parsing error") };
            if !self.exists(task) {
                return self.refuse(ESRCH, "No task");
            }
            self.groups.values_mut().for_each(|group| group.tasks.retain(|&other| other != task));
            if let Some(group) = self.groups.get_mut(name) {
                group.tasks.push(task);
            }
        }
        Ok(())
    }

    fn write_mode(&mut self, name: &str, text: &str) -> io::Result<()> {
        let masks = self.groups[name].masks.clone();
        match text.strip_suffix('\n') {
            Some("exclusive") => {
                if masks.iter().any(|(key, &mask)| self.overlaps(name, *key, mask, |_| true)) {
                    return self.refuse(EINVAL, "Schemata overlaps");
                }
            }
            Some("shareable") => {}
            _ => return self.refuse(EINVAL, "Unknown or unsupported mode"),
        }
        if let Some(group) = self.groups.get_mut(name) {
            text.trim().clone_into(&mut group.mode);
        }
        Ok(())
    }

    /// The group of a folder, and the file in it.
    fn locate<'a>(&self, path: &'a str) -> Option<(String, &'a str)> {
        let inside = path.strip_prefix(ROOT)?.strip_prefix('/')?;
        match inside.split_once('/') {
            Some((group, file)) if self.groups.contains_key(group) => Some((group.to_owned(), file)),
            _ => Some((String::new(), inside)),
        }
    }

    fn read_group(&self, name: &str, file: &str) -> Option<String> {
        let group = &self.groups[name];
        let list = |values: Vec<String>| values.join(";");
        Some(match file {
            "schemata" => {
                let mut text = String::new();
                if !name.is_empty() || self.features.domains > 0 {
                    let shares = group.bandwidth.iter().map(|(id, share)| format!("{id}={share:4}"));
                    text += &format!("{:>7}:{}\n", "MB", list(shares.collect()));
                }
                for &resource in self.resources() {
                    let masks = group.masks.iter().filter(|((name, _), _)| *name == resource);
                    let masks = masks.map(|((_, id), mask)| format!("{id}={mask:x}"));
                    text += &format!("{resource:>7}:{}\n", list(masks.collect()));
                }
                text
            }
            "mode" => format!("{}\n", group.mode),
            "tasks" => {
                let mut tasks = group.tasks.clone();
                if name.is_empty() {
                    let all = self.processes.values().flatten().copied();
                    tasks.extend(all.filter(|&task| self.group_of(task).is_empty()));
                }
                tasks.sort_unstable();
                tasks.dedup();
                tasks.iter().map(|task| format!("{task}\n")).collect()
            }
            _ => {
                let event = file.strip_prefix("mon_data/mon_L3_")?;
                let (domain, event) = event.split_once('/')?;
                let domain: u32 = domain.parse().ok().filter(|&id| id < self.features.domains)?;
                let of = |task: &i32| self.monitored.get(task).copied().unwrap_or_default();
                let counts = group.tasks.iter().map(of);
                let (occupancy, traffic) = counts.fold((0, 0), |sum, (a, b)| (sum.0 + a, sum.1 + b));
                let value = match event {
                    "llc_occupancy" if self.features.monitoring => occupancy,
                    "mbm_total_bytes" if self.features.monitoring => traffic,
                    _ => return None,
                };
                format!("{}\n", if domain == 0 { value } else { 0 })
            }
        })
    }

    fn read(&self, path: &str) -> io::Result<String> {
        if let Some(text) = self.files.get(path) {
            return Ok(text.clone());
        }
        let features = &self.features;
        if let Some(rest) = path.strip_prefix("proc/") {
            if self.host {
                return fs::read_to_string(format!("/proc/{rest}"));
            }
            let process = rest.strip_suffix("/stat").and_then(|number| number.parse::<i32>().ok());
            return match process.filter(|process| self.processes.contains_key(process)) {
                // Field 22 is the start.
                Some(process) => Ok(format!("{process} (a b) S {}{process} 0 0\n", "0 ".repeat(18))),
                None => error(ENOENT),
            };
        }
        if let Some(rest) = path.strip_prefix("sys/devices/system/cpu/cpu") {
            let cpu = rest.split_once('/').and_then(|(cpu, file)| Some((cpu.parse::<u32>().ok()?, file)));
            let domain = |cpu: u32| cpu * features.domains / 64 % features.domains.max(1);
            return match cpu {
                Some((_, "cache/index2/level")) => Ok("2\n".to_owned()),
                Some((_, "cache/index3/level")) => Ok("3\n".to_owned()),
                Some((cpu, "cache/index3/id")) => Ok(format!("{}\n", domain(cpu))),
                _ => error(ENOENT),
            };
        }
        let Some((group, file)) = self.locate(path) else { return error(ENOENT) };
        let info = match file {
            "info/last_cmd_status" => Some(format!("{}\n", self.status)),
            "info/L3_MON/mon_features" if features.monitoring => {
                Some("llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n".to_owned())
            }
            _ => self.resources().iter().find_map(|resource| {
                Some(match file.strip_prefix("info/")?.strip_prefix(resource)?.strip_prefix('/')? {
                    "cbm_mask" => format!("{:x}\n", features.cbm_mask),
                    "min_cbm_bits" => format!("{}\n", features.min_cbm_bits),
                    "shareable_bits" => format!("{:x}\n", features.shareable_bits),
                    "sparse_masks" => format!("{}\n", u8::from(features.sparse)),
                    "num_closids" => format!("{}\n", features.closids),
                    _ => return None,
                })
            }),
        };
        info.filter(|_| group.is_empty())
            .or_else(|| self.read_group(&group, file))
            .map_or_else(|| error(ENOENT), Ok)
    }
}

impl ResctrlFiles for Kernel {
    fn read(&self, path: &str) -> io::Result<String> {
        self.state().read(path)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(path) {
            text.clone_into(file);
            return Ok(());
        }
        // What is not there cannot be written to, and most of what is there neither.
        state.read(path)?;
        let Some((group, file)) = state.locate(path) else { return error(EACCES) };
        "ok".clone_into(&mut state.status);
        match file {
            "schemata" => state.write_schemata(&group, text),
            "tasks" => state.write_tasks(&group, text),
            "mode" => state.write_mode(&group, text),
            _ => error(EACCES),
        }
    }

    fn folders(&self, path: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        if path == ROOT {
            let names = state.groups.keys().filter(|name| !name.is_empty()).cloned();
            return Ok(names.chain(["info", "mon_data", "mon_groups"].map(str::to_owned)).collect());
        }
        let process = path.strip_prefix("proc/").and_then(|rest| rest.strip_suffix("/task"));
        let process = process.and_then(|number| number.parse::<i32>().ok());
        let Some(process) = process else { return error(ENOENT) };
        if state.host {
            let entries = fs::read_dir(format!("/proc/{process}/task"))?;
            return Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect());
        }
        let threads = state.processes.get(&process).map_or_else(|| error(ENOENT), Ok)?;
        Ok(threads.iter().map(ToString::to_string).collect())
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        let name = path.strip_prefix(ROOT).and_then(|rest| rest.strip_prefix('/')).unwrap_or("/");
        if name.contains('/') || name.is_empty() {
            return error(EPERM);
        }
        if name.contains('\n') {
            return error(EINVAL);
        }
        if ["info", "mon_data", "mon_groups"].contains(&name) || state.groups.contains_key(name) {
            return error(EEXIST);
        }
        "ok".clone_into(&mut state.status);
        if state.groups.len() >= state.features.closids {
            return state.refuse(ENOSPC, "Out of CLOSIDs");
        }
        // Everything that no group has exclusively, or the lowest run of that.
        let free = |_: &'static str, id: u32| {
            let taken = state.groups.values().filter(|group| group.mode != "shareable");
            let taken = taken.flat_map(|group| &group.masks).filter(|((_, other), _)| *other == id);
            let free = state.features.cbm_mask & !taken.fold(0, |bits, (_, mask)| bits | mask);
            let first = free.trailing_zeros().min(31);
            let beyond = (free >> first).trailing_ones() + first;
            if state.features.sparse || beyond >= 32 { free } else { free & ((1 << beyond) - 1) }
        };
        let group = state.group_with(free);
        let unusable = |mask: &u32| mask.count_ones() < state.features.min_cbm_bits.max(1);
        if group.masks.values().any(unusable) {
            return state.refuse(ENOSPC, "No space on L3");
        }
        state.groups.insert(name.to_owned(), group);
        Ok(())
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        let name = path.strip_prefix(ROOT).and_then(|rest| rest.strip_prefix('/')).unwrap_or("");
        match state.groups.contains_key(name) {
            // Its tasks are nobody else's: they return to the default group.
            true if !name.is_empty() => state.groups.remove(name).map_or_else(|| error(ENOENT), |_| Ok(())),
            true => error(EPERM),
            false if ["info", "mon_data", "mon_groups"].contains(&name) => error(EPERM),
            false => error(ENOENT),
        }
    }

    fn make_file(&self, path: &str, text: &str) -> io::Result<()> {
        if !path.starts_with("run/") {
            return error(EACCES);
        }
        let mut state = self.state();
        if state.files.contains_key(path) {
            return error(EEXIST);
        }
        state.files.insert(path.to_owned(), text.to_owned());
        Ok(())
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.state().files.remove(path).map_or_else(|| error(ENOENT), |_| Ok(()))
    }
}
