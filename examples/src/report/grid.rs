//! A table that is printed, written as CSV, JSON or HTML from the same cells.

use serde_json::{Value, json};

use super::{escape, percent};

/// One table of results.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// A word for files and JSON.
    pub name: String,
    /// The heading; none if empty.
    pub title: String,
    /// What the numbers are; below the heading.
    pub note: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// A picture that belongs to it, as an SVG text.
    pub picture: Option<String>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A word, to the left.
    Text(String),
    /// A name with the number of its colour on pages.
    Key(String, usize),
    /// A whole number, in full.
    Count(u64),
    /// A fraction, shown in percent.
    Share(f64),
    /// A fraction that is known to lie between two.
    Shares(f64, f64),
    /// Anything else.
    Number(f64),
    /// Anything else that is known to lie between two.
    Numbers(f64, f64),
    /// Ready to be shown, as a number is.
    Figure(String),
    /// Not known, or it makes no sense here.
    None,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<Option<f64>> for Cell {
    fn from(share: Option<f64>) -> Self {
        share.map_or(Self::None, Self::Share)
    }
}

impl Cell {
    /// A name for this one and so many others.
    pub fn and_more(&self, others: usize) -> Self {
        match self {
            Self::Key(name, colour) => Self::Key(format!("{name} +{others}"), *colour),
            other => Self::Text(format!("{} +{others}", other.shown())),
        }
    }

    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::Figure(text) | Self::Key(text, _) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Share(share) => percent(*share),
            Self::Shares(low, high) => {
                format!("{}..{}", percent(*low).trim_end_matches(" %"), percent(*high))
            }
            Self::Number(number) if *number == 0.0 => "0".to_owned(),
            Self::Number(number) if number.abs() >= 100.0 => format!("{number:.0}"),
            Self::Number(number) if number.abs() >= 0.1 => format!("{number:.2}"),
            Self::Number(number) => format!("{number:.2e}"),
            Self::Numbers(low, high) => {
                format!("{}..{}", Self::Number(*low).shown(), Self::Number(*high).shown())
            }
            Self::None => "-".to_owned(),
        }
    }

    fn plain(&self) -> Value {
        match self {
            Self::Text(text) | Self::Figure(text) | Self::Key(text, _) => json!(text),
            Self::Count(count) => json!(count),
            Self::Share(number) | Self::Number(number) => json!(number),
            Self::Shares(low, high) | Self::Numbers(low, high) => json!([low, high]),
            Self::None => Value::Null,
        }
    }

    /// As a part of a page.
    pub fn html(&self) -> String {
        match self {
            Self::Key(name, colour) => {
                let colour = if *colour < 8 { format!("var(--p{colour})") } else { "var(--rest)".to_owned() };
                format!("<span class=\"swatch\" style=\"background:{colour}\"></span>{}", escape(name))
            }
            other => escape(&other.shown()),
        }
    }

    /// Whether it is a word, which goes to the left.
    fn is_word(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Key(..))
    }

    /// The sum of counts, of shares, or nothing.
    pub(super) fn sum<'a>(cells: impl Iterator<Item = &'a Self>) -> Self {
        cells.fold(Self::Text(String::new()), |sum, cell| match (sum, cell) {
            (Self::Count(sum), Self::Count(more)) => Self::Count(sum + more),
            (Self::Share(sum), Self::Share(more)) => Self::Share(sum + more),
            (Self::Text(_), Self::Count(first)) => Self::Count(*first),
            (Self::Text(_), Self::Share(first)) => Self::Share(*first),
            (sum, _) => sum,
        })
    }
}

/// Rows of ready text below a row of headings; words in the first and the last column.
impl From<Vec<Vec<String>>> for Table {
    fn from(rows: Vec<Vec<String>>) -> Self {
        let mut rows = rows.into_iter();
        let columns = rows.next().unwrap_or_default();
        let last = columns.len().saturating_sub(1);
        let cell = |(at, text)| if at == 0 || at == last { Cell::Text(text) } else { Cell::Figure(text) };
        let rows = rows.map(|row| row.into_iter().enumerate().map(cell).collect()).collect();
        Self { columns, rows, ..Self::default() }
    }
}

/// The rows of a table of texts: first the names of its columns, which each row repeats.
pub fn named<const N: usize>(
    rows: impl IntoIterator<Item = [(&'static str, String); N]>,
) -> Vec<Vec<String>> {
    let mut table = Vec::new();
    for row in rows {
        let (names, cells): (Vec<String>, _) =
            row.map(|(name, cell)| (name.to_owned(), cell)).into_iter().unzip();
        if table.is_empty() {
            table.push(names);
        }
        table.push(cells);
    }
    table
}

impl Table {
    /// Adds a row; the first one names the columns.
    pub fn push<const N: usize>(&mut self, row: [(&str, Cell); N]) {
        let (names, cells) = row.map(|(name, cell)| (name.to_owned(), cell)).into_iter().unzip();
        if self.rows.is_empty() {
            self.columns = names;
        }
        self.rows.push(cells);
    }

    /// An empty table.
    pub fn new(name: &str, title: String, note: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { name: name.to_owned(), title, note: note.to_owned(), columns, rows: Vec::new(), picture: None }
    }

    /// A table of rows below `columns`, without a heading.
    pub fn bare(columns: &[&str]) -> Self {
        Self::new("", String::new(), "", columns)
    }

    /// Takes the rows from the `first`th on out into a table of their own, and puts one row in their place: `name`, and
    /// the sums of the next `additive` columns. `None` if there are no such rows.
    pub fn fold(
        &mut self,
        first: usize,
        name: impl FnOnce(usize) -> String,
        additive: usize,
    ) -> Option<Self> {
        if first >= self.rows.len() {
            return None;
        }
        let rows = self.rows.split_off(first);
        let mut folded = vec![Cell::Text(name(rows.len()))];
        folded.extend((1..=additive).map(|at| Cell::sum(rows.iter().map(|row| &row[at]))));
        folded.resize(self.columns.len(), Cell::Text(String::new()));
        self.rows.push(folded);
        Some(Self { columns: self.columns.clone(), rows, ..Self::default() })
    }

    /// As text.
    pub fn text(&self) -> String {
        let cells = self.rows.iter().map(|row| row.iter().map(Cell::shown).collect());
        let rows: Vec<Vec<String>> = std::iter::once(self.columns.clone()).chain(cells).collect();
        let mut text = String::new();
        for line in [&self.title, &self.note] {
            if !line.is_empty() {
                text += &format!("{}\n", wrapped(line));
            }
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text + &align(&rows)
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
                    Cell::Text(text) | Cell::Figure(text) | Cell::Key(text, _) => quoted(text),
                    Cell::None => String::new(),
                    other => quoted(&other.plain().to_string()),
                })
                .collect();
            csv += &(cells.join(",") + "\n");
        }
        csv
    }

    /// As a part of a page: heading, note, cells and picture.
    pub fn html(&self) -> String {
        let part = |tag: &str, text: &str| {
            if text.is_empty() { String::new() } else { format!("<{tag}>{}</{tag}>\n", escape(text)) }
        };
        // Words to the left, numbers to the right.
        let words = |at: usize| self.rows.first().is_some_and(|row| row.get(at).is_some_and(Cell::is_word));
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
                    .map(|(at, cell)| format!("<td{}>{}</td>", class(at), cell.html()))
                    .collect();
                format!("<tr>{cells}</tr>\n")
            })
            .collect();
        format!(
            "{}{}<div class=\"scroll\"><table><thead><tr>{header}</tr></thead><tbody>\n{rows}</tbody></table></div>\n{}",
            part("h2", &self.title),
            part("p", &self.note),
            self.picture.as_ref().map_or(String::new(), |picture| format!("<figure>{picture}</figure>\n"))
        )
    }

    /// As a part of a page that shows `summary` until it is opened.
    pub fn details(&self, summary: &str) -> String {
        format!("<details><summary>{}</summary>\n{}</details>\n", escape(summary), self.html())
    }
}

/// Columns of a terminal that a table may take.
pub const WIDTH: usize = 100;

/// Columns as wide as their widest cell; numbers to the right, the first and the last column to the left. Columns that do not
/// fit in [`WIDTH`] follow below, each time after the first column.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let first = widths.first().copied().unwrap_or(0).min(WIDTH / 2);
    let mut text = String::new();
    let mut from = 1;
    loop {
        let mut free = WIDTH - first;
        let fits = |c: &usize| {
            let room = free.checked_sub(2 + widths[*c]);
            free = room.unwrap_or(free);
            room.is_some()
        };
        // One column always goes in, cut to the room there is.
        let to = (from..columns).take_while(fits).last().map_or((from + 1).min(columns), |last| last + 1);
        let most = |c: usize| if c == 0 { first } else { widths[c].min(WIDTH - first - 2) };
        for row in rows {
            let cells = std::iter::once(0).chain(from..to).filter_map(|c| {
                let cell = shortened(row.get(c)?, most(c));
                let pad = " ".repeat(most(c) - cell.chars().count());
                Some(if c == 0 || c == columns - 1 { cell + &pad } else { pad + &cell })
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        if to >= columns {
            return text;
        }
        text.push('\n');
        from = to;
    }
}

/// The longest title.
pub const TITLE: usize = 160;

/// At most so many letters: of a longer text the beginning and the end.
pub fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let end = most.saturating_sub(1) / 3;
    let begin = most.saturating_sub(1 + end);
    text.chars().take(begin).chain(['…']).chain(text.chars().skip(length - end)).collect()
}

/// Lines of at most [`WIDTH`], broken between words.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// The figures at the top of a page: value and what it is.
pub fn tiles(tiles: &[(String, &str)]) -> String {
    let tile = |(value, label): &(String, &str)| {
        format!("<div class=\"tile\"><b>{}</b><span>{label}</span></div>", escape(value))
    };
    format!("<div class=\"tiles\">{}</div>\n", tiles.iter().map(tile).collect::<String>())
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    #[test]
    fn rows_fold_into_their_sum() {
        let mut table = Table::bare(&["phase", "share", "windows", "code"]);
        for (name, share, windows) in [("A", 0.5, 5), ("B", 0.3, 3), ("C", 0.2, 2)] {
            table.rows.push(vec![name.into(), Cell::Share(share), Cell::Count(windows), "f".into()]);
        }
        let whole = table.clone();
        assert!(table.fold(3, |n| n.to_string(), 2).is_none());
        assert_eq!(table.rows, whole.rows);
        let hidden = table.fold(1, |n| format!("{n} others"), 2).unwrap();
        assert_eq!(hidden.rows, whole.rows[1..]);
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[1], ["2 others".into(), Cell::Share(0.5), Cell::Count(5), "".into()]);
    }

    quickcheck! {
        /// Whatever the cells, no line is longer, each column is shown once, and short tables are as they were.
        fn tables_fit_a_hundred_columns(rows: Vec<Vec<String>>, lengths: Vec<u8>) -> bool {
            let lengths: Vec<usize> = lengths.iter().map(|&n| usize::from(n % 64)).collect();
            let columns = lengths.len().max(1);
            let header: Vec<String> = (0..columns).map(|c| format!("<{c}>")).collect();
            let cell = |(c, text): (usize, &String)| {
                let text: String = text.chars().map(|x| if x.is_ascii_graphic() { x } else { 'x' }).collect();
                text + &"y".repeat(lengths.get(c).copied().unwrap_or(0))
            };
            let body = rows.iter().map(|row| row.iter().take(columns).enumerate().map(cell).collect());
            let all: Vec<Vec<String>> = std::iter::once(header.clone()).chain(body).collect();
            let text = align(&all);
            text.lines().all(|line| line.chars().count() <= WIDTH)
                && header.iter().skip(1).all(|name| text.matches(name.as_str()).count() >= 1)
        }
    }

    #[test]
    fn columns_that_do_not_fit_follow_below() {
        let mut table = Table::bare(&["phase", "share", "windows", "code"]);
        table.rows.push(vec!["A".into(), Cell::Share(0.5), Cell::Count(5), "x".repeat(84).as_str().into()]);
        let code = format!("phase  code\nA      {}\n", "x".repeat(84));
        assert_eq!(table.text(), format!("phase   share  windows\nA      50.0 %        5\n\n{code}"));
        let long = format!("a{}z", "x".repeat(120));
        table.rows[0][3] = long.as_str().into();
        let text = table.text();
        assert!(
            text.contains("…x") && text.ends_with("z\n") && text.lines().all(|l| l.chars().count() <= WIDTH)
        );
        assert_eq!(wrapped(&"word ".repeat(30)).lines().map(str::len).max(), Some(99));
    }

    #[test]
    fn the_same_cells_as_text_csv_json_and_html() {
        let mut table = Table::new("t", "Title".into(), "", &["a, b", "n"]);
        table.rows.push(vec![Cell::Key("<x>".into(), 9), Cell::Shares(0.0, 0.031)]);
        assert_eq!(table.text(), "Title\n\na, b  n\n<x>   0.0..3.10 %\n");
        assert_eq!(table.csv(), "\"a, b\",n\n<x>,\"[0.0,0.031]\"\n");
        assert_eq!(table.json()["rows"][0][1][1], 0.031);
        assert!(table.html().contains("var(--rest)") && table.html().contains("&lt;x&gt;"));
    }
}
