// Code that is written, executed and written anew, in memory that is writable meanwhile, by two threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static void *works(void *seed) {
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // add to rdi by an immediate, so many times, then return it; and flags that the next block reads
    long total = 0;
    unsigned state = (unsigned)(long)seed;
    for (int round = 0; round < 300; round++) {
        int length = 0, adds = 1 + (state = state * 1103515245 + 12345) % 20;
        for (int i = 0; i < adds; i++) {
            unsigned char add[] = {0x48, 0x81, 0xc7, (unsigned char)(state >> 8), (unsigned char)i, 0, 0}; // add rdi, imm
            memcpy(code + length, add, sizeof add);
            length += sizeof add;
        }
        unsigned char rest[] = {0x48, 0x89, 0xf8, 0x48, 0x39, 0xf7, 0xeb, 0x00, // mov rax, rdi; cmp rdi, rsi; jmp on
                                0x0f, 0x92, 0xc1, 0x0f, 0xb6, 0xc9, 0x48, 0x01, 0xc8, 0xc3}; // setb cl; movzx ecx, cl; add rax, rcx; ret
        memcpy(code + length, rest, sizeof rest);
        for (int call = 0; call < 20; call++) total += ((long (*)(long, long))code)(round, call * 1000);
        code[3] ^= 1; // in place
        total += ((long (*)(long, long))code)(round, 5);
        // xor eax, eax; mov esi, [rax], over which the handler steps; then with the processor checking alignment
        unsigned char faults[] = {0x31, 0xc0, 0x8b, 0x30, 0xff, 0xc0, 0x9c, 0x81, 0x0c, 0x24, 0, 0, 4, 0, 0x9d, 0xeb, 0x00,
                                  0x83, 0xc0, 0x11, 0x9c, 0x81, 0x24, 0x24, 0xff, 0xff, 0xfb, 0xff, 0x9d, 0xc3};
        memcpy(code + 1, faults, sizeof faults);
        total += ((int (*)(void))(code + 1))();
    }
    munmap(code, 4096);
    return (void *)total;
}

static void step(int signal, siginfo_t *info, void *context) {
    if (info->si_addr == 0) ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
    else _exit(signal);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, works, (void *)i);
    for (int i = 0; i < 2; i++) {
        void *total;
        pthread_join(threads[i], &total);
        printf("%ld\n", (long)total);
    }
    return 6;
}
