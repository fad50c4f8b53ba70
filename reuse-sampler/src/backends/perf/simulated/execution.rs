//! The processor: instructions, what counts them, and what watches memory.

use super::{ACCESSES, LOADS, OPERATIONS, PRECISE_LOADS, PRECISE_STORES, STORES, STRETCH, Sim, SimEvent};
use crate::AccessKind;
use crate::perf::kernel::{Notice, Operand, Output, Source, Stop, Tid};
use crate::perf::ring::{Sample, Traced, write};
use crate::perf::spe::{self, Class, Events, Operation};

impl Sim {
    pub(super) fn overflow(&mut self, handle: i32, ip: u64, address: u64) {
        let Some(event) = self.events.get(&handle) else { return };
        if event.opening.output == Output::Nowhere {
            return assert!(!event.opening.stops, "a stop that nobody is told of");
        }
        let (leader, id, layout, stops, tid) =
            (event.leader, event.id, event.opening.layout, event.opening.stops, event.thread);
        let branches = if layout.branches { vec![(ip, ip + 64), (ip + 4, ip + 32)] } else { Vec::new() };
        let counts = if layout.counts { self.group(leader) } else { Vec::new() };
        let sample = Sample {
            event: id,
            ip,
            exact: true,
            kernel: false,
            user_ip: layout.user_ip.then_some(ip),
            address: layout.address.then_some(address),
            counts,
            branches,
        };
        let lost = self.chance(self.faults.lost);
        let throttled = self.chance(self.faults.throttled);
        let ring = self.rings.entry(leader).or_default();
        if lost || ring.0.len() > 60_000 {
            ring.1 += 1;
        } else {
            if ring.1 > 0 {
                write::lost(&mut ring.0, std::mem::take(&mut ring.1));
            }
            if throttled {
                write::throttled(&mut ring.0);
            }
            write::sample(&mut ring.0, &sample, layout);
        }
        if stops {
            let skid = if self.faults.skid > 0 { self.random.below(self.faults.skid + 1) } else { 0 };
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.stop_in = Some(thread.stop_in.map_or(skid, |already| already.min(skid)));
            }
        }
    }

    /// Every so many operations one is followed, and told of in a trace if it accesses memory.
    fn profile(&mut self, tid: Tid, pc: u64, operands: &[Operand]) {
        let clock = self.clock;
        let due = |e: &&mut SimEvent| e.thread == tid && e.enabled && e.trace.is_some();
        let mut followed = None;
        for event in self.events.values_mut().filter(due) {
            event.left -= 1;
            if event.left == 0 {
                event.left = event.opening.period;
                followed = event.trace.as_mut();
            }
        }
        let (Some(trace), Some(operand)) = (followed, operands.first()) else { return };
        if self.faults.collisions > 0 && self.random.below(self.faults.collisions) == 0 {
            trace.collided = true;
            return;
        }
        let operation = Operation {
            pc: Some(pc),
            user: true,
            class: Some(if operand.kind == AccessKind::Store { Class::Store } else { Class::Load }),
            address: Some(operand.address),
            latency: Some((pc % 100) as u16),
            events: Events(0b10),
            timestamp: Some(clock),
            ..Operation::default()
        };
        let mut record = Vec::new();
        spe::write::record(&mut record, &operation);
        let size = trace.memory.len();
        if trace.head + record.len() > trace.tail + size {
            trace.truncated = true;
            return;
        }
        for byte in record {
            trace.memory[trace.head % size] = byte;
            trace.head += 1;
        }
    }

    /// What is new in a trace is announced in its ring, or not.
    pub(super) fn announce(&mut self, handle: i32) {
        if self.events.get(&handle).is_none_or(|event| event.trace.is_none()) {
            return;
        }
        let lost = self.chance(self.faults.lost);
        let Some(trace) = self.events.get_mut(&handle).and_then(|event| event.trace.as_mut()) else { return };
        let part = Traced {
            offset: trace.announced as u64,
            bytes: (trace.head - trace.announced) as u64,
            truncated: std::mem::take(&mut trace.truncated),
            partial: false,
            collided: std::mem::take(&mut trace.collided),
        };
        trace.announced = trace.head;
        if part == (Traced { offset: part.offset, ..Traced::default() }) {
            return;
        }
        let ring = self.rings.entry(handle).or_default();
        if lost {
            ring.1 += 1;
        } else {
            write::trace(&mut ring.0, &part);
        }
    }

    /// Watchpoints of `tid` that the operands touch.
    fn hits(&self, tid: Tid, operands: &[Operand]) -> Vec<(i32, u64)> {
        let mut hits = Vec::new();
        for (&handle, event) in &self.events {
            let Some((first, last)) = event.watch.filter(|_| event.thread == tid && event.enabled) else {
                continue;
            };
            let touching = |o: &&Operand| o.address <= last && o.address + u64::from(o.bytes) > first;
            if let Some(operand) = operands.iter().find(touching) {
                hits.push((handle, operand.address));
            }
        }
        hits
    }

    /// Counts touches. Whether one of them is to stop the thread.
    fn hit(&mut self, hits: &[(i32, u64)], ip: u64) -> bool {
        let mut stops = false;
        for &(handle, address) in hits {
            let Some(event) = self.events.get_mut(&handle) else { continue };
            event.count += 1;
            event.left -= 1;
            if event.left > 0 {
                continue;
            }
            event.left = event.opening.period;
            if event.limit > 0 {
                event.limit -= 1;
                event.enabled = event.limit > 0;
            }
            stops |= event.opening.stops;
            self.overflow(handle, ip, address);
        }
        stops
    }

    /// One instruction of a running thread.
    fn execute(&mut self, tid: Tid) {
        let Some(thread) = self.threads.get(&tid) else { return };
        let operands = (thread.program)(thread.at);
        let (pc, off) = (self.pc(tid), thread.off);
        let away = self.faults.elsewhere > 0 && self.clock / STRETCH % self.faults.elsewhere as u64 == 1;
        let hits = if away { Vec::new() } else { self.hits(tid, &operands) };
        let after = self.abilities.hit_after;
        if !after && !off && !hits.is_empty() && self.hit(&hits, pc) {
            if let Some(thread) = self.threads.get_mut(&tid) {
                (thread.off, thread.step_due, thread.passing) = (true, thread.stepping, true);
                thread.stop_in = Some(0);
            }
            return;
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.at += 1;
        let loads = operands.iter().filter(|o| o.kind == AccessKind::Load).count() as u64;
        thread.loads += loads;
        thread.stores += operands.len() as u64 - loads;
        let generation = thread.generation;
        if self.recording {
            self.trace.entry((tid, generation)).or_default().push(operands.clone());
        }
        let next = self.pc(tid);
        self.clock += 1;
        self.away += u64::from(away);
        self.profile(tid, pc, &operands);
        let mut overflows = Vec::new();
        for (&handle, event) in self.events.iter_mut().filter(|(_, e)| e.thread == tid && e.enabled && !away)
        {
            let step = match event.opening.source {
                OPERATIONS => u64::from(!self.operations_taken),
                Source::INSTRUCTIONS | Source::TASK_CLOCK => 1,
                LOADS | PRECISE_LOADS => loads,
                STORES | PRECISE_STORES => operands.len() as u64 - loads,
                ACCESSES => operands.len() as u64,
                _ => 0,
            };
            event.count += step;
            if event.opening.period > 0 && event.watch.is_none() && step > 0 {
                event.left = event.left.saturating_sub(step);
                if event.left == 0 {
                    event.left = event.opening.period;
                    overflows.push(handle);
                }
            }
        }
        for handle in overflows {
            let (precise, source) = self
                .events
                .get(&handle)
                .map_or((false, OPERATIONS), |event| (event.opening.precise > 0, event.opening.source));
            let chosen = |o: &&Operand| match source {
                PRECISE_LOADS => o.kind == AccessKind::Load,
                PRECISE_STORES => o.kind == AccessKind::Store,
                _ => true,
            };
            let address = operands.iter().rev().find(chosen).map_or(0, |operand| operand.address);
            if precise && source != OPERATIONS && self.faults.written_late > 0 {
                self.late.push((self.faults.written_late, handle, pc, address));
            } else {
                self.overflow(handle, if precise { pc } else { next }, address);
            }
        }
        for (instructions, handle, pc, address) in std::mem::take(&mut self.late) {
            let own = self.events.get(&handle).is_some_and(|event| event.thread == tid);
            match instructions - usize::from(own) {
                0 => self.overflow(handle, pc, address),
                left => self.late.push((left, handle, pc, address)),
            }
        }
        if after {
            self.hit(&hits, next);
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if thread.stepping {
            thread.stepping = false;
            // With its watchpoints off, a step puts them on again and is kept quiet.
            if !thread.off || thread.step_due {
                thread.running = false;
                thread.stop_in = None;
                self.queue.push_back(Notice::Stopped(tid, Stop::Step));
            }
            thread.off = false;
            thread.step_due = false;
        } else if std::mem::take(&mut thread.passing) {
            thread.off = false;
        }
    }

    pub(super) fn run(&mut self, tid: Tid) {
        for _ in 0..500 {
            let Some(thread) = self.threads.get_mut(&tid) else { return };
            if !thread.running {
                return;
            }
            if thread.stop_in == Some(0) && !thread.blocked {
                (thread.stop_in, thread.running, thread.stepping) = (None, false, false);
                self.queue.push_back(Notice::Stopped(tid, Stop::Event));
                return;
            }
            if thread.at >= thread.length {
                (thread.running, thread.ending) = (false, true);
                self.queue.push_back(Notice::Stopped(tid, Stop::Exit));
                return;
            }
            thread.stop_in = thread.stop_in.map(|left| left.saturating_sub(1));
            self.execute(tid);
        }
    }
}
