//! The processes of an observed tree: a row each, and the tree as a whole.

use reuse_sampler::{AccessCount, ProcessRecord, TargetExit};
use serde::Serialize;

use super::grid::shortened;
use super::{Table, count};

/// Rows of the table; the JSON has them all.
const ROWS: usize = 16;
/// Letters of a command in the table, which then fits in a terminal.
const COMMAND: usize = 45;

/// A process as reports show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    pid: u32,
    parent: u32,
    command: String,
    instructions: u64,
    /// Null where none were measured.
    accesses: Option<u64>,
    /// Whether they are estimated by the process's other windows, because not all were measured.
    accesses_estimated: bool,
    /// Exit status; null if a signal ended it or its end is not known.
    status: Option<i32>,
    /// The signal that ended it.
    signal: Option<i32>,
    /// Why it ran unobserved, if it did.
    unobserved: Option<String>,
}

impl From<ProcessRecord> for ProcessRow {
    fn from(record: ProcessRecord) -> Self {
        let (status, signal) = match record.exit {
            Some(TargetExit::Code(code)) => (Some(code), None),
            Some(TargetExit::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        Self {
            pid: record.pid,
            parent: record.parent,
            command: record.command,
            instructions: record.instructions,
            accesses: record.accesses.get(),
            accesses_estimated: matches!(record.accesses, AccessCount::Estimated(_)),
            status,
            signal,
            unobserved: record.unobserved,
        }
    }
}

impl ProcessRow {
    fn end(&self) -> String {
        match (self.status, self.signal, &self.unobserved) {
            (_, _, Some(_)) => "unobserved".to_owned(),
            (Some(status), ..) => format!("exit {status}"),
            (_, Some(signal), _) => format!("signal {signal}"),
            _ => "unknown".to_owned(),
        }
    }
}

/// The processes with most instructions and all of them together; empty where there is one process at most.
pub fn process_table(processes: &[ProcessRow]) -> String {
    if processes.len() < 2 {
        return String::new();
    }
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), count);
    let mut rows =
        vec![["process", "parent", "instructions", "accesses", "end", "command"].map(str::to_owned).to_vec()];
    let mut ranked: Vec<&ProcessRow> = processes.iter().collect();
    ranked.sort_by_key(|row| (std::cmp::Reverse(row.instructions), row.pid));
    for row in ranked.iter().take(ROWS) {
        rows.push(vec![
            row.pid.to_string(),
            row.parent.to_string(),
            count(row.instructions),
            number(row.accesses),
            row.end(),
            shortened(&row.command, COMMAND),
        ]);
    }
    let accesses: Option<u64> = processes.iter().map(|row| row.accesses).sum();
    rows.push(vec![
        "all".to_owned(),
        String::new(),
        count(processes.iter().map(|row| row.instructions).sum()),
        number(accesses),
        String::new(),
        format!("{} processes", processes.len()),
    ]);
    Table::from(rows).text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_largest_processes_and_their_sum() {
        let mut records: Vec<ProcessRecord> =
            (0..20).map(|n| ProcessRecord::new(100 + n, 1, format!("command {n}"))).collect();
        for (n, record) in (0..).zip(&mut records) {
            record.instructions = 1_000_000 * n;
            record.exit = Some(if n == 19 { TargetExit::Signal(9) } else { TargetExit::Code(3) });
        }
        records[19].command = format!("command {} file", "word ".repeat(20));
        let rows: Vec<ProcessRow> = records.into_iter().map(ProcessRow::from).collect();
        let table = process_table(&rows);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 1 + ROWS + 1);
        assert!(lines[1].contains("119") && lines[1].contains("signal 9"), "{table}");
        assert!(
            lines[1].contains("command word") && lines[1].contains('…') && lines[1].ends_with("file"),
            "{table}"
        );
        assert!(lines[2].contains("exit 3"), "{table}");
        let last = lines[lines.len() - 1];
        assert!(last.contains("20 processes") && last.contains(&count(190_000_000)), "{table}");
        assert_eq!(process_table(&rows[..1]), "");
    }
}
