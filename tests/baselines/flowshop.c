/* Flow shop branch and bound in plain C, to measure the suite's own search against: recursive, one thread, one child
 * after the other, bounded by LB1 with tails from its parent's front and remaining times.
 *
 *     gcc -O3 -march=native flowshop.c -o flowshop
 *     ./flowshop MACHINES SEED OPTIMUM
 *
 * The instance is drawn by Taillard's generator from its seed. Prints nodes and seconds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { JOBS = 20, MOST = 20 };

static int machines, optimum, times[JOBS][MOST], tails[MOST];
static long nodes;

static inline int larger(int a, int b) { return a > b ? a : b; }

static void search(uint32_t waiting, const int front[MOST], const int remain[MOST]) {
    for (uint32_t rest = waiting; rest; rest &= rest - 1) {
        int job = __builtin_ctz(rest), ended[MOST], left[MOST], end = 0, busy = 0, bound = 0;
        for (int m = 0; m < machines; m++) {
            ended[m] = end = larger(end, front[m]) + times[job][m];
            left[m] = remain[m] - times[job][m];
            busy = larger(busy, end + left[m]);
            bound = larger(bound, busy + tails[m]);
        }
        if (bound >= optimum) continue;
        nodes++;
        search(waiting ^ 1u << job, ended, left);
    }
}

int main(int count, char **arguments) {
    machines = count == 4 ? atoi(arguments[1]) : 0;
    if (machines < 1 || machines > MOST) {
        fprintf(stderr, "usage: flowshop MACHINES SEED OPTIMUM, up to %d machines\n", MOST);
        return 2;
    }
    int64_t seed = atoll(arguments[2]);
    optimum = atoi(arguments[3]);
    int front[MOST] = {0}, remain[MOST] = {0};
    for (int m = 0; m < machines; m++)
        for (int job = 0; job < JOBS; job++) {
            seed = 16807 * seed % 2147483647;
            times[job][m] = 1 + (int)(99 * seed / 2147483647);
            remain[m] += times[job][m];
        }
    for (int m = 0; m < machines; m++) {
        tails[m] = 99 * MOST;
        for (int job = 0; job < JOBS; job++) {
            int after = 0;
            for (int k = m + 1; k < machines; k++) after += times[job][k];
            if (after < tails[m]) tails[m] = after;
        }
    }
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    search((1u << JOBS) - 1, front, remain);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%ld %.6f\n", nodes, end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec));
    return 0;
}
