//! Pictures of a detection: the phase bar, the similarity matrix, and the windows projected to a plane.
//!
//! After Sembrant, Eklöv, Hagersten, IISWC 2011, figure I.3, and Huffmire, Sherwood, PACT 2006, figure 3. Runs longer
//! than a picture is wide are shown by evenly spread windows.

use std::collections::BTreeMap;

use phase_detect::metrics::SimilarityMatrix;
use phase_detect::simpoint::Projection;
use phase_detect::{Distance, Error, PhaseId, Signature, SignatureKind};

use super::args::ClustererName;
use super::report::Report;

/// Width of all pictures, in units of the SVG.
const WIDTH: usize = 1100;
/// Columns of the phase bar, and windows on each side of the similarity matrix, at most.
const COLUMNS: usize = 1060;
const SIDE: usize = 360;
/// Threads whose phases are shown, those with most windows.
const THREADS: usize = 12;
const SHADES: usize = 40;

/// Colours of the phases with most windows; the others share the last.
const COLOURS: [&str; 9] =
    ["#2a78d6", "#d9822b", "#1f9d73", "#b8459a", "#7a5bd1", "#c2a014", "#2c9fb8", "#d1495b", "#a5a49d"];

/// The pictures as SVG texts.
pub struct Pictures {
    pub bar: String,
    pub similarity: String,
    pub projection: String,
}

/// A window with its thread and its signature.
type Kept = (u64, (u32, Signature));

/// Draws all of them.
pub fn draw(report: &Report<'_>) -> Result<Pictures, Error> {
    let ranks: BTreeMap<PhaseId, usize> =
        report.ranked().iter().enumerate().map(|(rank, (phase, _))| (*phase, rank)).collect();
    let phase_of = |kept: &Kept| report.found.labelled.get(kept.0 as usize).map(|window| window.phase);
    let rank_of = |kept: &Kept| phase_of(kept).and_then(|phase| ranks.get(&phase)).copied();
    Ok(Pictures {
        bar: bar(report, &ranks),
        similarity: similarity(report, rank_of)?,
        projection: projection(report, rank_of)?,
    })
}

/// The colour of a phase by its rank.
pub fn colour(rank: usize) -> &'static str {
    COLOURS[rank.min(COLOURS.len() - 1)]
}

fn svg(height: usize, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n{content}</svg>\n"
    )
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" style=\"fill:#55544f\">{text}</text>\n")
}

/// Windows of each thread, most windows first.
fn threads(report: &Report<'_>) -> Vec<(u32, Vec<PhaseId>)> {
    let mut threads: BTreeMap<u32, Vec<PhaseId>> = BTreeMap::new();
    for window in &report.found.labelled {
        threads.entry(window.thread).or_default().push(window.phase);
    }
    let mut threads: Vec<_> = threads.into_iter().collect();
    threads.sort_by_key(|(thread, windows)| (std::cmp::Reverse(windows.len()), *thread));
    threads
}

fn bar(report: &Report<'_>, ranks: &BTreeMap<PhaseId, usize>) -> String {
    let threads = threads(report);
    let longest = threads.first().map_or(1, |(_, windows)| windows.len()).max(1);
    let shown = &threads[..threads.len().min(THREADS)];
    let (left, top, row) = (30.0, 10.0, 34.0);
    let mut content = String::new();
    for (line, (thread, windows)) in shown.iter().enumerate() {
        let y = top + row * line as f64;
        if threads.len() > 1 {
            content += &label(left - 6.0, y + 18.0, "end", &thread.to_string());
        }
        let x = |window: usize| left + window as f64 * COLUMNS as f64 / longest as f64;
        // Of a long run, the window that is in force where each column begins.
        let step = (windows.len() / COLUMNS).max(1);
        let starts: Vec<usize> = (0..windows.len()).step_by(step).collect();
        let mut from = 0;
        for (at, &start) in starts.iter().enumerate() {
            let ends = starts.get(at + 1).is_none_or(|&next| windows[next] != windows[start]);
            if ends {
                let to = starts.get(at + 1).copied().unwrap_or(windows.len());
                let rank = ranks.get(&windows[start]).copied().unwrap_or(usize::MAX);
                content += &format!(
                    "<rect x=\"{:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"26\" fill=\"{}\"><title>phase {}, from window \
                     {from} of the thread</title></rect>\n",
                    x(from),
                    x(to) - x(from),
                    colour(rank),
                    windows[start],
                );
                from = to;
            }
        }
    }
    let bottom = top + row * shown.len() as f64;
    content += &label(left, bottom + 12.0, "start", "window 0");
    content += &label(left + COLUMNS as f64, bottom + 12.0, "end", &format!("{}", longest - 1));
    svg(bottom as usize + 22, &content)
}

/// How signatures are compared, and the largest distance there can be; `None` where there is no largest.
fn distance(report: &Report<'_>, signatures: &[Signature]) -> (Distance, Option<f64>) {
    let kind = signatures.first().map(Signature::kind);
    match (report.args.clusterer, kind) {
        (ClustererName::Pop, _) => (Distance::AveragePercentage, Some(2.0)),
        (_, Some(SignatureKind::Raw)) => (Distance::Euclidean, None),
        _ => (Distance::Manhattan, Some(2.0)),
    }
}

/// The thread with most windows: dark where two windows are alike.
fn similarity(report: &Report<'_>, rank_of: impl Fn(&Kept) -> Option<usize>) -> Result<String, Error> {
    let main = threads(report).first().map_or(0, |(thread, _)| *thread);
    let all: Vec<&Kept> = report.found.sample.windows().iter().filter(|kept| kept.1.0 == main).collect();
    let step = all.len().div_ceil(SIDE).max(1);
    let kept: Vec<&Kept> = all.iter().step_by(step).copied().collect();
    let signatures: Vec<Signature> = kept.iter().map(|kept| kept.1.1.clone()).collect();
    let (distance, largest) = distance(report, &signatures);
    let matrix = SimilarityMatrix::new(&signatures, distance)?;
    let n = kept.len();
    let at = |a: usize, b: usize| matrix.get(a, b).unwrap_or(0.0);
    let largest = largest.unwrap_or_else(|| {
        (0..n)
            .flat_map(|a| (a + 1..n).map(move |b| (a, b)))
            .map(|(a, b)| at(a, b))
            .fold(f64::MIN_POSITIVE, f64::max)
    });
    let (left, top, size) = (210.0, 40.0, 680.0);
    let cell = size / n as f64;
    // One path for each shade, of horizontal strokes.
    let shade = |a, b| (at(a, b) / largest * SHADES as f64).round().min(SHADES as f64) as usize;
    let mut strokes = vec![String::new(); SHADES + 1];
    for a in 0..n {
        let mut from = a;
        for b in a..n {
            if b + 1 == n || shade(a, b + 1) != shade(a, b) {
                strokes[shade(a, b)] += &format!("M{from} {a}h{}", b + 1 - from);
                from = b + 1;
            }
        }
    }
    let mut content = format!("<g transform=\"translate({left} {top}) scale({cell:.4}) translate(0 .5)\">\n");
    for (shade, path) in strokes.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        // The square root spreads the small distances, where phases differ.
        let grey = (245.0 * (shade as f64 / SHADES as f64).sqrt()).round() as u8;
        content +=
            &format!("<path d=\"{path}\" stroke=\"rgb({grey},{grey},{grey})\" stroke-width=\"1.04\"/>\n");
    }
    content += "</g>\n";
    for (i, kept) in kept.iter().enumerate() {
        let colour = colour(rank_of(kept).unwrap_or(usize::MAX));
        let width = cell + 0.3;
        content += &format!(
            "<rect x=\"{:.2}\" y=\"{}\" width=\"{width:.2}\" height=\"14\" fill=\"{colour}\"/>\n",
            left + cell * i as f64,
            top - 20.0
        );
    }
    let last = kept.last().map_or(0, |k| k.0);
    content += &label(left - 8.0, top + 12.0, "end", "window 0");
    content += &label(left + size, top + size + 18.0, "end", &format!("window {last}"));
    content += &label(left + 10.0, top + size - 40.0, "start", "Black: the same code mix.");
    content += &label(left + 10.0, top + size - 20.0, "start", "White: nothing in common.");
    Ok(svg((top + size) as usize + 30, &content))
}

/// Every window a dot on a random plane, coloured by its phase.
fn projection(report: &Report<'_>, rank_of: impl Fn(&Kept) -> Option<usize>) -> Result<String, Error> {
    let projection = Projection::new(2, report.args.common.seed)?;
    let dots: Vec<(f64, f64, usize, PhaseId)> = report
        .found
        .sample
        .windows()
        .iter()
        .filter_map(|kept| {
            let (window, (_, signature)) = kept;
            let point = projection.project(signature.values());
            let phase = report.found.labelled.get(*window as usize)?.phase;
            Some((*point.first()?, *point.get(1)?, rank_of(kept).unwrap_or(usize::MAX), phase))
        })
        .collect();
    let range = |value: fn(&(f64, f64, usize, PhaseId)) -> f64| {
        let low = dots.iter().map(value).fold(f64::INFINITY, f64::min);
        let high = dots.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
        let margin = 0.04 * (high - low) + f64::MIN_POSITIVE;
        (low - margin, high + margin)
    };
    let (x, y) = (range(|dot| dot.0), range(|dot| dot.1));
    let (left, top, width, height) = (40.0, 14.0, 1020.0, 500.0);
    let mut content = format!(
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#dddcd6\"/>\n"
    );
    let mut dots = dots.iter().collect::<Vec<_>>();
    // Small phases on top of large ones.
    dots.sort_by_key(|dot| dot.2);
    for (dx, dy, rank, phase) in dots {
        content += &format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{}\" fill-opacity=\".55\"><title>phase {phase}</title></circle>\n",
            left + (dx - x.0) / (x.1 - x.0) * width,
            top + (dy - y.0) / (y.1 - y.0) * height,
            colour(*rank),
        );
    }
    content += &label(
        left + width,
        top + height + 20.0,
        "end",
        "a random projection of the signatures: windows that lie together are alike",
    );
    Ok(svg((top + height) as usize + 30, &content))
}
