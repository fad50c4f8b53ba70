// Writes which levels its processor has, for itself, a copy of itself and a program that the copy executes.
#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned features(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __cpuid_count(7, 0, a, b, c, d);
  return b;
}

static volatile unsigned long interrupted, differing;
static unsigned first;

static void handle(int signal) {
  interrupted++;
  differing += features() != first;
}

int main(int argc, char **argv) {
  // What the instruction does not answer in stays.
  unsigned char carry;
  unsigned long others;
  __asm__ volatile("xor %%eax, %%eax\n mov $7, %%r8\n mov $30, %%r15\n mov $200, %%esi\n stc\n cpuid\n setc %0\n"
                   "mov %%r8, %1\n add %%r15, %1\n add %%rsi, %1\n mov %%eax, %%eax\n cmp $7, %%rax\n jae 1f\n xor %1, %1\n1:"
                   : "=&q"(carry), "=&r"(others)::"rax", "rbx", "rcx", "rdx", "r8", "r15", "rsi", "cc");
  first = features();
  struct sigaction action = {.sa_handler = handle};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval timer = {{0, 300}, {0, 300}};
  setitimer(ITIMER_REAL, &timer, NULL);
  for (int i = 0; i < 300 || interrupted < 3; i++) differing += features() != first;
  timer.it_value.tv_usec = 0;
  setitimer(ITIMER_REAL, &timer, NULL);
  FILE *file = fopen(argv[1], "a");
  fprintf(file, "%d%d%d %d %lu %lu\n", __builtin_cpu_supports("x86-64-v2") != 0, __builtin_cpu_supports("x86-64-v3") != 0,
          __builtin_cpu_supports("x86-64-v4") != 0, carry, others, differing);
  fclose(file);
  if (argc > 2) return 0;
  if (fork() == 0) execl(argv[0], argv[0], argv[1], "again", NULL);
  wait(NULL);
  return 0;
}
