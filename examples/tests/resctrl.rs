//! Targets confined by cache allocation, on kernels that refuse what Linux refuses and on the simulated chip.

use cache_pirate::resctrl::{Partition, ResctrlFiles};
use cache_pirate::{
    CacheCurve, Distrust, Measurements, Pace, PirateError, PirateParams, SharedCache, Testbed, Threads,
    Trust, Until, Who, measure,
};
use examples::machines::chip::{ChipSettings, CoreSettings};
use examples::machines::resctrl::{Features, Kernel};
use examples::machines::testbed::experiments::{machines, suite};
use examples::machines::testbed::programs::Recorded;
use examples::machines::testbed::truth::alone_with_ways;
use examples::machines::testbed::{PirateCore, SimulatedTestbed, divided};
use reuse_sampler::LineSize;

const ROOT: &str = "sys/fs/resctrl";
const TARGET: i32 = 1000;
const OWNER: i32 = 900;
const BYTES: u64 = 11 << 20;

fn kernel(features: Features) -> Kernel {
    let kernel = Kernel::new(features);
    kernel.start(TARGET, &[TARGET, 1001, 1002]);
    kernel.start(OWNER, &[OWNER]);
    kernel
}

fn cache() -> SharedCache {
    SharedCache { bytes: BYTES, line_size: 64 }
}

fn partition(kernel: &Kernel) -> Result<Partition<Kernel>, PirateError> {
    Partition::prepare(kernel.clone(), cache(), 0, TARGET, OWNER)
}

/// A group of somebody else's.
fn group(kernel: &Kernel, name: &str, schemata: &str, exclusive: bool) {
    kernel.make_folder(&format!("{ROOT}/{name}")).unwrap();
    kernel.write(&format!("{ROOT}/{name}/schemata"), schemata).unwrap();
    if exclusive {
        kernel.write(&format!("{ROOT}/{name}/mode"), "exclusive\n").unwrap();
    }
}

#[test]
fn the_kernel_refuses_what_linux_refuses() {
    let kernel = kernel(Features { cbm_mask: 0xf_ffff, min_cbm_bits: 2, closids: 3, ..Features::default() });
    let refused = |text: &str| kernel.write(&format!("{ROOT}/schemata"), text).unwrap_err().raw_os_error();
    for text in [
        "L3:0=5\n",
        "L3:0=1\n",
        "L3:0=0\n",
        "L3:0=100000\n",
        "L3:1=3\n",
        "L2:0=3\n",
        "L3:0=3",
        "3\n",
        "L3:0=3;0=3\n",
        "MB:0=5\n",
        "L3:0=zz\n",
    ] {
        assert_eq!(refused(text), Some(22), "{text:?}");
    }
    let tasks = format!("{ROOT}/tasks");
    assert_eq!(kernel.write(&tasks, "77\n").unwrap_err().raw_os_error(), Some(3));
    assert_eq!(kernel.remove_folder(ROOT).unwrap_err().raw_os_error(), Some(1));
    kernel.write(&format!("{ROOT}/schemata"), "L3:0=ff\n").unwrap();
    group(&kernel, "one", "L3:0=ff00\n", true);
    assert_eq!(refused("L3:0=1ff\n"), Some(22));
    kernel.make_folder(&format!("{ROOT}/two")).unwrap();
    assert!(kernel.read(&format!("{ROOT}/two/schemata")).unwrap().ends_with("L3:0=ff\n"));
    assert_eq!(kernel.make_folder(&format!("{ROOT}/three")).unwrap_err().raw_os_error(), Some(28));
    assert_eq!(
        kernel.write(&format!("{ROOT}/info/L3/cbm_mask"), "3\n").unwrap_err().raw_os_error(),
        Some(13)
    );
}

/// Machines of several kinds: each size is confined to, masks never overlap but at the whole, the reserved ways of
/// others are left alone, and at the end all is as before.
#[test]
fn every_size_is_confined_and_everything_is_put_back() {
    let skylake = Features { cbm_mask: 0x7ff, shareable_bits: 0x600, ..Features::default() };
    let haswell =
        Features { cbm_mask: 0xf_ffff, min_cbm_bits: 2, shareable_bits: 0xc_0000, ..skylake.clone() };
    let amd = Features { cbm_mask: 0xffff, min_cbm_bits: 0, sparse: true, domains: 2, ..Features::default() };
    let cdp = Features { cdp: true, ..skylake.clone() };
    for (name, features) in [("skylake", skylake), ("haswell", haswell), ("amd", amd), ("cdp", cdp)] {
        for reserved in [0_u32, 0x30] {
            let kernel = kernel(features.clone());
            let data = if features.cdp { "L3DATA" } else { "L3" };
            if reserved != 0 {
                let rest = features.cbm_mask & !0x3f;
                // Exclusive is a group only if it overlaps nobody in any cache.
                let both = |mask: u32| {
                    let masks: Vec<String> =
                        (0..features.domains).map(|id| format!("{id}={mask:x}")).collect();
                    let masks = masks.join(";");
                    match features.cdp {
                        true => format!("L3CODE:{masks}\nL3DATA:{masks}\n"),
                        false => format!("L3:{masks}\n"),
                    }
                };
                kernel.write(&format!("{ROOT}/schemata"), &both(rest)).unwrap();
                group(&kernel, "theirs", &both(reserved), true);
            }
            group(&kernel, "home", &format!("{data}:0=c0\nMB:0=50\n"), false);
            kernel.write(&format!("{ROOT}/home/tasks"), "1000,1001,1002\n").unwrap();
            let before = kernel.snapshot();
            let mut partition = partition(&kernel).unwrap();
            assert_eq!(kernel.snapshot(), before, "preparing changes nothing");
            partition.begin().unwrap();
            assert!(kernel.read(&format!("{ROOT}/cache-pirate-900/schemata")).unwrap().contains("MB:0=  50"));
            let whole = partition.cache().bytes;
            let sizes: Vec<u64> = partition.sizes().collect();
            assert!(sizes.len() >= 4, "{name}: {sizes:?}");
            for &bytes in sizes.iter().rev().chain(&sizes) {
                partition.leave(bytes).unwrap();
                let (ours, others) = (kernel.mask_of(1002, 0), kernel.mask_of(OWNER, 0));
                assert_eq!(u64::from(ours.count_ones()) * partition.way_bytes(), bytes);
                assert!(ours & others == 0 || bytes == whole, "{name}: {ours:x} {others:x}");
                assert_eq!((ours | others) & reserved, 0, "{name}");
            }
            let error = partition.leave(sizes[1] + 64).unwrap_err();
            assert!(matches!(error, PirateError::Ways { .. }), "{error}");
            drop(partition);
            assert_eq!(kernel.snapshot(), before, "{name}");
        }
    }
}

#[test]
fn refusals_say_why_and_leave_no_trace() {
    let full = kernel(Features { closids: 1, ..Features::default() });
    let before = full.snapshot();
    let error = partition(&full).unwrap().begin().unwrap_err().to_string();
    assert!(error.contains("Out of CLOSIDs") && error.contains("no control group is free"), "{error}");
    assert_eq!(full.snapshot(), before);

    let gone = kernel(Features::default());
    let before = gone.snapshot();
    let mut prepared = partition(&gone).unwrap();
    gone.end(TARGET);
    assert!(matches!(prepared.begin().unwrap_err(), PirateError::System { .. }));
    drop(prepared);
    assert_eq!(gone.snapshot(), before);

    let small = kernel(Features { cbm_mask: 0x3, min_cbm_bits: 2, ..Features::default() });
    assert!(matches!(partition(&small).unwrap_err(), PirateError::Machine { .. }));
}

/// A process that was killed with its guardian leaves its groups and masks: the next start puts them back.
#[test]
fn the_next_start_puts_back_what_a_dead_measurement_left() {
    let kernel = kernel(Features::default());
    group(&kernel, "home", "L3:0=ff\n", false);
    kernel.write(&format!("{ROOT}/home/tasks"), "1000,1001,1002\n").unwrap();
    let before = kernel.snapshot();
    let mut died = partition(&kernel).unwrap();
    died.begin().unwrap();
    died.leave(3 * died.way_bytes()).unwrap();
    std::mem::forget(died);
    assert_ne!(kernel.snapshot(), before);
    // As long as it is there, nobody else measures.
    let other = || Partition::prepare(kernel.clone(), cache(), 0, TARGET, 901);
    let error = other().unwrap_err().to_string();
    assert!(error.contains("process 900"), "{error}");
    kernel.end(OWNER);
    drop(other().unwrap());
    assert_eq!(kernel.snapshot(), before);
    // Without a journal, the group is known by its name.
    kernel.make_folder(&format!("{ROOT}/cache-pirate-900")).unwrap();
    drop(other().unwrap());
    assert_eq!(kernel.snapshot(), before);
    // One that died while it wrote the journal changed nothing.
    kernel.make_file("run/cache-pirate.resctrl", "cache-pi").unwrap();
    drop(other().unwrap());
    assert_eq!(kernel.snapshot(), before);
    // What is not understood is not touched.
    kernel.make_file("run/cache-pirate.resctrl", "somebody's notes\n").unwrap();
    assert!(other().unwrap_err().to_string().contains("somebody's notes"));
}

fn params(program: &Recorded, accesses: u64, sizes: Option<Vec<u64>>) -> PirateParams {
    let passes = accesses.div_ceil(program.recording.references()) as f64;
    PirateParams {
        sizes,
        interval: Some(passes * program.instructions()),
        target_warm_up: Some(program.instructions().max(0.25 * passes * program.instructions())),
        threads: Threads::Fixed(1),
        cycles: Some(1),
        pace: Pace::Continuous,
        ..PirateParams::default()
    }
}

fn confined(settings: &ChipSettings, program: &Recorded, accesses: u64) -> (Measurements, CacheCurve) {
    let kernel = Kernel::new(Features::default());
    let target = CoreSettings::new(program.player().unwrap());
    let chip = SimulatedTestbed::new(settings, target, u64::MAX, 1, PirateCore::default()).unwrap();
    let before = kernel.snapshot();
    let mut testbed = divided(chip, &kernel).unwrap();
    let sizes = testbed.partition().sizes().collect();
    let plan = params(program, accesses, Some(sizes)).check(testbed.cache()).unwrap();
    let run = measure(&mut testbed, &plan).unwrap();
    drop(testbed);
    assert_eq!(kernel.snapshot(), before);
    let curve = run.curve().unwrap();
    (run, curve)
}

fn pirated(settings: &ChipSettings, program: &Recorded, accesses: u64) -> CacheCurve {
    let target = CoreSettings::new(program.player().unwrap());
    let mut chip = SimulatedTestbed::new(settings, target, u64::MAX, 1, PirateCore::default()).unwrap();
    let plan = params(program, accesses, None).check(chip.cache()).unwrap();
    measure(&mut chip, &plan).unwrap().curve().unwrap()
}

/// Curves by pirate and by allocation on the same machines, and both against the target alone in a cache of so many
/// ways. The kernels' working sets go from a quarter to one and a half times the cache.
#[test]
fn curves_by_pirate_and_by_allocation_agree() {
    let bytes = 64 << 10;
    for (machine, settings) in machines(bytes, 7).unwrap() {
        let (mut worst, mut off, mut traffic_off, mut both, mut trusted, mut points) =
            (0.0_f64, 0.0_f64, 0.0_f64, 0, 0, 0);
        for (name, workload) in suite(bytes) {
            if !["btree", "key_value", "pointer_chase"].contains(&name) {
                continue;
            }
            let program = Recorded::workload(name, &workload, LineSize::B64).unwrap();
            let accesses = 8 * (bytes / 64);
            let (_, by_hardware) = confined(&settings, &program, accesses);
            let by_pirate = pirated(&settings, &program, accesses);
            let pass = program.recording.references();
            for point in by_hardware.points() {
                points += 1;
                let ways = point.bytes / (bytes / 16);
                let target = CoreSettings::new(program.player().unwrap());
                let truth = alone_with_ways(&settings, ways, target, 2 * pass, pass).unwrap();
                let fetches = point.fetch_ratio.unwrap();
                if point.is_trusted() {
                    trusted += 1;
                    off = off.max((fetches - truth.fetch_ratio()).abs());
                    // Every line that the chip fetches is 64 bytes of monitored traffic.
                    let counted = fetches * point.mix.unwrap() * 64.0 / point.cpi;
                    traffic_off = traffic_off.max((point.bandwidth.unwrap() - counted).abs());
                }
                let other =
                    by_pirate.at(point.bytes).filter(|other| other.is_trusted() && point.is_trusted());
                if let Some(other) = other {
                    both += 1;
                    worst = worst.max((fetches - other.fetch_ratio.unwrap()).abs());
                }
            }
        }
        println!(
            "{machine}: allocation trusted at {trusted} of {points}, at most {:.2} points off; against the pirate, at \
             {both} sizes, at most {:.2}",
            100.0 * off,
            100.0 * worst
        );
        assert!(traffic_off < 1e-9);
        assert!(both > 0 && worst <= 0.01, "{machine}: {worst}");
        // Where the policy's state spans all ways, what a program has in some of them is not a smaller cache.
        if !["SRRIP", "tree-PLRU", "accessed bits", "random"].contains(&machine) {
            assert!(trusted == points && off <= 0.01, "{machine}: {off}");
        }
    }
}

/// A kernel whose masks are followed only by its own books: the target keeps its lines, which the occupancy shows.
#[test]
fn lines_that_stay_behind_are_noticed() {
    struct Idle(Kernel, f64);
    impl Testbed for Idle {
        type Error = PirateError;
        fn cache(&self) -> SharedCache {
            SharedCache { bytes: 1 << 20, line_size: 64 }
        }
        fn steal(&mut self, _: u64, _: usize) -> Result<(), PirateError> {
            Ok(())
        }
        fn run(&mut self, who: Who, until: Until) -> Result<cache_pirate::Outcome, PirateError> {
            if let (Who::Target, Until::Work(work)) = (who, until) {
                self.1 += work;
            }
            self.0.monitor(TARGET, 1 << 20, 0);
            Ok(cache_pirate::Outcome::Done)
        }
        fn read(&mut self) -> Result<cache_pirate::Reading, PirateError> {
            let mut reading = cache_pirate::Reading::default();
            (reading.elapsed, reading.target.work, reading.target.time) = (self.1, self.1, self.1);
            Ok(reading)
        }
    }
    let kernel = kernel(Features::default());
    let cache = SharedCache { bytes: 1 << 20, line_size: 64 };
    let partition = Partition::prepare(kernel.clone(), cache, 0, TARGET, OWNER).unwrap();
    let mut testbed = cache_pirate::resctrl::Confined::new(Idle(kernel, 0.0), partition, None).unwrap();
    let sizes = Some(vec![1 << 19, 1 << 20]);
    let params = PirateParams { sizes, interval: Some(1e6), cycles: Some(1), ..PirateParams::default() };
    let plan = params.check(testbed.cache()).unwrap();
    let curve = measure(&mut testbed, &plan).unwrap().curve().unwrap();
    let half = curve.at(1 << 19).unwrap();
    assert!(
        matches!(half.trust, Trust::Untrusted(Distrust::OldLines { share, .. }) if share == 1.0),
        "{half:?}"
    );
    assert_eq!(half.effective_bytes, (1 << 19, 1 << 20));
    assert!(curve.at(1 << 20).unwrap().is_trusted());
}
