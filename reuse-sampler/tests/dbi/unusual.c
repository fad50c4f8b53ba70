// What few programs do: jumps to where there is no code, instructions of the kernel's, other bases of FS, flags from the stack.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

static volatile long count;
static sigjmp_buf back;
static siginfo_t last;
static greg_t registers[NGREG];

static void handle(int number, siginfo_t *info, void *context) {
    count++;
    last = *info;
    memcpy(registers, ((ucontext_t *)context)->uc_mcontext.gregs, sizeof registers);
    unsigned long page = (unsigned long)info->si_addr & ~4095UL;
    if (page < 0x70000000 || page >= 0x71000000) siglongjmp(back, 1);
    unsigned char code[] = {0xb8, page >> 12, page >> 20, 0, 0, 0xc3}; // mov eax, its number; ret
    memcpy(mmap((void *)page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), code,
           sizeof code);
    mprotect((void *)page, 4096, PROT_READ | PROT_EXEC);
}

// Some bring the code, as a loader on demand does; others are left by a long jump.
static void nowhere(void) {
    static char data[8192];
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    long sum = 0;
    for (int round = 0; round < 3; round++)
        for (unsigned long page = 0x70000000; page < 0x70020000; page += 4096) sum += ((int (*)(void))page)();
    printf("%ld %ld\n", sum, count);
    void *places[] = {0, (void *)0x1234, data, (void *)0x123456789000, (void *)0xffff888000000000};
    for (volatile int i = 0; i < 50; i++) {
        void *place = places[i % 5];
        if (!sigsetjmp(back, 1)) ((void (*)(void))place)();
        if (i < 5)
            printf("%x %d %llx %lld %d %d\n", last.si_code, last.si_addr == place, registers[REG_ERR],
                   registers[REG_TRAPNO], registers[REG_CR2] == (long)place, registers[REG_RIP] == (long)place);
    }
    printf("%ld\n", count);
}

// Places of an array as the thread's own memory, by turns with what that is.
static void bases(void) {
    static long array[64];
    unsigned long own;
    long sum = 0;
    __asm__ volatile("rdfsbase %0" : "=r"(own));
    for (int i = 0; i < 20000; i++) {
        long value;
        __asm__ volatile("wrfsbase %1\n mov %%fs:24, %0\n addq $1, %%fs:8\n wrfsbase %2"
                         : "=&r"(value)
                         : "r"(array + i % 32), "r"(own)
                         : "memory", "cc");
        sum += value;
    }
    for (int i = 0; i < 64; i++) sum += array[i] * i;
    printf("%ld\n", sum);
}

static void flags(void) {
    long sum = 0;
    for (long i = 0; i < 20000; i++) {
        long less;
        __asm__ volatile("cmp $5000, %1\n pushfq\n xor %%eax, %%eax\n popfq\n setl %%al\n mov %%rax, %0"
                         : "=r"(less)
                         : "r"(i)
                         : "rax", "cc");
        sum += less;
    }
    printf("%ld\n", sum);
}

// Instructions that only the kernel may execute.
static void privileged(void) {
    for (volatile int i = 0; i < 100; i++) {
        if (sigsetjmp(back, 1)) continue;
        if (i % 2) __asm__ volatile("hlt");
        else __asm__ volatile("mov %%cr0, %%rax" ::: "rax");
    }
    printf("%ld %x\n", count, last.si_code);
}

int main(void) {
    nowhere();
    privileged();
    if (__builtin_cpu_supports("avx2")) bases(); // processors before it have no such instruction
    flags();
    return 5;
}
