//! What recorders see of known patterns, against the exact replay of the same accesses and against closed forms.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Mutex;

use quickcheck::quickcheck;
use reuse_sampler::in_process::{Profiler, ProfilerOptions, Traced, record, release, start};
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, AccessKind, Error, LineSize, ReusePlan, ReuseProfile, SampleGap, Sampler, ThreadId, Window,
    WindowPlan,
};

/// The windows of a replay of `accesses` by one thread.
fn replayed(accesses: &[Access], options: ProfilerOptions) -> Vec<Window> {
    let replay = ReplayOptions::windows_of(WindowLength::Accesses(options.window));
    let replay = replay.line_size(options.line_size).seed(options.seed);
    let mut sampler = ReplaySampler::new(accesses.iter().copied().map(Event::Access), replay).unwrap();
    let mut windows = Vec::new();
    while let Some(window) = sampler.next_window(&WindowPlan::new(options.plan)).unwrap() {
        windows.push(window);
    }
    windows
}

fn sparse(mean: f64) -> ReusePlan {
    ReusePlan::Sparse(SampleGap::mean(mean).unwrap())
}

quickcheck! {
    fn recording_is_replaying(addresses: Vec<(u16, u8, bool)>, repeat: u8, mean: u8, window: u8) -> bool {
        let once = addresses.iter().map(|&(address, bytes, store)| {
            let access = Access::load(u64::from(address), u32::from(bytes));
            if store { Access { kind: AccessKind::Store, ..access } } else { access }
        });
        let accesses: Vec<Access> = (0..=repeat % 8).flat_map(|_| once.clone()).collect();
        [ReusePlan::Every, ReusePlan::Off, sparse(1.0 + f64::from(mean))].into_iter().all(|plan| {
            let options = ProfilerOptions::new(plan).windows_of(1 + u64::from(window)).seed(u64::from(repeat));
            let profiler = Profiler::new(options).unwrap();
            let recorder = profiler.recorder();
            accesses.iter().for_each(|access| recorder.access(access));
            let open = profiler.recording();
            drop(recorder);
            (open, profiler.recording()) == (1, 0) && profiler.take_windows() == replayed(&accesses, options)
        })
    }
}

/// A matrix product, element by element as its source says.
#[test]
fn a_traced_product_makes_the_accesses_of_its_source() {
    const N: usize = 24;
    let profiler = Profiler::new(ProfilerOptions::new(ReusePlan::Every)).unwrap();
    let recorder = profiler.recorder();
    let a = Traced::new((0..N * N).map(|i| i as f64).collect::<Vec<_>>(), &recorder);
    let b = Traced::new((0..N * N).map(|i| (i % 7) as f64).collect::<Box<[_]>>(), &recorder);
    let mut product = vec![0.0; N * N];
    let bases =
        [a.untraced().as_ptr(), b.untraced().as_ptr(), product.as_ptr()].map(|p: *const f64| p.addr() as u64);
    let mut c = Traced::new(&mut product[..], &recorder);
    let mut expected = Vec::new();
    for i in 0..N {
        for j in 0..N {
            let mut sum = 0.0;
            for k in 0..N {
                sum += a[N * i + k] * b[N * k + j];
                expected.push(Access::load(bases[0] + 8 * (N * i + k) as u64, 8));
                expected.push(Access::load(bases[1] + 8 * (N * k + j) as u64, 8));
            }
            c[N * i + j] = sum;
            expected.push(Access::store(bases[2] + 8 * (N * i + j) as u64, 8));
        }
    }
    assert_eq!(c.get(N * N), None);
    drop(recorder);
    assert_eq!(product[N + 1], (0..N).map(|k| (N + k) as f64 * ((N * k + 1) % 7) as f64).sum::<f64>());
    assert_eq!(profiler.take_windows(), replayed(&expected, ProfilerOptions::new(ReusePlan::Every)));
}

#[test]
fn every_way_to_an_element_is_recorded_as_what_it_is() {
    let profiler =
        Profiler::new(ProfilerOptions::new(ReusePlan::Every).line_size(LineSize::new(1).unwrap())).unwrap();
    let recorder = profiler.recorder();
    let mut expected = Vec::new();
    {
        let mut traced = Traced::new(vec![5_u16, 6, 7, 8], &recorder);
        let base = traced.untraced().as_ptr().addr() as u64;
        let mut expect = |index: u64, kinds: &str| {
            for kind in kinds.chars() {
                let access = Access::load(base + 2 * index, 2);
                expected.push(if kind == 'l' {
                    access
                } else {
                    Access { kind: AccessKind::Store, ..access }
                });
            }
        };
        assert_eq!((traced[1], traced.len(), traced.is_empty()), (6, 4, false));
        expect(1, "l");
        traced[2] = 9;
        expect(2, "s");
        assert_eq!(traced.get(3).copied(), Some(8));
        expect(3, "l");
        *traced.get_mut(0).unwrap() = 1;
        expect(0, "s");
        assert_eq!(traced.update(0, |value| *value + 1), 2);
        expect(0, "ls");
        assert_eq!(traced.iter().rev().copied().collect::<Vec<_>>(), [8, 9, 6, 1]);
        (0..4).rev().for_each(|i| expect(i, "l"));
        assert_eq!((&traced).into_iter().count(), 4);
        (0..4).for_each(|i| expect(i, "l"));
        traced.iter_mut().for_each(|value| *value += 1);
        (0..4).for_each(|i| expect(i, "s"));
        traced.swap(0, 3);
        [(0, "l"), (3, "l"), (0, "s"), (3, "s")].into_iter().for_each(|(i, kind)| expect(i, kind));
        assert_eq!(traced.pop(), Some(2));
        expect(3, "l");
        traced.push(4); // there is room where the last one was
        expect(3, "s");
        assert!(traced.get(9).is_none() && traced.get_mut(9).is_none());
        assert_eq!(traced.into_inner(), [9, 7, 10, 4]);
    }
    drop(recorder);
    let options = ProfilerOptions::new(ReusePlan::Every).line_size(LineSize::new(1).unwrap());
    assert_eq!(profiler.take_windows(), replayed(&expected, options));
}

/// 1,000 lines again and again: every reuse is at distance 999. Samples are one in 100: with 1,980 of them on average,
/// their number is within 5 standard deviations (4.5 % each) of that, and their distances are exact.
#[test]
fn samples_of_a_scan_are_at_its_distance() {
    let profiler = Profiler::new(ProfilerOptions::new(sparse(100.0)).seed(3)).unwrap();
    let recorder = profiler.recorder();
    let table = Traced::new(vec![[0_u64; 8]; 1001], &recorder);
    // From the first element that begins a line: then each lies on one line.
    let skip = table.untraced().as_ptr().addr() % 64;
    for _ in 0..200 {
        for line in 0..1000 {
            recorder.record(
                (table.untraced().as_ptr().addr() - skip) as u64 + 64 * line,
                8,
                AccessKind::Load,
            );
        }
    }
    drop(recorder);
    let profile = profiler.take_profile();
    assert_eq!(profile.accesses(), 200_000);
    assert!((profile.samples() as f64 - 2000.0).abs() < 5.0 * 2000_f64.sqrt(), "{}", profile.samples());
    let bins: Vec<_> = profile.reused_bins().map(|(low, high, _)| (low, high)).collect();
    assert_eq!(bins, [(999, 999)]);
    assert!(profile.dangling_weight() <= 100 * 60, "of the last round only, 10 samples on average");
}

#[test]
fn threads_give_the_same_profile_however_they_run() {
    let run = || {
        let profiler = Profiler::new(ProfilerOptions::new(sparse(10.0)).windows_of(5_000)).unwrap();
        let data: Vec<u64> = (0..40_000).collect();
        let recorders: Vec<_> = (0..4).map(|_| profiler.recorder()).collect();
        std::thread::scope(|scope| {
            for (number, recorder) in recorders.into_iter().enumerate() {
                let part = &data[10_000 * number..][..10_000];
                scope.spawn(move || {
                    let traced = Traced::new(part, &recorder);
                    let sum: u64 = (0..3 + number).map(|_| traced.iter().sum::<u64>()).sum();
                    assert!(sum > 0);
                });
            }
        });
        let windows = profiler.take_windows();
        let mut threads: Vec<ThreadId> = windows.iter().map(|window| window.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        assert_eq!(threads, [0, 1, 2, 3].map(ThreadId));
        let mut profile = ReuseProfile::new(LineSize::B64);
        windows.iter().for_each(|window| profile.record_window(window).unwrap());
        profile
    };
    let first = run();
    assert_eq!(first.accesses(), 10_000 * (3 + 4 + 5 + 6));
    // Where the data begin within a line may differ from run to run; the distances of a scan over whole lines do not.
    assert_eq!((run().samples(), run().accesses()), (first.samples(), first.accesses()));
}

/// Sessions are of the whole process: the tests that begin one take turns.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn a_session_records_all_threads_and_knows_whose_windows_are_missing() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    record(1, 1, AccessKind::Load); // nobody listens
    let session = start(ProfilerOptions::new(ReusePlan::Every)).unwrap();
    assert_eq!(start(ProfilerOptions::new(ReusePlan::Every)).unwrap_err(), Error::SessionRunning);
    let walk = || (0..1000_u64).for_each(|i| record(64 * (i % 50), 4, AccessKind::Store));
    walk();
    std::thread::spawn(walk).join().unwrap(); // its end is waited for
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (told, tell) = std::sync::mpsc::channel::<()>();
    let third = std::thread::spawn(move || {
        walk();
        told.send(()).unwrap();
        wait.recv().unwrap();
        release();
        told.send(()).unwrap();
        wait.recv().unwrap();
        walk(); // after the session: not recorded
    });
    tell.recv().unwrap();
    let profiler = session.profiler().clone();
    let (windows, missing) = session.stop();
    assert_eq!((windows.len(), missing), (2, 1));
    go.send(()).unwrap();
    tell.recv().unwrap();
    assert_eq!(profiler.recording(), 0);
    let late = profiler.take_windows();
    go.send(()).unwrap();
    third.join().unwrap();
    assert_eq!((late.len(), profiler.take_windows().len()), (1, 0));
    let expected: Vec<Access> = (0..1000).map(|i| Access::store(64 * (i % 50), 4)).collect();
    let expected = replayed(&expected, ProfilerOptions::new(ReusePlan::Every));
    for window in windows.iter().chain(&late) {
        assert_eq!(window.arrivals, expected[0].arrivals);
    }
    // Another session begins anew.
    let session = start(ProfilerOptions::new(ReusePlan::Every)).unwrap();
    walk();
    let (windows, missing) = session.stop();
    assert_eq!((windows[0].arrivals.clone(), missing), (expected[0].arrivals.clone(), 0));
}

#[test]
fn windows_of_no_length_are_refused() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let options = ProfilerOptions::new(ReusePlan::Every).windows_of(0);
    assert_eq!(Profiler::new(options).err(), Some(Error::WindowLength));
    assert_eq!(start(options).err(), Some(Error::WindowLength));
    assert!(start(ProfilerOptions::new(ReusePlan::Every)).is_ok());
}
