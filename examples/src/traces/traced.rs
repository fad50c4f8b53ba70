//! A program of which every event is handed out.

use std::cell::RefCell;
use std::ffi::OsString;
use std::rc::Rc;

use reuse_sampler::auto::{AutoOptions, AutoTrace};
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::trace::Side;
use reuse_sampler::{SamplerError, ThreadId};

use super::trace_program;
use crate::cli::Failure;
use crate::report::ProcessRow;
use crate::target::{Outcome, ended_early, named};

/// The running program: one copy is replayed, the other asked how it went.
#[derive(Clone, Debug)]
pub struct Traced(Rc<RefCell<AutoTrace>>);

impl Traced {
    /// Starts `command`.
    ///
    /// # Errors
    /// As [`trace_program`].
    pub fn spawn(command: &[OsString], side: Side, options: &AutoOptions) -> Result<Self, Failure> {
        let trace = trace_program(command, side, options)?;
        Ok(Self(Rc::new(RefCell::new(trace))))
    }

    /// The code at an address, once all events were returned.
    pub fn locate(&self, address: u64) -> Option<String> {
        self.place(address).map(|(code, _)| code)
    }

    /// The same, and whether it has a name: more than file and offset.
    pub fn place(&self, address: u64) -> Option<(String, bool)> {
        self.0.borrow_mut().locate(address).map(|location| named(&location))
    }

    /// The global variable at an address, once all events were returned.
    pub fn variable(&self, address: u64) -> Option<String> {
        let (name, offset) = self.0.borrow_mut().variable(address)?;
        Some(if offset == 0 { name } else { format!("{name}+{offset:#x}") })
    }

    /// Operands of its instructions, unless the instructions themselves are observed.
    pub fn operands(&self) -> Option<u64> {
        Some(self.0.borrow().operands()).filter(|&operands| operands > 0)
    }

    /// What the user should know about the run.
    pub fn notes(&self) -> Vec<String> {
        self.0.borrow().warnings().to_vec()
    }

    /// The program and its children, where what they do is counted: by translation. Complete once all events were returned.
    pub fn processes(&self) -> Vec<ProcessRow> {
        let all = self.0.borrow().processes().into_iter();
        all.filter(|one| one.instructions > 0 || one.unobserved.is_some()).map(ProcessRow::from).collect()
    }

    /// The number of the process that a thread belongs to, once an event of it was returned.
    pub fn process_of(&self, thread: ThreadId) -> usize {
        self.0.borrow().process_of(thread).unwrap_or(0)
    }

    /// Whether it was killed, or ran on unobserved. Known once all events were returned.
    pub fn ended_early(&self) -> bool {
        ended_early(&self.outcome(), &self.0.borrow().processes())
    }

    /// How it ended, once all events were returned.
    pub fn outcome(&self) -> Outcome {
        self.0.borrow().exit_status().into()
    }
}

/// The events of all threads as those of one: distances are counted by the process's clock and end at any thread's touch.
#[derive(Debug)]
pub struct Merged<S>(pub S);

impl<S: EventSource> EventSource for Merged<S> {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        loop {
            match self.0.next_event()? {
                Some(Event::Thread(_) | Event::Exit(_)) => {}
                event => return Ok(event),
            }
        }
    }
}

impl EventSource for Traced {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        self.0.borrow_mut().next_event()
    }
}
