/* UTS in straightforward C, to measure the suite's own search against: recursive, one thread, one node after the other.
 *
 *     gcc -O3 -march=native uts.c -o uts -lm
 *     ./uts T1L
 *
 * Prints nodes, leaves, depth of the deepest node, and seconds. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_CHILDREN = 100 };

struct node {
    uint32_t state[5];
};

/* Geometric trees of the fixed shape: b children on the average above the depth `levels`. Binomial trees: the root has b
 * children, every other node `many` with the probability q. */
static const struct tree {
    const char *name;
    int seed;
    double b;
    int levels;
    double q;
    int many;
} trees[] = {
    {"T1", 19, 4, 10, 0, 0},
    {"T3", 42, 2000, 0, 0.124875, 8},
    {"T1L", 29, 4, 13, 0, 0},
    {"T3L", 7, 2000, 0, 0.200014, 5},
    {"T1XL", 29, 4, 15, 0, 0},
};
static struct tree tree;
static long nodes, leaves;
static int deepest;

static inline uint32_t rotate(uint32_t x, int n) { return x << n | x >> (32 - n); }

/* SHA-1 of one block, FIPS 180-4; the message is shorter than 56 bytes and already padded. The rounds are unrolled and
 * the schedule keeps its last 16 words only, as public C versions have it: gcc then keeps both in registers. */
#define ROUND(t, f, k) \
    do { \
        if (t >= 16) w[t & 15] = rotate(w[(t - 3) & 15] ^ w[(t - 8) & 15] ^ w[(t - 14) & 15] ^ w[t & 15], 1); \
        uint32_t sum = rotate(a, 5) + (f) + e + k + w[t & 15]; \
        e = d, d = c, c = rotate(b, 30), b = a, a = sum; \
    } while (0)

static void sha1(const uint32_t message[16], uint32_t digest[5]) {
    uint32_t w[16], a = 0x67452301, b = 0xEFCDAB89, c = 0x98BADCFE, d = 0x10325476, e = 0xC3D2E1F0;
    memcpy(w, message, 64);
#pragma GCC unroll 20
    for (int t = 0; t < 20; t++) ROUND(t, d ^ (b & (c ^ d)), 0x5A827999);
#pragma GCC unroll 20
    for (int t = 20; t < 40; t++) ROUND(t, b ^ c ^ d, 0x6ED9EBA1);
#pragma GCC unroll 20
    for (int t = 40; t < 60; t++) ROUND(t, (b & c) | (d & (b | c)), 0x8F1BBCDC);
#pragma GCC unroll 20
    for (int t = 60; t < 80; t++) ROUND(t, b ^ c ^ d, 0xCA62C1D6);
    digest[0] = a + 0x67452301, digest[1] = b + 0xEFCDAB89, digest[2] = c + 0x98BADCFE;
    digest[3] = d + 0x10325476, digest[4] = e + 0xC3D2E1F0;
}

static void spawn(const struct node *parent, uint32_t number, struct node *child) {
    uint32_t message[16] = {0};
    memcpy(message, parent->state, 20);
    message[5] = number, message[6] = 0x80000000, message[15] = 24 * 8;
    sha1(message, child->state);
}

static int children_of(const struct node *node, int depth) {
    double u = (node->state[4] & 0x7fffffff) / 2147483648.0;
    if (tree.many) return depth == 0 ? (int)tree.b : u < tree.q ? tree.many : 0;
    double b = depth < tree.levels ? tree.b : 0;
    int children = (int)floor(log(1 - u) / log(1 - 1 / (1 + b)));
    return children < MAX_CHILDREN ? children : MAX_CHILDREN;
}

static void search(const struct node *node, int depth) {
    nodes++;
    if (depth > deepest) deepest = depth;
    int children = children_of(node, depth);
    if (children == 0) leaves++;
    for (int i = 0; i < children; i++) {
        struct node child;
        spawn(node, i, &child);
        search(&child, depth + 1);
    }
}

int main(int count, char **arguments) {
    for (size_t i = 0; count == 2 && i < sizeof trees / sizeof *trees; i++)
        if (strcmp(arguments[1], trees[i].name) == 0) tree = trees[i];
    if (!tree.name) {
        fprintf(stderr, "usage: uts T1|T3|T1L|T3L|T1XL\n");
        return 2;
    }
    struct node root;
    uint32_t message[16] = {0};
    message[4] = tree.seed, message[5] = 0x80000000, message[15] = 20 * 8;
    sha1(message, root.state);

    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    search(&root, 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec);
    printf("%ld %ld %d %.6f\n", nodes, leaves, deepest, seconds);
    return 0;
}
