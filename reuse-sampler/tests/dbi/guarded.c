// Hot code in memory that may be written to, changed in all the ways that a page which the observer protects must notice.
// Prints what the code computes; the argument is a file for whether pages can be, and how often one was seen to be.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TIMES
#define TIMES 400000
#endif
enum { SIZE = 4096, IMMEDIATE = 5 };
static unsigned char *before, *page, *place; // the last of some pages, and its middle
static int guarded, faults;
static long (*code)(long, void *);

// xor eax, eax; again: add rax, immediate; dec rdi; jnz again; ret
static const unsigned char adds[] = {0x31, 0xc0, 0x48, 0x83, 0xc0, 1, 0x48, 0xff, 0xcf, 0x75, 0xf7, 0xc3};
// xor eax, eax; again: mov [rsi], dil; jmp on; on: add rax, immediate; dec rdi; jnz again; ret
static const unsigned char changes_itself[] = {0x31, 0xc0, 0x40, 0x88, 0x3e, 0xeb, 0x00, 0x48, 0x83,
                                               0xc0, 1,    0x48, 0xff, 0xcf, 0x75, 0xf2, 0xc3};

static void put(const unsigned char *bytes, int length) {
    memcpy(page, bytes, length);
    code = (long (*)(long, void *))page;
}

static void heat(const char *what) {
    for (int i = 0; i < 4; i++) printf("%s %ld\n", what, code(TIMES, page));
    uint64_t entry = 0;
    int map = open("/proc/self/pagemap", O_RDONLY);
    if (pread(map, &entry, 8, (uintptr_t)page / SIZE * 8) == 8) guarded += entry >> 57 & 1;
    close(map);
}

static void anew(const char *what) {
    before = mmap(0, 4 * SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page = before + 3 * SIZE;
    place = page + SIZE / 2;
    memcpy(page + 64, changes_itself, sizeof changes_itself);
    put(adds, sizeof adds);
    heat(what);
}

static void step(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    faults++;
    mprotect((void *)((uintptr_t)info->si_addr & -SIZE), SIZE, PROT_READ | PROT_WRITE | PROT_EXEC);
}

static void count(int signal) { (void)signal, faults++; }

static pthread_barrier_t turn;
static long sum;

static void *executes(void *unused) {
    for (int i = 0; i < 6; i++) {
        pthread_barrier_wait(&turn);
        sum += code(TIMES, 0);
        pthread_barrier_wait(&turn);
    }
    return unused;
}

// What the kernel gives only once, where code is too.
static void arrivals(void) {
    anew("to be read from the middle of the page before");
    unsigned char bytes[100 + sizeof adds] = {0};
    memcpy(bytes + 100, adds, sizeof adds);
    bytes[100 + IMMEDIATE] = 17;
    int file = memfd_create("code", 0);
    if (write(file, bytes, sizeof bytes) != sizeof bytes) return;
    printf("across %zd\n", pread(file, page - 100, sizeof bytes, 0));
    heat("read across");

    bytes[100 + IMMEDIATE] = 18;
    if (pwrite(file, bytes, sizeof bytes, 0) != sizeof bytes) return;
    struct iovec pieces[] = {{bytes, 100}, {page, sizeof adds}};
    printf("in pieces %zd\n", preadv(file, pieces, 2, 0));
    heat("read in pieces");

    anew("to have an event");
    ssize_t length = read(eventfd(7, EFD_NONBLOCK), place, 8);
    printf("event %zd %ld\n", length, *(long *)place);

    anew("to have a message");
    int sockets[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets);
    write(sockets[1], "hello", 5);
    length = recv(sockets[0], place, 100, MSG_DONTWAIT);
    printf("message %zd %.5s\n", length, (char *)place);
    anew("to have a message in pieces");
    write(sockets[1], "again", 5);
    struct iovec piece = {place, 100};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
    length = recvmsg(sockets[0], &header, MSG_DONTWAIT);
    printf("message %zd %.5s\n", length, (char *)place);

    anew("to have random bytes");
    printf("random %zd\n", getrandom(page - 1000, 3000, 0));

    anew("to say how a process ended");
    fflush(stdout);
    int child = syscall(SYS_clone, SIGCHLD | CLONE_PARENT_SETTID, 0, place, 0, 0);
    if (child == 0) _exit(3);
    printf("number %d\n", *(int *)place == child);
    anew("to say it");
    length = waitpid(child, (int *)place, 0);
    printf("ended %d %x\n", length == child, *(int *)place);

    anew("to be a stack for signals");
    stack_t stack = {.ss_sp = before, .ss_size = 4 * SIZE};
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, 0);
    sigaction(SIGUSR1, &action, 0);
    if (getauxval(AT_MINSIGSTKSZ) < SIZE - 512) raise(SIGUSR1); // else the code would be overwritten
    heat("a stack");
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, 0);
}

int main(int count, char **arguments) {
    anew("new");
    for (int i = 2; i < 6; i++) {
        page[IMMEDIATE] = i;
        heat("written");
    }

    anew("to be read");
    int ends[2];
    unsigned char other[sizeof adds];
    memcpy(other, adds, sizeof adds);
    other[IMMEDIATE] = 9;
    if (pipe(ends) || write(ends[1], other, sizeof other) != sizeof other) return 1;
    printf("read %zd\n", read(ends[0], page, sizeof other));
    heat("read");

    pthread_t thread;
    pthread_barrier_init(&turn, 0, 2);
    anew("to be written by another thread");
    pthread_create(&thread, 0, executes, 0);
    for (int i = 0; i < 6; i++) {
        page[IMMEDIATE] = 20 + i;
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
    }
    pthread_join(thread, 0);
    printf("by another thread %ld\n", sum);

    anew("before fork");
    fflush(stdout);
    if (fork() == 0) {
        page[IMMEDIATE] = 7;
        _exit(code(TIMES, 0) == 7L * TIMES);
    }
    int status;
    wait(&status);
    heat("after fork");
    printf("child %d\n", WEXITSTATUS(status));
    page[IMMEDIATE] = 15;
    heat("written after fork");

    anew("to be written no longer");
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    mprotect(page, SIZE, PROT_READ | PROT_EXEC);
    heat("not writable");
    *(volatile unsigned char *)(page + IMMEDIATE) = 8;
    heat("writable again");
    printf("faults %d\n", faults);

    anew("to be written while signals are blocked");
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    page[IMMEDIATE] = 11;
    heat("signals blocked");
    sigprocmask(SIG_SETMASK, &before, 0);

    anew("to be emptied");
    madvise(page, SIZE, MADV_DONTNEED);
    printf("empty %d\n", page[IMMEDIATE]);
    other[IMMEDIATE] = 13;
    put(other, sizeof other);
    heat("emptied");

    anew("to be moved");
    unsigned char *room = mmap(0, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page = mremap(page, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    put(adds, sizeof adds);
    page[IMMEDIATE] = 14;
    heat("moved");

    anew("to change itself");
    printf("itself %ld\n", ((long (*)(long, void *))(page + 64))(20, page + 64 + 10));

    anew("to be mapped anew");
    if (mmap(page, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page) return 1;
    other[IMMEDIATE] = 16;
    put(other, sizeof other);
    heat("mapped anew");
    arrivals();
    FILE *seen = count > 1 ? fopen(arguments[1], "w") : 0;
    if (seen) fprintf(seen, "%d %d", syscall(SYS_userfaultfd, 1) >= 0, guarded), fclose(seen);
    return 5;
}
