//! Fitting the weights of events to measured power, and how far to trust them.
//!
//! Ordinary least squares on the effective capacitance. Event rates differ by orders of magnitude and move
//! together (a program that misses the second level also stalls), so columns are centred and scaled, solved
//! by QR, and the collinearity that remains is reported with the weights.

mod collinearity;
mod qr;
mod training;
mod validation;

pub use collinearity::Collinearity;
pub use training::{Fit, TrainingSet};
pub use validation::CrossValidation;
