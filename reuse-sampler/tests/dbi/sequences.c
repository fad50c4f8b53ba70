/* Executes sequences of instructions from a file, each from registers, flags and memory that its seed decides, and prints
 * what they left behind, or the fault that ended them with its registers.
 *
 * Usage: sequences FILE BASE [file]. The code is at BASE (hexadecimal), memory that it may use 64 KiB behind. With "file" it
 * is mapped from a file, so that it is taken to stay what it is: then flags that are not defined are left out, since
 * the translation need not keep them. With ALARMS in the environment each is executed often, while signals arrive. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

struct state { uint64_t gpr[16], flags, masks[8]; uint8_t vector[32][64]; };
struct state in __attribute__((used)), out __attribute__((used));
uint64_t saved_stack __attribute__((used)), code_at __attribute__((used));
uint32_t controls __attribute__((used)) = 0x1f80;
static sigjmp_buf back;
static int caught, from_file;
static uint64_t fault[2];
static uint8_t *code, *arena;
enum { ARENA = 16384, CODE = 4096 };
extern void enter(void), leave(void);

__asm__(
    ".text\n.globl enter, leave\nenter:\n"
    "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rsp, saved_stack(%rip)\n fninit\n ldmxcsr controls(%rip)\n lea in(%rip), %rax\n"
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovups 200+64*\\n(%rax), %ymm\\n\n .endr\n"
    "push in+128(%rip)\n popfq\n"
    "mov in+8(%rip), %rcx\n mov in+16(%rip), %rdx\n mov in+24(%rip), %rbx\n mov in+32(%rip), %rsp\n"
    "mov in+40(%rip), %rbp\n mov in+48(%rip), %rsi\n mov in+56(%rip), %rdi\n mov in+64(%rip), %r8\n"
    "mov in+72(%rip), %r9\n mov in+80(%rip), %r10\n mov in+88(%rip), %r11\n mov in+96(%rip), %r12\n"
    "mov in+104(%rip), %r13\n mov in+112(%rip), %r14\n mov in+120(%rip), %r15\n mov in(%rip), %rax\n"
    "jmp *code_at(%rip)\n"
    "leave:\n"
    "mov %rax, out(%rip)\n mov %rcx, out+8(%rip)\n mov %rdx, out+16(%rip)\n mov %rbx, out+24(%rip)\n"
    "mov %rsp, out+32(%rip)\n mov %rbp, out+40(%rip)\n mov %rsi, out+48(%rip)\n mov %rdi, out+56(%rip)\n"
    "mov %r8, out+64(%rip)\n mov %r9, out+72(%rip)\n mov %r10, out+80(%rip)\n mov %r11, out+88(%rip)\n"
    "mov %r12, out+96(%rip)\n mov %r13, out+104(%rip)\n mov %r14, out+112(%rip)\n mov %r15, out+120(%rip)\n"
    "mov saved_stack(%rip), %rsp\n pushfq\n pop out+128(%rip)\n cld\n lea out(%rip), %rax\n"
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovups %ymm\\n, 200+64*\\n(%rax)\n .endr\n"
    "fninit\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");
/* The registers of AVX-512. */
extern void wide_in(void), wide_out(void);
__asm__(
    "wide_in: lea in(%rip), %rax\n"
    ".irp n,0,1,2,3,4,5,6,7\n kmovq 136+8*\\n(%rax), %k\\n\n .endr\n"
    ".irp n,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n vmovups 200+64*\\n(%rax), %zmm\\n\n .endr\n ret\n"
    "wide_out: lea out(%rip), %rax\n"
    ".irp n,0,1,2,3,4,5,6,7\n kmovq %k\\n, 136+8*\\n(%rax)\n .endr\n"
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n vmovups %zmm\\n, 200+64*\\n(%rax)\n .endr\n ret\n");

static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void handle(int signal, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    greg_t *g = u->uc_mcontext.gregs;
    static const int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
        REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    for (int i = 0; i < 16; i++) out.gpr[i] = g[order[i]];
    out.flags = g[REG_EFL] & ~(from_file ? 0x8d5 : 0);
    memcpy(out.vector[0], u->uc_mcontext.fpregs->_xmm, 256);
    fault[0] = g[REG_RIP] - (uint64_t)code;
    fault[1] = (uint64_t)info->si_addr;
    if (fault[1] - (uint64_t)code < 1 << 20) fault[1] -= (uint64_t)code;
    caught = signal << 8 | (info->si_code & 255);
    siglongjmp(back, 1);
}

static void alarmed(int signal, siginfo_t *info, void *context) {}

static uint64_t hash(const void *start, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const uint8_t *)start)[i]) * 0x100000001b3;
    return hash;
}

/* What a sequence begins with. */
static void prepare(uint64_t random) {
    for (int i = 0; i < ARENA / 8; i++) ((uint64_t *)arena)[i] = i % 3 ? draw(&random) : draw(&random) % 64;
    for (int i = 0; i < 16; i++) {
        uint64_t r = draw(&random);
        uint64_t kinds[] = {(uint64_t)arena + 4096 + (r >> 8 & 4095), 0, (r >> 8) % 40, r >> (r >> 3 & 31)};
        kinds[1] = kinds[0];
        in.gpr[i] = i == 4 ? (uint64_t)arena + ARENA / 2 : kinds[r % 4];
    }
    in.flags = 0x202 | (draw(&random) & 0x8d5);
    for (int i = 0; i < 8; i++) in.masks[i] = draw(&random) & draw(&random);
    for (int i = 0; i < 32 * 64 / 8; i++) ((uint64_t *)in.vector)[i] = draw(&random) >> (draw(&random) & 32);
    memset(&out, 0, sizeof out);
    caught = 0, fault[0] = fault[1] = 0;
}

/* Puts the sequence where it is executed. */
static int place(const uint8_t *bytes, uint32_t length, int fd, off_t at) {
    static uint8_t copy[CODE];
    uint8_t go[] = {0xff, 0x25, 0, 0, 0, 0};
    uint64_t to = (uint64_t)leave;
    memset(copy, 0xcc, CODE);
    memcpy(copy, bytes, length);
    memcpy(copy + length, go, 6), memcpy(copy + length + 6, &to, 8);
    if (fd >= 0) {
        int flags = MAP_PRIVATE | MAP_FIXED;
        return pwrite(fd, copy, CODE, at) == CODE && mmap(code, CODE, PROT_READ | PROT_EXEC, flags, fd, at) == code;
    }
    if (mprotect(code, CODE, PROT_READ | PROT_WRITE)) return 0;
    memcpy(code, copy, CODE);
    return !mprotect(code, CODE, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv) {
    FILE *file = fopen(argv[1], "rb");
    void *base = (void *)strtoull(argv[2], 0, 16);
    code = mmap(base, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (code == MAP_FAILED || !file) return 2;
    arena = code + 65536;
    mprotect(arena, ARENA, PROT_READ | PROT_WRITE);
    stack_t other = {.ss_sp = malloc(1 << 18), .ss_size = 1 << 18};
    sigaltstack(&other, 0);
    struct sigaction act = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    sigaddset(&act.sa_mask, SIGALRM);
    for (int i = 0; i < 5; i++) sigaction(signals[i], &act, 0);
    int times = 1;
    if (getenv("ALARMS")) {
        times = 20;
        struct sigaction alarm = {.sa_sigaction = alarmed, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
        sigaction(SIGALRM, &alarm, 0);
        struct itimerval often = {{0, 5000}, {0, 5000}};
        setitimer(ITIMER_REAL, &often, 0);
    }
    int wide = __builtin_cpu_supports("avx512bw") != 0;
    from_file = argc > 3;
    int fd = from_file ? memfd_create("code", 0) : -1;
    uint32_t length;
    for (int number = 0; fread(&length, 4, 1, file) == 1; number++) {
        uint64_t seed;
        uint8_t bytes[CODE];
        if (fread(&seed, 8, 1, file) != 1 || length > 3000 || fread(bytes, 1, length, file) != length) return 3;
        for (int time = 0; time < times; time++) {
            prepare(seed);
            if (!place(bytes, length, fd, (off_t)number * CODE)) return 4;
            code_at = (uint64_t)code;
            if (!sigsetjmp(back, 1)) {
                if (wide) wide_in();
                enter();
                if (wide) wide_out();
                if (from_file) out.flags &= ~0x10;
            }
            __asm__ volatile("fninit; ldmxcsr %0; cld" : : "m"(controls));
        }
        printf("%d %x %llx %llx ", number, caught, (long long)fault[0], (long long)fault[1]);
        printf("%016llx %016llx\n", (long long)hash(&out, sizeof out), (long long)hash(arena, ARENA));
    }
    return 0;
}
