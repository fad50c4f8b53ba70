//! The signatures that are built from addresses while a program runs, each with the time it takes.

use std::time::Instant;

use phase_detect::signature::{
    LargeStrides, StrideConfig, StrideScope, StrideVector, WorkingSet, WorkingSetForm,
};
use phase_detect::{Error, Signature, Wavelet, WaveletConfig};

/// Accesses handed to each builder at a time: few enough to stay in the cache, many enough that looking at the clock
/// costs nothing.
const BATCH: usize = 4096;
/// Entries of the working-set vectors.
const WORKING_SET: usize = 1024;

/// An access as the builders see it.
#[derive(Clone, Copy)]
pub struct Seen {
    pub pc: u64,
    pub address: u64,
    /// Instructions since the start of the window.
    pub time: u64,
    /// Whether it missed the second level.
    pub missed: bool,
}

/// The signatures of one source.
pub struct MemorySignatures {
    /// Its name in tables.
    pub name: String,
    /// One for each window; `None` where nothing was observed.
    pub windows: Vec<Option<Signature>>,
    /// Seconds of building them all.
    pub seconds: f64,
}

/// All builders, side by side.
pub struct Builders {
    builders: Vec<(Builder, MemorySignatures)>,
    batch: Vec<Seen>,
}

enum Builder {
    WorkingSet(WorkingSet),
    Stride(Box<StrideVector>),
    Wavelet(Box<Wavelet>),
    Misses(Box<Wavelet>),
}

impl Builders {
    /// Those of the wavelet paper, for windows of `window` instructions; the large stride vectors have
    /// `stride_entries` entries. With `grid`, wavelets of all sizes and moduli of its figures 6 and 7 instead.
    pub fn new(window: u64, stride_entries: usize, seed: u64, grid: bool) -> Result<Self, Error> {
        let wavelet = |size, modulus| {
            let config = WaveletConfig { size, modulus, ..WaveletConfig::default() };
            Wavelet::new(config, window).map(Box::new)
        };
        let mut builders = Vec::new();
        if grid {
            for (size, modulus) in grid_points() {
                builders.push((grid_name(size, modulus), Builder::Wavelet(wavelet(size, modulus)?)));
            }
        } else {
            let stride = |scope, entries, with_pc| {
                let large = LargeStrides::Ignored;
                let config = StrideConfig { scope, entries, with_pc, large, ..StrideConfig::default() };
                StrideVector::new(config).map(|vector| Builder::Stride(Box::new(vector)))
            };
            let set = |form| WorkingSet::new(form, WORKING_SET, 64, seed).map(Builder::WorkingSet);
            let default = WaveletConfig::default();
            let large = stride_entries;
            builders.push(("working set".to_owned(), set(WorkingSetForm::Frequency)?));
            builders.push(("working set, bits".to_owned(), set(WorkingSetForm::Bits)?));
            builders.push(("local stride, 100".to_owned(), stride(StrideScope::Local, 100, false)?));
            builders.push((format!("local stride, {large}"), stride(StrideScope::Local, large, false)?));
            builders.push((format!("local stride+pc, {large}"), stride(StrideScope::Local, large, true)?));
            builders.push((format!("global stride, {large}"), stride(StrideScope::Global, large, false)?));
            builders.push((format!("global stride+pc, {large}"), stride(StrideScope::Global, large, true)?));
            builders.push(("wavelet".to_owned(), Builder::Wavelet(wavelet(default.size, default.modulus)?)));
            builders.push((
                "wavelet of L2 misses".to_owned(),
                Builder::Misses(wavelet(default.size, default.modulus)?),
            ));
        }
        let builders = builders
            .into_iter()
            .map(|(name, builder)| (builder, MemorySignatures { name, windows: Vec::new(), seconds: 0.0 }))
            .collect();
        Ok(Self { builders, batch: Vec::with_capacity(BATCH) })
    }

    #[inline]
    pub fn access(&mut self, seen: Seen) {
        self.batch.push(seen);
        if self.batch.len() == BATCH {
            self.build();
        }
    }

    fn build(&mut self) {
        for (builder, signatures) in &mut self.builders {
            let start = Instant::now();
            builder.take(&self.batch);
            signatures.seconds += start.elapsed().as_secs_f64();
        }
        self.batch.clear();
    }

    /// Ends a window.
    pub fn finish(&mut self) {
        self.build();
        for (builder, signatures) in &mut self.builders {
            let start = Instant::now();
            let finished = builder.finish();
            signatures.seconds += start.elapsed().as_secs_f64();
            // A window without any such access has no signature.
            signatures.windows.push(finished.ok());
        }
    }

    /// What was built.
    pub fn into_signatures(self) -> Vec<MemorySignatures> {
        self.builders.into_iter().map(|(_, signatures)| signatures).collect()
    }
}

impl Builder {
    fn take(&mut self, batch: &[Seen]) {
        match self {
            Self::WorkingSet(set) => batch.iter().for_each(|seen| set.add(seen.address)),
            Self::Stride(vector) => batch.iter().for_each(|seen| vector.add(seen.pc, seen.address)),
            Self::Wavelet(wavelet) => batch.iter().for_each(|seen| wavelet.add(seen.address, seen.time)),
            Self::Misses(wavelet) => {
                batch.iter().filter(|seen| seen.missed).for_each(|seen| wavelet.add(seen.address, seen.time));
            }
        }
    }

    fn finish(&mut self) -> Result<Signature, Error> {
        match self {
            Self::WorkingSet(set) => set.finish(),
            Self::Stride(vector) => vector.finish(),
            Self::Wavelet(wavelet) | Self::Misses(wavelet) => wavelet.finish(),
        }
    }
}

/// Matrix sizes and moduli of the wavelet paper's figures 6 and 7.
pub const GRID_SIZES: [usize; 5] = [4, 8, 16, 32, 64];
/// In bytes.
pub const GRID_MODULI: [u64; 6] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];

fn grid_points() -> impl Iterator<Item = (usize, u64)> {
    GRID_SIZES.into_iter().flat_map(|size| GRID_MODULI.into_iter().map(move |modulus| (size, modulus)))
}

/// Name of one point of the grid.
pub fn grid_name(size: usize, modulus: u64) -> String {
    format!("{size}x{size}, {} KiB", modulus >> 10)
}
