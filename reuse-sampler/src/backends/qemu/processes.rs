//! The processes of the tree: which region each has, what it has executed so far, and how it ended.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::memory::Mapping;
use super::process::exit_of;
use super::shared::layout::Claim;
use super::shared::message::{Message, WindowMessage};
use super::shared::tree;
use crate::backends::processes::{Account, Images};
use crate::{CodeLocation, ProcessRecord, TargetExit};

/// How often the kernel is asked whether a process lives that says nothing.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// All processes, in the order in which they were noticed. The first is the program that was started.
#[derive(Debug)]
pub(super) struct Processes {
    all: Vec<Process>,
    active: Vec<Active>,
    images: Images,
    looked: Instant, // when the kernel was asked last
}

#[derive(Debug)]
struct Process {
    account: Account,
    image: usize,
    complete: bool, // its last report is there
}

/// A process that has a region.
#[derive(Debug)]
struct Active {
    process: usize,
    region: usize,
    started: Option<u64>, // none if it had ended when it was noticed
    has_ended: bool,
    bytes: Vec<u8>, // read, of messages not yet complete
}

/// A message and the process it came from.
pub(super) type From = (usize, Message);

impl Processes {
    /// The program that was started, which has the first region.
    pub(super) fn new(pid: u32, command: String, path: &str) -> Self {
        let record = ProcessRecord::new(pid, std::process::id(), command);
        let mut images = Images::default();
        let program = Process { account: Account::new(record), image: images.number(path), complete: false };
        let active = Active { process: 0, region: 0, started: None, has_ended: false, bytes: Vec::new() };
        Self { all: vec![program], active: vec![active], images, looked: Instant::now() }
    }

    /// The records.
    pub(super) fn records(&self) -> Vec<ProcessRecord> {
        self.all.iter().map(|process| process.account.record()).collect()
    }

    /// Accesses that were seen in profiled windows of all processes.
    pub(super) fn accesses(&self) -> u64 {
        self.all.iter().map(|process| process.account.accesses()).sum()
    }

    /// Numbers of the processes that have a region, besides the first.
    pub(super) fn children(&self) -> impl Iterator<Item = i32> + '_ {
        let live = self.active.iter().filter(|active| active.process != 0 && !active.has_ended);
        live.map(|active| self.all[active.process].account.record.pid as i32)
    }

    /// Whether any process may still send something.
    pub(super) fn any_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Processes with a region whose last report is not there yet.
    pub(super) fn incomplete(&self) -> usize {
        let expected = |process: &Process| !process.complete && process.account.record.unobserved.is_none();
        self.active.iter().filter(|active| expected(&self.all[active.process])).count()
    }

    /// The region of a process, if it has one.
    pub(super) fn region(&self, process: usize) -> Option<usize> {
        self.active.iter().find(|active| active.process == process).map(|active| active.region)
    }

    /// Reads what processes have sent, and takes back the regions of those that have ended. Whether anything happened.
    pub(super) fn read(
        &mut self,
        mapping: &Mapping,
        program_has_ended: bool,
        to: &mut impl Extend<From>,
    ) -> Result<bool, &'static str> {
        let mut happened = self.discover(mapping);
        let look = self.looked.elapsed() >= LOOK;
        if look {
            self.looked = Instant::now();
        }
        for active in &mut self.active {
            // Whoever has ended before its ring is read has written everything.
            let has_ended = match active.process {
                0 => program_has_ended,
                process if look || active.started.is_none() => {
                    let now = tree::started(self.all[process].account.record.pid as i32);
                    now.is_none() || now != active.started
                }
                _ => false,
            };
            if mapping.ring(active.region).read(&mut active.bytes) {
                happened = true;
                let mut taken = 0;
                while let Some((message, length)) = Message::decode(&active.bytes[taken..])? {
                    to.extend([(active.process, message)]);
                    taken += length;
                }
                active.bytes.drain(..taken);
            } else if has_ended {
                happened = true;
                active.has_ended = true;
                let state = &mapping.header().claimed[active.region].state;
                // What the program executed last is asked for when it has ended.
                let cleared = active.process != 0 && mapping.clear(active.region);
                state.store(if cleared { Claim::FREE } else { Claim::TAKEN }, Ordering::SeqCst);
            }
        }
        self.active.retain(|active| !active.has_ended);
        Ok(happened)
    }

    /// Takes note of processes that have claimed a region.
    fn discover(&mut self, mapping: &Mapping) -> bool {
        let claims = &mapping.header().claimed;
        let mut fresh: Vec<(u32, usize)> = Vec::new();
        for (region, claim) in claims.iter().enumerate() {
            if claim.state.load(Ordering::SeqCst) == Claim::READY
                && self.active.iter().all(|active| active.region != region)
            {
                fresh.push((claim.order.load(Ordering::Relaxed), region));
            }
        }
        fresh.sort_unstable(); // parents first
        for &(_, region) in &fresh {
            let [pid, parent] =
                [&claims[region].process, &claims[region].parent].map(|word| word.load(Ordering::Relaxed));
            let forked = self.all.iter().rev().find(|process| process.account.record.pid == parent);
            let (command, image) = forked
                .map_or((String::new(), 0), |forked| (forked.account.record.command.clone(), forked.image));
            let record = ProcessRecord::new(pid, parent, command);
            self.active.push(Active {
                process: self.all.len(),
                region,
                started: tree::started(pid as i32),
                has_ended: false,
                bytes: Vec::new(),
            });
            self.all.push(Process { account: Account::new(record), image, complete: false });
        }
        !fresh.is_empty()
    }

    /// Adds a window to its process and marks the addresses of code in it with the image. `base` is where the program's
    /// address 0 is in the emulator.
    pub(super) fn add(&mut self, process: usize, window: &mut WindowMessage, mapping: &Mapping) {
        let region = self.region(process);
        let Some(process) = self.all.get_mut(process) else { return };
        process.account.record.unobserved = None;
        let seen = window.profiled.then_some((window.seen_instructions, window.report.accesses));
        process.account.add(window.instructions, seen);
        if let (Some(region), Some(image)) = (region, self.images.get(process.image)) {
            let base = mapping.ring(region).region().guest_base.load(Ordering::Relaxed);
            image.see(process.account.record.pid as i32, base, &window.code, "");
        }
        Images::mark(process.image, &mut window.code, &mut window.report);
    }

    /// What is at a marked address.
    pub(super) fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.images.locate(address)
    }

    /// The variable of the program that was started at an address.
    pub(super) fn variable(&mut self, address: u64) -> Option<(String, u64)> {
        self.images.get(0)?.variable(address)
    }

    /// Takes note of the mappings of a process.
    pub(super) fn take_maps(&mut self, process: usize, maps: &str, mapping: &Mapping) {
        let Some(region) = self.region(process) else { return };
        let base = mapping.ring(region).region().guest_base.load(Ordering::Relaxed);
        if let Some(image) = self.all.get(process).and_then(|process| self.images.get(process.image)) {
            image.take(maps, base);
        }
    }

    /// A process executes another program.
    pub(super) fn executes(&mut self, process: usize, path: &str, command: String) {
        let image = self.images.number(path);
        if let Some(process) = self.all.get_mut(process) {
            self.images.ended(process.image, process.account.record.pid);
            process.image = image;
            process.account.record.command = command;
        }
    }

    /// A process executes a program that cannot be observed.
    pub(super) fn leaves(&mut self, process: usize, path: &str) {
        if let Some(process) = self.all.get_mut(process) {
            process.account.record.unobserved = Some(format!("it executed {path}, which is not observed"));
        }
    }

    /// A process has sent its last report.
    pub(super) fn complete(&mut self, process: usize) {
        if let Some(process) = self.all.get_mut(process) {
            self.images.ended(process.image, process.account.record.pid);
            process.complete = true;
        }
    }

    /// A process exits, or has ended.
    pub(super) fn exits(&mut self, process: usize, exit: TargetExit) {
        if let Some(process) = self.all.get_mut(process) {
            process.account.record.exit = Some(exit);
        }
    }

    /// A process has waited for its child `pid`.
    pub(super) fn reaped(&mut self, pid: u32, status: u32) {
        if let Some(child) = self.all.iter_mut().rev().find(|child| child.account.record.pid == pid) {
            child.account.record.exit = Some(exit_of(ExitStatus::from_raw(status as i32)));
        }
    }

    /// Processes besides the first, by command, that ended without a last report although they were observed.
    pub(super) fn cut_short(&self) -> Vec<&str> {
        let cut = |process: &&Process| !process.complete && process.account.record.unobserved.is_none();
        self.all.iter().skip(1).filter(cut).map(|process| process.account.record.command.as_str()).collect()
    }

    /// Why processes besides the first went unobserved.
    pub(super) fn unobserved(&self) -> Vec<&str> {
        self.all.iter().skip(1).filter_map(|process| process.account.record.unobserved.as_deref()).collect()
    }
}
