// Children under job control, and one whose parent sleeps until it is through.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long sum;

static void work(long n) { for (long i = 0; i < n; i++) sum += i ^ sum; }

static int status_of(pid_t pid, int options) {
    int status = -1;
    while (waitpid(pid, &status, options) < 0 && errno == EINTR) {}
    return status;
}

static void *executes(void *path) {
    execl(path, path, "executed by a thread", (char *)0);
    return NULL;
}

int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "sleeps")) {
        // Until its standard input ends.
        char byte;
        pid_t pid = vfork();
        if (pid == 0) { while (read(0, &byte, 1) > 0) {} _exit(4); }
        return WEXITSTATUS(status_of(pid, 0));
    }
    if (count > 1 && !strcmp(words[1], "forks")) {
        // For ever, until a child does not end as it should.
        for (;;) {
            pid_t pid = fork();
            if (pid == 0) { work(300000); _exit(3); }
            work(100000);
            int status = status_of(pid, 0);
            if (status != 3 << 8) return 9;
            pid = vfork();
            if (pid == 0) { execl(words[0], words[0], "executed", (char *)0); _exit(127); }
            status = status_of(pid, 0);
            if (status != 5 << 8) return 9;
        }
    }
    if (count > 1) { work(300000); return 5; }
    setvbuf(stdout, NULL, _IOLBF, 0);

    // The child goes on until its parent has seen it go on.
    int seen[2];
    char byte = 0;
    if (pipe(seen) != 0) return 8;
    pid_t pid = fork();
    if (pid == 0) { work(100000); raise(SIGSTOP); work(100000); _exit(read(seen[0], &byte, 1) == 1 ? 2 : 7); }
    printf("stopped: %x\n", status_of(pid, WUNTRACED));
    work(1000000);
    kill(pid, SIGCONT);
    printf("continued: %x\n", status_of(pid, WCONTINUED));
    if (write(seen[1], &byte, 1) != 1) return 8;
    printf("ended: %x\n", status_of(pid, 0));

    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        for (int i = 0; i < 2; i++) if (fork() == 0) for (;;) pause();
        for (;;) pause();
    }
    setpgid(pid, pid);
    work(3000000);
    kill(-pid, SIGTSTP);
    printf("group stopped: %x\n", status_of(pid, WUNTRACED));
    kill(-pid, SIGTERM);
    kill(-pid, SIGCONT);
    printf("group ended: %x\n", status_of(pid, 0));

    pid = fork();
    if (pid == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, executes, words[0]);
        for (;;) work(1000);
    }
    printf("executed by a thread: %x\n", status_of(pid, 0));
    pid = fork();
    if (pid == 0) { if (fork() == 0) { usleep(100000); work(1000000); _exit(0); } _exit(6); }
    printf("parent of an orphan: %x\n", status_of(pid, 0));
    for (int i = 0; i < 40; i++) {
        pid = fork();
        if (pid == 0) { kill(getpid(), i % 2 ? SIGKILL : SIGSEGV); _exit(0); }
        int status = status_of(pid, 0) & 0x7f;
        if (status != (i % 2 ? SIGKILL : SIGSEGV)) printf("%d: %x\n", i, status);
    }
    return 8;
}
