//! Arm's Statistical Profiling Extension (SPE): what the processor reports of operations that it chooses itself, parsed
//! from the bytes it writes.
//!
//! Every so many operations one is chosen, at random intervals if so asked, and followed from dispatch to completion: where
//! it is in the program, what it did, which address it accessed, how long that took, and whether the caches had it. The
//! processor writes this as a record of packets into memory, at no cost to the program but that memory's, and notifies nobody:
//! an operation is long past when its record is read. **So it cannot stop the program at an access**, and no reuse
//! distance begins at one of its records: its line may have been touched any number of times before anybody could watch it,
//! and how many accesses ago it was made is not in it. What records are good for is which instructions miss and how long
//! they take ([`ByInstruction`]), and which lines are hot: estimates, beside the sampler's own samples.
//!
//! Two records never overlap: where an operation is chosen while another is followed the second is dropped
//! (a *collision*), so that code behind slow operations is chosen too seldom. Operations are followed that are never
//! retired; [`Operation::is_access`] leaves them out.
//!
//! Source: Arm Architecture Reference Manual for A-profile, DDI 0487, chapter "Statistical Profiling Extension Sample
//! Record Specification".

mod packet;
mod profile;
#[cfg(test)]
mod tests;

pub use packet::{AddressOf, Class, Latency, Malformed, Packet, Packets, packets};
pub use profile::{ByInstruction, InstructionProfile, ProfileLosses, Profiled};

use crate::{Access, AccessKind};

/// What happened to an operation, by the bits of an events packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(pub u64);

impl Events {
    const fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }

    /// It was completed, and not on a path that was given up.
    #[must_use]
    pub const fn retired(self) -> bool {
        self.has(1)
    }

    /// It found its line missing in the first data cache.
    #[must_use]
    pub const fn first_level_miss(self) -> bool {
        self.has(3)
    }

    /// Its address was not in the first cache of translations and had to be looked up in memory's tables.
    #[must_use]
    pub const fn translation_walk(self) -> bool {
        self.has(5)
    }

    /// It got as far as the last level of caches.
    #[must_use]
    pub const fn last_level_access(self) -> bool {
        self.has(8)
    }

    /// And its line was not there either.
    #[must_use]
    pub const fn last_level_miss(self) -> bool {
        self.has(9)
    }
}

/// One operation that the processor chose, as far as its record says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// Where its record begins in the trace.
    pub offset: u64,
    /// The instruction.
    pub pc: Option<u64>,
    /// Whether it is the program's, not the kernel's.
    pub user: bool,
    /// What it is.
    pub class: Option<Class>,
    /// The address of the data it accessed.
    pub address: Option<u64>,
    /// Cycles from dispatch to completion.
    pub latency: Option<u16>,
    /// Cycles of these for the translation of the address.
    pub translation: Option<u16>,
    /// What happened to it.
    pub events: Events,
    /// Where the data came from, by numbers of the processor's own.
    pub source: Option<u64>,
    /// What the kernel wrote in the processor's context register.
    pub context: Option<u32>,
    /// When it was completed, by the clock of the trace.
    pub timestamp: Option<u64>,
}

impl Operation {
    /// Whether it is an access to memory that the program made: a load or a store with its address, in the program itself,
    /// and completed.
    #[must_use]
    pub const fn is_access(&self) -> bool {
        matches!(self.class, Some(Class::Load | Class::Store))
            && self.user
            && self.pc.is_some()
            && self.address.is_some()
            && self.events.retired()
    }

    /// The access, if it is one. The record does not say how many bytes: one.
    #[must_use]
    pub fn access(&self) -> Option<Access> {
        let (Some(pc), Some(address), true) = (self.pc, self.address, self.is_access()) else { return None };
        let kind = if self.class == Some(Class::Store) { AccessKind::Store } else { AccessKind::Load };
        Some(Access { address, bytes: 1, kind, pc })
    }
}

/// Iterates over the operations in `bytes`, which begin with a packet and of which the first has this `offset` in the
/// trace. A record that is cut off by the end of the bytes is malformed; so is one that is no sequence of packets, and
/// after that there is nothing more.
#[must_use]
pub const fn operations(bytes: &[u8], offset: u64) -> Operations<'_> {
    Operations { packets: packets(bytes, offset) }
}

/// See [`operations`].
#[derive(Clone, Debug)]
pub struct Operations<'a> {
    packets: Packets<'a>,
}

impl Iterator for Operations<'_> {
    type Item = Result<Operation, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record: Option<Operation> = None;
        loop {
            let offset = self.packets.offset();
            let packet = match self.packets.next() {
                Some(Ok(packet)) => packet,
                Some(Err(malformed)) => return Some(Err(malformed)),
                None => {
                    let problem = "ends within a record";
                    return record.map(|begun| Err(Malformed { offset: begun.offset, problem }));
                }
            };
            // Padding is between records and may be within one.
            if matches!(packet, Packet::Padding(_)) {
                continue;
            }
            let record = record.get_or_insert(Operation { offset, ..Operation::default() });
            match packet {
                Packet::End => return Some(Ok(*record)),
                Packet::Timestamp(time) => {
                    record.timestamp = Some(time);
                    return Some(Ok(*record));
                }
                Packet::Address { of: AddressOf::Instruction, address, user } => {
                    (record.pc, record.user) = (Some(address), user);
                }
                Packet::Address { of: AddressOf::Data, address, .. } => record.address = Some(address),
                Packet::Counter { of: Latency::Total, cycles } => record.latency = Some(cycles),
                Packet::Counter { of: Latency::Translation, cycles } => record.translation = Some(cycles),
                Packet::Context(context) => record.context = Some(context),
                Packet::Operation { class, .. } => record.class = Some(class),
                Packet::Events(events) => record.events = events,
                Packet::DataSource(source) => record.source = Some(source),
                Packet::Padding(_) | Packet::Address { .. } | Packet::Counter { .. } => {}
            }
        }
    }
}

/// Writes records, for whoever plays the processor.
#[cfg(test)]
pub(super) mod write {
    use super::{Class, Operation};

    /// A record as a processor writes it: address of the instruction, kind, events, latencies, address of the data, and
    /// the timestamp or an end, padded to 64 bytes.
    pub fn record(out: &mut Vec<u8>, operation: &Operation) {
        let begin = out.len();
        if let Some(pc) = operation.pc {
            out.push(0xB0);
            let level = if operation.user { 0 } else { 1 << 61 };
            out.extend((pc & ((1 << 56) - 1) | 1 << 63 | level).to_le_bytes());
        }
        if let Some(context) = operation.context {
            out.push(0x65);
            out.extend(context.to_le_bytes());
        }
        match operation.class {
            Some(Class::Load) => out.extend([0x49, 0x00]),
            Some(Class::Store) => out.extend([0x49, 0x01]),
            Some(Class::Branch) => out.extend([0x4A, 0x00]),
            Some(Class::Other) => out.extend([0x48, 0x00]),
            None => {}
        }
        out.push(0x52);
        out.extend((operation.events.0 as u16).to_le_bytes());
        for (index, cycles) in [(0, operation.latency), (2, operation.translation)] {
            if let Some(cycles) = cycles {
                out.push(0x98 | index);
                out.extend(cycles.to_le_bytes());
            }
        }
        if let Some(address) = operation.address {
            out.push(0xB2);
            out.extend((address & ((1 << 56) - 1)).to_le_bytes());
        }
        if let Some(source) = operation.source {
            out.extend([0x43, source as u8]);
        }
        match operation.timestamp {
            Some(time) => {
                out.push(0x71);
                out.extend(time.to_le_bytes());
            }
            None => out.push(0x01),
        }
        out.resize(begin + (out.len() - begin).next_multiple_of(64), 0);
    }
}
