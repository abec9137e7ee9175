#include "numbers.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>

namespace ptx {

std::string print(const char* format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

Type find_type(const std::string& name) {
    static const std::map<std::string, Type> types = {
        {"pred", Type::Pred}, {"u8", Type::U8},       {"s8", Type::S8},     {"b8", Type::B8},     {"u16", Type::U16},
        {"s16", Type::S16},   {"b16", Type::B16},     {"u32", Type::U32},   {"s32", Type::S32},   {"b32", Type::B32},
        {"u64", Type::U64},   {"s64", Type::S64},     {"b64", Type::B64},   {"b128", Type::B128}, {"f16", Type::F16},
        {"bf16", Type::BF16}, {"f16x2", Type::F16x2}, {"bf16x2", Type::BF16x2}, {"tf32", Type::TF32}, {"f32", Type::F32},
        {"f64", Type::F64}};
    auto found = types.find(name);
    return found == types.end() ? Type::None : found->second;
}

int bytes_of(Type type) {
    switch (type) {
        case Type::Pred: case Type::U8: case Type::S8: case Type::B8: return 1;
        case Type::U16: case Type::S16: case Type::B16: case Type::F16: case Type::BF16: return 2;
        case Type::U64: case Type::S64: case Type::B64: case Type::F64: return 8;
        case Type::B128: return 16;
        default: return 4;
    }
}

bool is_signed(Type type) {
    return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64;
}

bool is_float(Type type) {
    return type == Type::F16 || type == Type::BF16 || type == Type::TF32 || type == Type::F32 || type == Type::F64;
}

RoundingScope::RoundingScope(Rounding rounding) : before(-1) {
    if (rounding == Rounding::Default || rounding == Rounding::Nearest) return;
    before = fegetround();
    fesetround(rounding == Rounding::Zero ? FE_TOWARDZERO : rounding == Rounding::Down ? FE_DOWNWARD : FE_UPWARD);
}

RoundingScope::~RoundingScope() {
    if (before >= 0) fesetround(before);
}

u32 round_to_format(double value, int fraction_bits, int exponent_bits, Rounding rounding) {
    const u32 sign = std::signbit(value) ? 1u << (fraction_bits + exponent_bits) : 0;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const u32 infinity = ((1u << exponent_bits) - 1) << fraction_bits;
    if (std::isnan(value)) return infinity | ((1u << fraction_bits) - 1);  // the canonical NaN, without a sign
    const double magnitude = std::fabs(value);
    if (std::isinf(value)) return sign | infinity;
    if (magnitude == 0) return sign;
    int exponent;
    std::frexp(magnitude, &exponent);  // magnitude = f·2^exponent with f in [0.5, 1)
    exponent = std::max(exponent - 1, 1 - bias);
    const double scaled = std::ldexp(magnitude, fraction_bits - exponent);  // in units of the last place; exact
    double whole = std::floor(scaled);
    const double rest = scaled - whole;
    bool up = false;
    switch (rounding) {
        case Rounding::Zero: break;
        case Rounding::Down: up = rest > 0 && sign; break;
        case Rounding::Up: up = rest > 0 && !sign; break;
        default: up = rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1);
    }
    if (up) whole += 1;
    // The hidden bit of a normal number adds 1 to the exponent field; so does a carry out of the fraction.
    const u64 bits = (static_cast<u64>(exponent + bias - 1) << fraction_bits) + static_cast<u64>(whole);
    if (bits >= infinity) {
        const bool to_largest = rounding == Rounding::Zero || (rounding == Rounding::Down && !sign) ||
                                (rounding == Rounding::Up && sign);
        return sign | (to_largest ? infinity - 1 : infinity);
    }
    return sign | static_cast<u32>(bits);
}

static double make_odd(double sum, double error) {
    if (error == 0 || !std::isfinite(sum) || bit_cast<u64>(sum) & 1) return sum;
    return std::nextafter(sum, error > 0 ? INFINITY : -INFINITY);
}

double add_to_odd(double a, double b) {
    const double sum = a + b, part = sum - a;  // Knuth's TwoSum: sum + error is exact
    return make_odd(sum, (a - (sum - part)) + (b - part));
}

double multiply_add_to_odd(double a, double b, double c) {
    return add_to_odd(a * b, c);  // the product of two floats of at most 24 bits is exact in double
}

double decode_float(Type type, u64 bits) {
    switch (type) {
        case Type::F32: return to_float(bits);
        case Type::TF32: return to_float(bits & 0xffffe000);  // the hardware ignores the low 13 bits
        case Type::BF16: return to_float((bits & 0xffff) << 16);
        case Type::F64: return to_double(bits);
        case Type::F16: {
            const u32 fraction = bits & 0x3ff, exponent = bits >> 10 & 31;
            double magnitude;
            if (exponent == 31) magnitude = fraction ? NAN : INFINITY;
            else if (exponent == 0) magnitude = std::ldexp(fraction, -24);
            else magnitude = std::ldexp(fraction + 1024, static_cast<int>(exponent) - 25);
            return bits & 0x8000 ? -magnitude : magnitude;
        }
        default: throw Error("not a floating-point type");
    }
}

u64 encode_float(Type type, double value, Rounding rounding) {
    switch (type) {
        case Type::F64: return std::isnan(value) ? 0x7fffffffffffffffull : from_double(value);
        case Type::F32: return round_to_format(value, 23, 8, rounding);
        case Type::TF32: return static_cast<u64>(round_to_format(value, 10, 8, rounding)) << 13;
        case Type::BF16: return round_to_format(value, 7, 8, rounding);
        case Type::F16: return round_to_format(value, 10, 5, rounding);
        default: throw Error("not a floating-point type");
    }
}

u64 flush_subnormal(u64 bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000; }

}  // namespace ptx
