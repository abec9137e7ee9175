// cuTensorMapEncodeTiled as the CUDA Driver API documents it, for the maps that tensor_map.h can hold. It refuses, as
// the driver does, what the documentation forbids.
#include "tensor_map.h"

extern "C" int cuTensorMapEncodeTiled(TensorMap* map, int type, uint32_t rank, void* address, const uint64_t* size,
                                      const uint64_t* stride, const uint32_t* box, const uint32_t* element_stride,
                                      int interleave, int swizzle, int promotion, int fill) {
    constexpr int SUCCESS = 0, INVALID_VALUE = 1, UINT16 = 1, SWIZZLE_128B = 3, BYTES = 2;
    if (reinterpret_cast<uintptr_t>(map) % 64 || reinterpret_cast<uintptr_t>(address) % 16) return INVALID_VALUE;
    if (rank != 3 || type != UINT16 || interleave || swizzle != SWIZZLE_128B || promotion < 0 || promotion > 3 || fill)
        return INVALID_VALUE;
    *map = {};
    map->address = reinterpret_cast<uintptr_t>(address);
    for (uint32_t i = 0; i < rank; ++i) {
        if (!size[i] || size[i] > 1ULL << 32 || !box[i] || box[i] > 256 || element_stride[i] != 1) return INVALID_VALUE;
        map->size[i] = size[i], map->box[i] = box[i];
        if (i + 1 == rank) break;
        if (stride[i] % 16 || stride[i] >= 1ULL << 40) return INVALID_VALUE;
        map->stride[i] = stride[i];
    }
    if (box[0] * BYTES % 16 || box[0] * BYTES > 128) return INVALID_VALUE;
    return SUCCESS;
}
