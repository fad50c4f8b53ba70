//! The samplers of this crate keep the laws, and each law is broken by a sampler that breaks it.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, LineSize, ReusePlan, Sampler, SamplerError, ThreadId, Window, WindowIndex, WindowPlan, laws,
};

/// Blocks of 4 instructions with two accesses each, of two threads in turn.
fn events() -> impl Iterator<Item = Event> {
    (0..8_000_u64).flat_map(|i| {
        let at = |k: u64| Event::Access(Access::load(8 * ((i * (3 + k)) % 5_000), 8));
        let block = Event::Block { address: 0x1000 + 16 * (i % 7), instructions: 4 };
        [Event::Thread(ThreadId(i as u32 / 1000 % 2)), block, at(0), at(1)]
    })
}

fn replay(window: WindowLength) -> Result<impl Sampler, SamplerError> {
    Ok(ReplaySampler::new(events(), ReplayOptions::windows_of(window).line_size(LineSize::B64))?)
}

#[test]
fn replay_keeps_the_laws() {
    for window in [WindowLength::Instructions(1_700), WindowLength::Accesses(999)] {
        laws::sampler(|| replay(window)).unwrap();
    }
}

/// Changes what another sampler returns.
struct Changed<S, F> {
    inner: S,
    change: F,
    ended: u32,
}

impl<S: Sampler, F: FnMut(&mut Window, &ReusePlan)> Sampler for Changed<S, F> {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        let mut window = self.inner.next_window(plan)?;
        if let Some(window) = &mut window {
            (self.change)(window, &plan.reuse);
        } else {
            self.ended += 1;
        }
        Ok(window)
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        self.inner.stop()
    }
}

/// Gives another sampler each plan a window late.
struct Late<S> {
    inner: S,
    before: Option<WindowPlan>,
}

impl<S: Sampler> Sampler for Late<S> {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        self.inner.next_window(&self.before.replace(*plan).unwrap_or(*plan))
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        self.inner.stop()
    }
}

#[test]
fn each_law_is_broken_by_a_sampler_that_breaks_it() {
    let law = |change: fn(&mut Window, &ReusePlan)| {
        let mut runs = 0;
        let start = || {
            runs += 1;
            let first = runs;
            let change = move |window: &mut Window, plan: &ReusePlan| {
                change(window, plan);
                // Each run takes a little longer, which no law looks at.
                window.elapsed = std::time::Duration::from_nanos(first);
            };
            Ok(Changed { inner: replay(WindowLength::Accesses(999))?, change, ended: 0 })
        };
        laws::sampler(start).map_err(|violation| violation.law)
    };
    assert_eq!(law(|_, _| ()), Ok(()));
    assert_eq!(law(|window, _| window.index = WindowIndex(0)), Err("a window's number is its own"));
    assert_eq!(
        law(|window, _| window.line_size = LineSize::new(1 << (window.index.0 % 3)).unwrap()),
        Err("all windows have one line size")
    );
    assert_eq!(law(|window, _| window.code.reverse()), Err("code lies at ascending addresses"));
    assert_eq!(law(|window, _| window.counts.truncate(3)), Err("each access has one outcome"));
    assert_eq!(
        law(|window, _| window.counts.iter_mut().for_each(|count| count.started_in = WindowIndex(999))),
        Err("a sample was started in a window that is returned")
    );
    let late = laws::sampler(|| Ok(Late { inner: replay(WindowLength::Accesses(999))?, before: None }));
    assert_eq!(
        late.map_err(|violation| violation.law),
        Err("a plan is for the next window of the thread whose window was returned last")
    );
    assert_eq!(
        law(|window, plan| {
            if matches!(plan, ReusePlan::Sparse(_)) {
                window.samples.truncate(1);
            }
        }),
        Err("samples are as many as their gap says")
    );
    let mut seconds = 0;
    let differs = laws::sampler(|| {
        seconds += 1;
        let now = seconds;
        let change = move |window: &mut Window, _: &ReusePlan| window.open_samples += now;
        Ok(Changed { inner: replay(WindowLength::Accesses(999))?, change, ended: 0 })
    });
    assert_eq!(differs.map_err(|violation| violation.law), Err("a second run is the same"));
}
