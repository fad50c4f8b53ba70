//! Which events stand for which quantity on which processor.

use super::*;

#[test]
fn events_are_those_that_the_processor_lists() {
    let device = "sys/bus/event_source/devices/armv8_pmuv3_0/events";
    let listed: Vec<(String, &str)> = [
        ("mem_access", "event=0x0013\n"),
        ("l2d_cache_refill", "event=0x0017\n"),
        ("stall_backend", "event=0x0024\n"),
        ("br_mis_pred", "event=0x0010\n"),
    ]
    .map(|(file, text)| (format!("{device}/{file}"), text))
    .into();
    let listed: Vec<(&str, &str)> = listed.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let raw = |codes: &[u64]| -> Vec<EventCode> { codes.iter().map(|&code| EventCode::Raw(code)).collect() };
    let arm = Choice::make(&System::with(&listed), "aarch64", &[], |_| Ok(()));
    // Stall cycles and misses of the last level fall back to what there is.
    assert_eq!(arm.codes, raw(&[0x13, 0x17, 0x24, 0x10, 0x24, 0x17]));
    assert_eq!(arm.supplies[2], Supply::Nothing);
    let unlisted = Choice::make(&System::default(), "aarch64", &[], |_| Ok(()));
    assert_eq!(unlisted.counted(), QUANTITIES.len());

    let nehalem = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 26\nmodel name\t: Core i7 920\n";
    let system = System::with(&[("proc/cpuinfo", nehalem)]);
    let paper = Choice::make(&system, "x86_64", &[], |_| Ok(()));
    assert_eq!(paper.codes[..3], raw(&[0x80B1, 0xAA24, 0xFF24]));
    assert!(paper.notes.is_empty());

    let plain = Choice::make(&System::default(), "x86_64", &[parse("l2-misses=0x3F24").unwrap()], |_| Ok(()));
    assert_eq!(plain.supplies[0], Supply::Nothing);
    assert_eq!(plain.codes[0], EventCode::Raw(0x3F24));
    for bad in ["l2-misses", "nothing=1", "stalls=xyz", "stalls="] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn stalls_of_memory_alone_are_counted_where_the_processor_has_them() {
    let on = |model: u32| {
        let cpuinfo = format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n");
        let system = System::with(&[("proc/cpuinfo", &cpuinfo)]);
        Choice::make(&system, "x86_64", &[], |_| Ok(()))
    };
    let code = |choice: &Choice, quantity: usize| match choice.supplies[quantity] {
        Supply::Counted(number) => Some(choice.codes[number]),
        _ => None,
    };
    // Skylake and Sapphire Rapids: event 0xA3, unit mask 6, counter mask 6.
    for model in [85, 143] {
        let choice = on(model);
        assert_eq!(code(&choice, STALLS), Some(EventCode::Raw(0x0600_06A3)));
        assert!(choice.exact_stalls, "{model}");
    }
    assert_eq!(code(&on(85), 3), Some(EventCode::Raw(0x01A2)));
    assert_eq!(code(&on(143), 3), None);
    // Haswell has stalls with a miss of the second level; an unknown processor what the kernel has.
    assert!(!on(60).exact_stalls && code(&on(60), STALLS) == Some(EventCode::Raw(0x0500_05A3)));
    assert!(!on(999).exact_stalls && code(&on(999), STALLS) == Some(EventCode::StalledCycles));
    // Codes of the user's are what the user says they are.
    let given = [parse("stalls=0x1A2").unwrap()];
    let system = System::with(&[("proc/cpuinfo", "vendor_id: GenuineIntel\ncpu family: 6\nmodel: 85\n")]);
    assert!(!Choice::make(&system, "x86_64", &given, |_| Ok(())).exact_stalls);

    let exact = Choice { exact_stalls: true, ..everything() };
    let study = studied(&exact, Shown::on(&exact), &System::default());
    assert_eq!(study.models.performance, "exact stalls");
    let device = "sys/bus/event_source/devices/armv8_pmuv3_0/events/stall_backend_mem";
    let neoverse = System::with(&[(device, "event=0x4005\n")]);
    assert!(Choice::make(&neoverse, "aarch64", &[], |_| Ok(())).exact_stalls);
    assert!(!Choice::make(&System::default(), "aarch64", &[], |_| Ok(())).exact_stalls);
}

/// A system none of whose files may be read.
struct Closed;

impl Files for Closed {
    fn read(&self, _: &str) -> io::Result<Vec<u8>> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn write(&self, _: &str, _: &str) -> io::Result<()> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn list(&self, _: &str) -> io::Result<Vec<String>> {
        Err(ErrorKind::PermissionDenied.into())
    }
}

#[test]
fn files_that_may_not_be_read_are_in_the_notes() {
    for (arch, path) in [("x86_64", "/proc/cpuinfo"), ("aarch64", "/sys/bus/event_source/devices")] {
        let choice = Choice::make(&Closed, arch, &[], |_| Ok(()));
        let said = choice.notes.iter().any(|note| note.contains(path) && note.contains("permission denied"));
        assert!(said, "{:?}", choice.notes);
    }
}
