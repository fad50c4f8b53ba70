//! The programs that the processes of a tree execute, and where their code comes from.

use std::collections::HashMap;

use super::locate::Locator;
use crate::engine::report::Report;
use crate::{CodeLocation, Window};

/// Bits of an address that are the program's; above them is the number of its image.
const ADDRESS_BITS: u32 = 48;

/// The programs that processes execute: code at one address is another in each.
#[derive(Debug, Default)]
pub(super) struct Images {
    all: Vec<Locator>, // 65,536 at most
    numbers: HashMap<String, usize>,
}

impl Images {
    /// The number of the program at `path`. The first is 0.
    pub(super) fn number(&mut self, path: &str) -> usize {
        if let Some(&number) = self.numbers.get(path) {
            return number;
        }
        if u16::try_from(self.all.len()).is_ok() {
            self.all.push(Locator::default());
        }
        let number = self.all.len() - 1;
        self.numbers.insert(path.to_owned(), number);
        number
    }

    /// Where the code of a program comes from.
    pub(super) fn get(&mut self, image: usize) -> Option<&mut Locator> {
        self.all.get_mut(image)
    }

    /// What marks addresses of the image's code.
    pub(super) const fn mark_of(image: usize) -> u64 {
        (image as u64) << ADDRESS_BITS
    }

    /// Marks the addresses of a window's code with the image.
    #[cfg_attr(not(any(qemu_plugin, dbi_backend)), allow(dead_code))]
    pub(super) fn mark<'a>(
        image: usize,
        code: impl IntoIterator<Item = &'a mut (u64, u64)>,
        report: &mut Report,
    ) {
        let mark = Self::mark_of(image);
        if mark == 0 {
            return;
        }
        for (address, _) in code {
            *address |= mark;
        }
        for closed in &mut report.closed {
            closed.begin.0 |= mark;
            if let Some(end) = &mut closed.end {
                end.0 |= mark;
            }
        }
        for (pc, _) in &mut report.strides {
            *pc |= mark;
        }
    }

    /// The same in a window that is complete.
    #[cfg_attr(not(all(feature = "perf", target_os = "linux")), allow(dead_code))]
    pub(super) fn mark_window(image: usize, window: &mut Window) {
        let mark = Self::mark_of(image);
        for (address, _) in &mut window.code {
            *address |= mark;
        }
        for sample in &mut window.samples {
            sample.begin.pc |= mark;
            if let Some(end) = &mut sample.end {
                end.pc |= mark;
            }
        }
    }

    /// A process has ended, or executes another program than the image's from now on.
    #[cfg_attr(not(any(qemu_plugin, dbi_backend)), allow(dead_code))]
    pub(super) fn ended(&mut self, image: usize, pid: u32) {
        if let Some(image) = self.all.get_mut(image) {
            image.ended(pid);
        }
    }

    /// What is at a marked address.
    pub(super) fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        let image = (address >> ADDRESS_BITS) as usize;
        let address = if image == 0 { address } else { address & ((1 << ADDRESS_BITS) - 1) };
        self.all.get_mut(image)?.locate(address)
    }
}
