//! Averages over windows and over programs.

use super::{check_lengths, check_values};
use crate::Error;

/// Geometric mean, the average the POP paper reports over programs. 0 if any value is 0.
///
/// # Formula
/// `(v_1 v_2 ... v_n)^(1/n)`, computed as the exponential of the mean logarithm so that the product cannot overflow.
///
/// # Errors
/// [`Error::NoWindows`] without values, [`Error::BadValue`] for a negative one or one that is not finite.
pub fn geometric_mean(values: &[f64]) -> Result<f64, Error> {
    check_lengths("values", values.len(), values.len())?;
    check_values(values)?;
    Ok((values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// Mean relative difference of estimates from measurements.
///
/// # Formula
/// `(1/n) sum_w |estimate_w - measured_w| / measured_w` over the windows whose measurement is not 0; 0 if there is
/// none.
///
/// # Errors
/// [`Error::Windows`] unless there is one estimate per measurement, [`Error::NoWindows`] without any,
/// [`Error::BadValue`] for a negative value or one that is not finite.
///
/// # References
/// Paper I, I.7.1, figure I.13.
pub fn mean_relative_error(measured: &[f64], estimated: &[f64]) -> Result<f64, Error> {
    check_lengths("estimates", measured.len(), estimated.len())?;
    check_values(measured)?;
    check_values(estimated)?;
    let errors: Vec<f64> =
        measured.iter().zip(estimated).filter(|(m, _)| **m > 0.0).map(|(m, e)| (e - m).abs() / m).collect();
    Ok(errors.iter().sum::<f64>() / errors.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms() {
        assert!((geometric_mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-14);
        // the product is 1e600
        assert!((geometric_mean(&[1e300, 1e300]).unwrap() / 1e300 - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[0.0, 8.0]).unwrap(), 0.0);
        assert!(geometric_mean(&[]).is_err() && geometric_mean(&[-1.0]).is_err());
        assert_eq!(mean_relative_error(&[2.0, 0.0, 4.0], &[3.0, 9.0, 4.0]).unwrap(), 0.25);
        assert_eq!(mean_relative_error(&[0.0], &[1.0]).unwrap(), 0.0);
    }
}
