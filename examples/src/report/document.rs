//! The frame of every page: one file that needs nothing else.

use std::io::{self, Write};

use super::{STYLE, escape};

/// Writes a page of ready-made HTML under a title of plain text.
///
/// # Errors
/// What the writer answers.
pub fn write_document(title: &str, body: &str, out: &mut dyn Write) -> io::Result<()> {
    let title = escape(title);
    writeln!(
        out,
        r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
{STYLE}</style></head><body><main>
<h1>{title}</h1>
{body}</main></body></html>"#
    )
}

/// A table of plain text: a row of headings, then the others.
#[must_use]
pub fn html_table(rows: &[Vec<String>]) -> String {
    let mut text = "<div class=\"scroll\"><table>".to_owned();
    for (number, row) in rows.iter().enumerate() {
        text += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let tag = if number == 0 { "th" } else { "td" };
            let side = if column == 0 { " class=\"left\"" } else { "" };
            text += &format!("<{tag}{side}>{}</{tag}>", escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</table></div>\n"
}
