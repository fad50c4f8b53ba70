//! A program cut into segments the way a method wants them.

use std::sync::OnceLock;

use super::burst::Burst;
use crate::curve::average;
use crate::error::Error;
use crate::program::PlacedWindow;
use crate::{CacheCurve, Method, Program, ReuseTimes};

/// A program's pass as one method sees it.
pub(super) struct Timeline {
    segments: Vec<Segment>,              // at least one
    curves: Vec<CacheCurve>,             // those the segments name
    whole: OnceLock<Option<CacheCurve>>, // average of all segments, if they have one; computed when it is needed
    work: f64,                           // of a pass
    bursts: Vec<Burst>,                  // within the windows that each curve is of
    time_alone: f64,
}

/// A stretch of a program in which its curve does not change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Segment {
    pub work: f64,    // > 0
    pub curve: usize, // < curves
    pub phase: usize, // number in the program's phases; of its first window, where it spans several phases
}

impl Timeline {
    pub(super) fn new<P>(program: &Program<P>, method: Method, cache: f64) -> Result<Self, Error> {
        let (segments, curves) = match method {
            Method::Window => windows(program),
            Method::DynamicWindow => dynamic_windows(program)?,
            Method::Phase => phases(program),
            Method::Oblivious => {
                let phase = program.placed().first().map_or(0, |w| w.phase);
                (vec![Segment { work: program.work(), curve: 0, phase }], vec![program.average()?])
            }
        };
        let alone: Vec<f64> = curves.iter().map(|curve: &CacheCurve| curve.cpi(cache)).collect();
        let time_alone = segments.iter().map(|s: &Segment| s.work * alone[s.curve]).sum();
        let work = segments.iter().map(|s| s.work).sum();
        let of_phases = match method {
            Method::Oblivious => vec![Burst::of(&[(work, &curves[0])], &[], cache)],
            _ => bursts(program, cache),
        };
        let of_phase = |phase: usize| of_phases.get(phase).or(of_phases.first()).copied().unwrap_or_default();
        let mut bursts = vec![Burst::default(); curves.len()];
        for segment in &segments {
            bursts[segment.curve] = of_phase(segment.phase);
        }
        Ok(Self { segments, curves, whole: OnceLock::new(), work, bursts, time_alone })
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The curve of that number: a segment's, or that of the whole pass, whose number is [`whole`](Self::whole).
    pub(super) fn curve(&self, number: usize) -> &CacheCurve {
        self.curves.get(number).or_else(|| self.average()).unwrap_or(&self.curves[0])
    }

    /// Number of the curve of the whole pass; `None` if its curves cannot be averaged.
    pub(super) fn whole(&self) -> Option<usize> {
        if self.curves.len() == 1 {
            return Some(0);
        }
        self.average().map(|_| self.curves.len())
    }

    fn average(&self) -> Option<&CacheCurve> {
        let segments = || self.segments.iter().map(|s| (s.work, &self.curves[s.curve]));
        self.whole.get_or_init(|| average(&segments().collect::<Vec<_>>()).ok()).as_ref()
    }

    /// Whether the footprints of all curves are known.
    pub(super) fn has_footprints(&self) -> bool {
        self.curves.iter().all(CacheCurve::has_footprint)
    }

    /// Number of the phase of a curve; of the whole pass, that of its first segment.
    pub(super) fn phase_of(&self, curve: usize) -> usize {
        self.segments.iter().find(|s| s.curve == curve).map_or(self.segments[0].phase, |s| s.phase)
    }

    /// Numbers that [`curve`](Self::curve) takes: all below this.
    pub(super) fn numbers(&self) -> usize {
        self.curves.len() + 1
    }

    /// Work of a pass.
    pub(super) const fn work(&self) -> f64 {
        self.work
    }

    /// How uneven what a curve averages may be; of the whole pass, nothing is said.
    pub(super) fn burst(&self, curve: usize) -> Burst {
        self.bursts.get(curve).copied().unwrap_or_default()
    }

    pub(super) fn time_alone(&self) -> f64 {
        self.time_alone
    }
}

/// How uneven the windows of each phase may be, by those that have a curve of their own.
fn bursts<P>(program: &Program<P>, cache: f64) -> Vec<Burst> {
    let of = |(phase, (_, curve)): (usize, &(P, CacheCurve))| {
        let windows = || program.placed().iter().filter(move |window| window.phase == phase);
        let own = windows().filter_map(|window| program.window_curves().get(window.curve?));
        Burst::of(
            &windows().map(|window| (window.work, curve)).collect::<Vec<_>>(),
            &own.collect::<Vec<_>>(),
            cache,
        )
    };
    program.phases().iter().enumerate().map(of).collect()
}

type Cut = (Vec<Segment>, Vec<CacheCurve>);

fn windows<P>(program: &Program<P>) -> Cut {
    let mut curves: Vec<CacheCurve> = program.phases().iter().map(|(_, curve)| curve.clone()).collect();
    let own = curves.len();
    curves.extend_from_slice(program.window_curves());
    let number = |w: &PlacedWindow| w.curve.map_or(w.phase, |curve| own + curve);
    // Windows that follow one curve are one.
    let stretches = program.placed().chunk_by(|a, b| number(a) == number(b));
    let segments = stretches.filter_map(|stretch| {
        let first = stretch.first()?;
        let work = stretch.iter().map(|w| w.work).sum();
        Some(Segment { work, curve: number(first), phase: first.phase })
    });
    (segments.collect(), curves)
}

fn dynamic_windows<P>(program: &Program<P>) -> Result<Cut, Error> {
    let mut cut = (Vec::new(), Vec::new());
    let windows: Vec<_> = program.windows().collect();
    for instance in windows.chunk_by(|a, b| a.1 == b.1) {
        let work = instance.iter().map(|w| w.0).sum();
        let phase = instance.first().map_or(0, |w| w.1);
        cut.0.push(Segment { work, curve: cut.1.len(), phase });
        cut.1.push(average(&instance.iter().map(|&(work, _, curve)| (work, curve)).collect::<Vec<_>>())?);
    }
    Ok(cut)
}

fn phases<P>(program: &Program<P>) -> Cut {
    let instances = program.placed().chunk_by(|a, b| a.phase == b.phase);
    let segments = instances.filter_map(|instance| {
        let phase = instance.first()?.phase;
        Some(Segment { work: instance.iter().map(|w| w.work).sum(), curve: phase, phase })
    });
    (segments.collect(), program.phases().iter().map(|(_, curve)| curve.clone()).collect())
}

/// The curves of a program with their names.
fn named<P>(program: &Program<P>) -> impl Iterator<Item = (String, &CacheCurve)> {
    let phases = program.phases().iter().map(|(_, curve)| curve).enumerate();
    let windows = program.window_curves().iter().enumerate();
    let phases = phases.map(|(i, c)| (format!("phase curve {i}"), c));
    phases.chain(windows.map(|(i, c)| (format!("window curve {i}"), c)))
}

/// Refuses a program with a curve that ends below the cache it is to share.
pub(super) fn check_measured<P>(program: &Program<P>, cache: f64) -> Result<(), Error> {
    for (part, curve) in named(program) {
        // Sizes in whole lines or pages may miss the cache's by a little.
        if (curve.largest() as f64) < cache * 0.98 {
            return Err(Error::NotMeasured {
                program: program.name().to_owned(),
                part,
                measured: curve.largest(),
                cache: cache as u64,
            });
        }
    }
    Ok(())
}

/// Checks that reuse times were counted in the sets of a cache of which a way has so many bytes.
pub(super) fn check_sets<P>(program: &Program<P>, way: f64) -> Result<(), Error> {
    for (part, curve) in named(program) {
        let other = curve.reuse_times().map(ReuseTimes::way_bytes).filter(|&counted| counted as f64 != way);
        if let Some(counted) = other {
            let program = program.name().to_owned();
            return Err(Error::OtherSets { program, part, counted, cache: way as u64 });
        }
    }
    Ok(())
}
