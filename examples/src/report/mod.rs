//! Results as tables, pages, pictures and files for other programs.

mod document;
mod files;
mod grid;
mod heatmap;
mod page;
mod panels;
mod processes;
mod subject;
mod table;
mod units;

pub use document::write_document;
pub use files::{
    StoredCurves, StoredPoint, guided_profile, present, stored_profile, sum_windows, write_csv,
    write_miss_ratios, write_profile, write_windows,
};
pub use grid::{Cell, TITLE, Table, named, shortened, tiles};
pub use heatmap::HeatMap;
pub(crate) use heatmap::{COLUMNS, PHASES, REST, colour_of, runs};
pub use page::{STYLE, escape, write_page};
pub(crate) use panels::{Area, Drawn, picture};
pub use panels::{Line, Panel, draw_panels};
pub use processes::{ProcessRow, process_table};
pub use subject::{DistinctView, PhaseView, Subject};
pub(crate) use subject::{letters, named_code, rank, transitions_of};
pub use table::{PhaseTable, Row, phase_table, phase_table_notes, rows_of, summary, unnamed};
pub use units::{bytes, count, percent, plural, quantity};
