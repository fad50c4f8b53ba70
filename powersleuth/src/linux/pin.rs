//! Setting the frequency, and putting it back.
//!
//! The limits within which the governor chooses are narrowed to a single frequency. That works under every
//! driver and governor, and leaves the governor itself alone. The kernel refuses a lower limit above the upper
//! one, so which of the two is moved first matters.

use super::cpufreq::{Policy, from_khz, path};
#[cfg(unix)]
use super::files::Tree;
use super::files::{Files, READABLE, failed, number};
#[cfg(unix)]
use super::guard::Guard;
use crate::{Error, Hertz};

const WRITABLE: &str = "run as root to set the frequency";

/// Holds cores at one frequency until it is dropped, be it by a panic.
///
/// What does not run destructors, `process::exit`, a signal, a panic that aborts, restores nothing unless the pin is
/// [guarded](Pin::guarded); or let a handler call [`Restorer::restore`].
#[derive(Debug)]
pub struct Pin<F: Files> {
    restorer: Restorer<F>,
    policies: Vec<Policy>,
    restored: bool,
    #[cfg(unix)]
    guard: Option<Guard>, // let go after the limits are restored
}

/// Knows the limits as they were. Clones may restore them from anywhere.
#[derive(Clone, Debug)]
pub struct Restorer<F> {
    files: F,
    saved: Vec<(u32, Hertz, Hertz)>, // policy, lower and upper limit
}

impl<F: Files + Clone> Pin<F> {
    /// Remembers the limits of `policies`. Nothing is written yet.
    ///
    /// # Errors
    /// [`Error::Empty`] without policies.
    pub fn new(files: F, policies: Vec<Policy>) -> Result<Self, Error> {
        if policies.is_empty() {
            return Err(Error::Empty { what: "cpufreq policies" });
        }
        let saved = policies.iter().map(|p| (p.number, p.limits.0, p.limits.1)).collect();
        Ok(Self {
            restorer: Restorer { files, saved },
            policies,
            restored: false,
            #[cfg(unix)]
            guard: None,
        })
    }

    /// Sets all policies to `frequency`.
    ///
    /// # Errors
    /// [`Error::NotOffered`] if one of them does not have it: then nothing is written. [`Error::File`] if a file
    /// cannot be written, and [`Error::Malformed`] if a limit cannot be understood: some policies may be set
    /// then; dropping restores them.
    pub fn set(&mut self, frequency: Hertz) -> Result<(), Error> {
        let offered = self.offered(frequency)?;
        let files = &self.restorer.files;
        let mut policies = self.policies.iter().zip(offered);
        policies.try_for_each(|(policy, offered)| set_limits(files, policy.number, offered, offered))
    }

    /// What each policy offers for `frequency`, if all do.
    pub(super) fn offered(&self, frequency: Hertz) -> Result<Vec<Hertz>, Error> {
        self.policies.iter().map(|policy| policy.offered(frequency)).collect()
    }

    /// Something that restores the limits as they were found, from a signal handler's thread for example.
    #[must_use]
    pub fn restorer(&self) -> Restorer<F> {
        self.restorer.clone()
    }

    /// Restores the limits now and returns an error if that fails, which dropping cannot.
    ///
    /// # Errors
    /// As [`Restorer::restore`].
    pub fn restore(mut self) -> Result<(), Error> {
        self.restored = true;
        self.restorer.restore()
    }
}

#[cfg(unix)]
impl Pin<Tree> {
    /// The same, watched over by a process that restores the limits if this one ends without doing so, as by SIGKILL.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::File`] if that process cannot be started.
    pub fn guarded(files: Tree, policies: Vec<Policy>) -> Result<Self, Error> {
        let mut pin = Self::new(files, policies)?;
        let saved = pin.restorer.saved.iter().flat_map(|&(policy, low, high)| {
            let [low, high] = [("scaling_min_freq", low), ("scaling_max_freq", high)]
                .map(|(file, hertz)| (path(policy, file), khz(hertz)));
            // Whichever limit the kernel refuses at first, because they would cross, it takes in the end.
            [high.clone(), low, high]
        });
        pin.guard = Some(Guard::start(pin.restorer.files.root(), saved)?);
        Ok(pin)
    }
}

impl<F: Files> Restorer<F> {
    /// Puts all limits back, the remaining ones even if one fails.
    ///
    /// # Errors
    /// The first failure: [`Error::File`] or [`Error::Malformed`].
    pub fn restore(&self) -> Result<(), Error> {
        let mut first = Ok(());
        for &(policy, low, high) in &self.saved {
            first = first.and(set_limits(&self.files, policy, low, high));
        }
        first
    }
}

impl<F: Files> Drop for Pin<F> {
    fn drop(&mut self) {
        if !self.restored {
            // Nobody is left to report it to.
            drop(self.restorer.restore());
        }
    }
}

/// As the kernel writes it.
fn khz(frequency: Hertz) -> String {
    format!("{:.0}", frequency.0 / 1000.0)
}

fn set_limits(files: &impl Files, policy: u32, low: Hertz, high: Hertz) -> Result<(), Error> {
    let lower = (path(policy, "scaling_min_freq"), low);
    let upper = (path(policy, "scaling_max_freq"), high);
    let now = from_khz(number(files, &lower.0, READABLE)?);
    let order = if high >= now { [upper, lower] } else { [lower, upper] };
    for (path, frequency) in order {
        files.write(&path, &khz(frequency)).map_err(failed("write", path, WRITABLE))?;
    }
    Ok(())
}
