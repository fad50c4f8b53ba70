//! The sets of a set-associative cache: when a program reuses its lines in them, and how unevenly its lines fall on them.

mod dispersion;
mod footprint;
mod reuse;

pub use dispersion::{SetDispersion, SetDispersionCounter, probability_of_at_least};
pub use footprint::FootprintCounter;
pub use reuse::{SetReuse, SetReuseCounter, SetUse};
