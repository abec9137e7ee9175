// 16-bit floating-point type of our tensor-core kernels, and rounding to it; the first part of every source. The type
// is bfloat16 with -DBFLOAT16, otherwise float16. No header is needed.

#ifdef BFLOAT16
#define OPERAND "bf16"
#else
#define OPERAND "f16"
#endif

typedef unsigned short element;  // 16 bits of either type

// Two numbers rounded to 16 bits each, the first in the lower half.
__device__ __forceinline__ unsigned round_pair(float low, float high) {
    unsigned pair;
    asm("cvt.rn." OPERAND "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

