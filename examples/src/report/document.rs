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
