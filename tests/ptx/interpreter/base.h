// Integer names, errors and bit casts that every part of the interpreter uses.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace ptx {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s32 = int32_t;
using s64 = int64_t;

constexpr int LANES = 32;
constexpr u32 FULL_WARP = 0xffffffffu;

// A defect of the PTX text ("syntax"), of a launch's arguments ("launch"), or of the execution: "bounds", "misaligned",
// "uninitialised", "read-only", "race", "proxy", "in-flight", "convergence", "barrier", "deadlock", "limit", "trap",
// "unsupported", "arithmetic".
struct Error : std::runtime_error {
    explicit Error(const std::string& message, const char* kind = "syntax", int line = 0, int block = -1,
                   int thread = -1)
        : std::runtime_error(message), kind(kind), line(line), block(block), thread(thread) {}
    const char* kind;
    int line;           // of the PTX text; 0 without one
    int block, thread;  // linear; -1 without one
};

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
std::string print(const char* format, ...);

template <class To, class From> inline To bit_cast(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    memcpy(&result, &value, sizeof result);
    return result;
}

inline float to_float(u64 bits) { return bit_cast<float>(static_cast<u32>(bits)); }
inline double to_double(u64 bits) { return bit_cast<double>(bits); }
inline u64 from_float(float value) { return bit_cast<u32>(value); }
inline u64 from_double(double value) { return bit_cast<u64>(value); }

}  // namespace ptx
