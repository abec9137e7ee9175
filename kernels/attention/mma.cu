// O = softmax(Q*K^T/sqrt(d))*V on tensor cores by mma.sync, compute capability 8.0 and later; see gpu_mma.py for the
// design. Compiled after half.cu and warp.cu, with -DHEAD=d, 64 or 128.

constexpr int WARPS = 4, THREADS = 32 * WARPS, BLOCKS = 2;  // BLOCKS per multiprocessor
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int WARP_M = 32, TILE = WARPS * WARP_M;  // queries
constexpr int KEYS = 4096 / HEAD;                  // per iteration; with more keys, HEAD = 128 would spill registers
constexpr int ROWS = WARP_M / MMA_M, COLUMNS = KEYS / MMA_N, DIMENSIONS = HEAD / MMA_N;
constexpr int CHUNK = 8, CHUNKS = HEAD / CHUNK;    // elements in 16 bytes; chunks in a row
constexpr int ROW_BYTES = HEAD * 2, BYTES_Q = TILE * ROW_BYTES, BYTES_K = KEYS * ROW_BYTES;
constexpr float LOWEST = -1e30f;  // score of a masked key: its weight is 0
constexpr unsigned ALL_LANES = 0xFFFFFFFF;

__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Offset of a chunk of a row in bytes. ldmatrix reads the same chunk of 8 rows at once: the exclusive or distributes
// them over different banks.
__device__ __forceinline__ int place(int row, int chunk) { return (row * CHUNKS + (chunk ^ (row & 7))) * 16; }

// Start the copy of `count` rows of HEAD elements by all threads. Rows from `left` on are filled with zeros; their
// source address stays within the array and is not read.
__device__ __forceinline__ void start_rows(unsigned to, const element* from, int count, int left) {
    #pragma unroll
    for (int i = 0; i < count * CHUNKS / THREADS; ++i) {
        const int number = i * THREADS + threadIdx.x, row = number / CHUNKS, chunk = number % CHUNKS;
        const bool inside = row < left;
        cp_async_16(to + place(row, chunk), inside ? from + row * HEAD + chunk * CHUNK : from, inside ? 16 : 0);
    }
    cp_async_commit();
}

// Scores of a warp's queries and a block of keys, in the layout of mma: of each 16 x 8 tile, lane l holds the columns
// 2(l % 4) and 2(l % 4) + 1 of the rows l / 4 and l / 4 + 8.
struct Scores {
    float s[ROWS][COLUMNS][4];

    // The rows of K are keys, as in the 8 x 8 matrices that mma reads: d 0-7 and 8-15 of 8 keys, then of the next 8.
    __device__ __forceinline__ void multiply(unsigned q, unsigned k, int warp, int lane) {
        #pragma unroll
        for (int i = 0; i < ROWS; ++i)
            #pragma unroll
            for (int j = 0; j < COLUMNS; ++j)
                #pragma unroll
                for (int e = 0; e < 4; ++e) s[i][j][e] = 0;
        #pragma unroll
        for (int step = 0; step < HEAD / MMA_K; ++step) {
            unsigned a[ROWS][4];
            #pragma unroll
            for (int i = 0; i < ROWS; ++i)
                ldmatrix_x4(a[i], q + place(warp * WARP_M + i * MMA_M + lane % 16, 2 * step + lane / 16));
            #pragma unroll
            for (int j = 0; j < COLUMNS / 2; ++j) {
                unsigned b[4];
                ldmatrix_x4(b, k + place(j * 16 + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
                #pragma unroll
                for (int i = 0; i < ROWS; ++i) {
                    mma_m16n8k16(s[i][2 * j], a[i], b[0], b[1]);
                    mma_m16n8k16(s[i][2 * j + 1], a[i], b[2], b[3]);
                }
            }
        }
    }

    // Mask the scores of keys after the query (causal) or after the last key. `row` and `key` are the query and the key
    // of this lane's first score.
    __device__ __forceinline__ void hide(int row, int key, int last, bool causal) {
        #pragma unroll
        for (int i = 0; i < ROWS; ++i)
            #pragma unroll
            for (int j = 0; j < COLUMNS; ++j)
                #pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int seen = causal ? row + i * MMA_M + e / 2 * 8 : last;
                    if (key + j * MMA_N + e % 2 > seen) s[i][j][e] = LOWEST;
                }
    }
};

// Output of a warp's queries, with the running maximum of their scores and the running sum of their weights. A lane
// holds two rows of each 16; its sum covers its own columns only.
struct Output {
    float o[ROWS][DIMENSIONS][4], top[ROWS][2], total[ROWS][2];

    __device__ __forceinline__ Output() {
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            #pragma unroll
            for (int j = 0; j < DIMENSIONS; ++j)
                #pragma unroll
                for (int e = 0; e < 4; ++e) o[i][j][e] = 0;
            #pragma unroll
            for (int half = 0; half < 2; ++half) top[i][half] = LOWEST, total[i][half] = 0;
        }
    }

    // Replace the scores by weights 2^(scale * (score - maximum)), and rescale output and sum by the growth of the
    // maximum. No query masks the first key, so a masked score is never the maximum.
    __device__ __forceinline__ void weigh(Scores& scores, float scale) {
        #pragma unroll
        for (int i = 0; i < ROWS; ++i)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                float higher = top[i][half];
                #pragma unroll
                for (int j = 0; j < COLUMNS; ++j)
                    higher = fmaxf(higher, fmaxf(scores.s[i][j][2 * half], scores.s[i][j][2 * half + 1]));
                higher = fmaxf(higher, __shfl_xor_sync(ALL_LANES, higher, 1));
                higher = fmaxf(higher, __shfl_xor_sync(ALL_LANES, higher, 2));
                const float shift = higher * scale, factor = power_of_two(top[i][half] * scale - shift);
                float sum = 0;
                #pragma unroll
                for (int j = 0; j < COLUMNS; ++j)
                    #pragma unroll
                    for (int e = 2 * half; e < 2 * half + 2; ++e)
                        sum += scores.s[i][j][e] = power_of_two(scores.s[i][j][e] * scale - shift);
                total[i][half] = total[i][half] * factor + sum;
                top[i][half] = higher;
                #pragma unroll
                for (int j = 0; j < DIMENSIONS; ++j) o[i][j][2 * half] *= factor, o[i][j][2 * half + 1] *= factor;
            }
    }

    // Add the weights times V. Two rounded 16 x 8 tiles of weights are one 16 x 16 operand of mma. The rows of V are
    // keys, so `.trans` transposes its 8 x 8 matrices: keys 0-7 and 8-15 of 8 dimensions, then of the next 8.
    __device__ __forceinline__ void add(const Scores& weights, unsigned v, int lane) {
        #pragma unroll
        for (int step = 0; step < KEYS / MMA_K; ++step) {
            unsigned a[ROWS][4];
            #pragma unroll
            for (int i = 0; i < ROWS; ++i)
                #pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const float(&pair)[4] = weights.s[i][2 * step + e / 2];
                    a[i][e] = round_pair(pair[e % 2 * 2], pair[e % 2 * 2 + 1]);
                }
            #pragma unroll
            for (int j = 0; j < DIMENSIONS / 2; ++j) {
                unsigned b[4];
                ldmatrix_x4_trans(b, v + place(step * MMA_K + lane % 16, 2 * j + lane / 16));
                #pragma unroll
                for (int i = 0; i < ROWS; ++i) {
                    mma_m16n8k16(o[i][2 * j], a[i], b[0], b[1]);
                    mma_m16n8k16(o[i][2 * j + 1], a[i], b[2], b[3]);
                }
            }
        }
    }

    // Reduce the sums over the four lanes that share a row, divide by them, and write the rows to shared memory.
    __device__ __forceinline__ void write(unsigned char* to, int warp, int lane) {
        #pragma unroll
        for (int i = 0; i < ROWS; ++i)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                float sum = total[i][half];
                sum += __shfl_xor_sync(ALL_LANES, sum, 1);
                sum += __shfl_xor_sync(ALL_LANES, sum, 2);
                const float share = 1 / sum;
                const int row = warp * WARP_M + i * MMA_M + half * 8 + lane / 4;
                #pragma unroll
                for (int j = 0; j < DIMENSIONS; ++j)
                    *((unsigned*)(to + place(row, j)) + lane % 4) =
                        round_pair(o[i][j][2 * half] * share, o[i][j][2 * half + 1] * share);
            }
    }
};

// Q, K, V and O have the shape (heads, n, HEAD), with rows aligned to 16 bytes and n * HEAD < 2^32; `scale` is
// log2(e) / sqrt(HEAD).
// Grid: one block per head and tile of queries, in each head the last tile first, because it attends to the most keys.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attention_mma(const element* q, const element* k, const element* v, element* o, int n, float scale, int causal) {
    const int tiles = (n + TILE - 1) / TILE, head = blockIdx.x / tiles, q0 = (tiles - 1 - blockIdx.x % tiles) * TILE;
    const long long begin = (long long)head * n * HEAD;
    k += begin, v += begin;
    q += begin + (long long)q0 * HEAD, o += begin + (long long)q0 * HEAD;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = q0 + warp * WARP_M;
    unsigned char* const shared = dynamic_shared();
    const unsigned shared_q = shared_address(shared), shared_k = shared_q + BYTES_Q, shared_v = shared_k + BYTES_K;
    start_rows(shared_q, q, TILE, n - q0);
    start_rows(shared_k, k, KEYS, n);

    Output output;
    const int end = causal ? min(n, q0 + TILE) : n;
    #pragma unroll 1
    for (int k0 = 0; k0 < end; k0 += KEYS) {
        // The keys have arrived, and no thread reads the previous values any more.
        cp_async_wait<0>();
        __syncthreads();
        start_rows(shared_v, v + (unsigned)k0 * HEAD, KEYS, n - k0);
        Scores scores;
        scores.multiply(shared_q, shared_k, warp, lane);
        // The values have arrived, and no thread reads the keys any more: the next keys can replace them.
        cp_async_wait<0>();
        __syncthreads();
        if (k0 + KEYS < end) start_rows(shared_k, k + (unsigned)(k0 + KEYS) * HEAD, KEYS, n - k0 - KEYS);
        if (k0 + KEYS - 1 > (causal ? first : n - 1))
            scores.hide(first + lane / 4, k0 + lane % 4 * 2, n - 1, causal);
        output.weigh(scores, scale);
        output.add(scores, shared_v, lane);
    }

    // A warp writes its results over its own queries in shared memory, so that neighbouring lanes store whole rows.
    output.write(shared, warp, lane);
    __syncwarp();
    #pragma unroll
    for (int i = 0; i < WARP_M * CHUNKS / 32; ++i) {
        const int number = i * 32 + lane, row = warp * WARP_M + number / CHUNKS, chunk = number % CHUNKS;
        if (q0 + row < n)
            *(uint4*)(o + (long long)row * HEAD + chunk * CHUNK) = *(const uint4*)(shared + place(row, chunk));
    }
}
