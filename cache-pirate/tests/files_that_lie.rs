//! Trees of files laid out as the kernel's, one of which is not what it should be.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cache_pirate::native::{RootFiles, topology::Topology};
use cache_pirate::resctrl::Partition;
use cache_pirate::{PirateError, SharedCache};

/// Two cores that share a cache, which resctrl divides: the first part of each line is a path.
const MACHINE: &str = "
proc/cpuinfo vendor_id\t: GenuineIntel\\ncpu family\t: 6\\nflags\t\t: fpu avx512f
proc/77/stat 77 (target) S 1
sys/devices/system/cpu/cpu0/online 1
sys/devices/system/cpu/cpu0/topology/core_cpus_list 0
sys/devices/system/cpu/cpu0/cpufreq/scaling_governor powersave
sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq 800000
sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq 3000000
sys/devices/system/cpu/cpu0/cache/index0/type Data
sys/devices/system/cpu/cpu0/cache/index0/level 1
sys/devices/system/cpu/cpu0/cache/index0/size 32K
sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size 64
sys/devices/system/cpu/cpu0/cache/index0/ways_of_associativity 8
sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list 0
sys/devices/system/cpu/cpu0/cache/index3/type Unified
sys/devices/system/cpu/cpu0/cache/index3/level 3
sys/devices/system/cpu/cpu0/cache/index3/id 0
sys/devices/system/cpu/cpu0/cache/index3/size 8M
sys/devices/system/cpu/cpu0/cache/index3/coherency_line_size 64
sys/devices/system/cpu/cpu0/cache/index3/ways_of_associativity 16
sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list 0-1
sys/devices/system/cpu/cpu1/topology/thread_siblings_list 1
sys/fs/resctrl/schemata L3:0=ffff
sys/fs/resctrl/info/L3/cbm_mask ffff
sys/fs/resctrl/info/L3/min_cbm_bits 1
sys/fs/resctrl/info/L3/shareable_bits 0
sys/fs/resctrl/info/L3/sparse_masks 0
sys/fs/resctrl/info/L3_MON/mon_features llc_occupancy
sys/fs/resctrl/shared/schemata L3:0=ff
sys/fs/resctrl/shared/mode shareable
sys/fs/resctrl/shared/tasks 77
sys/fs/resctrl/own/schemata L3:0=f000
sys/fs/resctrl/own/mode exclusive
sys/fs/resctrl/own/tasks 78
run/cache-pirate.resctrl cache-pirate-resctrl 4000000 5
";
/// Of a process that is gone and had changed nothing yet.
const JOURNAL: &str = "cache-pirate-resctrl 4000000 5\n";

/// What is wrong with one file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// Links to itself: nobody can read it, root neither.
    Forbidden,
    /// A pipe into which nobody writes.
    Pipe,
    /// A device that never ends.
    Endless,
    Folder,
    Gone,
    Empty,
    Words,
    Negative,
    Huge,
    Bytes,
}

const LIES: [Lie; 10] = [
    Lie::Forbidden,
    Lie::Pipe,
    Lie::Endless,
    Lie::Folder,
    Lie::Gone,
    Lie::Empty,
    Lie::Words,
    Lie::Negative,
    Lie::Huge,
    Lie::Bytes,
];

fn lay_out(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    for (path, content) in MACHINE.lines().filter_map(|line| line.split_once(' ')) {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content.replace("\\n", "\n") + "\n").unwrap();
        paths.push(path.to_owned());
    }
    paths
}

fn spoil(path: &Path, lie: Lie) {
    remove(path);
    match lie {
        Lie::Forbidden => symlink(path, path).unwrap(),
        Lie::Pipe => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        Lie::Endless => symlink("/dev/zero", path).unwrap(),
        Lie::Folder => fs::create_dir(path).unwrap(),
        Lie::Gone => {}
        Lie::Empty => fs::write(path, "").unwrap(),
        Lie::Words => fs::write(path, "soon\n").unwrap(),
        Lie::Negative => fs::write(path, "-5\n").unwrap(),
        Lie::Huge => fs::write(path, "99999999999999999999999\n").unwrap(),
        Lie::Bytes => fs::write(path, [0xff, 0xfe, 0x00, 0x80]).unwrap(),
    }
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => fs::remove_dir(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

type Reader = fn(&Path) -> Result<String, PirateError>;

/// Both readers of trees, each as what it found in words, and where its files are.
const READERS: [(&str, Reader); 2] = [
    ("topology", |root| Topology::read(root).map(|found| format!("{found:?}"))),
    ("resctrl", |root| {
        let cache = SharedCache { bytes: 8 << 20, line_size: 64 };
        let partition = Partition::prepare(RootFiles::below(root), cache, 0, 77, 4_000_001)?;
        let sizes: Vec<u64> = partition.sizes().collect();
        // What it would put back is part of it; the folder of this test is not.
        Ok(format!("{sizes:?} {partition:?}").replace(&root.display().to_string(), ""))
    }),
];

/// The same, unless it takes so long that it waits for something.
fn within_a_minute(read: Reader, root: &Path) -> Result<String, PirateError> {
    let (sender, receiver) = mpsc::channel();
    let root = root.to_owned();
    thread::spawn(move || sender.send(read(&root)));
    receiver.recv_timeout(Duration::from_secs(60)).expect("it hangs or panics")
}

#[test]
fn no_file_that_lies_reads_as_none() {
    let mut tried = 0;
    for (name, read) in READERS {
        let folder = tempfile::tempdir().unwrap();
        let paths = lay_out(folder.path());
        let truth = within_a_minute(read, folder.path()).unwrap();
        let journal = folder.path().join("run/cache-pirate.resctrl");
        for path in paths {
            let (file, mut reported) = (folder.path().join(&path), 0);
            fs::write(&journal, JOURNAL).unwrap();
            let honest = fs::read(&file).unwrap();
            for lie in LIES {
                // To undo what the journal lists is all that a reader changes.
                remove(&journal);
                fs::write(&journal, JOURNAL).unwrap();
                spoil(&file, lie);
                tried += 1;
                let case = format!("{name}: {path} {lie:?}");
                match within_a_minute(read, folder.path()) {
                    // A file that is not there may be one that other machines lack too; of some any word may come.
                    Ok(found) => {
                        let word = matches!(lie, Lie::Words | Lie::Negative | Lie::Huge);
                        let named =
                            ["governor", "mode", "mon_features"].iter().any(|end| path.ends_with(end));
                        let cut_off = path.starts_with("run/") && word; // dead before it changed anything
                        let no_tasks = path.ends_with("tasks") && lie == Lie::Empty;
                        assert!(
                            found == truth || lie == Lie::Gone || (word && named) || cut_off || no_tasks,
                            "{case}: {found}, not {truth}"
                        );
                    }
                    Err(error) => {
                        reported += 1;
                        let text = error.to_string();
                        let PirateError::System { object, remedy, .. } = error else {
                            assert!(lie == Lie::Gone, "{case}: {text}");
                            continue;
                        };
                        assert!(object.contains(&path) && !remedy.is_empty(), "{case}: {text}");
                    }
                }
            }
            remove(&file);
            fs::write(&file, honest).unwrap();
            // A reader reports the lies of a file, or does not read it at all.
            assert!(reported == 0 || reported >= 5, "{name}: {path} {reported}");
        }
    }
    assert!(tried > 500, "{tried}");
}
