/* N-Queens in plain C, to measure the suite's own search against: one thread, one state after the other, each of the
 * eight images of a solution searched once.
 *
 *     gcc -O3 -march=native nqueens.c -o nqueens
 *     ./nqueens 16
 *
 * Of the queens on the four borders, none is nearer to a corner than the first row's, or a turned or mirrored board is
 * searched instead. Where another is just as near, the whole board is compared with its images. A state is only entered
 * if the row below it has a free square. Prints solutions and seconds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 24 };

static int queens, near; /* the board's side; how far the first row's queen is from its corner */
static uint32_t board, sides, allowed[MOST + 1];
static int column_of[MOST];
static long solutions;

/* How many boards the images of this one are; 0 if an image comes before it in the order of the rows' columns. */
static int images(void) {
    int row_of[MOST], same = 0, last = queens - 1;
    for (int row = 0; row < queens; row++) row_of[column_of[row]] = row;
    for (int image = 0; image < 8; image++) {
        int order = 0;
        for (int row = 0; row < queens && order == 0; row++) {
            int from = image & 1 ? last - row : row;
            int column = image & 4 ? row_of[from] : column_of[from];
            order = (image & 2 ? last - column : column) - column_of[row];
        }
        if (order < 0) return 0;
        same += order == 0;
    }
    return 8 / same;
}

static int another_is_as_near(void) {
    int last = queens - 1, far = last - near;
    return column_of[near] == 0 || column_of[near] == last || column_of[far] == 0 || column_of[far] == last ||
           column_of[last] == near || column_of[last] == far;
}

static void place(int row, uint32_t columns, uint32_t left, uint32_t right, uint32_t free) {
    if (near > 0 && row == queens - 1 - near) {
        /* The last row in which the outer columns may get their queens. */
        uint32_t missing = sides & ~columns;
        if (missing == sides) return;
        if (missing) free &= missing;
    }
    while (free) {
        uint32_t queen = free & -free;
        free ^= queen;
        column_of[row] = __builtin_ctz(queen);
        if (row == queens - 1) {
            solutions += near == 0 || !another_is_as_near() ? 8 : images();
            continue;
        }
        uint32_t c = columns | queen, l = (left | queen) << 1, r = (right | queen) >> 1;
        uint32_t below = allowed[row + 1] & ~(c | l | r);
        if (below) place(row + 1, c, l, r, below);
    }
}

/* A corner's queen is on the first row and the first column: of a board and its mirror image in the diagonal, the one
 * is searched whose second row's queen is nearer to the corner than its second column's. */
static void corner(void) {
    near = column_of[0] = 0;
    for (int second = 2; second < queens; second++) {
        for (int row = 1; row < queens; row++) allowed[row] = row <= second ? board & ~2u : board;
        allowed[1] = 1u << second;
        place(1, 1, 2, 0, allowed[1]);
    }
}

static void border(int distance) {
    near = column_of[0] = distance;
    uint32_t queen = 1u << distance, last = 0;
    for (int column = distance; column < queens - distance; column++) last |= 1u << column;
    for (int row = 1; row < queens; row++)
        allowed[row] = row < distance || row > queens - 1 - distance ? board & ~sides : board;
    allowed[queens - 1] = last;
    place(1, queen, queen << 1, queen >> 1, allowed[1] & ~(queen | queen << 1 | queen >> 1));
}

int main(int count, char **arguments) {
    queens = count == 2 ? atoi(arguments[1]) : 0;
    if (queens < 4 || queens > MOST) {
        fprintf(stderr, "usage: nqueens N, from 4 to %d\n", MOST);
        return 2;
    }
    board = (1u << queens) - 1, sides = 1u << (queens - 1) | 1;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    corner();
    for (int distance = 1; 2 * distance < queens; distance++) border(distance);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%ld %.6f\n", solutions, end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec));
    return 0;
}
