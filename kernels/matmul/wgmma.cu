// C = A*B on tensor cores by wgmma, with the bulk copy engine (TMA), for compute capability 9.0 only; see gpu_wgmma.py
// for the design. Compiled after half.cu and parts.cu.

typedef unsigned long long u64;

constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64;  // tile of a block; depth of a stage
constexpr int STAGES = 4;
constexpr int CLUSTER = 2;                 // blocks, one below the other, with the same columns of B
constexpr int CONSUMERS = 2;               // warpgroups that multiply, 64 rows of the tile each
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int MMA_M = 64, MMA_K = 16, SUMS = MMA_M * TILE_N / 128;
constexpr int GROUP = 8;                   // rows of clusters scheduled together: they share A and B in L2
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;  // 40 + 2 * 232 <= 65536 / 128

// Shared memory consists of panels 128 bytes (64 elements) wide with the 128-byte swizzle: the 16-byte chunk c of row r
// is at position c ^ (r % 8). The pattern repeats after 8 rows, 1024 bytes, to which all panels are aligned.
constexpr int PANEL = 64, PATTERN = 1024;
constexpr int BYTES_A = TILE_M * TILE_K * 2;                    // one panel: 128 rows, 64 deep
constexpr int PANEL_B = TILE_K * PANEL * 2;                     // 64 deep, 64 columns
constexpr int BYTES_B = TILE_N / PANEL * PANEL_B;
constexpr int PANELS_LOADED = TILE_N / PANEL / CLUSTER;         // of B by each block, for both
constexpr int WARP_ROWS = 16, PANEL_C = WARP_ROWS * PANEL * 2;  // a warp's 16 rows of C, 64 columns at a time
constexpr int AT_A = 0, AT_B = AT_A + STAGES * BYTES_A, AT_C = AT_B + STAGES * BYTES_B;
constexpr int AT_FULL = AT_C + CONSUMERS * 4 * 2 * PANEL_C, AT_EMPTY = AT_FULL + 8 * STAGES;

struct __align__(128) TensorMap { u64 opaque[16]; };  // CUtensorMap

__device__ __forceinline__ unsigned dynamic_shared() {
    extern __shared__ __align__(1024) unsigned char storage[];
    return (unsigned)__cvta_generic_to_shared(storage);
}

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// True for one lane of a converged warp. The compiler knows that it is one, unlike for a comparison of threadIdx: a copy
// by one thread needs no loop over the lanes.
__device__ __forceinline__ bool elected() {
    unsigned is;
    asm volatile("{\n.reg .pred one;\nelect.sync _|one, 0xffffffff;\nselp.u32 %0, 1, 0, one;\n}" : "=r"(is));
    return is;
}

// Barrier of all threads of the cluster; writes before it are visible after it.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

template <int REGISTERS>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Make the initialised barriers visible to the cluster and to the copy engine; call it before the next cluster_sync.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrive, and increase the bytes of copies that the phase waits for.
__device__ __forceinline__ void mbarrier_arrive_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrive at the barrier with the same offset in the block `rank` of the cluster.
__device__ __forceinline__ void mbarrier_arrive_at(unsigned barrier, unsigned rank) {
    asm volatile("{\n.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(rank) : "memory");
}

// Wait until the phase with the given parity is complete.
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
    asm volatile("{\n.reg .pred complete;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
                 "@complete bra done;\n"
                 "bra again;\n"
                 "done:\n}" ::"r"(barrier), "r"(parity) : "memory");
}

// Copy a box with the first element (x, y, z), x along rows, to shared memory; elements outside of the matrix are zero.
__device__ __forceinline__ void tma_load(unsigned to, const TensorMap* map, int x, int y, int z, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier) : "memory");
}

// The same copy to every block of the bit mask `blocks`; completion is signalled to the barrier of each block.
__device__ __forceinline__ void tma_load_multicast(unsigned to, const TensorMap* map, int x, int y, int z,
                                                   unsigned barrier, unsigned short blocks) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(blocks) : "memory");
}

// Copy a box from shared memory; elements outside of the matrix are not written.
__device__ __forceinline__ void tma_store(const TensorMap* map, unsigned from, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                 ::"l"(map), "r"(from), "r"(x), "r"(y), "r"(z) : "memory");
}

__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Wait until at most the N latest groups of stores of this thread still read shared memory.
template <int N>
__device__ __forceinline__ void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// Make this thread's writes to shared memory visible to copies that are started later.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void stmatrix_x4(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(address), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Wait until at most the N latest groups of the warpgroup are pending.
template <int N>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Keep the compiler from moving accesses to the sums across this place: the tensor cores write them asynchronously.
__device__ __forceinline__ void fence_sums(float (&sums)[SUMS]) {
    #pragma unroll
    for (int i = 0; i < SUMS; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// D = A*B, plus D if `accumulate`: A 64 x 16 by rows, B 16 x 256 by rows (the last operand, 1, transposes B).
__device__ __forceinline__ void wgmma_m64n256k16(float (&d)[SUMS], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." OPERAND "." OPERAND " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, accumulate, 1, 1, 0, 1;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
          "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
          "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
          "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
          "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]),
          "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]),
          "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
          "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]),
          "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
          "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]),
          "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),
          "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]),
          "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
          "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]),
          "+f"(d[126]), "+f"(d[127])
        : "l"(a), "l"(b), "r"(accumulate));
}

// Matrix descriptor of wgmma for an operand in shared memory with the 128-byte swizzle. `stride` is the distance in
// bytes between groups of 8 lines of 128 bytes (rows of A, or k of B), `leading` the distance between panels of 64
// columns of B (unused for A).
__device__ __forceinline__ u64 descriptor(unsigned address, unsigned leading, unsigned stride) {
    return (u64)1 << 62 | (u64)(stride >> 4) << 32 | (u64)(leading >> 4) << 16 | (address & 0x3FFFF) >> 4;
}

// Position in the ring of stages: the stage, and the parity of the number of completed rounds.
struct Place {
    int stage = 0;
    unsigned round = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) stage = 0, round ^= 1;
    }
};

struct Sizes { int m, n, k, batches, depth; };  // depth: of a part of k; the last part may be smaller

// Work item of a cluster: two tiles, one below the other, for a part of k.
struct Work {
    int row, column, matrix, batch, k, turns;  // first element of the upper tile; `matrix` counts over all parts of k
    __device__ __forceinline__ Work(int number, const Sizes& sizes) {
        const int rows = (sizes.m + CLUSTER * TILE_M - 1) / (CLUSTER * TILE_M);
        const int columns = (sizes.n + TILE_N - 1) / TILE_N;
        matrix = number / (rows * columns), number %= rows * columns;
        batch = IN_PARTS ? matrix % sizes.batches : matrix, k = IN_PARTS ? matrix / sizes.batches * sizes.depth : 0;
        turns = ((IN_PARTS ? min(sizes.depth, sizes.k - k) : sizes.k) + TILE_K - 1) / TILE_K;
        const int first = number / (GROUP * columns) * GROUP, within = number % (GROUP * columns);
        const int together = min(GROUP, rows - first);
        row = (first + within % together) * (CLUSTER * TILE_M), column = within / together * TILE_N;
    }
    static __device__ __forceinline__ int all(const Sizes& sizes) {
        const int parts = IN_PARTS ? (sizes.k + sizes.depth - 1) / sizes.depth : 1;
        return (sizes.m + CLUSTER * TILE_M - 1) / (CLUSTER * TILE_M) * ((sizes.n + TILE_N - 1) / TILE_N) *
               sizes.batches * parts;
    }
};

// Start the multiplication of a stage, with A at the address `a` and B at `b`; ANEW overwrites the sums.
template <bool ANEW>
__device__ __forceinline__ void multiply(float (&sums)[SUMS], unsigned a, unsigned b) {
    fence_sums(sums);
    wgmma_fence();
    #pragma unroll
    for (int step = 0; step < TILE_K / MMA_K; ++step)
        wgmma_m64n256k16(sums, descriptor(a + step * MMA_K * 2, 16, PATTERN),
                         descriptor(b + step * MMA_K * 128, PANEL_B, PATTERN), !ANEW || step > 0);
    wgmma_commit();
}

// Store a warp's rows of C, starting at `row`, through its two buffers in shared memory.
__device__ __forceinline__ void store_tile(const unsigned (&rounded)[SUMS / 2], const TensorMap* map,
                                           unsigned buffers, const Work& work, int row, int lane) {
    // Lane l provides stmatrix with the address of row l % 16 and chunk l / 16: rows 0-7 and 8-15 of 8 columns, then of
    // the next 8.
    const unsigned line = lane % 16 * 128, chunk = lane / 16, turned = lane % 8;
    #pragma unroll
    for (int panel = 0; panel < TILE_N / PANEL; ++panel) {
        const unsigned buffer = buffers + panel % 2 * PANEL_C;
        if (lane == 0) bulk_wait_read<1>();  // the store before the previous one used this buffer
        __syncwarp();
        #pragma unroll
        for (int i = 0; i < PANEL / 16; ++i) {
            const unsigned* const r = rounded + panel * (PANEL / 4) + i * 4;  // 16 columns in 4 registers
            stmatrix_x4(buffer + line + ((2 * i + chunk) ^ turned) * 16, r[0], r[1], r[2], r[3]);
        }
        fence_proxy_async();
        __syncwarp();
        if (lane == 0) {
            tma_store(map, buffer, work.column + panel * PANEL, work.row + row, work.matrix);
            bulk_commit();
        }
    }
}

// Store a warp's sums of a part of k in float32: 4 lanes together store 32 bytes of a row, a complete sector.
__device__ __forceinline__ void store_sums(const float (&sums)[SUMS], float* c, const Sizes& sizes, const Work& work,
                                           int row, int lane) {
    row += work.row + lane / 4;
    const int column = work.column + lane % 4 * 2, rows_left = sizes.m - row, columns_left = sizes.n - column;
    c += ((long long)work.matrix * sizes.m + row) * sizes.n + column;
    #pragma unroll
    for (int half = 0; half < 2; ++half, c += 8 * sizes.n)
        if (half * 8 < rows_left)
            #pragma unroll
            for (int j = 0; j < TILE_N / 8; ++j)
                if (j * 8 < columns_left)
                    *(float2*)(c + j * 8) = float2{sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]};
}

// The maps describe A (k, m, batch), B (n, k, batch) and C (n, m, batch), with the 128-byte swizzle and boxes of
// (64, 128, 1), (64, 64, 1) and (64, 16, 1). With parts of k the sums are written to `parts` instead of C. `depth` is a
// multiple of TILE_K. Grid: complete clusters, at most one per work item.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
matmul_wgmma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
             const __grid_constant__ TensorMap map_c, float* parts, int m, int n, int k, int batches, int depth) {
    const Sizes sizes{m, n, k, batches, depth};
    const int clusters = gridDim.x / CLUSTER, cluster = blockIdx.x / CLUSTER, rank = cluster_rank();
    const int all = Work::all(sizes);
    const unsigned shared = dynamic_shared();
    const unsigned full = shared + AT_FULL, empty = shared + AT_EMPTY;
    const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            // `full` is completed by the producer's arrival and the bytes of its copies, `empty` by the arrivals of the
            // consumer warps of both blocks, because B is multicast.
            mbarrier_init(full + 8 * stage, 1);
            mbarrier_init(empty + 8 * stage, CLUSTER * CONSUMERS * 4);
        }
        fence_mbarrier_init();
    }
    cluster_sync();

    if (warpgroup == 0) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (warp == 0 && elected()) {
            Place place;
            for (int number = cluster; number < all; number += clusters) {
                const Work work(number, sizes);
                const int row = work.row + rank * TILE_M, column = work.column + rank * PANELS_LOADED * PANEL;
                #pragma unroll 1
                for (int turn = 0; turn < work.turns; ++turn, place.advance()) {
                    const unsigned barrier = full + 8 * place.stage;
                    const int k = work.k + turn * TILE_K;
                    mbarrier_wait(empty + 8 * place.stage, place.round ^ 1);  // returns at once in the first round
                    mbarrier_arrive_expect(barrier, BYTES_A + BYTES_B);
                    tma_load(shared + AT_A + place.stage * BYTES_A, &map_a, k, row, work.batch, barrier);
                    for (int panel = 0; panel < PANELS_LOADED; ++panel)
                        tma_load_multicast(
                            shared + AT_B + place.stage * BYTES_B + (rank * PANELS_LOADED + panel) * PANEL_B, &map_b,
                            column + panel * PANEL, k, work.batch, barrier, (1 << CLUSTER) - 1);
                }
            }
        }
        __syncwarp();
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        const unsigned at_a = shared + AT_A + (warpgroup - 1) * (MMA_M * 128), at_b = shared + AT_B;
        const unsigned buffers = shared + AT_C + (warp - 4) * (2 * PANEL_C);
        const int row = rank * TILE_M + (warp - 4) * WARP_ROWS;
        float sums[SUMS];
        unsigned rounded[SUMS / 2];  // previous tile, stored while the tensor cores start this one
        Work before(cluster, sizes);
        Place place;
        #pragma unroll 1
        for (int number = cluster; number < all; number += clusters) {
            const Work work(number, sizes);
            mbarrier_wait(full + 8 * place.stage, place.round);
            multiply<true>(sums, at_a + place.stage * BYTES_A, at_b + place.stage * BYTES_B);
            if (!IN_PARTS && number > cluster) store_tile(rounded, &map_c, buffers, before, row, lane);
            unsigned multiplied = empty + 8 * place.stage;  // stage that the tensor cores may still be reading
            place.advance();
            #pragma unroll 1
            for (int turn = 1; turn < work.turns; ++turn, place.advance()) {
                mbarrier_wait(full + 8 * place.stage, place.round);
                multiply<false>(sums, at_a + place.stage * BYTES_A, at_b + place.stage * BYTES_B);
                wgmma_wait<1>();
                if (lane < CLUSTER) mbarrier_arrive_at(multiplied, lane);
                multiplied = empty + 8 * place.stage;
            }
            wgmma_wait<0>();
            fence_sums(sums);
            if (lane < CLUSTER) mbarrier_arrive_at(multiplied, lane);
            if constexpr (IN_PARTS) {
                store_sums(sums, parts, sizes, work, row, lane);
            } else {
                #pragma unroll
                for (int i = 0; i < SUMS / 2; ++i) rounded[i] = round_pair(sums[2 * i], sums[2 * i + 1]);
                before = work;
            }
        }
        if constexpr (!IN_PARTS) {
            store_tile(rounded, &map_c, buffers, before, row, lane);
            if (lane == 0) bulk_wait_read<0>();
            __syncwarp();
        }
    }
    // A block must not exit while the other one may still write to its shared memory or arrive at its barriers.
    cluster_sync();
}
