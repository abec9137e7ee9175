// What both parts of the simulated driver use: results, limits of the simulated GPU (an H100 SXM), memory and streams.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int Result;
enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
    INVALID_PTX = 218, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, OUT_OF_RESOURCES = 701, LAUNCH_FAILED = 719,
    STREAM_CAPTURE_UNSUPPORTED = 900, STREAM_CAPTURE_IMPLICIT = 906
};
typedef uintptr_t Pointer;
typedef void *Handle;

enum {
    MAX_THREADS = 1024, THREADS_PER_MULTIPROCESSOR = 2048, BLOCKS_PER_MULTIPROCESSOR = 32, REGISTERS = 65536,
    // Shared memory of a block by default and at most, of a multiprocessor, and what the system takes for each block.
    DEFAULT_SHARED = 49152, SHARED_BYTES = 232448, SHARED_PER_MULTIPROCESSOR = 233472, RESERVED_SHARED = 1024
};
// CUfunction_attribute
enum { MOST_THREADS = 0, STATIC_SHARED = 1, LOCAL_BYTES = 3, REGISTER_COUNT = 4, DYNAMIC_SHARED = 8 };

#ifdef __cplusplus
extern "C" {
#endif
void map_memory(Pointer address, size_t bytes);
Result unmap_memory(Pointer address);  // INVALID_VALUE: no allocation begins there
// The error of a wait or an allocation: of an earlier kernel, or because a stream captures.
Result waiting(void);
Result copy_on_stream(Pointer to, Pointer from, size_t size, Handle stream);
Result fill_on_stream(Pointer to, unsigned char value, size_t size, Handle stream);
#ifdef __cplusplus
}
#endif
