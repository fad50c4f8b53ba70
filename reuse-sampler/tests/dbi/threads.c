// Threads that begin and end, wait, sort, are signalled, load libraries and replace code while others run.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static long total, turns;
static volatile int handled, stop;
static __thread long own;

static void on(int signal) { __sync_fetch_and_add(&handled, signal == SIGUSR1); }

// One after the other: two that wait at once count as one.
static void signals(pthread_t thread) {
    int before = handled;
    pthread_kill(thread, SIGUSR1);
    while (handled == before) usleep(100);
}

static void *brief(void *n) {
    own = (long)n;
    pthread_mutex_lock(&mutex);
    total += own;
    pthread_mutex_unlock(&mutex);
    return (void *)own;
}

static void *spins(void *n) {
    for (unsigned long x = (long)n; !stop;) {
        x = x * 31 + 1;
        if (x % 1000 == 0) {
            pthread_mutex_lock(&mutex);
            turns++;
            pthread_mutex_unlock(&mutex);
        }
    }
    return 0;
}

static void *waits(void *n) {
    pthread_mutex_lock(&mutex);
    while (!stop) pthread_cond_wait(&over, &mutex);
    pthread_mutex_unlock(&mutex);
    return n;
}

static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }

static void *sorts(void *n) {
    int *values = malloc(40000);
    unsigned state = (unsigned)(long)n;
    for (int i = 0; i < 10000; i++) values[i] = (state = state * 1103515245 + 12345) >> 8;
    qsort(values, 10000, 4, compare);
    long middle = values[5000];
    free(values);
    return (void *)middle;
}

int main(int count, char **arguments) {
    puts("begun");
    fflush(stdout);
    struct sigaction action = {.sa_handler = on};
    sigaction(SIGUSR1, &action, 0);
    // Signals for whichever thread it is, all the time.
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &often, 0);
    pthread_t many[40], spinning[3], waiting[3];
    for (long i = 0; i < 3; i++) {
        pthread_create(&spinning[i], 0, spins, (void *)i);
        pthread_create(&waiting[i], 0, waits, 0);
    }
    for (int round = 0; round < 10; round++) {
        for (long i = 0; i < 40; i++) pthread_create(&many[i], 0, brief, (void *)i);
        for (int i = 0; i < 40; i++) pthread_join(many[i], 0);
        void *library = dlopen("libm.so.6", RTLD_NOW);
        total += (long)((double (*)(double))dlsym(library, "cbrt"))(27.5);
        dlclose(library);
        signals(spinning[round % 3]);
        signals(waiting[round % 3]);
        unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        unsigned char code[] = {0xb8, (unsigned char)round, 0, 0, 0, 0xc3}; // mov eax, round; ret
        memcpy(page, code, sizeof code);
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        total += ((int (*)(void))page)();
        munmap(page, 4096);
        if (round % 3 == 0) {
            pid_t child = fork();
            if (!child) _exit(round);
            int status;
            waitpid(child, &status, 0);
            total += WEXITSTATUS(status);
        }
    }
    long sum = 0;
    for (long i = 0; i < 40; i++) pthread_create(&many[i], 0, sorts, (void *)i);
    for (int i = 0; i < 40; i++) {
        void *middle;
        pthread_join(many[i], &middle);
        sum += (long)middle;
    }
    printf("%ld %ld %d\n", total, sum, handled);
    fflush(stdout);
    if (count > 1 && *arguments[1] == 'g') exit(8); // while the others spin and wait
    stop = 1;
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&over);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 3; i++) {
        pthread_join(spinning[i], 0);
        pthread_join(waiting[i], 0);
    }
    if (count > 1) {
        pthread_create(&many[0], 0, sorts, 0);
        pthread_exit(0); // the last thread ends the program
    }
    return 7;
}
