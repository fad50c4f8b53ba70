//! Random instructions leave the same registers, flags, memory and faults behind as natively, also while signals arrive.
//!
//! `SEQUENCES=SEED:COUNT` tries others, and more of them.

use std::fs;

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register, RflagsBits,
};
use reuse_sampler::{ReusePlan, SampleGap};

use crate::run::{agrees, compile, folder};

struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit as u64) as usize
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn byte(&mut self) -> u8 {
        self.draw() as u8
    }

    /// Bytes that may be an instruction: prefixes, an opcode of any map, an operand that is near.
    fn instruction(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.below(12) == 0 {
            bytes.push(self.of(&[0xF0, 0x2E, 0x67, 0x3E]));
        }
        match self.below(10) {
            0..=5 => {
                bytes.extend(self.of::<&[u8]>(&[&[0x66], &[0xF2], &[0xF3], &[], &[], &[]]));
                if self.below(3) > 0 {
                    bytes.push(0x40 | (self.byte() & 15));
                }
                let maps: [&[u8]; 8] =
                    [&[], &[], &[], &[0x0F], &[0x0F], &[0x0F], &[0x0F, 0x38], &[0x0F, 0x3A]];
                bytes.extend(self.of(&maps));
            }
            6 => bytes.extend([0xC5, self.byte()]),
            7 => bytes.extend([0xC4, (self.byte() & 0xE0) | self.of(&[1, 2, 3]), self.byte()]),
            _ => {
                let map = (self.byte() & 0xF0) | self.of(&[1, 2, 3]);
                bytes.extend([0x62, map, self.byte() | 4, self.byte()]);
            }
        }
        bytes.push(self.byte());
        let mode = self.of(&[0, 0x40, 0x40, 0x40, 0x80, 0xC0, 0xC0]);
        let modrm = (self.byte() & 0x3F) | mode;
        bytes.push(modrm);
        if mode < 0xC0 && modrm & 7 == 4 {
            bytes.push(self.byte());
        }
        if modrm & 0xC7 == 5 {
            bytes.extend((0x10000 + self.below(0x4000) as i32).to_le_bytes());
        } else if mode == 0x80 {
            bytes.extend((self.below(256) as i32 - 128).to_le_bytes());
        } else if mode == 0x40 {
            bytes.push(self.byte());
        }
        bytes.extend((0..8).map(|_| if self.below(2) == 0 { self.byte() } else { 0 }));
        bytes
    }

    /// Instructions and jumps to later ones.
    fn sequence(&mut self, defined: bool) -> Vec<u8> {
        let mut code = Vec::new();
        let mut starts = Vec::new();
        let mut jumps = Vec::new(); // instructions up to it, where its distance is, bytes of it
        let count = 2 + self.below(30);
        while starts.len() < count {
            let at = code.len();
            if self.below(6) == 0 {
                starts.push(at);
                let condition = self.byte() & 15;
                let opcode = [&[0xE0 + self.of(&[0, 1, 2, 3])], &[0xEB][..], &[0x0F, 0x80 | condition]];
                let short = [0x70 | condition];
                let opcode = self.of(&[opcode[0], opcode[1], opcode[2], &short, &short, &short]);
                code.extend(opcode);
                let bytes = if opcode.len() == 2 { 4 } else { 1 };
                jumps.push((starts.len(), code.len(), bytes));
                code.resize(code.len() + bytes, 0);
                continue;
            }
            let bytes = self.instruction();
            let instruction = Decoder::with_ip(64, &bytes, at as u64, DecoderOptions::NONE).decode();
            if is_tried(&instruction, defined) {
                starts.push(at);
                code.extend(&bytes[..instruction.len()]);
            }
        }
        starts.push(code.len());
        for (from, at, bytes) in jumps {
            let last = starts[from..].iter().filter(|&&start| bytes == 4 || start - at - bytes < 128).count();
            let distance = (starts[from + self.below(last)] - at - bytes) as u32;
            code[at..at + bytes].copy_from_slice(&distance.to_le_bytes()[..bytes]);
        }
        code
    }
}

/// Whether the instruction simply continues, gives the same whenever it is executed, and shows no address of code. With
/// `defined`, flags it leaves undefined are not looked at.
fn is_tried(instruction: &Instruction, defined: bool) -> bool {
    use CpuidFeature as F;
    use Mnemonic as M;
    let continues = instruction.flow_control() == FlowControl::Next && !instruction.is_invalid();
    if !continues || instruction.is_privileged() || instruction.is_save_restore_instruction() {
        return false;
    }
    let looks = matches!(instruction.mnemonic(), M::Lahf | M::Pushf | M::Pushfq);
    if defined && (looks || instruction.rflags_undefined() & !RflagsBits::AF != 0) {
        return false;
    }
    let special = |register: Register| {
        register.is_segment_register() || register.is_cr() || register.is_dr() || register.is_tr()
    };
    let operands = 0..instruction.op_count();
    if operands
        .filter(|op| instruction.op_kind(*op) == OpKind::Register)
        .any(|op| special(instruction.op_register(op)))
        || matches!(instruction.segment_prefix(), Register::FS | Register::GS)
        || instruction.memory_base() == Register::EIP
    {
        return false;
    }
    let near = 0x10000..0x14000 - 64;
    if instruction.memory_base() == Register::RIP && !near.contains(&instruction.ip_rel_memory_address()) {
        return false;
    }
    let excluded = [
        F::AMX_TILE,
        F::AMX_INT8,
        F::AMX_BF16,
        F::CET_IBT,
        F::CET_SS,
        F::CLZERO,
        F::ENQCMD,
        F::FSGSBASE,
        F::INVPCID,
        F::MONITOR,
        F::MONITORX,
        F::PKU,
        F::PTWRITE,
        F::RDPID,
        F::RDPRU,
        F::SGX1,
        F::SMX,
        F::SVM,
        F::UINTR,
        F::VMX,
        F::WAITPKG,
    ];
    if instruction.cpuid_features().iter().any(|feature| excluded.contains(feature)) {
        return false;
    }
    #[rustfmt::skip]
    let unlike = matches!(
        instruction.mnemonic(),
        // Time and chance, the machine's tables, ports.
        M::Rdtsc | M::Rdtscp | M::Rdrand | M::Rdseed | M::Cpuid | M::Rdpmc | M::Xgetbv | M::Sgdt | M::Sidt | M::Sldt
            | M::Str | M::Smsw | M::Lar | M::Lsl | M::Verr | M::Verw | M::Lss | M::Lfs | M::Lgs | M::In | M::Out
            | M::Insb | M::Insw | M::Insd | M::Outsb | M::Outsw | M::Outsd | M::Cli | M::Sti | M::Serialize
        // The trap flag, and modes that outlive the sequence.
            | M::Popf | M::Popfq | M::Fldcw | M::Ldmxcsr | M::Vldmxcsr | M::Fldenv | M::Frstor
        // Where the last floating-point instruction was.
            | M::Fnstenv | M::Fnsave | M::Fstenv | M::Fsave
    );
    !unlike
}

#[test]
fn random_instructions_do_what_they_do_natively() {
    let folder = folder("sequences");
    let Some(program) = compile(&folder, include_str!("sequences.c"), &["-O1"]) else { return };
    if !std::arch::is_x86_feature_detected!("avx2") {
        println!("skipped: the program needs AVX2");
        return;
    }
    let given = std::env::var("SEQUENCES").unwrap_or_else(|_| "1:300".into());
    let (seed, count) = given.split_once(':').unwrap();
    let (seed, count): (u64, u64) = (seed.parse().unwrap(), count.parse().unwrap());
    let file = folder.join("sequences").to_string_lossy().into_owned();
    let sparse = ReusePlan::Sparse(SampleGap::mean(100.0).unwrap());
    let alarms = format!("ALARMS=1 exec {program} {file} 20000000");
    let near: &[&str] = &[&program, &file, "20000000"];
    let far: &[&str] = &[&program, &file, "5500000000", "file"];
    let interrupted: &[&str] = &["sh", "-c", &alarms];
    // In anonymous memory code may change at any time; of a file's, flags are kept where they are needed.
    for (defined, command) in [(false, near), (true, far), (false, interrupted)] {
        let mut bytes = Vec::new();
        for number in 0..count {
            let mut random = Random((seed << 32) ^ number);
            let code = random.sequence(defined);
            bytes.extend((code.len() as u32).to_le_bytes());
            bytes.extend(random.draw().to_le_bytes());
            bytes.extend(code);
        }
        fs::write(&file, bytes).unwrap();
        for plan in [ReusePlan::Off, ReusePlan::Every, ReusePlan::Watch, sparse] {
            let done = agrees(&folder, command, plan);
            assert!(done.warnings.iter().all(|w| !w.contains("natively")), "{:?}", done.warnings);
        }
    }
    fs::remove_dir_all(folder).unwrap();
}
