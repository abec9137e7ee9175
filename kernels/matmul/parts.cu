// Common part of mma.cu and wgmma.cu, compiled after half.cu: the type of C, and the addition of partial sums if
// several blocks compute a tile of C, each for a part of k (see split.py). -DPARTS compiles a product for a part of k.

#ifdef PARTS
constexpr bool IN_PARTS = true;
typedef float result;  // C is (parts, batch, m, n): partial sums
#else
constexpr bool IN_PARTS = false;
typedef element result;
#endif

constexpr int ADDERS = 8, LANES = 32;  // warps of a block, and lanes, each with 16 bytes of a part
constexpr int ADDING_BLOCKS = 4;       // per multiprocessor: 64 registers per thread, enough for 8 loads in flight

__device__ __forceinline__ void add(float4& sum, float4 other) {
    sum.x += other.x, sum.y += other.y, sum.z += other.z, sum.w += other.w;
}

// Write C, `count` elements, as the sum of all parts: warp w adds the parts w, w + ADDERS, w + 2 * ADDERS, ..., then
// the first warp adds the results of the warps in order. `count` is a multiple of 4.
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
