//! What detectors are worth over many programs, how sure that is, and which of the papers' claims hold.

use phase_detect::Error;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::code::{CodeKind, CodeSource};
use super::super::detectors::{Method, Outcome, Scores};
use super::super::recording::{PARTS, Recording};
use super::detectors::{counters, scored};
use super::{Setting, mean};
use crate::report::{Cell, Table};

/// How often programs are drawn anew for an interval.
const RESAMPLES: usize = 2000;
/// Programs below which no interval is given: of two, one more may say anything.
const FEWEST: usize = 3;
/// Lengths of windows that POP and ScarPhase are tried at, in parts of a window.
const LENGTHS: [usize; 3] = [1, PARTS, 8 * PARTS];
/// Instructions for each of the samples that precise event-based sampling can take (POP paper, II.B).
const PRECISE: u64 = 25_000;

const BOUND: &str = "wavelet of L2 misses";

const NOTE: &str = "Means over programs, geometric but for sigma, with 95 % intervals (programs drawn anew, 2,000 times). \
CCoV: of CPI. STAB: of CPI, in the paper's form, and with every phase measured twice at least. Sigma: weighted standard \
deviation of L2 misses, of that of one phase. Cost: nanoseconds an instruction of building the signature and finding the \
phase, but not of observing. Lower is better.";

const CLAIMS_NOTE: &str = "Each figure is a ratio of means over the programs, lower where the paper's claim is better met, \
with its 95 % interval. A claim holds if the whole interval is on its side, and does not if none of it is; else it is open.";

/// A program's scores by detector, in an order that is the same for all programs.
struct Program {
    detectors: Vec<(Outcome, Scores)>,
    window: f64,
    /// STAB (in the paper's form, and with a floor) of POP and of ScarPhase by length of windows.
    by_length: Vec<[[f64; 2]; 2]>,
    /// CoV and STAB of SimPoint's phases, in the shortest windows and in those of usual length.
    short: [f64; 2],
    usual: [f64; 2],
}

impl Program {
    fn new(recording: &Recording, setting: Setting) -> Result<Self, Error> {
        let mut detectors = scored(recording, setting)?;
        let Setting { samples, seed, .. } = setting;
        let windows = recording.windows();
        let mut source = CodeSource::new(CodeKind::Cbrv, recording, seed)?;
        let few: Vec<_> =
            windows.iter().map(|w| source.signature(w, (recording.window / PRECISE).max(1))).collect();
        let limited = Outcome::of("CBRV, 1 in 25,000", Method::SAMPLED, &few, None, seed)?;
        let scores = limited.scores(&windows, recording.window)?;
        detectors.push((limited, scores));
        let mut by_length = Vec::new();
        for parts in LENGTHS {
            let windows = recording.windows_of(parts);
            if windows.len() < 2 {
                continue;
            }
            let length = recording.length_of(parts);
            let stab = |signatures: &[_], method: Method| {
                let scores = Scores::of(&method.labels(signatures, seed)?, &windows, length)?;
                Ok::<_, Error>([scores.stab, scores.stab_twice])
            };
            let counted: Vec<_> = windows.iter().map(counters).collect();
            let mut source = CodeSource::new(CodeKind::Cbrv, recording, seed)?;
            let sampled: Vec<_> = windows.iter().map(|w| source.signature(w, samples)).collect();
            by_length.push([stab(&counted, Method::Pop)?, stab(&sampled, Method::SAMPLED)?]);
        }
        let simpoint = |parts: usize| {
            let windows = recording.windows_of(parts);
            let mut source = CodeSource::new(CodeKind::Bbv, recording, seed)?;
            let signatures: Vec<_> = windows.iter().map(|w| source.signature(w, 0)).collect();
            let length = recording.length_of(parts);
            let scores = Scores::of(&Method::SimPoint.labels(&signatures, seed)?, &windows, length)?;
            Ok::<_, Error>([scores.cov, scores.stab])
        };
        let (short, usual) = (simpoint(1)?, simpoint(PARTS)?);
        Ok(Self { detectors, window: recording.window as f64, by_length, short, usual })
    }

    /// The scores of a detector; a signature that ends in * is the last that begins so.
    fn of(&self, signature: &str, method: &str) -> Option<&Scores> {
        let found = self.detectors.iter().rev().find(|(outcome, _)| {
            (outcome.signature == signature
                || signature.strip_suffix('*').is_some_and(|start| outcome.signature.starts_with(start)))
                && outcome.method.starts_with(method)
        });
        found.map(|(_, scores)| scores)
    }
}

pub fn run(recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
    let mut tables = Vec::new();
    let mut groups = Vec::new();
    for (name, embedded) in [("real", false), ("embedded", true)] {
        let chosen = recordings.iter().filter(|recording| recording.embedded == embedded);
        let programs: Vec<Program> =
            chosen.clone().map(|recording| Program::new(recording, setting)).collect::<Result<_, _>>()?;
        if !programs.is_empty() {
            let names: Vec<&str> = chosen.map(|recording| recording.name.as_str()).collect();
            tables.push(ranking(name, &names, &programs, setting.seed));
            groups.push((name, programs));
        }
    }
    tables.push(claims(&groups, setting.seed));
    Ok(tables)
}

fn ranking(group: &str, names: &[&str], programs: &[Program], seed: u64) -> Table {
    let plural = if names.len() == 1 { "" } else { "s" };
    // a command by its program
    let short =
        |name: &&str| name.split(' ').next().and_then(|path| path.rsplit('/').next()).map(str::to_owned);
    let names: Vec<String> = names.iter().filter_map(short).collect();
    let title = format!("{} {group} program{plural}: {}", programs.len(), names.join(", "));
    let mut table = Table::new(&format!("verdict_{group}"), title, NOTE, &[]);
    for (at, (outcome, _)) in programs[0].detectors.iter().enumerate() {
        let geometric = |value: &dyn Fn(&Scores) -> f64| {
            interval(programs, seed, |drawn| geometric(drawn.iter().map(|p| value(&p.detectors[at].1))))
        };
        let (phases, _) = geometric(&|s| s.phases as f64);
        let (each, _) = geometric(&|s| s.windows as f64 / s.phases.max(1) as f64);
        let shares = |(value, range): (f64, Option<(f64, f64)>)| {
            [Cell::Share(value), range.map_or(Cell::None, |(low, high)| Cell::Shares(low, high))]
        };
        let numbers = |(value, range): (f64, Option<(f64, f64)>)| {
            [Cell::Number(value), range.map_or(Cell::None, |(low, high)| Cell::Numbers(low, high))]
        };
        let sigma =
            interval(programs, seed, |drawn| mean(drawn.iter().map(|p| p.detectors[at].1.sigma_left)));
        let cost = |program: &Program| {
            let (outcome, _) = &program.detectors[at];
            let seconds = outcome.build.unwrap_or(0.0) + outcome.detect?;
            Some(1e9 * seconds / program.window)
        };
        let costs: Option<Vec<f64>> = programs.iter().map(cost).collect();
        let [ccov, ccov_range] = shares(geometric(&|s| s.ccov));
        let [stab, stab_range] = numbers(geometric(&|s| s.stab * 1e6));
        let [twice, twice_range] = numbers(geometric(&|s| s.stab_twice * 1e6));
        let [sigma, sigma_range] = shares(sigma);
        table.push([
            ("signature", Cell::Text(outcome.signature.clone())),
            ("detector", Cell::Text(outcome.method.clone())),
            ("phases", Cell::Number(phases)),
            ("windows a phase", Cell::Number(each)),
            ("CCoV CPI", ccov),
            ("CCoV 95 %", ccov_range),
            ("STAB ppm", stab),
            ("STAB 95 %", stab_range),
            ("STAB ppm, twice", twice),
            ("twice 95 %", twice_range),
            ("sigma left", sigma),
            ("sigma 95 %", sigma_range),
            ("cost ns", costs.map_or(Cell::None, |costs| Cell::Number(mean(costs.into_iter())))),
        ]);
    }
    table
}

/// A claim of a paper, as a ratio of two means over programs.
struct Claim {
    paper: &'static str,
    figure: &'static str,
    /// The ratio in the paper, as it states it.
    stated: &'static str,
    /// The claim holds up to this ratio.
    below: f64,
    ratio: Ratio,
}

/// A ratio of two means over programs; `None` where one is missing or nothing.
enum Ratio {
    /// Of two detectors, each a signature and a method.
    Detectors(Mean, fn(&Scores) -> f64, [(&'static str, &'static str); 2]),
    Else(fn(&[&Program]) -> Option<f64>),
}

impl Claim {
    /// Sigma of two signatures, both under k-means with ten phases, as the wavelet paper compares them.
    const fn sigma(figure: &'static str, one: &'static str, other: &'static str) -> Self {
        let ratio = Ratio::Detectors(mean, |s| s.sigma, [(one, "k-means"), (other, "k-means")]);
        Self { paper: "wavelets", figure, stated: "below 1", below: 1.0, ratio }
    }

    /// What POP reaches, of what another does.
    const fn pop(
        figure: &'static str,
        stated: &'static str,
        value: fn(&Scores) -> f64,
        other: (&'static str, &'static str),
    ) -> Self {
        let ratio = Ratio::Detectors(geometric, value, [("8 counters", "POP"), other]);
        Self { paper: "POP", figure, stated, below: 1.0, ratio }
    }

    const fn other(
        paper: &'static str,
        figure: &'static str,
        stated: &'static str,
        ratio: fn(&[&Program]) -> Option<f64>,
    ) -> Self {
        Self { paper, figure, stated, below: 1.0, ratio: Ratio::Else(ratio) }
    }

    fn ratio(&self, drawn: &[&Program]) -> Option<f64> {
        match self.ratio {
            Ratio::Detectors(mean, value, both) => ratio(drawn, mean, value, both),
            Ratio::Else(ratio) => ratio(drawn),
        }
    }
}

/// A mean over programs.
type Mean = fn(std::vec::IntoIter<f64>) -> f64;

/// Of two detectors, each a signature and a method.
fn ratio(
    drawn: &[&Program],
    mean: Mean,
    value: fn(&Scores) -> f64,
    [one, other]: [(&str, &str); 2],
) -> Option<f64> {
    let of = |(signature, method): (&str, &str)| {
        let values: Option<Vec<f64>> = drawn.iter().map(|p| p.of(signature, method).map(value)).collect();
        Some(mean(values?.into_iter()))
    };
    let (above, below) = (of(one)?, of(other)?);
    (below > 0.0).then(|| above / below)
}

/// What the wavelet paper compares wavelets with.
const OTHERS: [&str; 8] = [
    "BBV",
    "working set",
    "working set, bits",
    "local stride, 100",
    "local stride, *",
    "local stride+pc*",
    "global stride, *",
    "global stride+pc*",
];

const SCARPHASE: (&str, &str) = ("CBRV", "leader-follower");
const LIMITED: (&str, &str) = ("CBRV, 1 in 25,000", "leader-follower");
const STAB: &str = "0.39 (10 M), 1.18 (100 M)";
const TWICE: &str = "the same, every phase measured twice";
const NOWHERE: &str = "not in the paper";

const CLAIMS: &[Claim] = &[
    Claim::other("wavelets", "sigma of wavelets, of the best other signature's", "below 1", |drawn| {
        let of = |other: &&str| ratio(drawn, mean, |s| s.sigma, [("wavelet", "k-means"), (other, "k-means")]);
        OTHERS.iter().filter_map(of).reduce(f64::max)
    }),
    Claim {
        stated: "1.55",
        below: 1.55,
        ..Claim::sigma("sigma of wavelets, of the bound's (wavelets of L2 misses)", "wavelet", BOUND)
    },
    Claim::sigma("sigma of wavelets, of that of all blocks", "wavelet", "BBV"),
    Claim::sigma("sigma of 100 local strides, of that of many", "local stride, 100", "local stride, *"),
    Claim::sigma("sigma of local strides, of that with instructions", "local stride, *", "local stride+pc*"),
    Claim::sigma("sigma of local strides, of that of global ones", "local stride, *", "global stride, *"),
    Claim::sigma("sigma of all blocks, of that of working sets", "BBV", "working set"),
    Claim::sigma("sigma of working sets, counted, of that of bits", "working set", "working set, bits"),
    Claim::other(
        "ScarPhase",
        "CCoV of sampled blocks or branches (the worst of three), of that of instruction pointers",
        "below 1",
        |drawn| {
            let of = |kind: &str| {
                let pair = [(kind, "leader-follower"), ("EIPV", "leader-follower")];
                ratio(drawn, mean, |s| s.ccov, pair)
            };
            Some(of("MBBV")?.max(of("BRV")?).max(of("CBRV")?))
        },
    ),
    Claim::pop("STAB of POP, of ScarPhase's", STAB, |s| s.stab, SCARPHASE),
    Claim::pop(TWICE, NOWHERE, |s| s.stab_twice, SCARPHASE),
    Claim::pop("STAB of POP, of ScarPhase's with a sample in 25,000 instructions", STAB, |s| s.stab, LIMITED),
    Claim::pop(TWICE, NOWHERE, |s| s.stab_twice, LIMITED),
    Claim::other("POP", "STAB, POP in its best windows, of ScarPhase in its best", "0.47", |drawn| {
        best_windows(drawn, 0)
    }),
    Claim::other("POP", TWICE, NOWHERE, |drawn| best_windows(drawn, 1)),
    Claim::pop("CCoV of POP, of ScarPhase's", "0.57 (10 M), 1.05 (100 M)", |s| s.ccov, SCARPHASE),
    Claim::pop("phases of POP, of ScarPhase's", "0.40 (10 M), 1.35 (100 M)", |s| s.phases as f64, SCARPHASE),
    Claim::other(
        "POP",
        "STAB of SimPoint's phases in windows an eighth as long, of that in whole ones",
        "below 1",
        |drawn| {
            Some(geometric(drawn.iter().map(|p| p.short[1])) / geometric(drawn.iter().map(|p| p.usual[1])))
        },
    ),
    Claim::other(
        "POP",
        "CoV of SimPoint's phases in whole windows, of that in windows an eighth as long",
        "below 1",
        |drawn| {
            Some(geometric(drawn.iter().map(|p| p.usual[0])) / geometric(drawn.iter().map(|p| p.short[0])))
        },
    ),
];

/// STAB in one of its forms, POP's of ScarPhase's, each in the windows that suit it best over all programs.
fn best_windows(drawn: &[&Program], form: usize) -> Option<f64> {
    let lengths = drawn.iter().map(|p| p.by_length.len()).min()?;
    let best = |detector: usize| {
        let of = |length: usize| geometric(drawn.iter().map(|p| p.by_length[length][detector][form]));
        (0..lengths).map(of).reduce(f64::min)
    };
    Some(best(0)? / best(1)?)
}

fn claims(groups: &[(&str, Vec<Program>)], seed: u64) -> Table {
    let mut table =
        Table::new("claims", "What the papers claim".to_owned(), CLAIMS_NOTE, &["paper", "claim", "stated"]);
    for (name, _) in groups {
        table.columns.extend([format!("{name} programs"), format!("{name} 95 %"), format!("holds, {name}")]);
    }
    for claim in CLAIMS {
        let mut row = vec![claim.paper.into(), claim.figure.into(), claim.stated.into()];
        for (_, programs) in groups {
            let (value, range) = interval(programs, seed, |drawn| claim.ratio(drawn).unwrap_or(f64::NAN));
            if value.is_nan() {
                row.extend([Cell::None, Cell::None, "open".into()]);
                continue;
            }
            let holds = match range {
                Some((_, high)) if high <= claim.below => "yes",
                Some((low, _)) if low > claim.below => "no",
                _ => "open",
            };
            let range = range.map_or(Cell::None, |(low, high)| Cell::Numbers(low, high));
            row.extend([Cell::Number(value), range, holds.into()]);
        }
        table.rows.push(row);
    }
    table
}

/// A statistic of the programs, and between which values 95 % of it lie when as many programs are drawn from them.
fn interval(
    programs: &[Program],
    seed: u64,
    statistic: impl Fn(&[&Program]) -> f64,
) -> (f64, Option<(f64, f64)>) {
    let all: Vec<&Program> = programs.iter().collect();
    let value = statistic(&all);
    if all.len() < FEWEST {
        return (value, None);
    }
    let mut random = StdRng::seed_from_u64(seed);
    let mut drawn = all.clone();
    let mut values: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            for slot in &mut drawn {
                *slot = all[random.random_range(0..all.len())];
            }
            statistic(&drawn)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    (value, Some((values[RESAMPLES / 40], values[RESAMPLES - 1 - RESAMPLES / 40])))
}

/// Geometric mean; what is nothing counts as next to nothing, lest one program decide alone.
fn geometric(values: impl Iterator<Item = f64>) -> f64 {
    mean(values.map(|value| value.max(1e-9).ln())).exp()
}
