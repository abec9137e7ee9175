// C = A*B on tensor cores by mma.sync, compute capability 8.0 and later; see gpu_mma.py for the design. Compiled after
// half.cu, parts.cu and warp.cu. -DNARROW selects narrow tiles of C, for matrices with few columns.

#ifdef NARROW
constexpr int WARPS_M = 4, WARPS_N = 1, BLOCKS = 2;  // BLOCKS per multiprocessor
#else
constexpr int WARPS_M = 2, WARPS_N = 4, BLOCKS = 1;
#endif
constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int WARP_M = 64, WARP_N = 64;
constexpr int TILE_M = WARPS_M * WARP_M, TILE_N = WARPS_N * WARP_N, TILE_K = 32;  // tile of a block; depth of a stage
constexpr int STAGES = 4;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int ROWS = WARP_M / MMA_M, COLUMNS = WARP_N / MMA_N, STEPS = TILE_K / MMA_K;
constexpr int CHUNK = 8;  // elements in 16 bytes, the unit of cp.async, ldmatrix and the stores of C
constexpr int BYTES_A = TILE_M * TILE_K * 2, BYTES_B = TILE_K * TILE_N * 2, BYTES_STAGE = BYTES_A + BYTES_B;
constexpr int GROUP = 8;  // rows of tiles scheduled together: concurrent blocks share both A and B in L2

// Offset of a chunk within a stage in bytes. ldmatrix reads the same chunk of 8 rows at once: the exclusive or
// distributes them over different banks. A row of A has 4 chunks, so two rows fill all banks; a row of B has 8 or 32.
__device__ __forceinline__ int place_a(int row, int chunk) {
    return (row * (TILE_K / CHUNK) + (chunk ^ ((row >> 1) & 3))) * 16;
}
__device__ __forceinline__ int place_b(int row, int chunk) {
    return BYTES_A + (row * (TILE_N / CHUNK) + (chunk ^ (row & 7))) * 16;
}

// Copies by one thread for every stage: chunks of A and B, which advance by TILE_K from stage to stage.
struct Copies {
    static constexpr int OF_A = TILE_M * TILE_K / CHUNK / THREADS, OF_B = TILE_K * TILE_N / CHUNK / THREADS;
    static constexpr int STRIDE_A = THREADS / (TILE_K / CHUNK), STRIDE_B = THREADS / (TILE_N / CHUNK);

    const element *a, *b;
    int row_a, column_a, row_b, column_b;  // of the first chunk, within the stage
    int rows_left, columns_left, depth_left;  // of A from the block on, of B from the block on, of k from the stage on
    int k, n;

    __device__ __forceinline__ Copies(const element* a_tile, const element* b_tile, int rows, int columns, int depth,
                                      int n, int k)
        : rows_left(rows), columns_left(columns), depth_left(depth), k(k), n(n) {
        const int thread = threadIdx.x;
        row_a = thread / (TILE_K / CHUNK), column_a = thread % (TILE_K / CHUNK);
        row_b = thread / (TILE_N / CHUNK), column_b = thread % (TILE_N / CHUNK);
        a = a_tile + (long long)row_a * k + column_a * CHUNK;
        b = b_tile + (long long)row_b * n + column_b * CHUNK;
    }

    // Start the copies of the next stage. Elements outside of the matrices become zero; their source address is `valid`
    // and is not read.
    __device__ __forceinline__ void start(unsigned stage, const element* valid) {
        #pragma unroll
        for (int i = 0; i < OF_A; ++i) {
            const bool inside = row_a + i * STRIDE_A < rows_left && column_a * CHUNK < depth_left;
            const element* from = inside ? a + (long long)i * STRIDE_A * k : valid;
            cp_async_16(stage + place_a(row_a + i * STRIDE_A, column_a), from, inside ? 16 : 0);
        }
        #pragma unroll
        for (int i = 0; i < OF_B; ++i) {
            const bool inside = column_b * CHUNK < columns_left && row_b + i * STRIDE_B < depth_left;
            const element* from = inside ? b + (long long)i * STRIDE_B * n : valid;
            cp_async_16(stage + place_b(row_b + i * STRIDE_B, column_b), from, inside ? 16 : 0);
        }
        a += TILE_K;
        b += (long long)TILE_K * n;
        depth_left -= TILE_K;
    }
};

// Operands of a warp for one step of 16 along k.
struct Fragments {
    unsigned a[ROWS][4], b[COLUMNS / 2][4];

    // ldmatrix loads four 8 x 8 matrices; lanes 0-7, 8-15, 16-23 and 24-31 provide the addresses of their rows. For A
    // these are the upper and lower halves of the left 8 columns and then of the right 8 columns, as mma requires. B is
    // stored by rows, so `.trans` transposes its 8 x 8 matrices: k 0-7 and 8-15 of 8 columns, then of the next 8.
    __device__ __forceinline__ void load(unsigned stage, int step, int warp_m, int warp_n, int lane) {
        const int row = lane % 16, half = lane / 16;
        #pragma unroll
        for (int i = 0; i < ROWS; ++i)
            ldmatrix_x4(a[i], stage + place_a(warp_m * WARP_M + i * MMA_M + row, step * (MMA_K / CHUNK) + half));
        #pragma unroll
        for (int j = 0; j < COLUMNS / 2; ++j)
            ldmatrix_x4_trans(b[j], stage + place_b(step * MMA_K + row, warp_n * (WARP_N / CHUNK) + 2 * j + half));
    }
};

// n and k are multiples of 8, so rows are aligned to 16 bytes. `depth` is the depth of a part of k, a multiple of
// TILE_K. Grid: one block per tile, matrix of the batch and part of k.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul_mma(const element* a, const element* b, result* c, int m, int n, int k, int depth) {
    const int tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N, tiles = tiles_m * tiles_n;
    const int batches = gridDim.x / (IN_PARTS ? tiles * ((k + depth - 1) / depth) : tiles);
    const int tile = blockIdx.x % tiles, matrix = blockIdx.x / tiles;  // `matrix` counts over all parts of k
    const int batch = IN_PARTS ? matrix % batches : matrix, k0 = IN_PARTS ? matrix / batches * depth : 0;
    const int first = tile / (GROUP * tiles_n) * GROUP, within = tile % (GROUP * tiles_n);
    const int rows_of_tiles = min(GROUP, tiles_m - first);
    const int m0 = (first + within % rows_of_tiles) * TILE_M, n0 = within / rows_of_tiles * TILE_N;
    const int here = IN_PARTS ? min(depth, k - k0) : k;
    a += ((long long)batch * m + m0) * k + k0;
    b += ((long long)batch * k + k0) * n + n0;
    c += ((long long)matrix * m + m0) * n + n0;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warp_m = warp / WARPS_N, warp_n = warp % WARPS_N;
    unsigned char* const shared = dynamic_shared();
    const unsigned stages = shared_address(shared);
    Copies copies(a, b, m - m0, n - n0, here, n, k);
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        copies.start(stages + stage * BYTES_STAGE, a);
        cp_async_commit();
    }

    float sums[ROWS][COLUMNS][4];
    #pragma unroll
    for (int i = 0; i < ROWS; ++i)
        #pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            #pragma unroll
            for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;

    // Each step multiplies one set of fragments while the next one is loaded.
    Fragments fragments[2];
    unsigned reading = stages, writing = stages + (STAGES - 1) * BYTES_STAGE;
    const unsigned end = stages + STAGES * BYTES_STAGE;
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    fragments[0].load(reading, 0, warp_m, warp_n, lane);
    const int turns = (here + TILE_K - 1) / TILE_K;
    #pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == STEPS - 1) {
                reading = reading + BYTES_STAGE == end ? stages : reading + BYTES_STAGE;
                // The next stage has arrived, and no thread reads the current one any more.
                cp_async_wait<STAGES - 2>();
                __syncthreads();
            }
            fragments[(step + 1) % 2].load(reading, (step + 1) % STEPS, warp_m, warp_n, lane);
            if (step == 0) {
                // The buffer of the previous iteration receives the slice STAGES - 1 iterations ahead. After the last
                // slice the copies write zeros, so that every iteration commits one group.
                copies.start(writing, a);
                cp_async_commit();
                writing = writing + BYTES_STAGE == end ? stages : writing + BYTES_STAGE;
            }
            #pragma unroll
            for (int i = 0; i < ROWS; ++i)
                #pragma unroll
                for (int j = 0; j < COLUMNS; ++j) {
                    const Fragments& now = fragments[step % 2];
                    mma_m16n8k16(sums[i][j], now.a[i], now.b[j / 2][j % 2 * 2], now.b[j / 2][j % 2 * 2 + 1]);
                }
        }
    }

    cp_async_wait<0>();
    if constexpr (IN_PARTS) {
        // 4 lanes together store 32 bytes of a row, a complete sector.
        const int row = warp_m * WARP_M + lane / 4, column = warp_n * WARP_N + lane % 4 * 2;
        const int rows_left = m - m0 - row, columns_left = n - n0 - column;
        c += (long long)row * n + column;
        #pragma unroll
        for (int i = 0; i < ROWS; ++i)
            #pragma unroll
            for (int half = 0; half < 2; ++half, c += MMA_M / 2 * n)
                if (i * MMA_M + half * 8 < rows_left)
                    #pragma unroll
                    for (int j = 0; j < COLUMNS; ++j)
                        if (j * MMA_N < columns_left)
                            *(float2*)(c + j * MMA_N) = float2{sums[i][j][2 * half], sums[i][j][2 * half + 1]};
        return;
    }

    // C is rearranged in shared memory, 64 x 64 per warp, so that 8 lanes together store 128 bytes of a row.
    __syncthreads();
    unsigned char* const mine = shared + warp * (WARP_M * WARP_N * 2);
    #pragma unroll
    for (int i = 0; i < ROWS; ++i)
        #pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = i * MMA_M + half * 8 + lane / 4;
                unsigned* const to = (unsigned*)(mine + row * (WARP_N * 2) + (j ^ (row & 7)) * 16) + lane % 4;
                *to = round_pair(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
            }
    __syncwarp();
    #pragma unroll
    for (int i = 0; i < WARP_M / 4; ++i) {
        const int row = i * 4 + lane / 8, chunk = lane % 8;
        const int row_c = warp_m * WARP_M + row, column_c = warp_n * WARP_N + chunk * CHUNK;
        if (m0 + row_c < m && n0 + column_c < n)
            *(uint4*)(c + (long long)row_c * n + column_c) =
                *(const uint4*)(mine + row * (WARP_N * 2) + (chunk ^ (row & 7)) * 16);
    }
}
