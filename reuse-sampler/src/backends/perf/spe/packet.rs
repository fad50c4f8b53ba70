//! Packets: a header of one or two bytes, and a payload of 1, 2, 4 or 8 bytes as the header says.

use std::fmt;

use super::Events;

/// What an address is the address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressOf {
    /// The instruction that was sampled.
    Instruction,
    /// Where a branch went.
    BranchTarget,
    /// Data, as the program names it.
    Data,
    /// The same in physical memory.
    PhysicalData,
    /// Where the branch before went.
    PreviousBranch,
    /// Anything that this parser does not know, by the index in the packet's header.
    Other(u8),
}

/// What a counter has counted cycles of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Latency {
    /// From dispatch to completion.
    Total,
    /// From dispatch to issue.
    Issue,
    /// Of the translation of the address.
    Translation,
    /// Anything that this parser does not know, by the index in the packet's header.
    Other(u8),
}

/// What kind of operation was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// It reads memory.
    Load,
    /// It writes memory; atomic operations that do both among them.
    Store,
    /// A branch or an exception return.
    Branch,
    /// Anything else.
    Other,
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet {
    /// Nothing: so many bytes up to the next packet.
    Padding(usize),
    /// The end of a record that has no timestamp.
    End,
    /// The end of a record, and when that was, by the generic timer or by whatever the kernel chose.
    Timestamp(u64),
    /// An address, without tags and with its upper bits as the processor has them.
    Address {
        /// Of what.
        of: AddressOf,
        /// The address.
        address: u64,
        /// Whether the program was at it and not the kernel, for addresses of instructions; `true` for data.
        user: bool,
    },
    /// A latency.
    Counter {
        /// Of what.
        of: Latency,
        /// Cycles.
        cycles: u16,
    },
    /// What the kernel wrote in the processor's context register: the number of the thread, where it does.
    Context(u32),
    /// The kind of operation, and the details of it that the processor reports (DDI 0487, "Operation Type packet").
    Operation {
        /// Its kind.
        class: Class,
        /// Details, by bits.
        details: u8,
    },
    /// What happened to it.
    Events(Events),
    /// Where data came from, by numbers of the processor's own.
    DataSource(u64),
}

/// Bytes that are no packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// Where the packet begins, in the numbering of the first byte's offset.
    pub offset: u64,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "statistical profile, byte {}: {}", self.offset, self.problem)
    }
}

impl std::error::Error for Malformed {}

/// Iterates over the packets in `bytes`, which begin with one and of which the first has this `offset` in the trace:
/// padding is to multiples of some power of two. After an error there is nothing more.
#[must_use]
pub const fn packets(bytes: &[u8], offset: u64) -> Packets<'_> {
    Packets { bytes, offset }
}

/// See [`packets`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    bytes: &'a [u8],
    offset: u64, // of the first of them
}

impl Packets<'_> {
    /// Where the next packet begins, in the numbering of the first byte's offset.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }
}

impl Iterator for Packets<'_> {
    type Item = Result<Packet, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let &first = self.bytes.first()?;
        match packet(first, self.bytes, self.offset) {
            Ok((packet, length)) => {
                self.bytes = &self.bytes[length..];
                self.offset += length as u64;
                Some(Ok(packet))
            }
            Err(problem) => {
                self.bytes = &[];
                Some(Err(Malformed { offset: self.offset, problem }))
            }
        }
    }
}

const PADDING: u8 = 0x00;
const END: u8 = 0x01;
const TIMESTAMP: u8 = 0x71;
const CUT_OFF: &str = "ends within a packet";

/// The packet that `bytes` begin with, and its length, which is at most theirs.
fn packet(first: u8, bytes: &[u8], offset: u64) -> Result<(Packet, usize), &'static str> {
    if first == PADDING {
        let length = bytes.iter().take_while(|&&byte| byte == PADDING).count();
        return Ok((Packet::Padding(length), length));
    }
    if first == END {
        return Ok((Packet::End, 1));
    }
    // Bits 7 and 6 and the lower four give the kind, bits 5 and 4 the size of the payload.
    let short = || payload(bytes, 1, first);
    match (first, first & 0xCF, first & 0xFC) {
        (TIMESTAMP, _, _) => short().map(|(value, length)| (Packet::Timestamp(value), length)),
        (_, 0x42, _) => short().map(|(value, length)| (Packet::Events(Events(value)), length)),
        (_, 0x43, _) => short().map(|(value, length)| (Packet::DataSource(value), length)),
        (_, _, 0x64) => short().map(|(value, length)| (Packet::Context(value as u32), length)),
        (_, _, 0x48) => {
            let (details, length) = short()?;
            let class = match (first & 3, details & 1) {
                (1, 0) => Class::Load,
                (1, _) => Class::Store,
                (2, _) => Class::Branch,
                _ => Class::Other,
            };
            Ok((Packet::Operation { class, details: details as u8 }, length))
        }
        // A header of two bytes: the first holds the upper bits of an index.
        (_, _, 0x20) => match *bytes.get(1).ok_or(CUT_OFF)? {
            PADDING => {
                let alignment = 2_u64 << (first & 3);
                let length = (alignment - offset % alignment) as usize;
                // The header itself takes two bytes.
                let length = if length < 2 { length + alignment as usize } else { length };
                if length > bytes.len() { Err(CUT_OFF) } else { Ok((Packet::Padding(length), length)) }
            }
            second => indexed(bytes, 2, second, first & 3),
        },
        _ => indexed(bytes, 1, first, 0),
    }
}

/// An address or a counter, whose header's last byte, number `header` of them, is `last`.
fn indexed(bytes: &[u8], header: usize, last: u8, upper: u8) -> Result<(Packet, usize), &'static str> {
    let index = upper << 3 | last & 7;
    match last & 0xF8 {
        0xB0 => {
            let (value, length) = payload(bytes, header, last)?;
            Ok((address(index, value), length))
        }
        0x98 => {
            let (value, length) = payload(bytes, header, last)?;
            let of = match index {
                0 => Latency::Total,
                1 => Latency::Issue,
                2 => Latency::Translation,
                other => Latency::Other(other),
            };
            Ok((Packet::Counter { of, cycles: value as u16 }, length))
        }
        _ => Err("no header of a packet"),
    }
}

/// Bits 55 to 0 are the address proper. Above them are a tag, or a level of privilege and a security state.
fn address(index: u8, value: u64) -> Packet {
    let proper = value & ((1 << 56) - 1);
    let extended = ((value << 8) as i64 >> 8) as u64; // the upper half of addresses is the kernel's
    let level = value >> 61 & 3;
    let (of, address, user) = match index {
        0 => (AddressOf::Instruction, extended, level == 0),
        1 => (AddressOf::BranchTarget, extended, level == 0),
        2 => (AddressOf::Data, extended, true),
        3 => (AddressOf::PhysicalData, proper, true),
        4 => (AddressOf::PreviousBranch, extended, level == 0),
        other => (AddressOf::Other(other), value, true),
    };
    Packet::Address { of, address, user }
}

/// The payload behind a header of so many bytes, the last of which gives its size; and the length of both.
fn payload(bytes: &[u8], header: usize, last: u8) -> Result<(u64, usize), &'static str> {
    let length = header + (1 << (last >> 4 & 3));
    let payload = bytes.get(header..length).ok_or(CUT_OFF)?;
    Ok((payload.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)), length))
}
