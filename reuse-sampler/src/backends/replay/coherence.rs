//! What threads do to each other: stores that take lines away, and touches that a cache of the process sees.

use std::collections::BTreeMap;

use super::sampler::ReplayOptions;
use super::threads::{End, ThreadState};
use crate::engine::touches::Touches;
use crate::engine::tracker::Mode;
use crate::{Access, AccessKind, Scope, ThreadId, Window, WindowIndex};

/// Bits of a mask of threads.
const CLASSES: u32 = 32;
/// Masks begin above the bits of an entry that mean something to [`Touches`].
const LOWEST: u32 = 2;

/// All threads together, beside the state of each.
#[derive(Debug)]
pub(super) struct Process {
    state: ThreadState,
    segments: u64,               // begun
    begun: bool,                 // the present one
    lines: Touches, // by line: the threads that may have an open sample of it; 0 where only the first may
    classes: Vec<Vec<ThreadId>>, // threads by bit of the mask
    first: ThreadId,
    several: bool, // there were at least two threads
}

impl Process {
    /// A process in which no thread has begun.
    pub fn new(options: &ReplayOptions) -> Self {
        Self {
            state: ThreadState::new(ThreadId(u32::MAX), options.seed, options.window),
            segments: 0,
            begun: false,
            lines: Touches::default(),
            classes: vec![Vec::new(); CLASSES as usize],
            first: ThreadId(0),
            several: false,
        }
    }

    /// Observes what follows as `mode` says, unless that was said since the last segment ended.
    pub fn begin(&mut self, mode: Mode) {
        if !std::mem::replace(&mut self.begun, true) {
            self.state.begin(WindowIndex(self.segments), mode);
            self.segments += 1;
        }
    }

    /// A thread begins.
    pub fn add(&mut self, id: ThreadId) {
        let any = self.classes.iter().any(|class| !class.is_empty());
        if any {
            self.several = true;
        } else if !self.several {
            self.first = id;
        }
        self.classes[class_of(id)].push(id);
    }

    /// A thread has ended, and its samples with it.
    pub fn remove(&mut self, id: ThreadId) {
        self.classes[class_of(id)].retain(|thread| *thread != id);
    }

    /// The thread of `state`, which is none of `others`, makes an access.
    #[inline]
    pub fn access(
        &mut self,
        state: &mut ThreadState,
        others: &mut BTreeMap<ThreadId, ThreadState>,
        access: &Access,
        options: &ReplayOptions,
    ) {
        self.state.access(access, options.line_size);
        if !self.several {
            return state.access(access, options.line_size);
        }
        let (first, last) = options.line_size.span(access);
        let own = bit_of(state.id());
        if access.kind == AccessKind::Store {
            for line in first..=last {
                self.invalidate(line, state.id(), others);
            }
        }
        state.access(access, options.line_size);
        for line in first..=last {
            if state.may_hold(line) {
                let place = self.lines.place_of(line);
                let listed = &mut self.lines.entries()[place.index()];
                *listed = own | if *listed == 0 { bit_of(self.first) } else { *listed };
            }
        }
    }

    /// Ends the samples of `line` of all threads but `own`.
    fn invalidate(&mut self, line: u64, own: ThreadId, others: &mut BTreeMap<ThreadId, ThreadState>) {
        let listed = self.lines.get(line);
        let holders = if listed == 0 { bit_of(self.first) } else { listed };
        let alone = self.classes[class_of(own)].len() <= 1;
        let mut rest = if alone { holders & !bit_of(own) } else { holders };
        if rest == 0 {
            return;
        }
        while rest != 0 {
            let class = rest.trailing_zeros() - LOWEST;
            for id in self.classes[class as usize].iter().filter(|id| **id != own) {
                if let Some(other) = others.get_mut(id) {
                    other.invalidate(line);
                }
            }
            rest &= rest - 1;
        }
        let place = self.lines.place_of(line);
        self.lines.entries()[place.index()] = bit_of(own);
    }

    /// Ends the segment, if anything happened in it.
    pub fn end(&mut self, how: End, options: &ReplayOptions) -> Option<Box<Window>> {
        let idle = self.state.is_idle();
        let mut segment = self.state.end(how, options.window, options.line_size);
        segment.scope = Scope::Shared;
        if let Some(arrivals) = &mut segment.arrivals {
            arrivals.loads.adopt(Scope::Shared);
            arrivals.stores.adopt(Scope::Shared);
        }
        self.begun = false;
        (!idle || segment.outcomes().next().is_some()).then(|| Box::new(segment))
    }
}

const fn class_of(id: ThreadId) -> usize {
    (id.0 % CLASSES) as usize
}

const fn bit_of(id: ThreadId) -> u64 {
    1 << (id.0 % CLASSES + LOWEST)
}
