//! Tables as people write them, tables that are none, and what is written and read back.

use quickcheck::quickcheck;

use super::*;

fn read(text: &[u8]) -> Result<Vec<Event>, SamplerError> {
    let mut reader = CsvReader::new(text);
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(event);
    }
    assert!(matches!(reader.next_event(), Ok(None)));
    Ok(events)
}

#[test]
fn tables_of_any_make_read_as_they_were_meant() {
    let load = |address, bytes| Event::Access(Access::load(address, bytes));
    let store = |address, bytes| Event::Access(Access::store(address, bytes));
    for (text, expected) in [
        ("address\n16\n0x10\n", vec![load(16, 0), load(16, 0)]),
        ("# by hand\n\nAddr;Size;Time\r\n0xFF;8;1.5\r\n", vec![load(255, 8)]),
        ("op\ttid\taddress\nR\t0\t5\nW\t\t6\n", vec![load(5, 0), store(6, 0)]),
        ("\u{feff}\"kind\",\"address\"\n\"write\", \"7\" \n", vec![store(7, 0)]),
        ("what,address\n\"a, b\",9\n", vec![load(9, 0)]),
        (
            "kind,address,bytes,pc,thread,instructions\nblock,0x400,,,2,5\nstore,18446744073709551615,4,0x404,2,\n\
             load,1,1,,0,\nexit,,,,2,\n",
            vec![
                Event::Thread(ThreadId(2)),
                Event::Block { address: 0x400, instructions: 5 },
                Event::Access(Access::store(u64::MAX, 4).at(0x404)),
                Event::Thread(ThreadId(0)),
                load(1, 1),
                Event::Exit(ThreadId(2)),
            ],
        ),
    ] {
        assert_eq!(read(text.as_bytes()).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn bad_rows_are_refused_with_number_and_content() {
    let header = "kind,address,bytes,pc,thread,instructions";
    for (row, problem) in [
        ("load,7ffe10,,,,", "hexadecimal after 0x"),
        ("load,-1,,,,", "expected an address"),
        ("load,0x,,,,", "expected an address"),
        ("load,18446744073709551616,,,,", "expected an address"),
        ("load,0x11112222333344445,,,,", "expected an address"),
        ("jump,1,,,,", "load, store, block or exit"),
        ("load,1,4294967296,,,", "number of bytes"),
        ("load,1,,0xzz,,", "expected a pc"),
        ("load,1,,,x,", "thread number"),
        ("block,1,,,,-", "number of instructions"),
        ("load,,,,,", "no address"),
        ("load,1", "as many fields"),
        ("load,1,,,,,", "as many fields"),
        ("load,\"1,,,,", "quote"),
        ("\u{1f}\u{8b}\u{8},,,,,", "load, store"),
    ] {
        let error = read(format!("{header}\nload,1,,,,\n{row}\nload,2,,,,\n").as_bytes()).unwrap_err();
        let SamplerError::Trace { format: "csv", line: 3, problem: found, content } = error else {
            panic!("{row:?}: {error}")
        };
        assert!(found.contains(problem), "{row:?}: {found}");
        assert_eq!(content, row);
    }
}

#[test]
fn headers_that_say_nothing_are_refused() {
    for (text, problem) in [
        ("0 7ffe10\n", "a column address"),
        ("kind,bytes\n", "a column address"),
        ("address,addr\n", "twice"),
        (&format!("{}address\n", "x,".repeat(64)), "behind the 64th"),
        ("\"address\n", "quote"),
    ] {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("csv trace, line 1: ") && error.contains(problem), "{text:?}: {error}");
    }
    let wide = format!("address{}\n5{}\n", ",x".repeat(99), ",1".repeat(99));
    assert_eq!(read(wide.as_bytes()).unwrap(), [Event::Access(Access::load(5, 0))]);
}

#[test]
fn a_table_without_accesses_is_empty() {
    for text in ["", "\n# nothing\n", "address\n", "kind,address\nblock,1\nexit,\n"] {
        let error = read(text.as_bytes()).unwrap_err();
        assert!(matches!(error, SamplerError::EmptyTrace { format: "csv" }), "{text:?}");
    }
}

quickcheck! {
    fn what_is_written_is_read_back(rows: Vec<(u8, u64, u32, u64, u32)>, remarks: bool) -> bool {
        let mut events = vec![Event::Access(Access::load(1, 0))]; // so that the table is not empty
        let mut thread = ThreadId(0);
        for (kind, address, small, pc, bits) in rows {
            let (address, pc) = (address >> (bits % 64), pc >> (bits / 64 % 64));
            let access = Access { address, bytes: small, kind: AccessKind::Load, pc };
            let event = match kind % 5 {
                0 => Event::Access(access),
                1 => Event::Access(Access { kind: AccessKind::Store, ..access }),
                2 => Event::Block { address, instructions: small },
                3 => Event::Exit(ThreadId(small)),
                _ => {
                    // A switch is told by the row after it, and one to where one is already by none.
                    if thread == ThreadId(small) {
                        continue;
                    }
                    thread = ThreadId(small);
                    events.push(Event::Thread(thread));
                    Event::Access(access)
                }
            };
            events.push(event);
        }
        let mut writer = CsvWriter::new(Vec::new());
        for event in &events {
            writer.event(event).unwrap();
            if remarks {
                writer.remark("nothing\nload,1").unwrap();
            }
        }
        read(&writer.finish().unwrap()).unwrap() == events
    }
}
