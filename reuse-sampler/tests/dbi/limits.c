// Limits that a program sets itself, and what it is then given.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void addresses(const char *what) {
    struct rlimit limit, same;
    getrlimit(RLIMIT_AS, &limit);
    prlimit(getpid(), RLIMIT_AS, 0, &same);
    printf("%s: %ld %ld, %d\n", what, (long)limit.rlim_cur, (long)limit.rlim_max, !memcmp(&limit, &same, sizeof limit));
}

int main(void) {
    setbuf(stdout, 0);
    mlockall(MCL_CURRENT); // refused where little may be locked
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "VmRSS:", 6)) printf("little in memory: %d\n", atol(line + 6) < 200000);
    munlockall();

    addresses("before");
    struct rlimit limit = {512 << 20, 3L << 30}, before;
    printf("%d\n", setrlimit(RLIMIT_AS, &limit));
    printf("as it was: %ld %ld\n", (long)limit.rlim_cur, (long)limit.rlim_max);
    addresses("limited");
    printf("room: %d %d\n", malloc(100 << 20) != 0, malloc(600 << 20) != 0);
    limit.rlim_cur = limit.rlim_max = 600 << 20;
    printf("%d %d\n", prlimit(0, RLIMIT_AS, &limit, &before), before.rlim_max == 3L << 30);
    addresses("limited again");
    printf("too much: %d\n", malloc(550 << 20) != 0);
    if (!fork()) {
        addresses("child");
        _exit(malloc(50 << 20) ? 9 : 1);
    }
    int end;
    wait(&end);
    printf("%x\n", end);
    execl("/bin/sh", "sh", "-c", "ulimit -v; (ulimit -v 500000; ls / > /dev/null; echo $?; ulimit -v); exit 7", (char *)0);
}
