// PTX types (section "Types") and the floating-point formats that C++ lacks.
#pragma once
#include "base.h"

namespace ptx {

enum class Type : u8 {
    None, Pred, U8, S8, B8, U16, S16, B16, U32, S32, B32, U64, S64, B64, B128, F16, BF16, F16x2, BF16x2, TF32, F32, F64
};

Type find_type(const std::string& name);  // Type::None for an unknown name
int bytes_of(Type);
bool is_signed(Type);
bool is_float(Type);  // of scalar floating-point types

// Rounding modifiers (.rn, .rz, .rm, .rp; the integer forms .rni … select the same directions).
enum class Rounding : u8 { Default, Nearest, Zero, Down, Up };

inline u64 truncate(u64 value, int bytes) { return bytes >= 8 ? value : value & ((u64(1) << (8 * bytes)) - 1); }
inline s64 extend_sign(u64 value, int bytes) {
    int shift = 64 - 8 * bytes;
    return shift <= 0 ? static_cast<s64>(value) : static_cast<s64>(value << shift) >> shift;
}

// Sets the host's rounding direction for one scope.
class RoundingScope {
public:
    explicit RoundingScope(Rounding);
    ~RoundingScope();
    RoundingScope(const RoundingScope&) = delete;
private:
    int before;  // -1: the direction is the host's own, to nearest
};

// Returns the bits of value in a format of this many fraction bits and exponent bits, rounded once.
u32 round_to_format(double value, int fraction_bits, int exponent_bits, Rounding);

// a + b and a·b + c with the last bit of an inexact result set (round to odd): a second rounding to at most 24 fraction
// bits then gives what one rounding of the exact result gives.
double add_to_odd(double a, double b);
double multiply_add_to_odd(double a, double b, double c);

double decode_float(Type, u64 bits);                                       // exact
u64 encode_float(Type, double value, Rounding = Rounding::Nearest);        // rounds once
u64 flush_subnormal(u64 float_bits);                                       // .ftz of a .f32

}  // namespace ptx
