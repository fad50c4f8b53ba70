//! Writes `perf.data` for tests.

/// An event: `struct perf_event_attr` with these values, and its identifiers.
pub(super) struct Event {
    pub(super) kind: u32,
    pub(super) config: u64,
    pub(super) fields: u64,
    pub(super) read_format: u64,
    pub(super) branches: u64,
    pub(super) breakpoint: u32,
    pub(super) ids: Vec<u64>,
}

impl Event {
    pub(super) fn new(kind: u32, config: u64, fields: u64) -> Self {
        Self { kind, config, fields, read_format: 0, branches: 0, breakpoint: 0, ids: vec![] }
    }

    fn attributes(&self) -> Vec<u8> {
        let mut bytes = [self.kind, 112].map(u32::to_le_bytes).concat();
        bytes.extend([self.config, 4000, self.fields, self.read_format, 0].map(u64::to_le_bytes).concat());
        bytes.extend([0, self.breakpoint].map(u32::to_le_bytes).concat());
        bytes.extend([0, 0, self.branches, 0, 0, 0, 0].map(u64::to_le_bytes).concat());
        bytes
    }
}

pub(super) fn numbers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A record; bit 1 of `misc` says that it is of the program.
pub(super) fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = 8 + body.len() as u16;
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

pub(super) fn sample(values: &[u64]) -> Vec<u8> {
    record(9, 2, &numbers(values))
}

pub(super) fn round() -> Vec<u8> {
    record(68, 0, &[])
}

/// A whole file: header, identifiers, descriptions, records, and something behind them.
pub(super) fn file(events: &[Event], records: &[u8]) -> Vec<u8> {
    let ids: Vec<u8> = events.iter().flat_map(|event| numbers(&event.ids)).collect();
    let descriptions_at = 104 + ids.len() as u64;
    let mut descriptions = Vec::new();
    let mut ids_at = 104;
    for event in events {
        descriptions.extend(event.attributes());
        descriptions.extend(numbers(&[ids_at, 8 * event.ids.len() as u64]));
        ids_at += 8 * event.ids.len() as u64;
    }
    let (size, data) = (descriptions.len() as u64, descriptions_at + descriptions.len() as u64);
    let header = numbers(&[104, 128, descriptions_at, size, data, records.len() as u64, 0, 0, 0, 0, 0, 0]);
    [&b"PERFILE2"[..], &header, &ids, &descriptions, records, b"features, which are not read"].concat()
}

/// The same as a pipe.
pub(super) fn pipe(events: &[Event], records: &[u8]) -> Vec<u8> {
    let descriptions: Vec<u8> = events
        .iter()
        .flat_map(|event| record(64, 0, &[event.attributes(), numbers(&event.ids)].concat()))
        .collect();
    [&b"PERFILE2"[..], &numbers(&[16]), &descriptions, records].concat()
}
