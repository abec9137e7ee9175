// N-Queens by dynamic parallelism; see gpu_cdp.py for the design. Options define QUEENS, PARENT_ROWS and PREFIX_ROWS (rows
// with queens in the placements of the parent kernel and in the prefixes), and THREADS of a block of the child kernel.

static constexpr unsigned BOARD = (1u << QUEENS) - 1;
static constexpr unsigned ROWS = QUEENS - PREFIX_ROWS;  // below a prefix, at least 1
static constexpr unsigned FRAMES = ROWS > 1 ? ROWS - 1 : 1;

struct Placement {
    unsigned columns, left, right;  // occupied columns, and columns of the next row attacked along diagonals
};

__device__ __forceinline__ unsigned free_squares(Placement p) { return BOARD & ~(p.columns | p.left | p.right); }

__device__ __forceinline__ Placement place(Placement p, unsigned queen) {
    return {p.columns | queen, (p.left | queen) << 1, (p.right | queen) >> 1};
}

// Write the placements with LEVELS more rows in depth-first order; return the end. The loops are nested by inlining.
template <unsigned LEVELS> __device__ __forceinline__ Placement* expand(Placement p, Placement* to) {
    if constexpr (LEVELS == 0) {
        *to = p;
        return to + 1;
    } else {
        for (unsigned free = free_squares(p); free; free &= free - 1)
            to = expand<LEVELS - 1>(place(p, free & -free), to);
        return to;
    }
}

// Child: count the nodes and solutions below one prefix per thread. A stack is interleaved by threads in shared memory.
extern "C" __global__ void __launch_bounds__(THREADS)
nqueens_search(const Placement* prefixes, unsigned count, unsigned* nodes, unsigned* solutions) {
    __shared__ unsigned stack[FRAMES][4][THREADS];
    const unsigned thread = threadIdx.x, prefix = blockIdx.x * THREADS + thread;
    if (prefix >= count) return;
    Placement p = prefixes[prefix];
    unsigned free = free_squares(p), row = 0, placed = 0, found = 0;
    while (true) {
        if (free == 0) {
            if (row == 0) break;
            --row;
            free = stack[row][0][thread];
            p = {stack[row][1][thread], stack[row][2][thread], stack[row][3][thread]};
            continue;
        }
        const unsigned queen = free & -free;
        free ^= queen;
        ++placed;
        if (row == ROWS - 1) {
            ++found;
            continue;
        }
        stack[row][0][thread] = free;
        stack[row][1][thread] = p.columns;
        stack[row][2][thread] = p.left;
        stack[row][3][thread] = p.right;
        ++row;
        p = place(p, queen);
        free = free_squares(p);
    }
    nodes[prefix] = placed;
    solutions[prefix] = found;
}

// Parent: enumerate the prefixes below one placement per thread, from `starts` on, and launch one child for them. The
// child reads what its thread has written, and the grid is complete when all of its children are.
extern "C" __global__ void nqueens_expand(const Placement* placements, const unsigned* starts, unsigned count,
                                          Placement* prefixes, unsigned* nodes, unsigned* solutions) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const unsigned start = starts[i];
    Placement* const first = prefixes + start;
    const unsigned found = expand<PREFIX_ROWS - PARENT_ROWS>(placements[i], first) - first;
    if (found)
        nqueens_search<<<(found + THREADS - 1) / THREADS, THREADS, 0, cudaStreamFireAndForget>>>(
            first, found, nodes + start, solutions + start);
}
