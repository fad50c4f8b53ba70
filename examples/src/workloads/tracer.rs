//! Traced memory: arrays whose loads and stores are recorded while the real algorithm runs on real values.
//!
//! A kernel asks a [`Tracer`] for arrays, announces the basic block it is in and reads and writes elements
//! through it. The recorder gives every array a simulated address, every block an address and a number of
//! instructions, and every access of a block the address of its own instruction: the k-th access after a
//! block is entered is made by the block's k-th memory instruction. What a compiler keeps in registers (loop
//! counters, the element in hand) is an ordinary local variable and is not recorded.

use reuse_sampler::replay::Event;
use reuse_sampler::{Access, AccessKind};

/// Where the code of the embedded kernels lies.
const CODE_BASE: u64 = 0x40_0000;
/// Room of one kernel's code.
const KERNEL_BYTES: u64 = 0x1_0000;
/// Room of one basic block's code.
const BLOCK_BYTES: u64 = 0x100;
/// Where the first memory region lies.
const DATA_BASE: u64 = 0x10_0000_0000;
/// Room of one memory region: 64 GiB, more than any kernel fills.
const REGION_BYTES: u64 = 0x10_0000_0000;
/// Arrays begin at a line boundary of every machine in use, and one such line lies between them.
const ALIGNMENT: u64 = 128;

/// Whoever takes the events of a kernel as it runs.
pub trait Sink {
    /// Takes the next event.
    fn event(&mut self, event: Event);
}

impl Sink for Vec<Event> {
    fn event(&mut self, event: Event) {
        self.push(event);
    }
}

impl<F: FnMut(Event)> Sink for F {
    fn event(&mut self, event: Event) {
        self(event);
    }
}

/// A basic block of a kernel: straight-line code, entered at the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    address: u64,
    instructions: u32, // >= 1
    name: &'static str,
}

impl Block {
    /// Block number `index` (below 256) of the kernel numbered `kernel`, with as many `instructions` as a
    /// compiler might make of it, its memory accesses included.
    pub const fn new(kernel: u64, index: u64, name: &'static str, instructions: u32) -> Self {
        let address = CODE_BASE + kernel * KERNEL_BYTES + index * BLOCK_BYTES;
        Self { address, instructions, name }
    }

    /// Address of its first instruction.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Its name, as `kernel::block`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the instruction at `pc` belongs to it.
    pub const fn contains(&self, pc: u64) -> bool {
        self.address <= pc && pc < self.address + BLOCK_BYTES
    }
}

/// An array at a simulated address.
#[derive(Clone, Debug)]
pub struct Array<T> {
    base: u64,
    elements: Vec<T>,
}

impl<T> Array<T> {
    /// The values, untraced: to check a result.
    pub fn into_values(self) -> Vec<T> {
        self.elements
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    fn address(&self, index: usize) -> u64 {
        self.base + (index * size_of::<T>()) as u64
    }
}

/// Records what a kernel does to its memory, and in which code.
#[derive(Debug)]
pub struct Tracer<'s, S> {
    sink: &'s mut S,
    next_array: u64,
    next_pc: u64,
}

impl<'s, S: Sink> Tracer<'s, S> {
    /// A recorder whose arrays come to lie in memory region `region`. Kernels that run one after another
    /// touch the same memory if they are given the same region, as a program does that frees its data and
    /// allocates anew.
    pub fn new(sink: &'s mut S, region: u16) -> Self {
        let next_array = DATA_BASE + u64::from(region) * REGION_BYTES;
        Self { sink, next_array, next_pc: 0 }
    }

    /// An array with these values, which are there before the kernel begins: placing them is not recorded.
    pub fn place<T>(&mut self, elements: Vec<T>) -> Array<T> {
        let base = self.next_array;
        let bytes = (elements.len() * size_of::<T>()) as u64;
        self.next_array += (bytes / ALIGNMENT + 2) * ALIGNMENT;
        Array { base, elements }
    }

    /// An array of `length` zeros, fresh from the operating system: not recorded either.
    pub fn zeros<T: Clone + Default>(&mut self, length: usize) -> Array<T> {
        self.place(vec![T::default(); length])
    }

    /// Execution enters `block`.
    #[inline]
    pub fn block(&mut self, block: Block) {
        self.next_pc = block.address;
        self.sink.event(Event::Block { address: block.address, instructions: block.instructions });
    }

    /// Reads an element.
    #[inline]
    pub fn load<T: Copy>(&mut self, array: &Array<T>, index: usize) -> T {
        let value = array.elements[index];
        self.access::<T>(array.address(index), AccessKind::Load);
        value
    }

    /// Writes an element.
    #[inline]
    pub fn store<T>(&mut self, array: &mut Array<T>, index: usize, value: T) {
        array.elements[index] = value;
        self.access::<T>(array.address(index), AccessKind::Store);
    }

    #[inline]
    fn access<T>(&mut self, address: u64, kind: AccessKind) {
        let bytes = size_of::<T>() as u32;
        self.sink.event(Event::Access(Access { address, bytes, kind, pc: self.next_pc }));
        self.next_pc += 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_name_their_address_and_their_own_instruction() {
        const BLOCK: Block = Block::new(3, 2, "test::block", 5);
        let mut events = Vec::new();
        let mut tracer = Tracer::new(&mut events, 1);
        let mut first = tracer.place(vec![7_u32, 8, 9]);
        let second = tracer.zeros::<u64>(2);
        for _ in 0..2 {
            tracer.block(BLOCK);
            assert_eq!(tracer.load(&first, 1), 8);
            assert_eq!(tracer.load(&second, 1), 0);
        }
        tracer.store(&mut first, 2, 1);
        assert_eq!(first.into_values(), [7, 8, 1]);

        let base = 0x20_0000_0000;
        let visit = [
            Event::Block { address: 0x43_0200, instructions: 5 },
            Event::Access(Access::load(base + 4, 4).at(0x43_0200)),
            Event::Access(Access::load(base + 256 + 8, 8).at(0x43_0204)),
        ];
        let store = Event::Access(Access::store(base + 8, 4).at(0x43_0208));
        assert_eq!(events, [&visit[..], &visit[..], &[store]].concat());
        assert!(BLOCK.contains(0x43_0208) && !BLOCK.contains(0x43_0300));
    }
}
