//! The prediction: every method over the same offsets, and what is worth knowing beside the slowdowns.

use std::num::NonZeroUsize;
use std::time::Instant;

use cachesharing::{
    BandwidthDistribution, CoPhase, CoRun, Culprit, EvictionAge, LruPartition, Method, Offsets, Probes,
    Program, Random, Settings, SharedCache, SharingModel, Trajectory, Until, Variability, WaySensitivity,
    culprits, variability, way_sensitivity,
};

use super::args::{MethodName, Model};
use crate::cli::Failure;

/// What is to be predicted, and how.
pub(super) struct Question<'a> {
    pub programs: &'a [Program<u64>],
    pub cache: SharedCache,
    pub way: f64, // bytes
    pub model: Model,
    pub extrapolate: bool,
    pub offsets: &'a Offsets,
    pub threads: NonZeroUsize,
}

/// The slowdowns by one method.
pub(super) struct ByMethod {
    pub method: MethodName,
    pub variability: Variability,
    pub seconds: f64,
}

/// A run over time.
pub(super) struct Course {
    pub run: usize, // number of the offsets
    pub trajectory: Trajectory,
    pub demand: BandwidthDistribution,
}

/// All that is predicted.
pub(super) struct Answer {
    pub methods: Vec<ByMethod>,
    pub chosen: usize,
    pub fastest: Course,
    pub slowest: Course,
    pub culprits: Vec<Culprit<u64>>,
    pub co_phases: Vec<CoPhase<u64>>,
    pub share: f64, // bytes of the cache that the target has on average
    pub sensitivity: WaySensitivity,
}

impl Answer {
    /// What the chosen method says.
    pub fn chosen(&self) -> &Variability {
        &self.methods[self.chosen].variability
    }
}

impl Question<'_> {
    /// The slowdowns by every method, in the order of [`MethodName::ALL`].
    ///
    /// Ranges are found for the phase methods and for `chosen`.
    pub fn methods(&self, chosen: Option<MethodName>) -> Result<Vec<ByMethod>, Failure> {
        let mut methods = Vec::new();
        for method in MethodName::ALL {
            // From the programs on: what is remembered is part of the cost.
            let began = Instant::now();
            let mut settings = self.settings(method.method());
            if chosen == Some(method) {
                settings.probes = Probes::Cliffs;
            }
            let run = self.co_run_with(settings)?;
            let variability = variability(&run, self.offsets, self.threads)?;
            methods.push(ByMethod { method, variability, seconds: began.elapsed().as_secs_f64() });
        }
        Ok(methods)
    }

    /// Answers it by all methods; the rest by `method`.
    pub fn answer(&self, method: MethodName) -> Result<Answer, Failure> {
        let methods = self.methods(Some(method))?;
        let chosen = MethodName::ALL.iter().position(|name| *name == method).unwrap_or(0);
        let slowdowns = &methods[chosen].variability.slowdowns;
        let by_slowdown = |a: &usize, b: &usize| slowdowns[*a].total_cmp(&slowdowns[*b]);
        let fastest = (0..slowdowns.len()).min_by(by_slowdown).unwrap_or(0);
        let slowest = (0..slowdowns.len()).max_by(by_slowdown).unwrap_or(0);
        let run = self.co_run(method.method())?;
        let course = |number: usize| {
            let offsets = self.offsets.of_run(number, self.programs.len());
            Course {
                run: number,
                trajectory: Trajectory::record(&run, &offsets, Until::TargetEnds),
                demand: BandwidthDistribution::of_run(&run, &offsets, Until::TargetEnds),
            }
        };
        let (fastest, slowest) = (course(fastest), course(slowest));
        // Phases that meet are told by the method that knows them.
        let by_phase = self.co_run(Method::Phase)?;
        let culprits = culprits(&by_phase, self.offsets)?;
        let co_phases = by_phase.co_phases();
        let whole = slowest.trajectory.over_time(0, slowest.trajectory.time())?;
        let share = whole.first().map_or(self.cache.bytes(), |bin| bin.bytes);
        let sensitivity = way_sensitivity(&self.programs[0], share, self.way)?;
        Ok(Answer { methods, chosen, fastest, slowest, culprits, co_phases, share, sensitivity })
    }

    /// How far a method looks, and what it makes of curves that end too early.
    pub fn settings(&self, method: Method) -> Settings {
        // Windows are many and each is solved once for each meeting: other states are looked for by phase only.
        let probes = match method {
            Method::Phase | Method::Oblivious => Probes::Cliffs,
            _ => Probes::One,
        };
        Settings { method, probes, extrapolate: self.extrapolate }
    }

    fn co_run(&self, method: Method) -> Result<CoRun<'_, u64, Box<dyn SharingModel>>, Failure> {
        self.co_run_with(self.settings(method))
    }

    fn co_run_with(&self, settings: Settings) -> Result<CoRun<'_, u64, Box<dyn SharingModel>>, Failure> {
        let programs: Vec<&Program<u64>> = self.programs.iter().collect();
        CoRun::new(self.cache, &programs, sharing_model(self.model), settings).map_err(Failure::run)
    }
}

/// The model of how the cache is shared.
pub(super) fn sharing_model(model: Model) -> Box<dyn SharingModel> {
    match model {
        Model::Age => Box::new(EvictionAge::followed()),
        Model::Settled => Box::new(EvictionAge::default()),
        Model::Lru => Box::new(LruPartition::default()),
        Model::Random => Box::new(Random),
    }
}
