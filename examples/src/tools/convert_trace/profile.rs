//! A reuse profile as a file: the profile's own versioned form, and where it is from.

use std::io::{self, Write};

use reuse_sampler::ReuseProfile;
use serde::Serialize;

/// What is stored. Whoever reads only a [`ReuseProfile`] finds one: the other fields are beside its own.
#[derive(Serialize)]
struct Stored<'a> {
    format: &'static str,
    source: &'a str,
    incomplete: bool,
    #[serde(flatten)]
    profile: &'a ReuseProfile,
}

/// Writes `profile` of `source` as one line of JSON.
pub fn write_profile(
    out: &mut dyn Write,
    profile: &ReuseProfile,
    source: &str,
    incomplete: bool,
) -> io::Result<()> {
    let stored = Stored { format: "reuse-profile", source, incomplete, profile };
    serde_json::to_writer(&mut *out, &stored)?;
    writeln!(out)
}
