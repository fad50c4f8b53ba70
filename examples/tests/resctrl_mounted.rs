//! The simulated kernel's `resctrl` mounted as a file system, so that processes that are killed, and guardians that
//! outlive them, meet it as they would meet the real one. Needs the right to mount (and `/dev/fuse`).

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use cache_pirate::Testbed;
use cache_pirate::native::topology::Topology;
use cache_pirate::native::{NativeParams, NativeTestbed, Progress, confine};
use cache_pirate::resctrl::ResctrlFiles;
use examples::machines::resctrl::{Features, Kernel};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

const ROOT: &str = "sys/fs/resctrl";
const NO_TIME: Duration = Duration::ZERO; // nothing may be cached

/// A kernel as a file system. A file's number is the place of its path in a list.
struct Mounted {
    kernel: Kernel,
    paths: Mutex<Vec<String>>,
}

impl Mounted {
    fn path(&self, number: INodeNo) -> String {
        self.paths.lock().unwrap()[u64::from(number) as usize - 1].clone()
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> String {
        let name = name.to_str().unwrap();
        match &*self.path(parent) {
            "" => name.to_owned(),
            parent => format!("{parent}/{name}"),
        }
    }

    fn is_folder(&self, path: &str) -> bool {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let numbered = |prefix: &str| name.strip_prefix(prefix).is_some_and(|n| n.parse::<u32>().is_ok());
        match (parent, name) {
            (ROOT, _) => self.kernel.folders(ROOT).unwrap().iter().any(|group| group == name),
            ("proc", _) => fs::exists(format!("/{path}")).unwrap(),
            (_, "" | "sys" | "fs" | "resctrl" | "run" | "proc" | "devices" | "system" | "cpu" | "cache") => {
                true
            }
            (_, "mon_data" | "L3" | "L3_MON") => true,
            _ if parent.starts_with("proc/") => fs::metadata(format!("/{path}")).is_ok_and(|m| m.is_dir()),
            _ => numbered("cpu") || numbered("index") || numbered("mon_L3_"),
        }
    }

    fn attributes(&self, path: &str) -> Result<FileAttr, Errno> {
        let kind = if self.is_folder(path) {
            FileType::Directory
        } else {
            self.kernel.read(path)?;
            FileType::RegularFile
        };
        let mut paths = self.paths.lock().unwrap();
        let known = paths.iter().position(|known| known == path);
        let number = known.unwrap_or_else(|| {
            paths.push(path.to_owned());
            paths.len() - 1
        });
        let time = SystemTime::UNIX_EPOCH;
        let (uid, gid, rdev, flags) = (0, 0, 0, 0);
        let perm = if kind == FileType::Directory { 0o755 } else { 0o644 };
        let ino = INodeNo(number as u64 + 1);
        let (atime, mtime, ctime, crtime) = (time, time, time, time);
        let (size, blocks, nlink, blksize) = (0, 0, 1, 4096);
        Ok(FileAttr {
            ino,
            size,
            blocks,
            atime,
            mtime,
            ctime,
            crtime,
            kind,
            perm,
            nlink,
            uid,
            gid,
            rdev,
            blksize,
            flags,
        })
    }
}

impl Filesystem for Mounted {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(&self.child(parent, name)) {
            Ok(found) => reply.entry(&NO_TIME, &found, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(&self.path(number)) {
            Ok(found) => reply.attr(&NO_TIME, &found),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Truncating a file of the kernel's does nothing.
        self.getattr(request, number, handle, reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.kernel.read(&self.path(number)) {
            Ok(text) => {
                let rest = text.as_bytes().get(offset as usize..).unwrap_or(&[]);
                reply.data(&rest[..rest.len().min(size as usize)]);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.kernel.write(&self.path(number), std::str::from_utf8(data).unwrap()) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let names = self.kernel.folders(&self.path(number)).unwrap_or_default();
        for (place, name) in names.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(1), place as u64 + 1, FileType::Directory, name) {
                break;
            }
        }
        reply.ok();
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let path = self.child(parent, name);
        match self.kernel.make_folder(&path).map_err(Errno::from).and_then(|()| self.attributes(&path)) {
            Ok(made) => reply.entry(&NO_TIME, &made, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.kernel.remove_folder(&self.child(parent, name)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let path = self.child(parent, name);
        match self.kernel.make_file(&path, "").map_err(Errno::from).and_then(|()| self.attributes(&path)) {
            Ok(made) => {
                reply.created(&NO_TIME, &made, Generation(0), FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
            }
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.kernel.remove_file(&self.child(parent, name)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }
}

/// A mounted kernel, or `None` where nothing may be mounted.
fn mounted(kernel: &Kernel) -> Option<(tempfile::TempDir, BackgroundSession)> {
    let folder = tempfile::tempdir().unwrap();
    let files = Mounted { kernel: kernel.clone(), paths: Mutex::new(vec![String::new()]) };
    match fuser::spawn_mount(files, folder.path(), &Config::default()) {
        Ok(session) => Some((folder, session)),
        Err(error) => {
            eprintln!("nothing may be mounted here ({error}): nothing to test");
            None
        }
    }
}

fn params() -> Option<NativeParams> {
    let cpus: Vec<usize> = Topology::of_this_machine().unwrap().cpus().iter().map(|cpu| cpu.id).collect();
    if cpus.len() < 2 {
        eprintln!("one processor only: nothing to test");
        return None;
    }
    Some(NativeParams {
        target_cpu: Some(cpus[0]),
        pirate_cpus: Some(vec![cpus[1]]),
        cache_bytes: Some(1 << 20),
        progress: Progress::TaskClock,
        shared_round_trip: None,
        ..NativeParams::default()
    })
}

/// Not a test of its own: the process that the test below kills. Confines a process, says so, and waits.
#[test]
fn confining_process() {
    let Ok(role) = std::env::var("CONFINE_TEST_ROLE") else { return };
    let (process, root) = role.split_once(' ').unwrap();
    let testbed = NativeTestbed::attach(process.parse().unwrap(), params().unwrap()).unwrap();
    let mut testbed = confine(testbed, Path::new(root)).unwrap();
    let least = testbed.partition().sizes().next().unwrap();
    testbed.steal(testbed.cache().bytes - least, 1).unwrap();
    println!("\nconfined");
    thread::sleep(Duration::from_secs(600));
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "never came about: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

fn kill(process: i32) {
    assert!(Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap().success());
}

/// Children of a process, from the kernel's list.
fn children(process: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let all = threads.map(|thread| {
        let path = thread.unwrap().path().join("children");
        fs::read_to_string(path).unwrap_or_default()
    });
    all.chain([list])
        .flat_map(|list| list.split_whitespace().map(|n| n.parse().unwrap()).collect::<Vec<i32>>())
        .collect()
}

/// SIGKILL of the measuring process: its guardian puts everything back. SIGKILL of the guardians too: the next start
/// does.
#[test]
fn masks_and_groups_are_put_back_after_a_kill() {
    if params().is_none() {
        return;
    }
    let kernel =
        Kernel::of_host_processes(Features { cbm_mask: 0x7ff, min_cbm_bits: 2, ..Features::default() });
    let Some((folder, session)) = mounted(&kernel) else { return };
    kernel.make_folder(&format!("{ROOT}/home")).unwrap();
    kernel.write(&format!("{ROOT}/home/schemata"), "L3:0=f0\n").unwrap();
    let target = Ended(Command::new("sleep").arg("600").spawn().unwrap());
    let process = target.0.id() as i32;
    kernel.write(&format!("{ROOT}/home/tasks"), &format!("{process}\n")).unwrap();
    let before = kernel.snapshot();
    for guardian_dies in [false, true] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "resctrl_mounted::confining_process", "--nocapture", "--test-threads", "1"]);
        child.env("CONFINE_TEST_ROLE", format!("{process} {}", folder.path().display()));
        let mut child = Ended(child.stdout(Stdio::piped()).spawn().unwrap());
        let measuring = child.0.id() as i32;
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "confined"), "it says so");
        assert_eq!(kernel.mask_of(process, 0).count_ones(), 2);
        assert_ne!(kernel.snapshot(), before);
        if guardian_dies {
            children(measuring).into_iter().for_each(kill);
        }
        kill(measuring);
        child.0.wait().unwrap();
        if guardian_dies {
            assert_ne!(kernel.snapshot(), before);
            // It was left suspended: only a guardian could have known.
            let testbed = NativeTestbed::attach(process, params().unwrap()).unwrap();
            drop(confine(testbed, folder.path()).unwrap());
        }
        eventually("everything is as before", || kernel.snapshot() == before);
        let state = || fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        eventually("the target runs", || !state().contains(" T "));
    }
    drop(session);
}
