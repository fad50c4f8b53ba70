// Faults, a timer that interrupts a loop, an interrupted sleep, an alternate stack, a jump out of a handler.
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int ticks, faults;
static char *page;

static void tick(int signal) { ticks++; }

static void fault(int signal, siginfo_t *info, void *context) {
    faults++;
    if (info->si_addr == page) {
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
        return;
    }
    siglongjmp(back, 1);
}

static void skip(int signal, siginfo_t *info, void *context) {
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
    faults++;
}

int main(void) {
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, 0);
    struct sigaction a = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;
    sigaction(SIGSEGV, &a, 0);
    sigaction(SIGSEGV, 0, &old);
    printf("%d %x\n", old.sa_sigaction == fault, old.sa_flags);

    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long value = 41;
    __asm__ volatile("mov %1, %%rbx\n add %2, (%%rbx)\n mov (%%rbx), %0"
                     : "+r"(value) : "r"(page), "r"(7L) : "rbx", "memory");
    printf("repaired: %ld, %d faults\n", value, faults);
    if (sigsetjmp(back, 1) == 0) {
        *(volatile int *)8 = 1;
        puts("never");
    }
    printf("jumped out: %d faults\n", faults);
    struct sigaction u = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &u, 0);
    __asm__ volatile("ud2");
    printf("skipped: %d faults\n", faults);

    struct sigaction t = {.sa_handler = tick};
    sigaction(SIGALRM, &t, 0);
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}}, once = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &every, 0);
    unsigned long sum = 0;
    while (ticks < 30)
        for (int i = 0; i < 1000; i++) sum += i * sum + 1;
    setitimer(ITIMER_REAL, &never, 0);
    printf("ticks %d\n", ticks >= 30);

    t.sa_flags = SA_RESETHAND;
    sigaction(SIGALRM, &t, 0);
    setitimer(ITIMER_REAL, &once, 0);
    int before = ticks, result = usleep(5000000);
    printf("sleep %d %d %d\n", result, errno == EINTR, ticks - before);
    sigaction(SIGALRM, 0, &old);
    printf("reset %d\n", old.sa_handler == SIG_DFL);

    int ends[2];
    char byte;
    if (pipe(ends)) return 1;
    t.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &t, 0);
    if (fork() == 0) {
        usleep(60000);
        if (write(ends[1], "x", 1) != 1) return 1;
        _exit(0);
    }
    setitimer(ITIMER_REAL, &once, 0);
    before = ticks;
    result = read(ends[0], &byte, 1);
    printf("restarted %d %d\n", result, ticks - before);

    sigset_t set, empty;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigemptyset(&empty);
    sigprocmask(SIG_BLOCK, &set, 0);
    t.sa_flags = 0;
    sigaction(SIGUSR1, &t, 0);
    before = ticks;
    kill(getpid(), SIGUSR1);
    printf("blocked %d\n", ticks - before);
    sigsuspend(&empty);
    sigprocmask(SIG_BLOCK, 0, &set);
    printf("suspended %d %d\n", ticks - before, sigismember(&set, SIGUSR1));
    fflush(stdout);
    return 9;
}
