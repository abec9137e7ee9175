// What mma.cu and wgmma.cu begin with, after half.cu: the type of C, and the addition of parts where several blocks share
// a tile of C, each with its part of k (split.py). -DPARTS compiles a product for such a part.

#ifdef PARTS
constexpr bool IN_PARTS = true;
typedef float result;  // C is (parts, batch, m, n), sums that are still to be added
#else
constexpr bool IN_PARTS = false;
typedef element result;
#endif

constexpr int ADDERS = 8, LANES = 32;  // warps of a block, each lane with 16 bytes of a part
constexpr int ADDING_BLOCKS = 4;       // on a multiprocessor, so that 64 registers hold 8 reads that are under way

__device__ __forceinline__ void add(float4& sum, float4 other) {
    sum.x += other.x, sum.y += other.y, sum.z += other.z, sum.w += other.w;
}

// C, `count` elements, from as many sums of each part: warp w adds the parts w, w + ADDERS, w + 2 * ADDERS, ..., the
// first warp what the others have, in their order. `count` is a multiple of 4.
extern "C" __global__ void __launch_bounds__(ADDERS * LANES, ADDING_BLOCKS)
add_parts(const float* sums, element* c, long long count, int parts) {
    __shared__ float4 added[ADDERS][LANES];
    const int adder = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const long long place = ((long long)blockIdx.x * LANES + lane) * 4;
    float4 sum = {0, 0, 0, 0};
    if (place < count)
        #pragma unroll 8
        for (int part = adder; part < parts; part += ADDERS) add(sum, *(const float4*)(sums + part * count + place));
    added[adder][lane] = sum;
    __syncthreads();
    if (adder > 0 || place >= count) return;
    #pragma unroll
    for (int other = 1; other < ADDERS; ++other) add(sum, added[other][lane]);
    *(uint2*)(c + place) = uint2{round_pair(sum.x, sum.y), round_pair(sum.z, sum.w)};
}
