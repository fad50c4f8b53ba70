//! A program as a prediction uses it: windows in order, each of a phase, and a curve for every window or phase.

use std::collections::HashMap;
use std::hash::Hash;

use crate::CacheCurve;
use crate::curve::average;
use crate::error::{Error, above_zero};

/// Unit of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeUnit {
    /// Processor cycles.
    #[default]
    Cycle,
    /// Nanoseconds.
    Nanosecond,
}

/// Units of a program's time and work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    /// Unit of time.
    pub time: TimeUnit,
    /// Unit of work: `instruction`, or another measure of the program's progress.
    pub work: String,
}

impl Default for Units {
    /// Cycles and instructions.
    fn default() -> Self {
        Self { time: TimeUnit::Cycle, work: "instruction".to_owned() }
    }
}

/// One window of a program, as given.
#[derive(Clone, Debug, PartialEq)]
pub struct Window<P> {
    /// Work done in it: instructions. Above 0.
    pub work: f64,
    /// The phase it belongs to.
    pub phase: P,
    /// Its curve, if this window was measured; else its phase's curve is used.
    pub curve: Option<CacheCurve>,
}

impl<P> Window<P> {
    /// A window with its phase's curve.
    pub const fn of_phase(work: f64, phase: P) -> Self {
        Self { work, phase, curve: None }
    }

    /// A window with a curve of its own.
    pub const fn measured(work: f64, phase: P, curve: CacheCurve) -> Self {
        Self { work, phase, curve: Some(curve) }
    }
}

/// A program: its windows in order and the curves of its phases.
#[derive(Clone, Debug, PartialEq)]
pub struct Program<P> {
    name: String,
    units: Units,
    phases: Vec<(P, CacheCurve)>, // distinct ids
    windows: Vec<PlacedWindow>,   // at least one
    curves: Vec<CacheCurve>,      // of windows
    uncertainty: f64,             // in [0, 1)
}

/// A window whose phase and curve are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PlacedWindow {
    pub work: f64,            // > 0
    pub phase: usize,         // < phases
    pub curve: Option<usize>, // < curves
}

impl<P: Clone + Eq + Hash> Program<P> {
    /// A program of `windows`, with a curve for each phase that `phases` names.
    ///
    /// A phase without a curve gets the average of those of its windows that have one, weighted by work.
    ///
    /// # Errors
    /// [`Error::NoWindows`]; [`Error::NoCurve`] for a window without curve whose phase has none either;
    /// [`Error::PhaseTwice`]; [`Error::Value`] for work that is not above 0; [`Error::MixedLineSizes`] for curves of
    /// different line sizes.
    pub fn new(
        name: impl Into<String>,
        phases: impl IntoIterator<Item = (P, CacheCurve)>,
        windows: impl IntoIterator<Item = Window<P>>,
    ) -> Result<Self, Error> {
        let name = name.into();
        let mut numbers: HashMap<P, usize> = HashMap::new();
        let mut ids: Vec<P> = Vec::new();
        let mut given: Vec<Option<CacheCurve>> = Vec::new();
        for (index, (phase, curve)) in phases.into_iter().enumerate() {
            if numbers.insert(phase.clone(), index).is_some() {
                return Err(Error::PhaseTwice { program: name, index });
            }
            ids.push(phase);
            given.push(Some(curve));
        }
        let mut placed = Vec::new();
        let mut curves = Vec::new();
        for Window { work, phase, curve } in windows {
            above_zero("the work of a window", work)?;
            let phase = *numbers.entry(phase).or_insert_with_key(|phase| {
                ids.push(phase.clone());
                given.push(None);
                ids.len() - 1
            });
            let curve = curve.map(|curve| {
                curves.push(curve);
                curves.len() - 1
            });
            placed.push(PlacedWindow { work, phase, curve });
        }
        if placed.is_empty() {
            return Err(Error::NoWindows { program: name });
        }
        of_one_line_size(given.iter().flatten().chain(&curves))?;
        let phases = ids
            .into_iter()
            .zip(given)
            .enumerate()
            .map(|(number, (phase, curve))| match curve {
                Some(curve) => Ok((phase, curve)),
                None => Ok((phase, phase_average(number, &placed, &curves, &name)?)),
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self { name, units: Units::default(), phases, windows: placed, curves, uncertainty: 0.0 })
    }

    /// A program of one phase that does `work`.
    ///
    /// # Errors
    /// [`Error::Value`] for work that is not above 0.
    pub fn steady(name: impl Into<String>, phase: P, curve: CacheCurve, work: f64) -> Result<Self, Error> {
        Self::new(name, [(phase.clone(), curve)], [Window::of_phase(work, phase)])
    }
}

impl<P> Program<P> {
    /// The same with other units.
    #[must_use]
    pub fn with_units(mut self, units: Units) -> Self {
        self.units = units;
        self
    }

    /// The same by another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same, with curves that are modelled or sampled rather than measured: slowdowns predicted from them may be off by
    /// this relative error. Ranges of predictions with the program are wider by as much on either side.
    ///
    /// # Errors
    /// [`Error::Value`] unless it is at least 0 and below 1.
    pub fn with_uncertainty(mut self, part: f64) -> Result<Self, Error> {
        if !(0.0..1.0).contains(&part) {
            let remedy = "a part from 0 to below 1";
            return Err(Error::Value { what: "the uncertainty of a program", value: part, remedy });
        }
        self.uncertainty = part;
        Ok(self)
    }

    /// The relative error of slowdowns that its curves may cause: 0 unless [set](Self::with_uncertainty).
    #[must_use]
    pub const fn uncertainty(&self) -> f64 {
        self.uncertainty
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its time and work are counted in.
    #[must_use]
    pub const fn units(&self) -> &Units {
        &self.units
    }

    /// Its phases with their curves, in the order given, those first met in windows last.
    #[must_use]
    pub fn phases(&self) -> &[(P, CacheCurve)] {
        &self.phases
    }

    /// Number of windows, at least 1.
    #[must_use]
    pub fn window_count(&self) -> usize {
        self.windows.len()
    }

    /// Its windows in order: work, number of the phase in [`phases`](Self::phases), curve.
    pub fn windows(&self) -> impl ExactSizeIterator<Item = (f64, usize, &CacheCurve)> + Clone {
        self.windows.iter().map(|w| (w.work, w.phase, self.curve_of(w)))
    }

    /// Work of all windows.
    #[must_use]
    pub fn work(&self) -> f64 {
        self.windows.iter().map(|w| w.work).sum()
    }

    /// Time of one pass alone with `bytes` of the cache, by the curves of its windows.
    #[must_use]
    pub fn time_alone(&self, bytes: f64) -> f64 {
        self.windows().map(|(work, _, curve)| work * curve.cpi(bytes)).sum()
    }

    /// The average curve of the whole program.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`].
    pub fn average(&self) -> Result<CacheCurve, Error> {
        average(&self.windows().map(|(work, _, curve)| (work, curve)).collect::<Vec<_>>())
    }

    pub(crate) fn placed(&self) -> &[PlacedWindow] {
        &self.windows
    }

    pub(crate) fn window_curves(&self) -> &[CacheCurve] {
        &self.curves
    }

    fn curve_of(&self, window: &PlacedWindow) -> &CacheCurve {
        window.curve.map_or(&self.phases[window.phase].1, |curve| &self.curves[curve])
    }
}

/// Checks that curves count lines of one size.
pub(crate) fn of_one_line_size<'a>(curves: impl IntoIterator<Item = &'a CacheCurve>) -> Result<(), Error> {
    let mut sizes = curves.into_iter().map(CacheCurve::line_size);
    let Some(left) = sizes.next() else { return Ok(()) };
    sizes.find(|&right| right != left).map_or(Ok(()), |right| Err(Error::MixedLineSizes { left, right }))
}

/// Checks that programs count work, time and lines alike.
pub(crate) fn of_one_unit<P>(programs: &[&Program<P>]) -> Result<(), Error> {
    let Some(first) = programs.first() else { return Ok(()) };
    let name = |p: &Program<P>| format!("{:?} per {}", p.units.time, p.units.work);
    if let Some(other) = programs.iter().find(|other| other.units != first.units) {
        return Err(Error::MixedUnits { left: name(first), right: name(other) });
    }
    of_one_line_size(programs.iter().flat_map(|program| program.phases.iter().map(|(_, curve)| curve)))
}

fn phase_average(
    phase: usize,
    windows: &[PlacedWindow],
    curves: &[CacheCurve],
    program: &str,
) -> Result<CacheCurve, Error> {
    let without = windows.iter().position(|w| w.phase == phase && w.curve.is_none());
    if let Some(window) = without {
        return Err(Error::NoCurve { program: program.to_owned(), window });
    }
    let members = windows.iter().filter(|w| w.phase == phase);
    average(&members.filter_map(|w| Some((w.work, curves.get(w.curve?)?))).collect::<Vec<_>>())
}
