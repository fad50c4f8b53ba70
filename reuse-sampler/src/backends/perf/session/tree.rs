//! The program and the processes that it starts.

use std::collections::{BTreeMap, BTreeSet};

use crate::backends::processes::Account;
use crate::perf::kernel::{Executed, Tid};
use crate::{AccessCount, ProcessRecord, TargetExit, Window};

/// A process that was seen.
#[derive(Debug)]
pub(in crate::backends::perf) struct Process {
    pub account: Account,
    /// Number of the file that it executes.
    pub program: usize,
    /// Instructions that were looked at for accesses, and these.
    pub tested: u64,
    pub found: u64,
}

/// Where the code of a window comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::backends::perf) struct Origin {
    pub process: Tid,
    /// Number of the file that it executed.
    pub program: usize,
    /// Whether it still executes that.
    pub current: bool,
}

/// All of them, in the order in which they began.
#[derive(Debug, Default)]
pub(in crate::backends::perf) struct Tree {
    all: Vec<Process>,
    live: BTreeMap<Tid, usize>,
    /// Files that were executed.
    pub programs: Vec<String>,
    /// Numbers of processes of which something is new.
    pub changed: BTreeSet<usize>,
    /// Processes that were let go unobserved as they began.
    pub ignored: u64,
}

impl Tree {
    /// The number of a process that is known.
    pub fn number(&self, process: Tid) -> Option<usize> {
        self.live.get(&process).copied()
    }

    /// A process has begun, made by another: its number.
    pub fn add(&mut self, process: Tid, parent: Tid, executed: &Executed) -> usize {
        let number = self.all.len();
        let record = ProcessRecord::new(process.unsigned_abs(), parent.unsigned_abs(), String::new());
        self.all.push(Process { account: Account::new(record), program: 0, tested: 0, found: 0 });
        self.live.insert(process, number);
        self.executes(number, executed);
        number
    }

    /// A process executes another program.
    pub fn executes(&mut self, number: usize, executed: &Executed) {
        let known = self.programs.iter().position(|file| *file == executed.file);
        let program = known.unwrap_or(self.programs.len());
        if known.is_none() {
            self.programs.push(executed.file.clone());
        }
        let process = &mut self.all[number];
        // Another program accesses memory more or less often.
        (process.program, process.tested, process.found) = (program, 0, 0);
        process.account.record.command.clone_from(&executed.command);
        self.changed.insert(number);
    }

    /// A window of a process has ended.
    pub fn count(&mut self, number: usize, window: &Window) {
        let seen = match window.accesses {
            AccessCount::Measured(accesses) => Some((window.instructions, accesses)),
            _ => None,
        };
        self.all[number].account.add(window.instructions, seen);
        self.changed.insert(number);
    }

    /// How a process has ended.
    pub fn exited(&mut self, process: Tid, exit: Option<TargetExit>) {
        let record = |p: &Process| p.account.record.pid == process.unsigned_abs();
        if let Some(number) = self.all.iter().rposition(record) {
            self.get_mut(number).account.record.exit = exit;
        }
    }

    /// A thread has ended, and with it its process if it has the process's number.
    pub fn ended(&mut self, thread: Tid) {
        self.live.remove(&thread);
    }

    /// A process by its number.
    pub fn get(&self, number: usize) -> &Process {
        &self.all[number]
    }

    /// An instruction of a process makes so many accesses.
    pub fn look(&mut self, number: usize, accesses: u64) {
        let process = &mut self.all[number];
        process.tested += 1;
        process.found += accesses;
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, number: usize) -> &mut Process {
        self.changed.insert(number);
        &mut self.all[number]
    }

    /// How a user knows a process.
    pub fn name(&self, number: usize) -> String {
        self.all[number].account.name(number)
    }

    /// Where the code of a window of a process that ends now comes from.
    pub fn origin(&self, number: usize, current: bool) -> Origin {
        let Process { account, program, .. } = &self.all[number];
        Origin { process: account.record.pid as Tid, program: *program, current }
    }
}
