//! An out-of-order core at several clock frequencies at once, and the power it draws: what the predictions of
//! time and power are judged by.
//!
//! The embedded workloads' blocks and accesses are [decoded](Decoder) into instructions with the data flow that
//! their code has; caches and branch predictor, which know no time, decide what each one meets; and the
//! [core](Core) lets all go through dispatch, reorder buffer, execution and memory at each frequency. Caches
//! run at the core's clock, memory at its own: its latency and bandwidth are in nanoseconds, with open and closed
//! rows, a limited number of outstanding lines and queueing. That is the interval model of Karkhanis and Smith
//! (*A First-Order Superscalar Processor Model*, ISCA 2004) with every interval computed from its instructions.
//!
//! Nothing here knows the models of `powersleuth`: stalls, misses and power come out of what happens.
//! Left out: instruction cache, translation, prefetching, ports and reservation stations (a wide core is
//! limited by its reorder buffer first), wrong-path execution except for the time and power it costs.
//!
//! - `decode`: instructions of the embedded kernels, and what each of them waits for
//! - `predict`: where the program goes next, guessed from where it has been
//! - `hierarchy`: which level has a line
//! - `slots`: which cycles are taken
//! - `timing`: the core
//! - `power`: what it draws
//! - `package`: that as the kernel's files show it
//! - `run`: a whole program, interval by interval

mod decode;
mod hierarchy;
mod package;
mod power;
mod predict;
mod run;
mod slots;
mod timing;

pub use decode::{Decoder, Kind, Op};
pub use hierarchy::{Found, Hierarchy, Level};
pub use package::{Package, PackageSettings};
pub use power::{PowerTruth, nehalem_points};
pub use run::{Activity, Interval, Machine, Run, simulate};
pub use timing::{Clock, Core, CoreSettings};
