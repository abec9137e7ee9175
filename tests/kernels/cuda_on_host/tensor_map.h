// What the emulated driver writes into a tensor map and the emulated copy engine reads: three dimensions of 2-byte
// elements, the first along rows, with the 128-byte swizzle.
#pragma once

#include <cstdint>

struct alignas(64) TensorMap {
    uint64_t address;
    uint64_t size[3];
    uint64_t stride[2];  // bytes from one element to the next of the second and the third dimension
    uint32_t box[3];
    uint32_t unused[17];
};
static_assert(sizeof(TensorMap) == 128);
