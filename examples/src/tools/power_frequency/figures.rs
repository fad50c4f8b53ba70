//! The pictures: energy over time and frequency (thesis, figure 5.4), the most important phases at both ends (Paper V,
//! figure V.11), power under the schedule (figure V.12), and the front of time and energy.

use phase_detect::PhaseId;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use powersleuth::analysis::{Analysis, Cost, Level, Plan};

use super::report::Report;
use super::study::Study;
use crate::report::{Area, COLUMNS, Drawn, PHASES, REST, colour_of, count, picture, quantity, runs};

const SHADES: f64 = 48.0;
/// Phases in the ranking, as many as the paper shows.
const RANKED: usize = 6;
const SCHEDULED: RGBColor = RGBColor(31, 157, 115);
const FASTEST: RGBColor = RGBColor(42, 110, 200);

/// Power over time: corners, name, colour and how strong it is.
type Stairs = (Vec<(f64, f64)>, String, RGBColor, f64);

/// All pictures as SVG texts.
#[derive(Debug)]
pub struct Pictures {
    /// Figure 5.4.
    pub energy: String,
    /// Figure V.11.
    pub phases: String,
    /// Figure V.12.
    pub schedule: String,
    /// Time against energy.
    pub pareto: String,
}

impl Pictures {
    /// Draws them; an error is what the drawing library says.
    pub fn draw(report: &Report<'_>) -> Result<Self, String> {
        let stairs = all_stairs(report)?;
        Ok(Self {
            energy: picture((1000, 400), |root| energy(report, root))?,
            phases: picture((1000, 300), |root| phases(report, root))?,
            schedule: picture((1000, 320), |root| schedule(stairs, root))?,
            pareto: picture((1000, 400), |root| pareto(report, root))?,
        })
    }

    /// With their names.
    pub fn files(&self) -> [(&'static str, &str); 4] {
        [
            ("energy.svg", &self.energy),
            ("phases.svg", &self.phases),
            ("schedule.svg", &self.schedule),
            ("pareto.svg", &self.pareto),
        ]
    }
}

fn colour(rank: Option<usize>) -> RGBColor {
    rank.and_then(|rank| PHASES.get(rank)).copied().unwrap_or(REST)
}

/// The interval in each column of a picture; all intervals have the same number of instructions.
fn interval_at(column: usize, intervals: usize) -> usize {
    (column * intervals / COLUMNS).min(intervals - 1)
}

fn energy(report: &Report<'_>, root: &Area<'_>) -> Drawn {
    let study = report.study;
    let analysis = &study.predicted;
    let (intervals, levels) = (analysis.intervals(), analysis.frequencies().len());
    let (heat, side) = root.split_horizontally(820);
    let (bar, heat) = heat.split_vertically(40);
    let (title, side) = side.split_vertically(40);

    let mut ranks = vec![None; intervals];
    for instance in analysis.instances() {
        ranks[instance.intervals.clone()].fill(study.rank(instance.phase));
    }
    let (left, right) = (70, bar.dim_in_pixel().0 as i32 - 10);
    let x = |column: usize| left + (column as i32 * (right - left)) / COLUMNS as i32;
    for (from, to, rank) in runs((0..COLUMNS).map(|column| ranks[interval_at(column, intervals)])) {
        bar.draw(&Rectangle::new([(x(from), 12), (x(to), 34)], colour(rank).filled()))?;
    }

    let joules = |interval: usize, level: usize| analysis.interval_costs(interval)[level].energy.0;
    let cells = (0..intervals).flat_map(|interval| (0..levels).map(move |level| (interval, level)));
    let (low, top) = shown_range(cells.map(|(interval, level)| joules(interval, level)).collect());
    let instructions = intervals as f64 * study.interval as f64;
    let edge = edges(report);
    let mut chart = ChartBuilder::on(&heat)
        .margin_right(10)
        .margin_top(2)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..instructions, edge[0]..edge[levels])?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("instructions")
        .y_desc("GHz")
        .x_label_formatter(&|x| count(*x as u64))
        .y_label_formatter(&|y| format!("{y:.1}"))
        .draw()?;
    let x = |column: usize| column as f64 * instructions / COLUMNS as f64;
    for level in 0..levels {
        let shade = |column: usize| {
            // By the square root, so that small energies differ visibly.
            let share = (joules(interval_at(column, intervals), level) - low) / (top - low);
            (share.clamp(0.0, 1.0).sqrt() * SHADES).round() as u32
        };
        let cells = runs((0..COLUMNS).map(shade)).into_iter().map(|(from, to, shade)| {
            let corners = [(x(from), edge[level]), (x(to), edge[level + 1])];
            Rectangle::new(corners, colour_of(f64::from(shade) / SHADES).filled())
        });
        chart.draw_series(cells)?;
    }
    title.draw(&Text::new("average", (60, 22), ("sans-serif", 14)))?;
    average(report, &side, &edge)
}

/// From the smallest to the largest that is shown as such: what lies beyond 98 of 100 cells would only make the others
/// pale.
fn shown_range(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let low = values.first().copied().unwrap_or(0.0);
    let high = values.get(values.len() * 98 / 100).or(values.last()).copied().unwrap_or(0.0);
    (low, if high > low { high } else { low + 1.0 })
}

/// Bounds between the frequencies, in GHz, with half a step beyond either end.
fn edges(report: &Report<'_>) -> Vec<f64> {
    let ghz: Vec<f64> = report.study.predicted.frequencies().iter().map(|f| f.ghz()).collect();
    let (first, last) = (ghz[0], ghz[ghz.len() - 1]);
    let half = |a: usize, b: usize| ghz.get(b).map_or(0.05, |high| (high - ghz[a]) / 2.0);
    let mut edges = vec![first - half(0, 1)];
    edges.extend(ghz.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])));
    edges.push(last + if ghz.len() > 1 { half(ghz.len() - 2, ghz.len() - 1) } else { 0.05 });
    edges
}

fn average(report: &Report<'_>, area: &Area<'_>, edge: &[f64]) -> Drawn {
    let analysis = &report.study.predicted;
    let intervals = analysis.intervals() as f64;
    let mean: Vec<f64> = analysis.program_costs().iter().map(|cost| cost.energy.0 / intervals).collect();
    let most = mean.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin_right(20)
        .margin_top(2)
        .x_label_area_size(44)
        .build_cartesian_2d(0.0..most * 1.1, edge[0]..edge[edge.len() - 1])?;
    chart
        .configure_mesh()
        .disable_mesh()
        .disable_y_axis()
        .x_desc("energy of an interval")
        .x_labels(3)
        .x_label_formatter(&|x| quantity(*x, "J"))
        .draw()?;
    let bars = mean.iter().enumerate().map(|(level, &joules)| {
        Rectangle::new(
            [(0.0, edge[level]), (joules, edge[level + 1])],
            colour_of(joules / most * 0.7).filled(),
        )
    });
    chart.draw_series(bars)?;
    Ok(())
}

fn phases(report: &Report<'_>, root: &Area<'_>) -> Drawn {
    let (times, energies) = root.split_horizontally(500);
    bars(report, &times, "time", "s", |cost| cost.time.0)?;
    bars(report, &energies, "energy", "J", |cost| cost.energy.0)
}

/// A pair of bars for each of the most important phases: the highest frequency and the lowest.
fn bars(report: &Report<'_>, area: &Area<'_>, what: &str, unit: &str, of: fn(Cost) -> f64) -> Drawn {
    let study = report.study;
    let shown = &study.views[..study.views.len().min(RANKED)];
    let value = |rank: usize, level: Level| {
        Study::phase(&study.predicted, shown[rank].phase).map_or(0.0, |phase| of(phase.costs[level.0]))
    };
    let ends = report.ends();
    let most = (0..shown.len()).flat_map(|rank| ends.map(|level| value(rank, level))).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(what, ("sans-serif", 15))
        .x_label_area_size(26)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.5..shown.len() as f64 - 0.5, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE.mix(0.0))
        .x_labels(shown.len())
        .x_label_formatter(&|x| shown.get(x.round() as usize).map_or(String::new(), |view| view.name.clone()))
        .y_label_formatter(&|y| quantity(*y, unit))
        .draw()?;
    for (level, (offset, colour)) in ends.into_iter().zip([(-0.35, FASTEST), (0.0, REST)]) {
        let bars = (0..shown.len()).map(|rank| {
            let left = rank as f64 + offset;
            Rectangle::new([(left, 0.0), (left + 0.33, value(rank, level))], colour.filled())
        });
        let ghz = report.ghz(level);
        chart
            .draw_series(bars)?
            .label(format!("{ghz:.2} GHz      "))
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
    }
    legend(&mut chart)
}

fn legend<'a, X: Ranged<ValueType = f64>, Y: Ranged<ValueType = f64>>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
) -> Drawn {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .legend_area_size(24)
        .label_font(("sans-serif", 12))
        .border_style(BLACK.mix(0.2))
        .background_style(WHITE.mix(0.85))
        .draw()
}

/// Power over time under a plan: corners of the stairs.
fn stairs(analysis: &Analysis<PhaseId>, plan: &Plan) -> Result<Vec<(f64, f64)>, String> {
    let mut now = 0.0;
    let mut corners = Vec::new();
    for (_, cost) in analysis.timeline(plan).map_err(|error| error.to_string())? {
        let watts = cost.power().0;
        corners.push((now, watts));
        now += cost.time.0;
        corners.push((now, watts));
    }
    Ok(corners)
}

fn all_stairs(report: &Report<'_>) -> Result<Vec<Stairs>, String> {
    let (study, advice) = (report.study, report.advice);
    let fastest = study.predicted.uniform(study.predicted.fastest());
    let mut lines = Vec::new();
    for (plan, name, colour) in
        [(&fastest, "highest frequency", FASTEST), (&advice.plan, "recommended", SCHEDULED)]
    {
        lines.push((stairs(&study.predicted, plan)?, name.to_owned(), colour, 1.0));
        if let Some(truth) = &study.truth {
            lines.push((stairs(truth, plan)?, format!("{name}, in truth"), colour, 0.35));
        }
    }
    Ok(lines)
}

fn schedule(lines: Vec<Stairs>, root: &Area<'_>) -> Drawn {
    let last = lines.iter().filter_map(|line| line.0.last()).map(|p| p.0).fold(0.0, f64::max);
    let most = lines.iter().flat_map(|line| &line.0).map(|p| p.1).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(root)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..last, 0.0..most * 1.3)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE.mix(0.0))
        .x_desc("time")
        .y_desc("power")
        .x_label_formatter(&|x| quantity(*x, "s"))
        .y_label_formatter(&|y| quantity(*y, "W"))
        .draw()?;
    for (corners, name, colour, strength) in lines {
        let style = colour.mix(strength).stroke_width(2);
        chart
            .draw_series(LineSeries::new(corners, style))?
            .label(name + "      ")
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    legend(&mut chart)
}

fn pareto(report: &Report<'_>, root: &Area<'_>) -> Drawn {
    let (study, advice) = (report.study, report.advice);
    let program = study.predicted.program_costs();
    let point = |cost: Cost| (cost.time.0, cost.energy.0);
    let front: Vec<(f64, f64)> = advice.front.iter().map(|p| point(p.cost)).collect();
    let uniform: Vec<(f64, f64)> = program.iter().map(|&cost| point(cost)).collect();
    let chosen = point(advice.predicted.total);
    let all = || front.iter().chain(&uniform).chain([&chosen]);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) =
            all().map(of).fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), v| (l.min(v), h.max(v)));
        let room = ((high - low) * 0.08).max(high * 1e-3);
        low - room..high + room
    };
    let mut chart = ChartBuilder::on(root)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(range(|p| p.0), range(|p| p.1))?;
    chart
        .configure_mesh()
        .light_line_style(WHITE.mix(0.0))
        .x_desc("time")
        .y_desc("energy")
        .x_label_formatter(&|x| quantity(*x, "s"))
        .y_label_formatter(&|y| quantity(*y, "J"))
        .draw()?;
    let line = FASTEST.stroke_width(2);
    chart
        .draw_series([DashedPathElement::new(front, 6, 3, line)])?
        .label("a frequency for each phase      ")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], line));
    chart
        .draw_series(uniform.iter().map(|&at| Circle::new(at, 4, BLACK.mix(0.6).filled())))?
        .label("one for all")
        .legend(|(x, y)| Circle::new((x + 9, y), 4, BLACK.mix(0.6).filled()));
    chart
        .draw_series([TriangleMarker::new(chosen, 8, SCHEDULED.filled())])?
        .label("recommended")
        .legend(|(x, y)| TriangleMarker::new((x + 9, y), 7, SCHEDULED.filled()));
    let names = uniform.iter().zip(study.predicted.frequencies()).map(|(&at, frequency)| {
        EmptyElement::at(at) + Text::new(format!("{:.2}", frequency.ghz()), (6, -12), ("sans-serif", 12))
    });
    chart.draw_series(names)?;
    legend(&mut chart)
}
