// Four parts: a search tree, a stencil, and short and long copies, fills or scans, each by one instruction.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { N = 1 << 12, S = 1 << 14, BLOCK = 1 << 13, BLOCKS = 16 };
static unsigned state = 7;
static unsigned draw(void) { return (state = state * 1664525u + 1013904223u) >> 8; }
struct node { struct node *child[2]; unsigned key; };
static char blocks[BLOCKS + 1][BLOCK];
static float a[S], b[S];
int main(int argc, char **argv) {
    int turns = atoi(argv[1]), kind = argv[2][0];
    long sum = 0;
    struct node *root = 0;
    for (int k = 0; k < turns * N; k++) {
        unsigned key = draw() % N;
        struct node **at = &root;
        while (*at && (*at)->key != key) at = &(*at)->child[key > (*at)->key];
        if (!*at) { *at = calloc(1, sizeof **at); (*at)->key = key; }
        sum += (*at)->key;
    }
    for (int turn = 0; turn < 8 * turns; turn++)
        for (int i = 1; i < S - 1; i++) b[i] = a[i - 1] * 0.3f + a[i] * 0.4f + a[i + 1] * 0.3f + turn, a[i] = b[i - 1];
    for (int k = 0; k < turns * 6000; k++) {
        char *to = blocks[draw() % BLOCKS], *from = blocks[draw() % BLOCKS];
        // Short ones, then long ones, by the same code.
        long n = k < turns * 4000 ? 40 : BLOCK - draw() % 256;
        for (int i = 0; i < 40; i++) sum += to[draw() % BLOCK];
        if (kind == 'c') __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
        else if (kind == 'f') __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(0) : "memory");
        else if (kind == 's') __asm__ volatile("repne scasb" : "+D"(to), "+c"(n) : "a"(255) : "memory", "cc");
        else sum += to[n] + from[0];
        sum += n;
    }
    printf("%ld\n", sum + (long)b[5]);
}
