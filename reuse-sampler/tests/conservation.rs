//! The law of the sampler: each sample that is started is reported exactly once, with the fate that a
//! brute-force look at the whole stream gives it, over any windows, plans, chunkings and threads.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use quickcheck::{Arbitrary, Gen, QuickCheck};
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, AccessCount, AccessKind, Outcome, ReuseDistance, ReusePlan, ReuseProfile, SampleGap, Sampler,
    ThreadId, Window, WindowPlan,
};

/// Plans that start a sample on every access or on none, so that the number of samples is known.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Off,
    Watch,
    Single,
    Every,
}

impl Plan {
    fn starts(self) -> bool {
        matches!(self, Self::Single | Self::Every)
    }

    fn window_plan(self) -> WindowPlan {
        WindowPlan::new(match self {
            Self::Off => ReusePlan::Off,
            Self::Watch => ReusePlan::Watch,
            Self::Single => ReusePlan::Sparse(SampleGap::mean(1.0).unwrap()),
            Self::Every => ReusePlan::Every,
        })
    }
}

impl Arbitrary for Plan {
    fn arbitrary(g: &mut Gen) -> Self {
        *g.choose(&[Self::Off, Self::Watch, Self::Single, Self::Every, Self::Every]).unwrap()
    }
}

/// A program: (thread, line, store) accesses in blocks, with thread exits now and then.
#[derive(Clone, Debug)]
struct Program {
    steps: Vec<(u8, u8, bool)>, // thread in 0..3, line
    exits: Vec<usize>,          // after these steps the step's thread ends (its number is used anew)
    window: u16,
    plans: Vec<Plan>, // by thread-window in order of their beginning
}

impl Arbitrary for Program {
    fn arbitrary(g: &mut Gen) -> Self {
        let threads = u8::arbitrary(g) % 3 + 1;
        let lines = u8::arbitrary(g) % 40 + 1;
        let length = usize::arbitrary(g) % 500;
        let steps = (0..length)
            .map(|_| (u8::arbitrary(g) % threads, u8::arbitrary(g) % lines, bool::arbitrary(g)))
            .collect();
        let exits =
            if bool::arbitrary(g) && length > 0 { vec![usize::arbitrary(g) % length] } else { vec![] };
        let plans = (0..64).map(|_| Plan::arbitrary(g)).collect();
        // Shorter and longer than the accesses that the sampler looks at together.
        let window = 1 + u16::arbitrary(g) % g.choose(&[50, 300]).unwrap();
        Self { steps, exits, window, plans }
    }
}

impl Program {
    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut epoch = [0_u32; 3];
        for (i, &(thread, line, store)) in self.steps.iter().enumerate() {
            let id = ThreadId(u32::from(thread) + 3 * epoch[usize::from(thread)]);
            events.push(Event::Thread(id));
            let access = if store { Access::store } else { Access::load };
            events.push(Event::Access(access(u64::from(line) * 64, 8).at(i as u64 + 1)));
            if self.exits.contains(&i) {
                events.push(Event::Exit(id));
                epoch[usize::from(thread)] += 1;
            }
        }
        events
    }

    fn run(&self) -> (Vec<Window>, BTreeMap<u64, Plan>) {
        let options = ReplayOptions::windows_of(WindowLength::Accesses(u64::from(self.window)));
        let mut sampler = ReplaySampler::new(self.events().into_iter(), options).unwrap();
        let mut windows: Vec<Window> = Vec::new();
        let mut plans = BTreeMap::new();
        let plan_of = |n: usize| self.plans[n % self.plans.len()];
        let mut plan = plan_of(0);
        let initial = plan;
        let mut next_of: BTreeMap<ThreadId, Plan> = BTreeMap::new();
        while let Some(window) = sampler.next_window(&plan.window_plan()).unwrap() {
            plans.insert(window.index.0, *next_of.get(&window.thread).unwrap_or(&initial));
            plan = plan_of(windows.len() + 1);
            next_of.insert(window.thread, plan);
            windows.push(window);
        }
        (windows, plans)
    }
}

/// Fate of the sample started by the access at `at` of one thread's accesses, each with its window.
fn fate(accesses: &[(u8, u64)], plans: &BTreeMap<u64, Plan>, at: usize) -> Outcome {
    for later in at + 1..accesses.len() {
        let (line, window) = accesses[later];
        if matches!(plans[&window], Plan::Off) {
            return Outcome::Censored { at_least: (later - at - 1) as u64 };
        }
        if line == accesses[at].0 {
            return Outcome::Reused(ReuseDistance((later - at - 1) as u64));
        }
    }
    Outcome::Dangling
}

fn check(program: &Program) -> bool {
    let (windows, plans) = program.run();
    // The accesses of each thread, cut into that thread's windows.
    let mut streams: BTreeMap<ThreadId, Vec<u8>> = BTreeMap::new();
    let mut id = ThreadId(0);
    for event in program.events() {
        match event {
            Event::Thread(thread) => id = thread,
            Event::Access(access) => streams.entry(id).or_default().push((access.address / 64) as u8),
            _ => {}
        }
    }
    let mut expected: Vec<(u64, String)> = Vec::new();
    for (thread, lines) in &streams {
        let mut accesses = Vec::new();
        let mut mine: Vec<&Window> = windows.iter().filter(|w| w.thread == *thread).collect();
        mine.sort_by_key(|w| w.index);
        for window in mine {
            let AccessCount::Measured(n) = window.accesses else { return false };
            let from = accesses.len();
            accesses.extend(lines[from..from + n as usize].iter().map(|&line| (line, window.index.0)));
        }
        if accesses.len() != lines.len() {
            return false;
        }
        for at in 0..accesses.len() {
            if plans[&accesses[at].1].starts() {
                expected.push((accesses[at].1, format!("{:?}", fate(&accesses, &plans, at))));
            }
        }
    }
    let mut found: Vec<(u64, String)> = windows
        .iter()
        .flat_map(Window::outcomes)
        .flat_map(|(window, outcome, count, _)| (0..count).map(move |_| (window.0, format!("{outcome:?}"))))
        .collect();
    expected.sort();
    found.sort();
    expected == found
}

#[test]
fn each_sample_is_reported_once_with_its_true_fate() {
    QuickCheck::new().tests(600).quickcheck((|program| check(&program)) as fn(Program) -> bool);
}

/// A stream with reuse at all scales, in blocks of three instructions.
fn stream(length: u64) -> impl Iterator<Item = Event> {
    (0..length).flat_map(|i| {
        let line = if i % 3 == 0 { i % 7 } else { (i * i + i / 11) % 1009 };
        let access = Access { address: line * 64, bytes: 8, kind: AccessKind::Load, pc: i };
        [Event::Block { address: i % 5, instructions: 3 }, Event::Access(access)]
    })
}

fn all_outcomes(window: WindowLength, plan: ReusePlan) -> Vec<(Outcome, u64, u64)> {
    let mut sampler = ReplaySampler::new(stream(60_000), ReplayOptions::windows_of(window).seed(5)).unwrap();
    let mut all = Vec::new();
    while let Some(window) = sampler.next_window(&WindowPlan::new(plan)).unwrap() {
        all.extend(window.samples.iter().map(|s| (s.outcome, s.begin.pc, s.weight)));
    }
    all.sort_by_key(|sample| sample.1);
    all
}

#[test]
fn the_same_seed_chooses_the_same_samples_whatever_the_windows() {
    let plan = ReusePlan::Sparse(SampleGap::mean(37.0).unwrap());
    let whole = all_outcomes(WindowLength::Accesses(u64::MAX), plan);
    // 60,000 / 37 = 1,622 samples expected; five standard deviations are 201.
    assert!(whole.len().abs_diff(1_622) < 201, "{}", whole.len());
    for length in [1, 10, 997, 50_000] {
        assert_eq!(whole, all_outcomes(WindowLength::Accesses(length), plan));
        assert_eq!(whole, all_outcomes(WindowLength::Instructions(length), plan));
    }
}

#[test]
fn arrivals_of_every_window_add_up_to_the_samples_of_the_run() {
    // Each reuse has one beginning and one end, each line one first touch and one last: over the whole run the
    // two views are the same histogram.
    let options = ReplayOptions::windows_of(WindowLength::Accesses(1_000));
    let mut sampler = ReplaySampler::new(stream(60_000), options).unwrap();
    let mut started = ReuseProfile::new(options.line_size);
    let mut arrived = ReuseProfile::new(options.line_size);
    while let Some(mut window) = sampler.next_window(&WindowPlan::new(ReusePlan::Every)).unwrap() {
        window.overlaps.clear(); // known of the samples only
        started.record_window(&window).unwrap();
        let arrivals = window.arrivals.as_ref().unwrap().all();
        assert_eq!(Some(arrivals.samples()), window.accesses.get());
        arrived.merge(&arrivals).unwrap();
    }
    assert_eq!(started, arrived);
    assert_eq!(started.samples(), 60_000);
}

#[test]
fn windows_carry_their_overshoot() {
    let options = ReplayOptions::windows_of(WindowLength::Instructions(100));
    let mut sampler = ReplaySampler::new(stream(1_000), options).unwrap();
    let mut lengths = Vec::new();
    while let Some(window) = sampler.next_window(&WindowPlan::count_only()).unwrap() {
        assert_eq!(window.code.iter().map(|c| c.1).sum::<u64>(), window.instructions);
        lengths.push(window.instructions);
    }
    // Blocks of three: boundaries fall at the first multiple of 3 from each multiple of 100 on.
    assert_eq!(lengths.iter().sum::<u64>(), 3_000);
    assert_eq!(lengths.len(), 30);
    assert_eq!(&lengths[..4], &[102, 99, 99, 102]);
}

#[test]
fn stopping_censors_what_is_open() {
    let options = ReplayOptions::windows_of(WindowLength::Accesses(10_000));
    let mut sampler = ReplaySampler::new(stream(60_000), options).unwrap();
    let plan = WindowPlan::new(ReusePlan::Every);
    let first = sampler.next_window(&plan).unwrap().unwrap();
    sampler.stop().unwrap();
    let last = sampler.next_window(&plan).unwrap().unwrap();
    assert!(sampler.next_window(&plan).unwrap().is_none());
    assert_ne!(first.index, last.index);
    let closed: u64 = first.outcomes().map(|o| o.2).sum();
    let censored: u64 = last
        .outcomes()
        .map(|o| if matches!(o.1, Outcome::Censored { .. }) && o.0 == first.index { o.2 } else { 0 })
        .sum();
    assert_eq!(closed + censored, 10_000);
}
