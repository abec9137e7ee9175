// The 16-bit floats that our tensor-core kernels multiply, and how a sum is rounded to them: every source begins with
// this. -DBFLOAT16 makes them bfloat16, without it they are float16. No header is needed. CUDA_ON_HOST leaves out the
// inline PTX, for the tests to put an emulation in its place.

#ifdef BFLOAT16
#define OPERAND "bf16"
#else
#define OPERAND "f16"
#endif

typedef unsigned short element;  // 16 bits of either type

#ifndef CUDA_ON_HOST
// Two numbers rounded to 16 bits each, the first in the lower half.
__device__ __forceinline__ unsigned round_pair(float low, float high) {
    unsigned pair;
    asm("cvt.rn." OPERAND "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
#endif

