// Device memory: arrays at virtual addresses, whose upper half is the number of the array.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "base.h"

namespace ptx {

enum class Space : u8 { Generic, Global, Shared, Local, Const, Param };

// Generic addresses of the other spaces lie in windows of 4 GiB, beyond the numbers of arrays.
constexpr u64 SHARED_WINDOW = u64(0x7001) << 32, LOCAL_WINDOW = u64(0x7002) << 32, PARAM_WINDOW = u64(0x7003) << 32;
// Addresses of kernels, and of the parameters of kernels that a kernel launches.
constexpr u64 KERNEL_WINDOW = u64(0x7004) << 32, LAUNCH_WINDOW = u64(0x7005) << 32;
// Offset of an array in its window: an address before the array's begin is still recognised as the array's.
constexpr u64 ARRAY_START = u64(1) << 30;

// One thread's operation at one value of its clock; clock 0 is none.
struct Event {
    u32 thread = 0, clock = 0;
};

// The last accesses to one granule, for the detection of races. Of many readers, a sample of 4 is kept.
struct Cell {
    Event write;
    Event reads[4];
    u8 write_strength = 0, read_strength = 0;  // 0: weak, else 1 + the scope (of reads, the least)
    bool read_non_coherently = false;          // by ld.global.nc
};

struct Array {
    u8* data = nullptr;  // null: freed
    u64 bytes = 0;
    bool read_only = false;
    std::vector<bool> written;  // by byte; empty: all of it is initialised
    u64 launch = 0;             // to which the cells belong
    std::vector<std::vector<Cell>> pages;
};

class Memory {
public:
    u64 allocate(u8* data, u64 bytes, bool read_only, bool initialised);
    void release(u64 address);
    // An initialised array at its address on the host, for a driver whose callers compute addresses themselves.
    void map(u8* data, u64 bytes);
    bool unmap(u64 address) { return mapped.erase(address); }  // whether an array began there
    // Array of an address, with the offset in `offset`; null for an address in no array's window.
    Array* find(u64 address, s64& offset);
private:
    std::vector<std::unique_ptr<Array>> arrays;
    std::map<u64, Array> mapped;  // by address
};

}  // namespace ptx
