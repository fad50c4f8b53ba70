//! A table that is printed, written as CSV, JSON or HTML from the same cells.

use serde_json::{Value, json};

use crate::report::{align, escape, percent};

/// One table of results.
#[derive(Clone, Debug)]
pub struct Table {
    /// A word for files and JSON.
    pub name: String,
    pub title: String,
    /// What the numbers are and which figure of which paper they stand beside.
    pub note: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
    /// A picture that belongs to it, as an SVG text.
    pub picture: Option<String>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    Count(usize),
    /// A fraction, shown in percent.
    Share(f64),
    /// Anything else.
    Number(f64),
    /// Not known, or it makes no sense here.
    None,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Option<f64>> for Cell {
    fn from(share: Option<f64>) -> Self {
        share.map_or(Self::None, Self::Share)
    }
}

impl Cell {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Share(share) => percent(*share),
            Self::Number(number) if *number == 0.0 => "0".to_owned(),
            Self::Number(number) if number.abs() >= 100.0 => format!("{number:.0}"),
            Self::Number(number) if number.abs() >= 0.1 => format!("{number:.2}"),
            Self::Number(number) => format!("{number:.2e}"),
            Self::None => "-".to_owned(),
        }
    }

    fn plain(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Count(count) => json!(count),
            Self::Share(number) | Self::Number(number) => json!(number),
            Self::None => Value::Null,
        }
    }
}

impl Table {
    /// An empty table.
    pub fn new(name: &str, title: String, note: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { name: name.to_owned(), title, note: note.to_owned(), columns, rows: Vec::new(), picture: None }
    }

    /// As text.
    pub fn text(&self) -> String {
        let cells = self.rows.iter().map(|row| row.iter().map(Cell::shown).collect());
        let rows: Vec<Vec<String>> = std::iter::once(self.columns.clone()).chain(cells).collect();
        let note = if self.note.is_empty() { String::new() } else { format!("{}\n", self.note) };
        format!("{}\n{note}\n{}", self.title, align(&rows))
    }

    /// As an object: columns and rows as they stand.
    pub fn json(&self) -> Value {
        let rows: Vec<Vec<Value>> =
            self.rows.iter().map(|row| row.iter().map(Cell::plain).collect()).collect();
        json!({
            "name": self.name, "title": self.title, "note": self.note, "columns": self.columns, "rows": rows,
        })
    }

    /// As CSV with a header.
    pub fn csv(&self) -> String {
        let quoted = |text: &str| {
            if text.contains([',', '"']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let header: Vec<String> = self.columns.iter().map(|column| quoted(column)).collect();
        let mut csv = header.join(",") + "\n";
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .map(|cell| match cell {
                    Cell::Text(text) => quoted(text),
                    Cell::None => String::new(),
                    other => other.plain().to_string(),
                })
                .collect();
            csv += &(cells.join(",") + "\n");
        }
        csv
    }

    /// As a section of a page.
    pub fn html(&self) -> String {
        // Words to the left, numbers to the right.
        let words =
            |at: usize| self.rows.first().is_some_and(|row| matches!(row.get(at), Some(Cell::Text(_))));
        let class = |at: usize| if words(at) { " class=\"left\"" } else { "" };
        let header: String = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| format!("<th{}>{}</th>", class(at), escape(column)))
            .collect();
        let rows: String = self
            .rows
            .iter()
            .map(|row| {
                let cells: String = row
                    .iter()
                    .enumerate()
                    .map(|(at, cell)| format!("<td{}>{}</td>", class(at), escape(&cell.shown())))
                    .collect();
                format!("<tr>{cells}</tr>\n")
            })
            .collect();
        format!(
            "<h2>{}</h2>\n<p>{}</p>\n<div class=\"scroll\"><table><thead><tr>{header}</tr></thead><tbody>\n{rows}</tbody></table></div>\n{}",
            escape(&self.title),
            escape(&self.note),
            self.picture.as_ref().map_or(String::new(), |picture| format!("<figure>{picture}</figure>\n"))
        )
    }
}
