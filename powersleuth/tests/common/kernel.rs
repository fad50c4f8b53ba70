//! Files of machines, laid out in a directory or in memory, where they behave as the kernel's do.
#![allow(dead_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::rc::Rc;

use powersleuth::linux::{Files, Tree};
use tempfile::TempDir;

/// Lays out a list of files in a new directory.
pub fn laid_out(list: &str) -> (TempDir, Tree) {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files_of(list) {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let tree = Tree::new(root.path());
    (root, tree)
}

fn files_of(list: &str) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
    list.lines().map(|line| {
        let (path, content) = line.split_once(" = ").unwrap();
        let mut bytes = Vec::new();
        let mut rest = content.bytes();
        while let Some(byte) = rest.next() {
            let escaped = (byte == b'\\').then(|| rest.next().unwrap());
            bytes.push(match escaped {
                None => byte,
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'x') => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                Some(other) => panic!("escape {other}"),
            });
        }
        (path.to_owned(), bytes)
    })
}

pub const INTEL: &str = include_str!("../fixtures/intel.tree");
pub const AMD: &str = include_str!("../fixtures/amd.tree");
pub const ARM: &str = include_str!("../fixtures/arm.tree");

/// Files in memory that behave as the kernel's do.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    pub files: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
    pub closed: Rc<RefCell<Vec<String>>>, // endings of paths that may not be touched
    pub offline: Vec<u32>,                // policies whose cores all are
}

impl Kernel {
    pub fn new(list: &str) -> Self {
        Self { files: Rc::new(RefCell::new(files_of(list).collect())), ..Self::default() }
    }

    pub fn close(&self, ending: &str) {
        self.closed.borrow_mut().push(ending.to_owned());
    }

    pub fn put(&self, path: &str, text: &str) {
        self.files.borrow_mut().insert(path.to_owned(), text.as_bytes().to_vec());
    }

    fn number(&self, path: &str) -> u64 {
        String::from_utf8(self.files.borrow()[path].clone()).unwrap().trim().parse().unwrap()
    }

    fn check(&self, path: &str) -> io::Result<()> {
        let closed = self.closed.borrow().iter().any(|ending| path.ends_with(ending));
        if closed { Err(ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    pub fn limits(&self, policy: u32) -> (u64, u64) {
        let at = |file| self.number(&format!("sys/devices/system/cpu/cpufreq/policy{policy}/{file}"));
        (at("scaling_min_freq"), at("scaling_max_freq"))
    }
}

impl Files for Kernel {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.check(path)?;
        if self.offline.iter().any(|policy| path.contains(&format!("/policy{policy}/"))) {
            return Err(io::Error::from_raw_os_error(16)); // EBUSY
        }
        self.files.borrow().get(path).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Refuses limits that cross, as the kernel does.
    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.check(path)?;
        let new: u64 = text.parse().unwrap();
        let (policy, file) = path.rsplit_once('/').unwrap();
        let crosses = match file {
            "scaling_min_freq" => new > self.number(&format!("{policy}/scaling_max_freq")),
            "scaling_max_freq" => new < self.number(&format!("{policy}/scaling_min_freq")),
            _ => panic!("{path} is not to be written"),
        };
        if crosses {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.put(path, text);
        Ok(())
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.check(directory)?;
        let files = self.files.borrow();
        let inside = files.keys().filter_map(|path| path.strip_prefix(directory)?.strip_prefix('/'));
        let mut names: Vec<String> =
            inside.filter_map(|rest| Some(rest.split('/').next()?.to_owned())).collect();
        names.dedup();
        if names.is_empty() { Err(ErrorKind::NotFound.into()) } else { Ok(names) }
    }
}
