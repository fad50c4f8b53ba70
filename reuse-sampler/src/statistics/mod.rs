//! What is estimated from samples: profiles of groups of windows, confidence intervals, the code that misses.

mod confidence;
mod grouped;
mod hot_spots;

pub use confidence::{Bootstrap, Interval, Redraw, Stratified, Stratum};
pub use grouped::{Grouped, GroupedProfiles};
pub use hot_spots::{HotSpot, HotSpots};
