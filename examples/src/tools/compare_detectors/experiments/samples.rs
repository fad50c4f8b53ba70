//! ScarPhase, figures I.4 and I.5: what the number of samples per window is worth for each vector of code.

use phase_detect::metrics::SimilarityMatrix;
use phase_detect::{Distance, Error, Signature};

use super::super::code::{CodeKind, CodeSource};
use super::super::detectors::{Method, Scores};
use super::super::recording::{Recording, Window};
use super::{Setting, mean};
use crate::report::{Cell, Table};

/// Samples in a window, as in the paper.
const SAMPLES: [u64; 8] = [25, 50, 100, 200, 400, 800, 1600, 3200];
/// Entries of all vectors, the reference's too.
const ENTRIES: usize = 32;

pub fn run(recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
    let columns: Vec<String> = std::iter::once("vector".to_owned())
        .chain(SAMPLES.iter().map(u64::to_string))
        .chain(["all (BBV)".to_owned()])
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut error = Table::new(
        "similarity_error",
        "Difference from the similarity matrix of all blocks, by samples per window".to_owned(),
        "Mean absolute difference of Manhattan distances, over all pairs of windows and all programs; as figure I.4.",
        &columns,
    );
    let mut ccov = Table::new(
        "ccov_by_samples",
        "CCoV of CPI, by samples per window".to_owned(),
        "Leader-follower at the default threshold, mean over all programs; as figure I.5. Last column: all blocks counted.",
        &columns,
    );
    let prepared: Vec<Prepared<'_>> =
        recordings.iter().map(|r| Prepared::new(r, setting.seed)).collect::<Result<_, _>>()?;
    let reference = mean(prepared.iter().map(|p| p.ccov));
    for kind in CodeKind::SAMPLED {
        let mut errors = vec![kind.name().into()];
        let mut ccovs = vec![kind.name().into()];
        for samples in SAMPLES {
            let measured: Vec<(f64, f64)> =
                prepared.iter().map(|p| p.measure(kind, samples, setting.seed)).collect::<Result<_, _>>()?;
            errors.push(Cell::Number(mean(measured.iter().map(|m| m.0))));
            ccovs.push(Cell::Share(mean(measured.iter().map(|m| m.1))));
        }
        errors.push(Cell::None);
        ccovs.push(Cell::Share(reference));
        error.rows.push(errors);
        ccov.rows.push(ccovs);
    }
    Ok(vec![error, ccov])
}

struct Prepared<'a> {
    recording: &'a Recording,
    windows: Vec<Window>,
    matrix: SimilarityMatrix,
    ccov: f64,
}

impl<'a> Prepared<'a> {
    fn new(recording: &'a Recording, seed: u64) -> Result<Self, Error> {
        let windows = recording.windows();
        let mut source = CodeSource::with_entries(CodeKind::Bbv, recording, ENTRIES, seed)?;
        let signatures: Vec<_> = windows.iter().map(|w| source.signature(w, 0)).collect();
        let matrix = matrix(&signatures)?;
        let labels = Method::SAMPLED.labels(&signatures, seed)?;
        let ccov = Scores::of(&labels, &windows, recording.window)?.ccov;
        Ok(Self { recording, windows, matrix, ccov })
    }

    /// Error of the similarity matrix and CCoV.
    fn measure(&self, kind: CodeKind, samples: u64, seed: u64) -> Result<(f64, f64), Error> {
        let mut source = CodeSource::with_entries(kind, self.recording, ENTRIES, seed)?;
        let signatures: Vec<_> = self.windows.iter().map(|w| source.signature(w, samples)).collect();
        let labels = Method::SAMPLED.labels(&signatures, seed)?;
        let ccov = Scores::of(&labels, &self.windows, self.recording.window)?.ccov;
        Ok((matrix(&signatures)?.mean_difference(&self.matrix)?, ccov))
    }
}

/// A window without a signature is like nothing else and like any other without: all its samples in one entry of its
/// own would say so, and no vector here has one, so it counts as evenly spread.
fn matrix(signatures: &[Option<Signature>]) -> Result<SimilarityMatrix, Error> {
    let even = Signature::frequency(vec![1.0; ENTRIES])?;
    let signatures: Vec<Signature> =
        signatures.iter().map(|s| s.clone().unwrap_or_else(|| even.clone())).collect();
    SimilarityMatrix::new(&signatures, Distance::Manhattan)
}
