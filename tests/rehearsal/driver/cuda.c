// Simulated CUDA driver: a libcuda.so.1 for machines without a GPU, whose kernels a PTX interpreter executes.
//
// It simulates REHEARSAL_CARDS cards (default 1) with the properties of an H100 SXM and memory on the host; with
// REHEARSAL_SMALL they have two multiprocessors and 16 KiB of L2 cache. Each launch appends a line to the file
// REHEARSAL_LAUNCHES. Invalid requests are rejected: too much memory, too many threads, registers or shared memory.
//
// Source: CUDA Driver API reference, version 13.0 (CUresult, CUdevice_attribute, and the functions by their names).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

static const size_t CARD_BYTES = 80ull << 30, FREE_BYTES = 12ull << 30;
enum { PAGE = 512 };

static int cards(void) { const char *given = getenv("REHEARSAL_CARDS"); return given ? atoi(given) : 1; }

// Every object is a unique opaque handle.
static Handle fresh(void) { static uintptr_t last = 0x10000; return (Handle)(last += 0x100); }
static Result give(Handle *handle) { *handle = fresh(); return SUCCESS; }

// --- the driver and its cards ---

Result cuInit(unsigned flags) { return cards() > 0 ? SUCCESS : NO_DEVICE; }
Result cuDriverGetVersion(int *version) { *version = 13000; return SUCCESS; }
Result cuDeviceGetCount(int *count) { *count = cards(); return SUCCESS; }
Result cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal < cards() ? SUCCESS : INVALID_DEVICE; }
Result cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "NVIDIA H100 80GB HBM3 (PTX interpreter, no GPU)"); return SUCCESS; }
Result cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0xa0 + device, 16); return SUCCESS; }
Result cuDeviceGetUuid(unsigned char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }
Result cuDeviceGetPCIBusId(char *id, int size, int device) { snprintf(id, size, "0000:%02x:00.0", 6 + device); return SUCCESS; }
Result cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = CARD_BYTES; return SUCCESS; }
Result cuDeviceComputeCapability(int *major, int *minor, int device) { *major = 9, *minor = 0; return SUCCESS; }

// CUdevice_attribute by number; unlisted attributes are 0 (unsupported).
static const int ATTRIBUTES[256] = {
    [1] = MAX_THREADS, [2] = 1024, [3] = 1024, [4] = 64,    // threads per block, block dimensions
    [5] = 2147483647, [6] = 65535, [7] = 65535,             // grid dimensions
    [8] = DEFAULT_SHARED, [97] = SHARED_BYTES, [81] = SHARED_PER_MULTIPROCESSOR, [111] = RESERVED_SHARED,  // shared memory
    [9] = 65536, [10] = 32, [12] = REGISTERS, [82] = REGISTERS,  // constant memory, warp, registers per block, per multiprocessor
    [13] = 1980000, [36] = 2619000, [37] = 5120, [38] = 50 << 20,  // clocks in kHz, memory bus in bits, L2 cache
    [15] = 1, [16] = 132, [19] = 1, [31] = 1, [32] = 1,     // overlap, multiprocessors, mapped memory, concurrent kernels, ECC
    [39] = THREADS_PER_MULTIPROCESSOR, [40] = 3, [41] = 1, [75] = 9, [76] = 0,    // threads per multiprocessor, copy engines, compute capability
    [78] = 1, [83] = 1, [95] = 1, [106] = BLOCKS_PER_MULTIPROCESSOR, [115] = 1,    // priorities, managed memory, cooperative launch, blocks, memory pools
};
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (attribute < 1 || attribute >= 256) return INVALID_VALUE;
    *value = attribute == 33 ? 6 + device : ATTRIBUTES[attribute];  // PCI bus number
    if (getenv("REHEARSAL_SMALL")) *value = attribute == 16 ? 2 : attribute == 38 ? 16384 : *value;
    return SUCCESS;
}

// --- contexts: one per card, current per thread ---

static char context[16];
static __thread Handle current;
static int device_of(Handle c) { return c ? (int)((char *)c - context) : 0; }
Result cuDevicePrimaryCtxRetain(Handle *c, int device) { *c = context + device; return SUCCESS; }
Result cuDevicePrimaryCtxRelease_v2(int device) { return SUCCESS; }
Result cuDevicePrimaryCtxReset_v2(int device) { return SUCCESS; }
Result cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0, *active = 1; return SUCCESS; }
Result cuCtxGetCurrent(Handle *c) { *c = current; return SUCCESS; }
Result cuCtxSetCurrent(Handle c) { current = c; return SUCCESS; }
Result cuCtxPushCurrent_v2(Handle c) { current = c; return SUCCESS; }
Result cuCtxPopCurrent_v2(Handle *c) { if (c) *c = current; return SUCCESS; }
Result cuCtxGetDevice(int *device) { *device = device_of(current); return SUCCESS; }
Result cuCtxGetDevice_v2(int *device, Handle c) { *device = device_of(c); return SUCCESS; }
Result cuCtxGetId(Handle c, unsigned long long *id) { *id = 1 + device_of(c); return SUCCESS; }
Result cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0, *greatest = -5; return SUCCESS; }
Result cuCtxSynchronize(void) { return waiting(); }

// --- memory: on the host, limited to the simulated free memory ---

static size_t taken;
typedef struct { size_t size; char pad[PAGE - sizeof(size_t)]; } Header;  // precedes each allocation and keeps it aligned
Result cuMemGetInfo_v2(size_t *free_bytes, size_t *total) { *free_bytes = FREE_BYTES - taken, *total = CARD_BYTES; return SUCCESS; }
// Mapped, not from the heap: a heap can begin below 4 GiB, where the interpreter has no global memory.
Result cuMemAlloc_v2(Pointer *pointer, size_t size) {
    Header *header;
    if (size == 0 || waiting()) return size ? waiting() : INVALID_VALUE;
    if (size > FREE_BYTES - taken) return OUT_OF_MEMORY;
    header = mmap(NULL, sizeof(Header) + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (header == MAP_FAILED) return OUT_OF_MEMORY;
    header->size = size, taken += size;
    *pointer = (Pointer)(header + 1);
    map_memory(*pointer, size);
    return SUCCESS;
}
Result cuMemFree_v2(Pointer pointer) {
    Header *header = (Header *)pointer - 1;
    if (!pointer) return SUCCESS;
    if (unmap_memory(pointer)) return INVALID_VALUE;
    taken -= header->size;
    munmap(header, sizeof(Header) + header->size);
    return SUCCESS;
}
Result cuMemAllocAsync(Pointer *pointer, size_t size, Handle stream) { return cuMemAlloc_v2(pointer, size); }
Result cuMemFreeAsync(Pointer pointer, Handle stream) { return cuMemFree_v2(pointer); }
Result cuMemHostAlloc(void **pointer, size_t size, unsigned flags) { return posix_memalign(pointer, 4096, size) ? OUT_OF_MEMORY : SUCCESS; }
Result cuMemFreeHost(void *pointer) { free(pointer); return SUCCESS; }
Result cuMemcpyAsync(Pointer to, Pointer from, size_t size, Handle stream) { return copy_on_stream(to, from, size, stream); }
Result cuMemcpy(Pointer to, Pointer from, size_t size) { return cuMemcpyAsync(to, from, size, 0); }
Result cuMemcpyHtoD_v2(Pointer to, const void *from, size_t size) { return cuMemcpyAsync(to, (Pointer)from, size, 0); }
Result cuMemcpyDtoH_v2(void *to, Pointer from, size_t size) { return cuMemcpyAsync((Pointer)to, from, size, 0); }
Result cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t size) { return cuMemcpyAsync(to, from, size, 0); }
Result cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t size, Handle s) { return cuMemcpyAsync(to, (Pointer)from, size, s); }
Result cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t size, Handle s) { return cuMemcpyAsync((Pointer)to, from, size, s); }
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t size, Handle s) { return cuMemcpyAsync(to, from, size, s); }
Result cuMemsetD8Async(Pointer to, unsigned char value, size_t size, Handle stream) { return fill_on_stream(to, value, size, stream); }
Result cuMemsetD8_v2(Pointer to, unsigned char value, size_t size) { return cuMemsetD8Async(to, value, size, 0); }
Result cuPointerGetAttribute(void *value, int attribute, Pointer pointer) {
    enum { CONTEXT = 1, MEMORY_TYPE = 2, DEVICE_POINTER = 3, IS_MANAGED = 8, DEVICE_ORDINAL = 9, DEVICE_MEMORY = 2 };
    switch (attribute) {
        case CONTEXT: *(Handle *)value = current; return SUCCESS;
        case MEMORY_TYPE: *(unsigned *)value = DEVICE_MEMORY; return SUCCESS;
        case DEVICE_POINTER: *(Pointer *)value = pointer; return SUCCESS;
        case IS_MANAGED: *(unsigned *)value = 0; return SUCCESS;
        case DEVICE_ORDINAL: *(int *)value = device_of(current); return SUCCESS;
        default: return INVALID_VALUE;
    }
}
Result cuMemGetAddressRange_v2(Pointer *begin, size_t *size, Pointer pointer) {
    *begin = pointer, *size = ((Header *)pointer - 1)->size;
    return SUCCESS;
}

// --- streams and events: work is done when it is enqueued, or recorded by a stream that captures ---

Result cuStreamCreate(Handle *stream, unsigned flags) { return give(stream); }
Result cuStreamCreateWithPriority(Handle *stream, unsigned flags, int priority) { return give(stream); }
Result cuStreamDestroy_v2(Handle stream) { return SUCCESS; }
Result cuStreamSynchronize(Handle stream) { return waiting(); }
Result cuStreamQuery(Handle stream) { return SUCCESS; }
Result cuStreamGetCtx(Handle stream, Handle *c) { *c = current ? current : context; return SUCCESS; }
Result cuStreamWaitEvent(Handle stream, Handle event, unsigned flags) { return SUCCESS; }
Result cuEventCreate(Handle *event, unsigned flags) { return give(event); }
Result cuEventDestroy_v2(Handle event) { return SUCCESS; }
Result cuEventRecord(Handle event, Handle stream) { return SUCCESS; }
Result cuEventSynchronize(Handle event) { return SUCCESS; }
Result cuEventQuery(Handle event) { return SUCCESS; }
Result cuEventElapsedTime_v2(float *ms, Handle begin, Handle end) { *ms = 1; return SUCCESS; }
Result cuEventElapsedTime(float *ms, Handle begin, Handle end) { return cuEventElapsedTime_v2(ms, begin, end); }

// --- what libraries ask the driver for before they call it ---

Result cuGetErrorName(Result error, const char **name) {
    switch (error) {
        case SUCCESS: *name = "CUDA_SUCCESS"; return SUCCESS;
        case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return SUCCESS;
        case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
        case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; return SUCCESS;
        case INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; return SUCCESS;
        case INVALID_IMAGE: *name = "CUDA_ERROR_INVALID_IMAGE"; return SUCCESS;
        case INVALID_PTX: *name = "CUDA_ERROR_INVALID_PTX"; return SUCCESS;
        case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; return SUCCESS;
        case ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return SUCCESS;
        case OUT_OF_RESOURCES: *name = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"; return SUCCESS;
        case LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; return SUCCESS;
        case STREAM_CAPTURE_UNSUPPORTED: *name = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; return SUCCESS;
        case STREAM_CAPTURE_IMPLICIT: *name = "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"; return SUCCESS;
        default: *name = NULL; return INVALID_VALUE;
    }
}
Result cuGetErrorString(Result error, const char **text) { return cuGetErrorName(error, text); }
Result cuGetExportTable(const void **table, const void *id) { return NOT_FOUND; }  // what NVIDIA's own runtime would need

// A name stands for its newest version that is here; of those that are not here, the caller learns so.
Result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    static const char *const SUFFIXES[] = {"_v2", ""};
    char symbol[256];
    *function = NULL;
    for (int i = 0; i < 2 && !*function; ++i) {
        snprintf(symbol, sizeof symbol, "%s%s", name, SUFFIXES[i]);
        *function = dlsym(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY), symbol);
    }
    if (status) *status = *function ? 0 : 1;
    return *function ? SUCCESS : NOT_FOUND;
}
Result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
