//! The processor: instructions, what counts them, and what watches memory.

use super::{CODE, LOADS, OPERATIONS, PRECISE_LOADS, PRECISE_STORES, STORES, Sim};
use crate::AccessKind;
use crate::perf::kernel::{Notice, Operand, Source, Stop, Tid};
use crate::perf::ring::{Sample, write};

impl Sim {
    pub(super) fn overflow(&mut self, handle: i32, ip: u64, address: u64) {
        let Some(event) = self.events.get(&handle) else { return };
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
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let operands = (thread.program)(thread.at);
        let (pc, off) = (CODE + 4 * thread.at, thread.off);
        let hits = self.hits(tid, &operands);
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
        self.clock += 1;
        let mut overflows = Vec::new();
        for (&handle, event) in self.events.iter_mut().filter(|(_, e)| e.thread == tid && e.enabled) {
            let step = match event.opening.source {
                Source::INSTRUCTIONS | OPERATIONS => 1,
                LOADS | PRECISE_LOADS => loads,
                STORES | PRECISE_STORES => operands.len() as u64 - loads,
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
            self.overflow(handle, if precise { pc } else { pc + 4 }, address);
        }
        if after {
            self.hit(&hits, pc + 4);
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
