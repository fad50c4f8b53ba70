#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define THREADS 4
static const char *mode;
static int parts = 1; /* a run is this part of the whole one */
static long *shared_array;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(64) volatile long counters[8];
static atomic_int next_task;
static long queue[1 << 16];
static pthread_barrier_t together;
static int in_step; /* whether threads wait for each other, so that every run interleaves them alike */
static atomic_long head, tail;
static void walk(long *from, long lines, int passes, int random) {
    unsigned long state = 88172645463325252ul + (unsigned long)(from - shared_array);
    long sum = 0;
    for (int pass = 0; pass < passes; pass++)
        for (long i = 0; i < lines; i++) {
            if (in_step && i % 256 == 0) pthread_barrier_wait(&together);
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            sum += from[8 * (random ? (long)(state % (unsigned long)lines) : i)]++;
        }
    counters[7] += sum & 1;
}
static void *work(void *argument) {
    long me = (long)argument;
    const long lines = 2 << 14; /* 2 MiB */
    if (!strcmp(mode, "shared")) walk(shared_array, lines, 24 / parts, 1);
    else if (!strcmp(mode, "private")) walk(shared_array + me * 8 * lines, lines, 24 / parts, 1);
    else if (!strcmp(mode, "false_sharing")) for (long i = 0; i < 1000000 / parts; i++) counters[me]++;
    else if (!strcmp(mode, "lock")) for (int i = 0; i < 2000 / parts; i++) {
        pthread_mutex_lock(&lock);
        walk(shared_array + 512 * (i % 64), 64, 1, 0);
        pthread_mutex_unlock(&lock);
    } else if (!strcmp(mode, "producer")) {
        if (me % 2 == 0) for (long i = 0; i < 400000 / parts; i++) {
            while (atomic_load(&head) - atomic_load(&tail) >= 1 << 16) sched_yield();
            if (me == 0) { queue[atomic_load(&head) & 0xffff] = i; atomic_fetch_add(&head, 1); }
        } else if (me == 1) for (long i = 0; i < 400000 / parts; i++) {
            while (atomic_load(&head) == atomic_load(&tail)) sched_yield();
            counters[6] += queue[atomic_load(&tail) & 0xffff]; atomic_fetch_add(&tail, 1);
        }
    } else for (int task; (task = atomic_fetch_add(&next_task, 1)) < 256 / parts;)
        walk(shared_array + (task % 64) * 8 * 1024, 1024, 4, task & 1);
    return 0;
}
int main(int count, char **arguments) {
    mode = arguments[1];
    if (count > 2) parts = atoi(arguments[2]);
    shared_array = aligned_alloc(4096, 8ul << 20);
    memset(shared_array, 0, 8ul << 20);
    pthread_barrier_init(&together, 0, THREADS);
    in_step = !strcmp(mode, "shared") || !strcmp(mode, "private");
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    return 0;
}
