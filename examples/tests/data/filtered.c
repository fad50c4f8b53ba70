/* Installs a system call filter half-way, from where on it is not observed. Exits with status 3. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static long words[100000];

static long sum(int rounds) {
    long all = 0;
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < 100000; i++) all += words[i]++;
    return all;
}

int main(void) {
    volatile long all = sum(20);
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {1, allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 1;
    all += sum(20);
    return all == 0 ? 2 : 3;
}
