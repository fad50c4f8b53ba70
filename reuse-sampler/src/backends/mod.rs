//! From a running program to windows: one folder for each way to observe it. A new way is a new folder here.

#[cfg(any(qemu_plugin, dbi_backend))]
mod alive;
#[cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))))]
pub mod auto;
#[cfg(any(qemu_plugin, dbi_backend, all(feature = "perf", target_os = "linux")))]
mod blind;
#[cfg(feature = "dbi")]
#[cfg_attr(docsrs, doc(cfg(feature = "dbi")))]
pub mod dbi;
#[cfg(any(qemu_plugin, dbi_backend, all(feature = "perf", target_os = "linux")))]
mod images;
#[cfg(feature = "replay")]
#[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
pub mod in_process;
#[cfg(any(qemu_plugin, dbi_backend, all(feature = "perf", target_os = "linux")))]
mod locate;
#[cfg(feature = "perf")]
#[cfg_attr(docsrs, doc(cfg(feature = "perf")))]
pub mod perf;
#[cfg(any(qemu_plugin, dbi_backend, feature = "perf"))]
mod processes;
#[cfg(feature = "qemu")]
#[cfg_attr(docsrs, doc(cfg(feature = "qemu")))]
pub mod qemu;
#[cfg(feature = "replay")]
#[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
pub mod replay;
#[cfg(feature = "sancov")]
#[cfg_attr(docsrs, doc(cfg(feature = "sancov")))]
pub mod sancov;
