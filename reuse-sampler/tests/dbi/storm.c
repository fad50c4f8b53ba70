// Signals for threads that are in handlers of others, or about to return from them, and faults that come with them on an
// alternate stack.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

enum { SIGNALS = 1000, FAULTS = 300 };
static volatile int handled, stop;
static volatile long turns;
static char *page, stack[65536];

static void on(int signal) { __sync_fetch_and_add(&handled, signal == SIGUSR1); }
static void fault(int signal) { (void)signal; mprotect(page, 4096, PROT_READ | PROT_WRITE); }
static void *spins(void *n) {
    while (!stop) turns++;
    return n;
}
static void often(long microseconds) {
    struct itimerval interval = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &interval, 0);
}

int main(int count, char **words) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, 0);
    struct sigaction action = {.sa_handler = on, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGALRM, &action, 0);
    action.sa_handler = fault;
    sigaction(SIGSEGV, &action, 0);
    if (count > 1) {
        page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        // Far faster than can be observed, or not.
        often(strcmp(words[1], "hurry") ? 1000 : 40);
        for (int i = 0; i < FAULTS; i++) {
            mprotect(page, 4096, PROT_NONE);
            page[100] = (char)i;
            for (int k = 0; k < 1000; k++) turns++;
        }
    } else {
        often(1000);
        pthread_t spinning[2];
        for (long i = 0; i < 2; i++) pthread_create(&spinning[i], 0, spins, 0);
        for (int i = 0; i < SIGNALS; i++) {
            int before = handled;
            pthread_kill(spinning[i % 2], SIGUSR1);
            while (handled == before) usleep(50);
        }
        stop = 1;
        for (int i = 0; i < 2; i++) pthread_join(spinning[i], 0);
    }
    often(0);
    printf("%d\n", handled);
}
