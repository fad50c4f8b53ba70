//! Does one pass find what a clustering of the whole run finds, and is the better predictor better?

use phase_detect::metrics::{adjusted_rand_index, score_predictor};
use phase_detect::{Distance, Error, KMeans, PhaseId, RunLengthMarkov, Signature};

use super::super::code::{CodeKind, CodeSource};
use super::super::detectors::{Method, last_value};
use super::super::recording::Recording;
use super::Setting;
use crate::report::{Cell, Table};

/// Most windows that the batch clustering looks at: its time grows with their cube.
const MOST: usize = 1200;

/// What it is of: names and signatures of all blocks.
pub type Program = (String, Vec<Signature>);

pub fn run(recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
    let programs: Vec<Program> = recordings
        .iter()
        .map(|recording| {
            let mut source = CodeSource::new(CodeKind::Bbv, recording, setting.seed)?;
            let windows = recording.windows();
            let signatures = windows.iter().filter_map(|window| source.signature(window, 0)).collect();
            Ok((recording.name.clone(), signatures))
        })
        .collect::<Result<_, Error>>()?;
    Ok(vec![of(&programs, setting)?])
}

/// The table for programs of which only the code is known.
pub fn of(programs: &[Program], setting: Setting) -> Result<Table, Error> {
    let mut table = Table::new(
        "agreement",
        "Leader-follower on all blocks against batch clusterings into as many phases".to_owned(),
        "Adjusted Rand index with average linkage by Manhattan distance and with k-means, and of those two with each other: where \
         they disagree, or k-means with itself from another seed, the windows have no phases to agree on. Predicted: share of windows \
         foreseen by run lengths and by the last value; the last row is over all windows.",
        &[],
    );
    let (mut right, mut stayed, mut all) = (0.0, 0.0, 0_u64);
    for (name, signatures) in programs {
        let signatures = &signatures[..signatures.len().min(MOST)];
        let wrapped: Vec<_> = signatures.iter().cloned().map(Some).collect();
        let labels: Vec<PhaseId> = Method::LeaderFollower(setting.threshold)
            .labels(&wrapped, setting.seed)?
            .into_iter()
            .flatten()
            .collect();
        let phases = labels.iter().max().map_or(0, |most| most.index() + 1);
        let linked = average_linkage(signatures, phases);
        let batch = |seed| KMeans { clusters: phases, seed, ..KMeans::default() }.fit(signatures);
        let (kmeans, again) = (batch(setting.seed)?, batch(setting.seed.wrapping_add(1))?);
        let score = score_predictor(&mut RunLengthMarkov::default(), labels.iter().copied());
        right += score.right as f64;
        stayed += (score.windows - score.changes) as f64;
        all += score.windows;
        table.push([
            ("program", Cell::Text(name.clone())),
            ("windows", Cell::from(signatures.len())),
            ("phases", Cell::from(phases)),
            ("average linkage", Cell::Number(adjusted_rand_index(&labels, &linked)?)),
            ("k-means", Cell::Number(adjusted_rand_index(&labels, &kmeans.labels)?)),
            ("those two", Cell::Number(adjusted_rand_index(&linked, &kmeans.labels)?)),
            ("run lengths", score.accuracy().into()),
            ("last value", last_value(&score).into()),
            ("k-means twice", Cell::Number(adjusted_rand_index(&kmeans.labels, &again.labels)?)),
        ]);
    }
    let share = |part: f64| if all == 0 { Cell::None } else { Cell::Share(part / all as f64) };
    let mut whole = vec![Cell::None; 9];
    (whole[0], whole[1]) = ("all".into(), Cell::from(all as usize + programs.len()));
    (whole[6], whole[7]) = (share(right), share(stayed));
    table.rows.push(whole);
    Ok(table)
}

/// Agglomerative clustering down to `clusters`: the two whose members lie nearest on average become one.
fn average_linkage(signatures: &[Signature], clusters: usize) -> Vec<usize> {
    let n = signatures.len();
    let mut distance: Vec<Vec<f64>> = signatures
        .iter()
        .map(|a| signatures.iter().map(|b| Distance::Manhattan.between(a.values(), b.values())).collect())
        .collect();
    let mut members: Vec<Vec<usize>> = (0..n).map(|window| vec![window]).collect();
    let mut alive: Vec<usize> = (0..n).collect();
    while alive.len() > clusters.max(1) {
        let (mut a, mut b, mut least) = (0, 0, f64::INFINITY);
        for (at, &i) in alive.iter().enumerate() {
            for &j in &alive[at + 1..] {
                if distance[i][j] < least {
                    (a, b, least) = (i, j, distance[i][j]);
                }
            }
        }
        if a == b {
            break; // distances that are no numbers: nothing is nearest
        }
        let (in_a, in_b) = (members[a].len() as f64, members[b].len() as f64);
        for &other in &alive {
            let merged = (in_a * distance[a][other] + in_b * distance[b][other]) / (in_a + in_b);
            distance[a][other] = merged;
            distance[other][a] = merged;
        }
        let moved = std::mem::take(&mut members[b]);
        members[a].extend(moved);
        alive.retain(|&i| i != b);
    }
    let mut labels = vec![0; n];
    for (label, &cluster) in alive.iter().enumerate() {
        for &window in &members[cluster] {
            labels[window] = label;
        }
    }
    labels
}
