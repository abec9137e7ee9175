#include "memory.h"

namespace ptx {

u64 Memory::allocate(u8* data, u64 bytes, bool read_only, bool initialised) {
    if (bytes >= (u64(1) << 31)) throw Error("an array of 2 GiB or more", "launch");
    if (arrays.size() + 1 >= (SHARED_WINDOW >> 32)) throw Error("too many arrays", "launch");
    auto array = std::make_unique<Array>();
    array->data = data;
    array->bytes = bytes;
    array->read_only = read_only;
    if (!initialised) array->written.assign(bytes, false);
    arrays.push_back(std::move(array));
    return (static_cast<u64>(arrays.size()) << 32) + ARRAY_START;
}

void Memory::release(u64 address) {
    s64 offset;
    Array* array = find(address, offset);
    if (!array || offset) throw Error("not the address of an array", "launch");
    *array = Array();
}

void Memory::map(u8* data, u64 bytes) {
    Array& array = mapped[reinterpret_cast<u64>(data)];
    array = Array();
    array.data = data;
    array.bytes = bytes;
}

Array* Memory::find(u64 address, s64& offset) {
    const u64 window = address >> 32;
    if (window > arrays.size()) {
        auto next = mapped.upper_bound(address);
        if (next == mapped.begin()) return nullptr;
        auto& [start, array] = *--next;
        offset = static_cast<s64>(address - start);
        return &array;
    }
    if (window == 0) return nullptr;
    offset = static_cast<s64>(address & 0xffffffffu) - static_cast<s64>(ARRAY_START);
    return arrays[window - 1].get();
}

}  // namespace ptx
