//! The law of the sampler: each sample that is started is reported exactly once, with the fate that a
//! brute-force look at the whole stream gives it, over any windows, plans, chunkings and threads.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

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
    coherent: bool,
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
        Self { steps, exits, window, plans, coherent: bool::arbitrary(g) }
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

    fn options(&self) -> ReplayOptions {
        let options = ReplayOptions::windows_of(WindowLength::Accesses(u64::from(self.window)));
        if self.coherent { options.coherent() } else { options }
    }

    fn run(&self) -> (Vec<Window>, BTreeMap<u64, Plan>) {
        let options = self.options();
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

/// An event as the thread whose samples are judged sees it.
#[derive(Clone, Copy)]
enum Seen {
    /// Its own access to a line, in a window.
    Own(u8, u64),
    /// Another thread's store to a line.
    Other(u8),
}

/// Fate of the sample started by the thread's access at `at` among what it sees.
fn fate(seen: &[Seen], plans: &BTreeMap<u64, Plan>, at: usize) -> Outcome {
    let Seen::Own(line, _) = seen[at] else { panic!("not an access") };
    let mut between = 0;
    for later in &seen[at + 1..] {
        match *later {
            Seen::Own(_, window) if matches!(plans[&window], Plan::Off) => {
                return Outcome::Censored { at_least: between };
            }
            Seen::Own(touched, _) if touched == line => return Outcome::Reused(ReuseDistance(between)),
            Seen::Own(..) => between += 1,
            Seen::Other(stored) if stored == line => return Outcome::Invalidated(ReuseDistance(between)),
            Seen::Other(_) => {}
        }
    }
    Outcome::Dangling
}

fn check(program: &Program) -> bool {
    let (windows, plans) = program.run();
    let events = program.events();
    let threads: BTreeSet<ThreadId> = events
        .iter()
        .filter_map(|event| if let Event::Thread(id) = event { Some(*id) } else { None })
        .collect();
    let mut expected: Vec<(u64, String)> = Vec::new();
    for thread in threads {
        // The accesses of the thread, cut into its windows, and the stores of the others until it ends.
        let mut mine: Vec<&Window> = windows.iter().filter(|w| w.thread == thread).collect();
        mine.sort_by_key(|w| w.index);
        let mut window_of = Vec::new();
        for window in mine {
            let AccessCount::Measured(n) = window.accesses else { return false };
            window_of.extend((0..n).map(|_| window.index.0));
        }
        let mut window_of = window_of.into_iter();
        let (mut seen, mut id) = (Vec::new(), ThreadId(0));
        for event in &events {
            match event {
                Event::Thread(next) => id = *next,
                Event::Exit(ended) if *ended == thread => break,
                Event::Access(access) if id == thread => {
                    let Some(window) = window_of.next() else { return false };
                    seen.push(Seen::Own((access.address / 64) as u8, window));
                }
                Event::Access(access) if access.kind == AccessKind::Store && program.coherent => {
                    seen.push(Seen::Other((access.address / 64) as u8));
                }
                _ => {}
            }
        }
        if window_of.next().is_some() {
            return false;
        }
        for at in 0..seen.len() {
            let Seen::Own(_, window) = seen[at] else { continue };
            if plans[&window].starts() {
                expected.push((window, format!("{:?}", fate(&seen, &plans, at))));
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

/// How often each outcome is reported.
fn outcomes<'a>(windows: impl Iterator<Item = &'a Window>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (_, outcome, count, _) in windows.flat_map(Window::outcomes) {
        *sums.entry(format!("{outcome:?}")).or_default() += count;
    }
    sums
}

/// The other fate: by the clock of the process, ended by any thread's touch, as of the same accesses by one thread.
fn check_process(program: &Program) -> bool {
    let all = |events: Vec<Event>, options, plan: Plan| -> Vec<Window> {
        let mut sampler = ReplaySampler::new(events.into_iter(), options).unwrap();
        std::iter::from_fn(|| sampler.next_window(&plan.window_plan()).unwrap()).collect()
    };
    [Plan::Single, Plan::Every].into_iter().all(|plan| {
        let both = all(program.events(), program.options().coherent(), plan);
        let process: Vec<&Window> = both.iter().filter_map(|window| window.process.as_deref()).collect();
        let merged = program.events().into_iter().filter(|event| matches!(event, Event::Access(_)));
        let one = all(merged.collect(), program.options(), plan);
        let accesses = |windows: &[&Window]| windows.iter().filter_map(|w| w.accesses.get()).sum::<u64>();
        let numbered = process.windows(2).all(|pair| pair[0].index < pair[1].index);
        numbered
            && accesses(&process) == accesses(&one.iter().collect::<Vec<_>>())
            && outcomes(process.into_iter()) == outcomes(one.iter())
    })
}

#[test]
fn the_process_has_the_samples_of_one_thread_that_makes_all_accesses() {
    QuickCheck::new().tests(300).quickcheck((|program| check_process(&program)) as fn(Program) -> bool);
}

#[test]
fn each_sample_is_reported_once_with_its_true_fate() {
    QuickCheck::new().tests(600).quickcheck((|program| check(&program)) as fn(Program) -> bool);
}

/// What arrives at lines that another thread took away, and what profiles make of it: neither hits nor first touches.
#[test]
fn lines_that_others_take_away_miss_and_are_no_first_touches() {
    // Two threads in turn; each loads 9 lines of its own and stores to one that both share.
    let turn = |turn: u64| {
        let thread = turn % 2;
        let own = (0..9).map(move |i| Access::load(64 * (100 * (thread + 1) + i), 8));
        let shared = std::iter::once(Access::store(8 * thread, 8));
        std::iter::once(Event::Thread(ThreadId(thread as u32))).chain(own.chain(shared).map(Event::Access))
    };
    let options = ReplayOptions::windows_of(WindowLength::Accesses(500)).coherent();
    for plan in [ReusePlan::Every, ReusePlan::Sparse(SampleGap::mean(1.0).unwrap())] {
        let mut sampler = ReplaySampler::new((0..1000).flat_map(turn), options).unwrap();
        let mut profile = ReuseProfile::new(options.line_size);
        let mut arrived = ReuseProfile::new(options.line_size);
        let mut refetched = 0;
        while let Some(window) = sampler.next_window(&WindowPlan::new(plan)).unwrap() {
            profile.record_window(&window).unwrap();
            refetched += window.refetched;
            if let Some(arrivals) = &window.arrivals {
                arrived.merge(&arrivals.all()).unwrap();
            }
        }
        // The last of the two to store keeps the line; the other never comes back to it.
        assert_eq!(refetched, 998);
        assert_eq!(
            (profile.samples(), profile.invalidated_weight(), profile.dangling_weight()),
            (10_000, 999, 19)
        );
        let distribution = profile.distribution();
        assert_eq!(distribution.invalidated(), 0.0999);
        let reused: f64 = distribution.masses().iter().map(|mass| mass.probability - mass.invalidated).sum();
        assert!((reused - 0.8982).abs() < 1e-9, "{reused}");
        if plan == ReusePlan::Every {
            assert_eq!((arrived.invalidated_weight(), arrived.dangling_weight()), (998, 20));
        }
    }
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
