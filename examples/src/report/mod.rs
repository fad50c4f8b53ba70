//! What a phase-guided run looks like on paper: a page for the browser, a picture, tables for other programs.

mod document;
mod files;
mod heatmap;
mod page;
mod panels;
mod processes;
mod subject;
mod table;
mod units;

pub use document::{html_table, write_document};
pub use files::{write_miss_ratios, write_profile, write_windows};
pub use heatmap::draw_heatmap;
pub(crate) use heatmap::{COLUMNS, PHASES, REST, colour_of, runs};
pub use page::{STYLE, escape, write_page};
pub use panels::{Line, Panel, draw_panels};
pub use processes::{ProcessRow, process_table};
pub(crate) use subject::letters;
pub use subject::{PhaseView, Subject};
pub use table::{align, phase_table, summary};
pub use units::{bytes, count, percent, quantity};
