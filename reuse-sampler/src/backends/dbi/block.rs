//! Finds a block of the program: its instructions, which registers it leaves alone, whether it needs the flags it is
//! entered with, and the accesses it makes.
//!
//! A block is the same whatever is observed, so that windows end at the same places: it ends with the first
//! instruction that does not simply continue, before a repeated string instruction, which is a block of its own,
//! after [`LONGEST`] instructions, or before one that would leave fewer than two registers untouched.

use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo,
    InstructionInfoFactory, Mnemonic, OpAccess, Register, UsedMemory,
};

use super::assemble::{Gpr, RAX, RSP};
use super::flags::{FLAGS, Liveness, may_read_flags};
use super::memory::{PAGE, Source, Trust, page_of};
use crate::Cpu;

/// Instructions in a block.
const LONGEST: usize = 64;
/// Longest instruction.
const INSTRUCTION: usize = 15;
/// Bytes that the longest block may take.
pub(super) const READ: usize = LONGEST * INSTRUCTION;

/// Why a block is not translated where there is none.
pub(super) const UNREADABLE: &str = "code that cannot be read";

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Into the next instruction.
    Falls,
    Jump(u64),
    /// A conditional jump, `loop` or `jrcxz`.
    Branch(u64),
    Call(u64),
    Return(u16),
    IndirectJump,
    IndirectCall,
    SystemCall,
    /// With `cpuid`, where the processor that it asks about is not the one that executes it.
    Identify,
    /// Before something that cannot be translated.
    Unsupported(&'static str),
}

/// An access that an instruction makes each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    pub pc: u64,
    pub bytes: u32,
    pub loads: bool,
    pub stores: bool,
    pub reach: Reach,
}

impl Operand {
    /// Whether its place and its few bytes are all there is to it.
    pub(super) fn is_plain(&self) -> bool {
        self.reach != Reach::Scattered && self.bytes <= 256
    }
}

/// How much of an operand is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Whole,
    /// What a mask says: counted as all of it.
    Masked,
    /// Where a vector of indices says: counted as the first of its places.
    Scattered,
}

/// A string instruction with a repeat prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub bytes: u32,
    pub source_loads: bool,
    pub destination_loads: bool,
    pub destination_stores: bool,
}

impl Repeated {
    /// Accesses for each element.
    pub(super) const fn accesses(self) -> u64 {
        self.source_loads as u64 + self.destination_loads as u64 + self.destination_stores as u64
    }
}

/// A block.
#[derive(Debug)]
pub(super) struct Found {
    pub pc: u64,
    /// All instructions, the last one included.
    pub instructions: Vec<Instruction>,
    /// Where in each of them the distance of its relative operand is; 0 if it has none.
    pub relative: Vec<u8>,
    /// The accesses of all, each with the operand to compute its address from.
    pub accesses: Vec<(UsedMemory, Operand)>,
    /// Whether it stores elsewhere than on its stack.
    pub stores: bool,
    pub source: Source,
    pub end: End,
    /// General registers that no instruction uses, a bit each; never rsp or rax, which is needed for flags.
    pub untouched: u16,
    /// Whether flags that it is entered with may be read, by it or by what has taken its place.
    pub needs_flags: bool,
    pub repeated: Option<Repeated>,
}

impl Found {
    /// Address of the instruction after the block.
    pub(super) fn next(&self) -> u64 {
        self.instructions.last().map_or(self.pc, Instruction::next_ip)
    }

    /// The block that follows, whatever happens or unless a forward jump is taken.
    pub(super) fn follows(&self) -> Option<u64> {
        let branches = || self.instructions.last().is_some_and(Instruction::is_jcc_short_or_near);
        match self.end {
            _ if self.source.trust == Trust::Verified => None,
            // What is stored may be the code that follows: its entry is to be seen by then.
            _ if self.guard().is_some() && self.stores => None,
            End::Falls => Some(self.next()),
            // A loop's, most likely: taken more often than not.
            End::Branch(target) if target <= self.pc => None,
            End::Branch(_) if branches() => Some(self.next()),
            End::Jump(target) | End::Call(target) => Some(target),
            _ => None,
        }
    }

    /// Whether each execution compares its bytes.
    pub(super) fn is_verified(&self) -> bool {
        self.source.trust == Trust::Verified
    }

    /// Whether its code is never part of that of several blocks.
    pub(super) fn is_alone(&self) -> bool {
        self.is_verified() || matches!(self.end, End::Unsupported(_)) || self.sets_trap()
    }

    /// Whether its first instruction may have the processor stop after each one.
    pub(super) fn sets_trap(&self) -> bool {
        self.instructions.first().is_some_and(sets_trap)
    }

    /// The page that it is on, if that is protected.
    pub(super) fn guard(&self) -> Option<u64> {
        self.source.trust.guard(self.pc)
    }

    /// Whether it ends on another page than it begins on.
    pub(super) fn leaves_page(&self) -> bool {
        self.next() > page_of(self.pc) + PAGE
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.source.bytes().get(..(self.next() - self.pc) as usize).unwrap_or(&[])
    }

    /// Those of one of its instructions.
    pub(super) fn bytes_of(&self, instruction: &Instruction) -> Option<&[u8]> {
        let start = (instruction.ip() - self.pc) as usize;
        self.source.bytes().get(start..start + instruction.len())
    }

    /// What it accesses, unless it is a repeated string instruction.
    pub(super) fn operands(&self) -> impl ExactSizeIterator<Item = Operand> + '_ {
        let accesses = if self.repeated.is_some() { &[] } else { &self.accesses[..] };
        accesses.iter().map(|(_, operand)| *operand)
    }
}

/// The registers in `used`, a bit each.
pub(super) fn registers_of(info: &InstructionInfo) -> u16 {
    let mut bits = 0;
    for register in info.used_registers() {
        let register = register.register();
        if register.is_gpr() {
            bits |= 1 << register.full_register().number();
        }
    }
    bits
}

/// The number of a general register.
pub(super) fn number(register: Register) -> Gpr {
    register.full_register().number() as Gpr
}

fn is_string(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Movsb
            | Mnemonic::Movsw
            | Mnemonic::Movsd
            | Mnemonic::Movsq
            | Mnemonic::Stosb
            | Mnemonic::Stosw
            | Mnemonic::Stosd
            | Mnemonic::Stosq
            | Mnemonic::Lodsb
            | Mnemonic::Lodsw
            | Mnemonic::Lodsd
            | Mnemonic::Lodsq
            | Mnemonic::Scasb
            | Mnemonic::Scasw
            | Mnemonic::Scasd
            | Mnemonic::Scasq
            | Mnemonic::Cmpsb
            | Mnemonic::Cmpsw
            | Mnemonic::Cmpsd
            | Mnemonic::Cmpsq
    )
}

fn repeated(instruction: &Instruction) -> Option<Repeated> {
    use Mnemonic as M;
    use iced_x86::OpKind;
    let prefixed = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    // The SSE2 instructions of the same names have a register as their first operand.
    let memory = (0..instruction.op_count()).any(|op| {
        matches!(
            instruction.op_kind(op),
            OpKind::MemorySegRSI | OpKind::MemoryESRDI | OpKind::MemorySegESI | OpKind::MemoryESEDI
        )
    });
    if !prefixed || !memory || !is_string(instruction.mnemonic()) {
        return None;
    }
    let name = instruction.mnemonic();
    let moves = matches!(name, M::Movsb | M::Movsw | M::Movsd | M::Movsq);
    let fills = matches!(name, M::Stosb | M::Stosw | M::Stosd | M::Stosq);
    let reads = matches!(name, M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq);
    let scans = matches!(name, M::Scasb | M::Scasw | M::Scasd | M::Scasq);
    let compares = matches!(name, M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq);
    Some(Repeated {
        bytes: instruction.memory_size().size() as u32,
        source_loads: moves || reads || compares,
        destination_loads: scans || compares,
        destination_stores: moves || fills,
    })
}

/// Why an instruction cannot be translated.
fn refused(instruction: &Instruction) -> Option<&'static str> {
    match instruction.code() {
        Code::INVALID => return Some("an invalid instruction"),
        Code::Int1 | Code::Int3 | Code::Int_imm8 | Code::Into => return Some("a software interrupt (int)"),
        Code::Sysenter | Code::Sysexitd | Code::Sysexitq => return Some("a privileged instruction"),
        Code::Wrgsbase_r32 | Code::Wrgsbase_r64 | Code::Rdgsbase_r32 | Code::Rdgsbase_r64 => {
            return Some("use of the GS register");
        }
        Code::Wrfsbase_r32 => return Some("wrfsbase of 32 bits"),
        _ => {}
    }
    if instruction.memory_base() == Register::EIP {
        return Some("a 32-bit relative address");
    }
    if instruction.memory_segment() == Register::GS
        && (0..instruction.op_count()).any(|op| instruction.op_kind(op) == iced_x86::OpKind::Memory)
        && instruction.mnemonic() != Mnemonic::Lea
        && instruction.mnemonic() != Mnemonic::Nop
    {
        return Some("use of the GS register");
    }
    if (0..instruction.op_count()).any(|op| {
        instruction.op_kind(op) == iced_x86::OpKind::Register && {
            let register = instruction.op_register(op);
            register.is_segment_register() && instruction.mnemonic() != Mnemonic::Push
        }
    }) && matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Pop)
        && instruction.op0_kind() == iced_x86::OpKind::Register
        && instruction.op0_register().is_segment_register()
    {
        return Some("a change of a segment register");
    }
    let features = instruction.cpuid_features();
    if features.contains(&CpuidFeature::AMX_TILE) {
        return Some("AMX (a program that is shown x86-64-v4 leaves it alone)");
    }
    match instruction.flow_control() {
        FlowControl::Interrupt | FlowControl::XbeginXabortXend => {
            Some("an interrupt or a memory transaction")
        }
        _ => None,
    }
}

/// Whether it takes all flags from the stack.
fn sets_trap(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Popfq | Code::Popfw)
}

pub(super) fn end_of(instruction: &Instruction) -> Option<End> {
    match instruction.flow_control() {
        _ if instruction.code() == Code::Cpuid => Some(End::Identify),
        FlowControl::Next | FlowControl::Exception => None,
        FlowControl::UnconditionalBranch => Some(match instruction.code() {
            Code::Jmp_rel8_64 | Code::Jmp_rel32_64 => End::Jump(instruction.near_branch_target()),
            _ => End::Unsupported("a 16-bit jump"),
        }),
        FlowControl::ConditionalBranch => Some(if near(instruction) {
            End::Branch(instruction.near_branch_target())
        } else {
            End::Unsupported("a 16-bit jump")
        }),
        FlowControl::Call => Some(match instruction.code() {
            Code::Call_rel32_64 => End::Call(instruction.near_branch_target()),
            Code::Syscall if instruction.len() == 2 => End::SystemCall,
            _ => End::Unsupported("an unusual call"),
        }),
        FlowControl::Return => Some(match instruction.code() {
            Code::Retnq => End::Return(0),
            Code::Retnq_imm16 => End::Return(instruction.immediate16()),
            _ => End::Unsupported("an unusual return"),
        }),
        FlowControl::IndirectBranch => Some(match instruction.code() {
            Code::Jmp_rm64 => End::IndirectJump,
            _ => End::Unsupported("a far jump"),
        }),
        FlowControl::IndirectCall => Some(match instruction.code() {
            Code::Call_rm64 => End::IndirectCall,
            _ => End::Unsupported("a far call"),
        }),
        _ => Some(End::Unsupported("an interrupt")),
    }
}

fn near(instruction: &Instruction) -> bool {
    instruction.op0_kind() == iced_x86::OpKind::NearBranch64
}

/// What the blocks of a program are found for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Purpose {
    /// Instructions are handed out, and what they access is not.
    pub fetches: bool,
    /// The processor that the program is shown.
    pub cpu: Cpu,
}

impl Purpose {
    /// Leaves out of a block what it is not found for.
    pub(super) fn apply(self, found: &mut Found) {
        if found.end == End::Identify && self.cpu == Cpu::Host {
            found.end = End::Falls;
        }
        if self.fetches {
            found.accesses.clear();
        }
    }
}

/// Finds the block at `pc`. `read` returns the code from an address on, as much as there is, or [`READ`] bytes and more.
pub(super) fn find(
    pc: u64,
    read: &mut dyn FnMut(u64) -> Source,
    factory: &mut InstructionInfoFactory,
) -> Found {
    let source = read(pc);
    let mut found = Found {
        pc,
        instructions: Vec::with_capacity(16),
        relative: Vec::with_capacity(16),
        accesses: Vec::with_capacity(16),
        stores: false,
        source: source.clone(),
        end: End::Falls,
        untouched: !(1 << RAX | 1 << RSP),
        needs_flags: true,
        repeated: None,
    };
    let mut liveness = Liveness { unknown: FLAGS, read: false };
    let code = source.bytes();
    let mut decoder = Decoder::with_ip(64, &code[..code.len().min(READ)], pc, DecoderOptions::NONE);
    while found.instructions.len() < LONGEST && decoder.can_decode() {
        let instruction = decoder.decode();
        if let Some(why) = refused(&instruction) {
            if found.instructions.is_empty() {
                found.end = End::Unsupported(why);
            }
            break;
        }
        let repeated = repeated(&instruction);
        if (repeated.is_some() || sets_trap(&instruction)) && !found.instructions.is_empty() {
            break;
        }
        let end = end_of(&instruction);
        if let Some(End::Unsupported(_)) = end {
            if let (true, Some(end)) = (found.instructions.is_empty(), end) {
                found.end = end;
            }
            break;
        }
        let info = factory.info(&instruction);
        let used = registers_of(info);
        if (found.untouched & !used).count_ones() < 2 && !found.instructions.is_empty() {
            break;
        }
        found.untouched &= !used;
        liveness.see(&instruction);
        let relative = instruction.is_ip_rel_memory_operand();
        let relative = relative.then(|| decoder.get_constant_offsets(&instruction).displacement_offset());
        found.relative.push(relative.unwrap_or(0) as u8);
        found.accesses.extend(accesses(info, &instruction));
        found.instructions.push(instruction);
        if repeated.is_some() {
            found.repeated = repeated;
            break;
        }
        if let Some(end) = end {
            found.end = end;
            break;
        }
    }
    let elsewhere =
        |(memory, operand): &(UsedMemory, Operand)| operand.stores && memory.base() != Register::RSP;
    found.stores = found.accesses.iter().any(elsewhere);
    if found.instructions.is_empty() && found.end == End::Falls {
        found.end = End::Unsupported(UNREADABLE);
    }
    // What has taken the place of code that changes may read them.
    found.needs_flags = source.trust == Trust::Verified
        || liveness.read
        || (liveness.unknown != 0
            && match found.end {
                _ if source.trust != Trust::Fixed => true,
                End::Falls => may_read_flags(found.next(), liveness.unknown, 2, read),
                End::Jump(target) | End::Call(target) => may_read_flags(target, liveness.unknown, 2, read),
                End::Branch(target) => {
                    may_read_flags(target, liveness.unknown, 2, read)
                        || may_read_flags(found.next(), liveness.unknown, 2, read)
                }
                _ => true,
            });
    found
}

/// Whether a mask says which part of its operand in memory it accesses.
fn is_masked(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    instruction.has_op_mask()
        || matches!(
            instruction.mnemonic(),
            M::Vmaskmovps
                | M::Vmaskmovpd
                | M::Vpmaskmovd
                | M::Vpmaskmovq
                | M::Maskmovdqu
                | M::Vmaskmovdqu
                | M::Maskmovq
        )
}

/// The accesses of an instruction, each with the operand to compute its address from.
fn accesses(
    info: &InstructionInfo,
    instruction: &Instruction,
) -> impl Iterator<Item = (UsedMemory, Operand)> {
    let pc = instruction.ip();
    info.used_memory().iter().filter_map(move |memory| {
        let locked = || {
            instruction.has_lock_prefix()
                || (instruction.mnemonic() == Mnemonic::Xchg && instruction.op_count() > 0)
        };
        let (loads, stores) = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (!locked(), true),
            _ => return None,
        };
        let bytes = match memory.memory_size().size() as u32 {
            0 => 64, // state saving of unknown size
            bytes => bytes,
        };
        let reach = match () {
            () if instruction.is_vsib() => Reach::Scattered,
            () if is_masked(instruction) => Reach::Masked,
            () => Reach::Whole,
        };
        Some((*memory, Operand { pc, bytes, loads, stores, reach }))
    })
}
