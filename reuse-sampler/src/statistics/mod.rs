//! What is estimated from samples: profiles of groups of windows, confidence intervals, the code that misses.

#[cfg(feature = "replay")]
mod advice;
mod alike;
mod confidence;
mod grouped;
mod hot_spots;
mod open;
mod within;

#[cfg(feature = "replay")]
pub use advice::{Advice, Hint};
pub use alike::{count_alike, merge_alike};
pub use confidence::{Bootstrap, Interval, Redraw, Stratified, Stratum};
pub use grouped::{Grouped, GroupedProfiles};
pub use hot_spots::{HotSpot, HotSpots};
pub use open::OpenSamples;
pub use within::differences_within_phase;
