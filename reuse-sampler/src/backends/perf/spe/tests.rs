//! Packets put together by hand from the architecture's description, and laws.

use quickcheck::{TestResult, quickcheck};

use super::*;

fn all(bytes: &[u8]) -> Vec<Result<Packet, Malformed>> {
    packets(bytes, 0).collect()
}

/// A record of a load as a processor with timestamps writes it.
#[rustfmt::skip]
const LOAD: &[u8] = &[
    0xB0, 0x10, 0x32, 0x54, 0x76, 0xAA, 0xAA, 0x00, 0x80, // instruction, level 0, not secure
    0x65, 0xD2, 0x04, 0x00, 0x00, // context: thread 1234
    0x49, 0x00, // a load of a general register
    0x52, 0x0E, 0x03, // retired, first-level access and miss, last-level access and miss
    0x99, 0x07, 0x00, // 7 cycles to issue
    0x98, 0x2C, 0x01, // 300 in all
    0x9A, 0x05, 0x00, // 5 for the translation
    0xB2, 0xC8, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x00, 0xF7, // data, with a tag in the highest byte
    0x43, 0x0D, // came from a place numbered 13
    0x71, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // when
];

#[test]
fn a_load_by_hand() {
    let found: Vec<Packet> = all(LOAD).into_iter().map(Result::unwrap).collect();
    let address = |of, address| Packet::Address { of, address, user: true };
    let counter = |of, cycles| Packet::Counter { of, cycles };
    let expected = [
        address(AddressOf::Instruction, 0xAAAA_7654_3210),
        Packet::Context(1234),
        Packet::Operation { class: Class::Load, details: 0 },
        Packet::Events(Events(0x30E)),
        counter(Latency::Issue, 7),
        counter(Latency::Total, 300),
        counter(Latency::Translation, 5),
        address(AddressOf::Data, 0x4567_89AB_CDC8),
        Packet::DataSource(13),
        Packet::Timestamp(0x1122_3344_5566_7788),
    ];
    assert_eq!(found, expected);
    let operation = operations(LOAD, 4096).next().unwrap().unwrap();
    let expected = Operation {
        offset: 4096,
        pc: Some(0xAAAA_7654_3210),
        user: true,
        class: Some(Class::Load),
        address: Some(0x4567_89AB_CDC8),
        latency: Some(300),
        translation: Some(5),
        events: Events(0x30E),
        source: Some(13),
        context: Some(1234),
        timestamp: Some(0x1122_3344_5566_7788),
    };
    assert_eq!(operation, expected);
    let events = operation.events;
    assert!(events.first_level_miss() && events.last_level_access() && events.last_level_miss());
    assert!(events.retired() && !events.translation_walk());
    let access = operation.access().unwrap();
    assert_eq!(
        (access.address, access.pc, access.kind),
        (0x4567_89AB_CDC8, 0xAAAA_7654_3210, AccessKind::Load)
    );
}

/// What is not an access of the program's: the kernel's, a branch, one on a path that was given up, one without address.
#[test]
fn only_completed_accesses_of_the_program_are_accesses() {
    let own = operations(LOAD, 0).next().unwrap().unwrap();
    assert!(own.is_access());
    let others = [
        Operation { user: false, ..own },
        Operation { class: Some(Class::Branch), ..own },
        Operation { class: None, ..own },
        Operation { events: Events(0x304), ..own },
        Operation { address: None, ..own },
        Operation { pc: None, ..own },
    ];
    for other in others {
        assert!(!other.is_access() && other.access().is_none(), "{other:?}");
    }
    let store = Operation { class: Some(Class::Store), ..own };
    assert_eq!(store.access().unwrap().kind, AccessKind::Store);
}

#[test]
fn kernel_addresses_and_other_kinds_of_packets() {
    #[rustfmt::skip]
    let cases: &[(&[u8], Packet)] = &[
        (&[0xB0, 0x00, 0x10, 0x00, 0x00, 0x00, 0x80, 0xFF, 0xA0],
            Packet::Address { of: AddressOf::Instruction, address: 0xFFFF_8000_0000_1000, user: false }),
        (&[0xB1, 0x04, 0, 0, 0, 0, 0, 0, 0x80], Packet::Address { of: AddressOf::BranchTarget, address: 4, user: true }),
        (&[0xB3, 0x40, 0, 0, 0, 0x02, 0, 0, 0x80],
            Packet::Address { of: AddressOf::PhysicalData, address: 0x2_0000_0040, user: true }),
        (&[0xB4, 0x08, 0, 0, 0, 0, 0, 0, 0x80], Packet::Address { of: AddressOf::PreviousBranch, address: 8, user: true }),
        // A header of two bytes: index 1 * 8 + 6.
        (&[0x21, 0xB6, 1, 0, 0, 0, 0, 0, 0, 0], Packet::Address { of: AddressOf::Other(14), address: 1, user: true }),
        (&[0x22, 0x9B, 9, 0], Packet::Counter { of: Latency::Other(19), cycles: 9 }),
        (&[0x42, 0x02], Packet::Events(Events(2))),
        (&[0x72, 1, 2, 0, 0, 0, 0, 0, 0x80], Packet::Events(Events(0x8000_0000_0000_0201))),
        (&[0x53, 0x34, 0x12], Packet::DataSource(0x1234)),
        (&[0x48, 0x00], Packet::Operation { class: Class::Other, details: 0 }),
        (&[0x49, 0x05], Packet::Operation { class: Class::Store, details: 5 }),
        (&[0x4A, 0x03], Packet::Operation { class: Class::Branch, details: 3 }),
        (&[0x01], Packet::End),
        (&[0x00, 0x00, 0x00], Packet::Padding(3)),
        (&[0x23, 0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
            Packet::Padding(16)),
    ];
    for (bytes, expected) in cases {
        assert_eq!(all(bytes), [Ok(*expected)], "{bytes:x?}");
        for cut in 1..bytes.len() {
            let cut_off = all(&bytes[..cut]);
            let padding = bytes[0] == 0;
            assert!(
                padding || cut_off == [Err(Malformed { offset: 0, problem: "ends within a packet" })],
                "{cut_off:?}"
            );
        }
    }
}

/// What follows is aligned in the trace, not in the bytes at hand.
#[test]
fn alignment_is_by_the_offset_in_the_trace() {
    let bytes = [0x22, 0x00, 0, 0, 0, 0, 0x01];
    for (offset, padding) in [(0, None), (2, Some(6)), (10, Some(6)), (4, Some(4)), (7, Some(9))] {
        let found: Vec<_> = packets(&bytes, offset).collect();
        match padding {
            Some(6) => assert_eq!(found, [Ok(Packet::Padding(6)), Ok(Packet::End)], "{offset}"),
            Some(4) => assert_eq!(found[0], Ok(Packet::Padding(4)), "{offset}"),
            _ => assert!(found[0].is_err(), "{offset}: {found:?}"),
        }
    }
}

#[test]
fn what_is_no_packet_is_refused_where_it_begins() {
    let mut bytes = LOAD.to_vec();
    bytes.extend([0, 0, 0xFF, 0, 0]);
    let found: Vec<_> = operations(&bytes, 100).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[1].unwrap_err().to_string(),
        format!("statistical profile, byte {}: no header of a packet", 100 + LOAD.len() + 2)
    );
    // The second record is cut off.
    let mut bytes = LOAD.to_vec();
    bytes.extend(&LOAD[..16]);
    let found: Vec<_> = operations(&bytes, 0).collect();
    let problem = "ends within a record";
    assert_eq!(found[1], Err(Malformed { offset: LOAD.len() as u64, problem }));
}

/// Held against adding up by hand what a thousand operations of a few instructions say.
#[test]
fn instructions_are_ranked_by_the_cycles_they_took() {
    let operation = |n: u64| Operation {
        pc: Some(0x1000 + n * n % 7 * 4),
        user: n % 11 != 0,
        class: Some(if n * n % 7 == 2 { Class::Store } else { Class::Load }),
        address: Some(n * 64),
        latency: (n % 13 != 0).then_some((n % 100) as u16),
        events: Events(2 | ((n % 3 / 2) << 3) | ((n % 5 / 4) << 9)),
        ..Operation::default()
    };
    let mut profile = ByInstruction::new();
    (0..1000).for_each(|n| profile.add(&operation(n)));
    let ranked = profile.ranked();
    assert!(ranked.is_sorted_by(|a, b| a.cycles >= b.cycles));
    assert_eq!(ranked.len(), 4); // the squares modulo 7
    for site in ranked {
        let own: Vec<u64> = (0..1000).filter(|n| n % 11 != 0 && 0x1000 + n * n % 7 * 4 == site.pc).collect();
        let count = |of: fn(&u64) -> bool| own.iter().filter(|n| of(n)).count() as u64;
        let cycles: u64 = own.iter().filter(|n| *n % 13 != 0).map(|n| n % 100).sum();
        let misses = [count(|n| n % 3 == 2), count(|n| n % 5 == 4)];
        assert_eq!((site.samples, site.cycles), (own.len() as u64, cycles));
        assert_eq!([site.first_level_misses, site.last_level_misses], misses);
        assert_eq!(site.kind == AccessKind::Store, site.pc == 0x1008);
    }
}

/// Address, instruction, latency, and a number for the rest.
type Written = (u64, u64, u16, u8);

quickcheck! {
    fn what_is_written_is_read(written: Vec<Written>) -> TestResult {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (address, pc, latency, bits) in written {
            let class = [Class::Load, Class::Store, Class::Branch, Class::Other][usize::from(bits & 3)];
            let operation = Operation {
                offset: bytes.len() as u64,
                pc: Some(pc >> 9),
                user: bits & 4 == 0,
                class: Some(class),
                address: (bits & 1 == 0).then_some(address >> 9),
                latency: Some(latency),
                translation: (bits & 8 != 0).then_some(latency / 2),
                events: Events(u64::from(latency)),
                source: (bits & 16 != 0).then_some(7),
                context: (bits & 32 != 0).then_some(address as u32),
                timestamp: (bits & 64 != 0).then_some(pc),
            };
            write::record(&mut bytes, &operation);
            expected.push(Ok(operation));
        }
        TestResult::from_bool(operations(&bytes, 0).collect::<Vec<_>>() == expected)
    }

    fn any_bytes_are_read_to_an_end(bytes: Vec<u8>, offset: u64) -> bool {
        let offset = offset >> 1;
        let found: Vec<_> = packets(&bytes, offset).collect();
        let whole: Vec<_> = operations(&bytes, offset).collect();
        // At most one error, and the last; nothing is read twice or left out.
        let covered = found.iter().all(Result::is_ok) && {
            let mut packets = packets(&bytes, offset);
            while packets.next().is_some() {}
            packets.offset() == offset + bytes.len() as u64
        };
        let one = |mut all: Vec<bool>| all.pop().is_none_or(|_| all.iter().all(|ok| *ok));
        (covered || found.last().is_some_and(Result::is_err))
            && found.len() <= bytes.len()
            && one(found.iter().map(Result::is_ok).collect())
            && one(whole.iter().map(Result::is_ok).collect())
    }
}
