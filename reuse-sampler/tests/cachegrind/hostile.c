// Programs that do what observers stumble over: each prints what it found and ends with a status of its own.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile long count;
static char alternate[1 << 16];

static void handle(int number, void (*handler)(int, siginfo_t *, void *)) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(number, &action, 0);
}

// Work between whatever else happens: random places of a table that does not fit into 32 KiB.
static long table[16384];
static long work(long n) {
    static unsigned long state = 1;
    long sum = 0;
    for (long i = 0; i < n; i++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        sum += table[state >> 50]++;
    }
    return sum;
}

static void leave(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    count++;
    siglongjmp(back, number);
}

// A null pointer, a jump to nowhere and a division by zero, each left by a jump out of the handler.
static int faults(void) {
    handle(SIGSEGV, leave), handle(SIGFPE, leave);
    volatile int *null = 0, zero = 0;
    void (*volatile nowhere)(void) = 0;
    for (volatile int i = 0; i < 3000; i++) {
        if (sigsetjmp(back, 1)) continue;
        work(1000);
        if (i % 3 == 0) *null = 1;
        if (i % 3 == 1) nowhere();
        zero = i / zero;
    }
    return 11;
}

static char *pages;
static void open_page(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    count++;
    mprotect((void *)((unsigned long)info->si_addr & ~4095UL), 4096, PROT_READ | PROT_WRITE);
}

// Each page is opened when it is written: the instruction is executed anew.
static int barrier(void) {
    handle(SIGSEGV, open_page);
    for (int round = 0; round < 40; round++) {
        pages = mmap(0, 200 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (long i = 0; i < 200 * 4096; i += 32) pages[i] = i;
        munmap(pages, 200 * 4096);
    }
    return 12;
}

static long deep(long n) {
    char frame[256];
    memset(frame, n, sizeof frame);
    return n ? deep(n - 1) + frame[n % 256] : 0;
}

// Returns of 10,000 calls, and a stack that overflows, which its handler learns of on a stack of its own.
static long overflow(long n) {
    volatile char frame[4096];
    frame[n % 4096] = 1;
    return overflow(n + 1) + frame[0];
}
static int recursion(void) {
    for (int i = 0; i < 60; i++) count += deep(10000);
    struct rlimit limit = {1 << 20, 1 << 20};
    handle(SIGSEGV, leave);
    if (!sigsetjmp(back, 1)) {
        setrlimit(RLIMIT_STACK, &limit);
        overflow(0);
    }
    return 13;
}

// Functions written anew before each call.
static int modifies(void) {
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 2000; i++) {
        unsigned char bytes[] = {0xb8, i, i >> 8, 0, 0, 0xc3}; // mov eax, i; ret
        memcpy(code + i % 7 * 64, bytes, sizeof bytes);
        count += ((int (*)(void))(code + i % 7 * 64))();
        count += work(1000) & 1;
    }
    return 14;
}

static void *thread(void *n) { return (void *)work((long)n); }

// Many threads, one after the other.
static int threads(void) {
    for (long i = 0; i < 400; i++) {
        pthread_t id;
        void *sum;
        if (pthread_create(&id, 0, thread, (void *)(5000 + i))) return 1;
        pthread_join(id, &sum);
        count += (long)sum & 1;
    }
    return 15;
}

// Ten GiB of which little is touched.
static int sparse(void) {
    char *memory = mmap(0, 10UL << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return 1;
    for (int pass = 0; pass < 200; pass++)
        for (unsigned long at = 0; at < 10UL << 30; at += 2UL << 20) count += ++memory[at];
    return 16;
}

// No descriptor is left but standard output.
static int descriptors(void) {
    for (int i = 0; i < 4096; i++)
        if (i != 1) close(i);
    struct rlimit limit = {3, 3};
    setrlimit(RLIMIT_NOFILE, &limit);
    count = work(2000000);
    return 17;
}

static ucontext_t first, second;
static void other(void) {
    for (;;) {
        count += 1 + (work(300) & 1);
        swapcontext(&second, &first);
    }
}

// Two stacks by turns, without the kernel's knowledge of them.
static int coroutines(void) {
    getcontext(&second);
    second.uc_stack.ss_sp = malloc(1 << 16), second.uc_stack.ss_size = 1 << 16;
    makecontext(&second, other, 0);
    for (int i = 0; i < 5000; i++) swapcontext(&first, &second);
    return 18;
}

// String instructions: none, one and many repetitions, forwards and backwards, over each other.
static int strings(void) {
    static char bytes[70000];
    for (int i = 0; i < 3000; i++) {
        char *to = bytes + 100 + i % 64, *from = bytes + 90;
        long n = i % 5 ? i % 300 : 0;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
        n = i % 40;
        to = bytes + 9000 - i % 64;
        __asm__ volatile("std; rep stosq; cld" : "+D"(to), "+c"(n) : "a"(0x0102030405060708) : "memory");
        to = bytes, n = 2000;
        __asm__ volatile("repne scasb" : "+D"(to), "+c"(n) : "a"(i & 7) : "memory", "cc");
        count += n;
    }
    return 19;
}

// Calls that nothing returns from, and returns that nothing called: each return address is pushed by hand.
static int returns(void) {
    for (int i = 0; i < 1000000; i++)
        __asm__ volatile("lea -128(%%rsp), %%rsp\n lea 1f(%%rip), %%rax\n push %%rax\n ret\n ud2\n"
                         "1: call 2f\n2: pop %%rax\n lea 128(%%rsp), %%rsp\n incq %0"
                         : "+m"(count)::"rax", "memory");
    return 20;
}

// A signal that a program sends itself, each time with a value.
static void queued(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    count += info->si_value.sival_int;
}
static int signals(void) {
    handle(SIGRTMIN, queued);
    for (int i = 0; i < 3000; i++) sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}), work(700);
    return 21;
}

// Children that have its memory until they end.
static int vforks(void) {
    for (int i = 0; i < 50; i++) {
        int status;
        pid_t child = vfork();
        if (!child) _exit(i);
        waitpid(child, &status, 0);
        count += WEXITSTATUS(status);
    }
    count += work(2000000) & 1;
    return 22;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(void);
    } programs[] = {{"faults", faults}, {"barrier", barrier}, {"recursion", recursion}, {"modifies", modifies},
                    {"threads", threads}, {"sparse", sparse}, {"descriptors", descriptors}, {"coroutines", coroutines},
                    {"strings", strings}, {"returns", returns}, {"signals", signals}, {"vforks", vforks}};
    if (argc < 2) return 1;
    if (!strcmp(argv[1], "nothing")) _exit(23);
    for (unsigned i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(argv[1], programs[i].name)) {
            int status = programs[i].run();
            printf("%s %ld\n", argv[1], count);
            return (status + count) & 127;
        }
    return 1;
}
