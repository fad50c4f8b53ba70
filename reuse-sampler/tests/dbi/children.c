// Children in all ways: forked, sharing memory, executed, killed, handled, orphaned.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile int ended, shared_by_vfork, usr;
static volatile long sum;

static void on_child(int signal) { (void)signal; ended++; }
static void on_user(int signal) { (void)signal; usr++; }

static void work(long n) { for (long i = 0; i < n; i++) sum += i ^ sum; }

static int status_of(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

static int counted(void *argument) { work(*(long *)argument); _exit(7); }

static void *forking(void *argument) {
    long number = (long)argument;
    for (int i = 0; i < 5; i++) {
        pid_t pid = fork();
        if (pid == 0) { work(20000); _exit(10 + (int)number); }
        int status = status_of(pid);
        if (WEXITSTATUS(status) != 10 + number) printf("thread %ld: %x\n", number, status);
    }
    return NULL;
}

int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "child")) {
        work(100000);
        struct sigaction action;
        sigaction(SIGUSR1, NULL, &action);
        printf("executed: %s, %s\n", words[2], action.sa_handler == SIG_DFL ? "default" : "kept");
        return 3;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    action.sa_handler = on_user;
    sigaction(SIGUSR1, &action, NULL);

    pid_t pid = fork();
    if (pid == 0) { raise(SIGUSR1); work(300000); _exit(usr == 1 ? 1 : 99); }
    printf("forked: %x\n", status_of(pid));

    pid = vfork();
    if (pid == 0) { shared_by_vfork = 42; _exit(2); }
    printf("vfork: %x, wrote %d\n", status_of(pid), shared_by_vfork);

    char *arguments[] = {words[0], "child", "spawned", NULL};
    int failed = posix_spawn(&pid, words[0], NULL, NULL, arguments, environ);
    printf("spawned: %d, %x\n", failed, status_of(pid));
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGUSR1);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    arguments[2] = "with defaults";
    failed = posix_spawn(&pid, words[0], NULL, &attributes, arguments, environ);
    printf("spawned: %d, %x\n", failed, status_of(pid));
    failed = posix_spawn(&pid, "/nonexistent", NULL, NULL, arguments, environ);
    printf("spawn failed: %s\n", strerror(failed));
    raise(SIGUSR1); // the parent's handler is still there
    printf("handled: %d\n", usr);

    pid = fork();
    if (pid == 0) { execl(words[0], words[0], "child", "forked and executed", NULL); _exit(127); }
    printf("status: %x\n", status_of(pid));
    pid = fork();
    if (pid == 0) { execl("/nonexistent", "x", NULL); work(100000); _exit(errno == ENOENT ? 5 : 6); }
    printf("not executed: %x\n", status_of(pid));
    // Killed once it has begun, however long that takes here.
    int begun[2];
    char note = 0;
    if (pipe(begun)) return 1;
    pid = fork();
    if (pid == 0) { if (write(begun[1], &note, 1) != 1) _exit(1); for (;;) work(1000); }
    while (read(begun[0], &note, 1) < 0) {}
    kill(pid, SIGKILL);
    printf("killed: %x\n", status_of(pid));
    pid = vfork();
    if (pid == 0) { kill(getpid(), SIGKILL); _exit(0); }
    printf("killed while sharing: %x\n", status_of(pid));
    pid = fork();
    if (pid == 0) abort();
    printf("aborted: %x\n", status_of(pid) & 0x7f);

    long n = 50000;
    static char stack[65536] __attribute__((aligned(16)));
    pid = clone(counted, stack + sizeof stack, SIGCHLD, &n);
    printf("on a stack of its own: %x\n", status_of(pid));
    pid = clone(counted, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &n);
    printf("the same, sharing: %x\n", status_of(pid));

    siginfo_t info;
    pid = fork();
    if (pid == 0) _exit(77);
    while (waitid(P_PID, pid, &info, WEXITED) < 0 && errno == EINTR) {}
    printf("waitid: %d %d\n", info.si_code, info.si_status);

    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, forking, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    FILE *sorter = popen("sort -r | head -2", "w");
    for (int i = 0; i < 1000; i++) fprintf(sorter, "%d\n", i);
    printf("pipeline: %d\n", pclose(sorter));

    int begin[2], end[2];
    char byte = 0;
    if (pipe(begin) || pipe(end)) return 1;
    pid_t grandparent = fork();
    if (grandparent == 0) {
        if (fork() == 0) {
            setsid();
            while (read(begin[0], &byte, 1) < 0) {}
            work(200000);
            printf("orphan\n");
            _exit(0);
        }
        _exit(0);
    }
    printf("parent of an orphan: %x\n", status_of(grandparent));
    close(end[1]);
    if (write(begin[1], &byte, 1) != 1) return 1;
    while (read(end[0], &byte, 1) < 0) {} // until the orphan has ended
    printf("children: %s\n", ended > 5 ? "many" : "few");
    return 9;
}
