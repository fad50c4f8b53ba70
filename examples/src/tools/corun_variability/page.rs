//! `report.html`: the figures and the tables of a co-run on one page.

use std::io::{self, Write};

use super::object::CULPRITS;
use super::tables::{beside, distributions, methods, slower};
use super::{Findings, PredictArgs};
use crate::report::{Table, escape, letters, percent, write_document};

/// Writes the page around pictures of SVG text with their captions.
pub(super) fn write(
    args: &PredictArgs,
    found: &Findings,
    pictures: &[(&str, &str, String)],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut body = format!(
        "<p>The first program's time beside the others over its time alone, for {} random start offsets. The others \
         start over when they end.</p>\n",
        found.answer.chosen().slowdowns.len()
    );
    for note in &found.notes {
        body += &format!("<p>Note: {}</p>\n", escape(note));
    }
    body += "<h2>Slowdown</h2>\n";
    body += &Table::from(distributions(args, found)).html();
    for (_, caption, svg) in pictures {
        body += &format!("<h2>{}</h2>\n<figure><div class=\"plot\">{svg}</div></figure>\n", escape(caption));
    }
    body += "<h2>Methods</h2>\n<p>Times the sharing model was solved, and how much faster that was than simulating.</p>\n";
    body += &Table::from(methods(found)).html();
    body += "<h2>Which phases cost most</h2>\n";
    body += &Table::from(culprits(found)).html();
    body += "<h2>A way of the cache more or less</h2>\n";
    body += &ways(found);
    write_document(&found.title(), &body, out)
}

fn culprits(found: &Findings) -> Vec<Vec<String>> {
    let mut rows =
        vec![["phases", "slower while they meet", "of the time", "of the whole"].map(str::to_owned).to_vec()];
    rows.extend(found.answer.culprits.iter().take(CULPRITS).map(|culprit| {
        vec![
            format!("phase {} beside {}", letters(culprit.phase as usize), beside(found, culprit)),
            slower(culprit.slowdown),
            percent(culprit.time_share),
            percent(culprit.cost),
        ]
    }));
    rows
}

fn ways(found: &Findings) -> String {
    let of = &found.answer.sensitivity;
    format!(
        "<p>With its mean share of {}, the target takes {} more time if it loses a way, and {} less if it gets \
         one.</p>\n",
        crate::report::bytes(found.answer.share as u64),
        percent(of.one_less - 1.0),
        percent(1.0 - of.one_more),
    )
}
