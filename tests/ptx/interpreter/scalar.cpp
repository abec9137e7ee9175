// Instructions that compute from registers of one lane (sections "Integer Arithmetic", "Floating-Point", "Comparison and
// Selection", "Logic and Shift", "Data Movement and Conversion"). Compilers compute speculatively from registers that are
// undefined on a path: here a result is then undefined, too. Everything that leaves the registers reads defined ones.
#include <algorithm>
#include <cmath>

#include "machine.h"

namespace ptx {

const u64* Machine::read_row(Warp& w, const Operand& operand, u32 run, Row& buffer) {
    const u32 undefined = run & ~defined_lanes(w, operand);
    if (undefined) {
        lane = __builtin_ctz(undefined);
        fail("uninitialised", "register " + kernel.register_names[operand.row] +
                              " is undefined: it, or a register from which it is computed, has not been written");
    }
    return speculate(w, operand, buffer);
}

const u64* Machine::speculate(Warp& w, const Operand& operand, Row& buffer) {
    if (operand.kind != Operand::Row) fail("syntax", "an operand is not a register or a number");
    if (operand.constant) return kernel.constants[operand.row].data();
    if (w.in_flight_count && w.in_flight[operand.row])
        fail("in-flight", "register " + kernel.register_names[operand.row] + " is read before its wgmma is waited for");
    if (!w.unfenced.empty()) w.unfenced[operand.row] = 1;
    const u64* row = &w.registers[static_cast<size_t>(operand.row) * LANES];
    if (!operand.negated) return row;
    for (int l = 0; l < LANES; ++l) buffer[l] = row[l] ^ 1;
    return buffer.data();
}

u64 Machine::read(Warp& w, const Operand& operand, int l) {
    Row buffer;
    return read_row(w, operand, 1u << l, buffer)[l];
}

void Machine::write(Warp& w, const Operand& operand, int l, u64 value) {
    if (operand.kind == Operand::Sink) return;
    if (operand.kind != Operand::Row || operand.constant) fail("syntax", "the result is not a register");
    if (w.in_flight_count && w.in_flight[operand.row])
        fail("in-flight", "register " + kernel.register_names[operand.row] + " is written before its wgmma is waited for");
    w.registers[static_cast<size_t>(operand.row) * LANES + l] = value & kernel.register_masks[operand.row];
    w.initialised[operand.row] |= 1u << l;
    if (!w.unfenced.empty()) w.unfenced[operand.row] = 1;
}

void Machine::write_undefined(Warp& w, const Operand& operand, u32 lanes) {
    if (operand.kind == Operand::Row && !operand.constant) w.initialised[operand.row] &= ~lanes;
}

namespace {

u64 extend(Type type, u64 value) {
    const int bytes = bytes_of(type);
    return is_signed(type) ? static_cast<u64>(extend_sign(value, bytes)) : truncate(value, bytes);
}

bool is_pair(Type type) { return type == Type::F16x2 || type == Type::BF16x2; }

// min and max: a NaN only where both are (or .NaN is given), −0 below +0.
double choose(double a, double b, bool smaller, bool nan) {
    if (std::isnan(a) || std::isnan(b)) {
        if (nan) return NAN;
        return std::isnan(a) ? b : a;
    }
    if (a == b) return std::signbit(a) == smaller ? a : b;
    return (a < b) == smaller ? a : b;
}

// Arithmetic of the 16-bit formats, in which double holds every product; rounds once.
u64 compute_half(const Instruction& i, Type type, u64 a, u64 b, u64 c) {
    const double x = decode_float(type, a), y = decode_float(type, b);
    double result;
    switch (i.op) {
        case Op::Add: result = add_to_odd(x, y); break;
        case Op::Sub: result = add_to_odd(x, -y); break;
        case Op::Mul: result = x * y; break;
        case Op::Fma: result = multiply_add_to_odd(x, y, decode_float(type, c)); break;
        case Op::Min: result = choose(x, y, true, i.has(NAN_RESULT)); break;
        case Op::Max: result = choose(x, y, false, i.has(NAN_RESULT)); break;
        case Op::Neg: return a ^ 0x8000;
        case Op::Abs: return a & 0x7fff;
        case Op::Ex2: result = std::exp2(x); break;
        case Op::Tanh: result = std::tanh(x); break;
        default: throw Error("this instruction has no 16-bit floating-point form", "syntax", i.line);
    }
    if (i.has(SAT)) result = result > 0 ? std::min(result, 1.0) : 0;
    return encode_float(type, result);
}

// The caller sets the rounding direction of the host.
template <class Float> Float compute_float(const Instruction& i, Float a, Float b, Float c) {
    switch (i.op) {
        case Op::Add: return a + b;
        case Op::Sub: return a - b;
        case Op::Mul: return a * b;
        case Op::Fma: case Op::Mad: return std::fma(a, b, c);
        case Op::Div: return a / b;
        case Op::Min: return static_cast<Float>(choose(a, b, true, i.has(NAN_RESULT)));
        case Op::Max: return static_cast<Float>(choose(a, b, false, i.has(NAN_RESULT)));
        case Op::Rcp: return 1 / a;
        case Op::Sqrt: return std::sqrt(a);
        // The approximations: the correctly rounded result lies within every error that the ISA allows.
        case Op::Rsqrt: return static_cast<Float>(1 / std::sqrt(static_cast<long double>(a)));
        case Op::Ex2: return static_cast<Float>(std::exp2(static_cast<double>(a)));
        case Op::Lg2: return static_cast<Float>(std::log2(static_cast<double>(a)));
        case Op::Sin: return static_cast<Float>(std::sin(static_cast<double>(a)));
        case Op::Cos: return static_cast<Float>(std::cos(static_cast<double>(a)));
        case Op::Tanh: return static_cast<Float>(std::tanh(static_cast<double>(a)));
        default: throw Error("this instruction has no floating-point form", "syntax", i.line);
    }
}

u64 compute_float32(const Instruction& i, u64 a, u64 b, u64 c) {
    if (i.op == Op::Neg || i.op == Op::Abs) {
        if (i.has(FTZ)) a = flush_subnormal(a);
        return i.op == Op::Neg ? a ^ 0x80000000u : a & 0x7fffffffu;
    }
    if (i.has(FTZ)) a = flush_subnormal(a), b = flush_subnormal(b), c = flush_subnormal(c);
    float result = compute_float(i, to_float(a), to_float(b), to_float(c));
    if (i.has(SAT)) result = result > 0 ? std::min(result, 1.0f) : 0;
    if (std::isnan(result)) return 0x7fffffff;
    return i.has(FTZ) ? flush_subnormal(from_float(result)) : from_float(result);
}

u64 compute_float64(const Instruction& i, u64 a, u64 b, u64 c) {
    if (i.op == Op::Neg) return a ^ (u64(1) << 63);
    if (i.op == Op::Abs) return a & ~(u64(1) << 63);
    return from_double(compute_float(i, to_double(a), to_double(b), to_double(c)));
}

// The operands are extended to 64 bits; the result is cut by its register.
template <class Integer, class Wide> u64 compute_integer(const Instruction& i, u64 a, u64 b, u64 c) {
    const Integer x = static_cast<Integer>(a), y = static_cast<Integer>(b);
    const int bytes = bytes_of(i.type);
    switch (i.op) {
        case Op::Add: {
            if (!i.has(SAT)) return a + b;
            const s64 sum = static_cast<s64>(a + b);  // add.sat exists for .s32 alone
            return static_cast<u64>(std::clamp<s64>(sum, INT32_MIN, INT32_MAX));
        }
        case Op::Sub: {
            if (!i.has(SAT)) return a - b;
            return static_cast<u64>(std::clamp<s64>(static_cast<s64>(a - b), INT32_MIN, INT32_MAX));
        }
        case Op::Mul: case Op::Mad: {
            const u64 sum = i.op == Op::Mad ? c : 0;
            if (i.has(HIGH)) return static_cast<u64>((static_cast<Wide>(x) * y) >> (8 * bytes)) + sum;
            return a * b + sum;
        }
        // The result of a division by zero is unspecified.
        case Op::Div:
            if (!y) throw Error("integer division by zero", "arithmetic");
            return y == static_cast<Integer>(-1) && is_signed(i.type) ? ~a + 1 : static_cast<u64>(x / y);
        case Op::Rem:
            if (!y) throw Error("integer division by zero", "arithmetic");
            return y == static_cast<Integer>(-1) && is_signed(i.type) ? 0 : static_cast<u64>(x % y);
        case Op::Min: return static_cast<u64>(std::min(x, y));
        case Op::Max: return static_cast<u64>(std::max(x, y));
        case Op::Neg: return ~a + 1;
        case Op::Abs: return x < 0 ? ~a + 1 : a;
        case Op::Sad: return (x < y ? b - a : a - b) + c;
        default: throw Error("this instruction has no integer form", "syntax", i.line);
    }
}

bool compare_values(Compare compare, bool less, bool equal, bool unordered) {
    switch (compare) {
        case Compare::Eq: return equal && !unordered;
        case Compare::Ne: return !equal && !unordered;
        case Compare::Lt: return less && !unordered;
        case Compare::Le: return (less || equal) && !unordered;
        case Compare::Gt: return !less && !equal && !unordered;
        case Compare::Ge: return !less && !unordered;
        case Compare::Equ: return equal || unordered;
        case Compare::Neu: return !equal || unordered;
        case Compare::Ltu: return less || unordered;
        case Compare::Leu: return less || equal || unordered;
        case Compare::Gtu: return (!less && !equal) || unordered;
        case Compare::Geu: return !less || unordered;
        case Compare::Num: return !unordered;
        case Compare::Nan: return unordered;
    }
    return false;
}

bool compare_operands(const Instruction& i, u64 a, u64 b) {
    if (is_float(i.type)) {
        if (i.has(FTZ) && i.type == Type::F32) a = flush_subnormal(a), b = flush_subnormal(b);
        const double x = decode_float(i.type, a), y = decode_float(i.type, b);
        return compare_values(i.compare, x < y, x == y, std::isnan(x) || std::isnan(y));
    }
    a = extend(i.type, a), b = extend(i.type, b);
    const bool less = is_signed(i.type) ? static_cast<s64>(a) < static_cast<s64>(b) : a < b;
    return compare_values(i.compare, less, a == b, false);
}

double round_integer(double value, Rounding rounding) {
    switch (rounding) {
        case Rounding::Zero: return std::trunc(value);
        case Rounding::Down: return std::floor(value);
        case Rounding::Up: return std::ceil(value);
        default: return std::nearbyint(value);
    }
}

u64 float_to_integer(Type type, double value) {
    if (std::isnan(value)) return 0;
    const int bits = 8 * bytes_of(type);
    if (is_signed(type)) {
        const double limit = std::ldexp(1, bits - 1);
        if (value >= limit) return (u64(1) << (bits - 1)) - 1;
        return static_cast<u64>(static_cast<s64>(std::max(value, -limit)));
    }
    if (value >= std::ldexp(1, bits)) return truncate(~u64(0), bits / 8);
    return value <= 0 ? 0 : static_cast<u64>(value);
}

u64 integer_to_float(const Instruction& i, u64 value) {
    value = extend(i.source, value);
    const RoundingScope scope(i.rounding);
    if (i.type == Type::F64)
        return from_double(is_signed(i.source) ? static_cast<double>(static_cast<s64>(value)) : static_cast<double>(value));
    if (i.type == Type::F32)
        return from_float(is_signed(i.source) ? static_cast<float>(static_cast<s64>(value)) : static_cast<float>(value));
    const double high = static_cast<double>(static_cast<s64>(is_signed(i.source) ? static_cast<u64>(static_cast<s64>(value) >> 32) : value >> 32));
    return encode_float(i.type, add_to_odd(high * 4294967296.0, static_cast<double>(value & 0xffffffffu)), i.rounding);
}

u64 convert(const Instruction& i, u64 a, u64 b) {
    if (is_pair(i.type)) {  // d = {a, b}: a is the upper half
        const Type half = i.type == Type::F16x2 ? Type::F16 : Type::BF16;
        return encode_float(half, decode_float(i.source, a), i.rounding) << 16 |
               encode_float(half, decode_float(i.source, b), i.rounding);
    }
    if (is_float(i.source)) {
        if (i.has(FTZ) && i.source == Type::F32) a = flush_subnormal(a);
        double value = decode_float(i.source, a);
        if (i.has(INTEGER_ROUND)) value = round_integer(value, i.rounding);
        if (!is_float(i.type)) return float_to_integer(i.type, value);
        if (i.has(SAT)) value = value > 0 ? std::min(value, 1.0) : 0;
        const u64 result = encode_float(i.type, value, i.rounding);
        return i.has(FTZ) && i.type == Type::F32 ? flush_subnormal(result) : result;
    }
    if (is_float(i.type)) return integer_to_float(i, a);
    a = extend(i.source, a);
    if (!i.has(SAT)) return extend(i.type, a);
    const int bits = 8 * bytes_of(i.type);
    const __int128 value = is_signed(i.source) ? static_cast<__int128>(static_cast<s64>(a)) : static_cast<__int128>(a);
    const __int128 low = is_signed(i.type) ? -(__int128(1) << (bits - 1)) : 0;
    const __int128 high = (__int128(1) << (is_signed(i.type) ? bits - 1 : bits)) - 1;
    return static_cast<u64>(std::clamp(value, low, high));
}

u64 extract_field(Type type, u64 value, u64 start, u64 length) {
    const int bits = 8 * bytes_of(type);
    start &= 255, length &= 255;
    value = truncate(value, bits / 8);
    const u64 last = std::min<u64>(start + length - 1, bits - 1);
    const bool sign = is_signed(type) && length && (value >> last & 1);
    u64 result = 0;
    for (int bit = 0; bit < bits; ++bit) {
        const bool inside = static_cast<u64>(bit) < length && start + bit < static_cast<u64>(bits);
        if (inside ? value >> (start + bit) & 1 : sign) result |= u64(1) << bit;
    }
    return result;
}

u64 permute(const Instruction& i, u64 a, u64 b, u64 selection) {
    const u64 bytes = (a & 0xffffffffu) | b << 32;
    u64 result = 0;
    for (int k = 0; k < 4; ++k) {
        const int s = selection & 3;
        u32 from = selection >> (4 * k) & 15;
        switch (i.action) {
            case Action::F4e: from = s + k; break;
            case Action::B4e: from = (s - k) & 7; break;
            case Action::Rc8: from = s; break;
            case Action::Ecl: from = std::max(k, s); break;
            case Action::Ecr: from = std::min(k, s); break;
            case Action::Rc16: from = (s & 1) * 2 + (k & 1); break;
            default: break;
        }
        u64 byte = bytes >> (8 * (from & 7)) & 255;
        if (i.action == Action::None && from & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << (8 * k);
    }
    return result;
}

u64 dot(const Instruction& i, u64 a, u64 b, u64 c) {
    const bool bytes = i.op == Op::Dp4a;
    for (int k = 0; k < (bytes ? 4 : 2); ++k) {
        const int size = bytes ? 1 : 2;
        const int second = bytes || i.has(SECOND_LOW) ? k : k + 2;
        const u64 x = a >> (8 * size * k), y = b >> (8 * second);
        const s64 left = i.type == Type::S32 ? extend_sign(x, size) : static_cast<s64>(truncate(x, size));
        const s64 right = i.has(SECOND_SIGNED) ? extend_sign(y, 1) : static_cast<s64>(truncate(y, 1));
        c += static_cast<u64>(left * right);
    }
    return c;
}

bool test_property(const Instruction& i, u64 a) {
    const double value = decode_float(i.type, a);
    const double least = i.type == Type::F32 ? 0x1p-126 : 0x1p-1022;
    switch (i.action) {
        case Action::Finite: return std::isfinite(value);
        case Action::Infinite: return std::isinf(value);
        case Action::Number: return !std::isnan(value);
        case Action::NotANumber: return std::isnan(value);
        case Action::Normal: return std::isfinite(value) && std::fabs(value) >= least;
        default: return value != 0 && std::fabs(value) < least;
    }
}

u64 compute_bits(const Instruction& i, u64 a, u64 b, u64 c, u64 d) {
    const int bytes = bytes_of(i.type), bits = 8 * bytes;
    switch (i.op) {
        case Op::And: return a & b;
        case Op::Or: return a | b;
        case Op::Xor: return a ^ b;
        case Op::Not: return ~a;
        case Op::Shl: return (b & 0xffffffffu) >= static_cast<u64>(bits) ? 0 : a << (b & 63);
        case Op::Shr: {
            const u64 shift = std::min<u64>(b & 0xffffffffu, bits);
            if (is_signed(i.type)) return static_cast<u64>(extend_sign(a, bytes) >> std::min<u64>(shift, bits - 1));
            return shift >= static_cast<u64>(bits) ? 0 : truncate(a, bytes) >> shift;
        }
        case Op::Shf: {
            const u64 shift = i.has(WRAP) ? c & 31 : std::min<u64>(c & 0xffffffffu, 32);
            const u64 both = (b & 0xffffffffu) << 32 | (a & 0xffffffffu);
            return i.action == Action::L ? (both << shift) >> 32 : both >> shift;
        }
        case Op::Popc: return __builtin_popcountll(truncate(a, bytes));
        case Op::Clz: a = truncate(a, bytes); return a ? __builtin_clzll(a) - (64 - bits) : bits;
        case Op::Brev: {
            u64 result = 0;
            for (int bit = 0; bit < bits; ++bit) result |= (a >> bit & 1) << (bits - 1 - bit);
            return result;
        }
        case Op::Bfind: {
            if (is_signed(i.type) && extend_sign(a, bytes) < 0) a = ~a;
            a = truncate(a, bytes);
            if (!a) return 0xffffffffu;
            const u64 position = 63 - __builtin_clzll(a);
            return i.has(SHIFTAMT) ? bits - 1 - position : position;
        }
        case Op::Bfe: return extract_field(i.type, a, b, c);
        case Op::Bfi: {
            const u64 start = c & 255, length = d & 255;
            if (start >= static_cast<u64>(bits)) return b;
            const u64 mask = (length >= 64 ? ~u64(0) : (u64(1) << length) - 1) << start;
            return (b & ~mask) | ((a << start) & mask);
        }
        case Op::Prmt: return permute(i, a, b, c);
        case Op::Lop3: {
            u64 result = 0;
            for (int row = 0; row < 8; ++row)
                if (d >> row & 1) result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
            return result;
        }
        case Op::Dp2a: case Op::Dp4a: return dot(i, a, b, c);
        case Op::Copysign: {
            const u64 sign = u64(1) << (bits - 1);
            return (b & ~sign) | (a & sign);
        }
        case Op::Testp: return test_property(i, a);
        case Op::Cvt: return convert(i, a, b);
        default: throw Error("unknown scalar instruction", "syntax", i.line);
    }
}

// Lanes whose value is not zero.
u32 true_lanes(const u64* row) {
    u32 lanes = 0;
    for (int l = 0; l < LANES; ++l) lanes |= static_cast<u32>(row[l] != 0) << l;
    return lanes;
}

// Lanes whose predicate decides `action` whatever the other operand is: false decides .and, and true decides .or.
u32 decided(Action action, u32 defined, const u64* row) {
    return action == Action::And ? defined & ~true_lanes(row) : action == Action::Or ? defined & true_lanes(row) : 0;
}

template <class Compute> void for_lanes(u32 run, Compute compute) {
    if (run == FULL_WARP)
        for (int l = 0; l < LANES; ++l) compute(l);
    else
        for (; run; run &= run - 1) compute(__builtin_ctz(run));
}

}  // namespace

void Machine::execute_scalar(Warp& w, const Instruction& i, u32 run) {
    const auto& operands = i.operands;
    if (i.op == Op::Mov && (operands[0].kind == Operand::Vector || operands[1].kind == Operand::Vector)) {
        // Packs or unpacks: element 0 is the least significant.
        const bool unpack = operands[0].kind == Operand::Vector;
        const size_t count = operands[unpack ? 0 : 1].parts.size();
        const int bits = 8 * bytes_of(i.type) / static_cast<int>(count);
        u32 defined = unpack ? defined_lanes(w, operands[1]) : FULL_WARP;
        if (!unpack) for (const Operand& part : operands[1].parts) defined &= defined_lanes(w, part);
        if (run & ~defined) {
            write_undefined(w, operands[0], run & ~defined);
            for (const Operand& part : operands[0].parts) write_undefined(w, part, run & ~defined);
        }
        for_lanes(run & defined, [&](int l) {
            u64 value = 0;
            if (unpack) {
                value = read(w, operands[1], l);
                for (size_t k = 0; k < count; ++k) write(w, operands[0].parts[k], l, truncate(value >> (k * bits), bits / 8));
            } else {
                for (size_t k = 0; k < count; ++k) value |= truncate(read(w, operands[1].parts[k], l), bits / 8) << (k * bits);
                write(w, operands[0], l, value);
            }
        });
        return;
    }
    if (operands.size() < 2 || operands.size() > 5 || operands[0].kind != Operand::Row || operands[0].constant)
        fail("syntax", "operands of the wrong kind");
    if (i.has(READS_CLOCK)) {
        const int row = operands[1].row;
        std::fill_n(&w.registers[static_cast<size_t>(row) * LANES], LANES, steps);
    }
    Row buffers[4];
    static const Row zeros = {};
    const u64* in[4] = {zeros.data(), zeros.data(), zeros.data(), zeros.data()};
    u32 known[4] = {FULL_WARP, FULL_WARP, FULL_WARP, FULL_WARP}, defined = FULL_WARP;
    for (size_t k = 1; k < operands.size(); ++k) {
        in[k - 1] = speculate(w, operands[k], buffers[k - 1]);
        defined &= known[k - 1] = defined_lanes(w, operands[k]);
    }
    const u64 *a = in[0], *b = in[1], *c = in[2], *d = in[3];

    const int to = operands[0].row;
    if (w.in_flight_count && w.in_flight[to])
        fail("in-flight", "register " + kernel.register_names[to] + " is written before its wgmma is waited for");
    u64* result = &w.registers[static_cast<size_t>(to) * LANES];
    const u64 mask = kernel.register_masks[to];
    if (run & ~defined) {
        if (i.op == Op::Selp) defined = known[2] & ((known[0] & true_lanes(c)) | (known[1] & ~true_lanes(c)));
        else if (i.op == Op::Setp) defined |= decided(i.action, known[2], c);
        else if (i.type == Type::Pred) {
            const Action action = i.op == Op::And ? Action::And : i.op == Op::Or ? Action::Or : Action::None;
            defined |= decided(action, known[0], a) | decided(action, known[1], b);
        }
        write_undefined(w, operands[0], run & ~defined);
        for (const Operand& part : operands[0].parts) write_undefined(w, part, run & ~defined);
        run &= defined;
    }
    w.initialised[to] |= run;
    if (!w.unfenced.empty()) w.unfenced[to] = 1;
    auto each = [&](auto compute) {
        for_lanes(run, [&](int l) { result[l] = compute(l) & mask; });
    };

    switch (i.op) {
        case Op::Mov: each([&](int l) { return a[l]; }); return;
        case Op::Selp: each([&](int l) { return c[l] ? a[l] : b[l]; }); return;
        case Op::Setp: {
            const Operand* second = operands[0].parts.empty() ? nullptr : &operands[0].parts[0];
            for_lanes(run, [&](int l) {
                const bool found = compare_operands(i, a[l], b[l]);
                auto combined = [&](bool value) {
                    switch (i.action) {
                        case Action::And: return value && c[l];
                        case Action::Or: return value || c[l];
                        case Action::Xor: return value != static_cast<bool>(c[l]);
                        default: return value;
                    }
                };
                const bool opposite = combined(!found);
                result[l] = combined(found);
                if (second) write(w, *second, l, opposite);
            });
            return;
        }
        case Op::Cvta: {
            const u64 window = i.space == Space::Shared ? SHARED_WINDOW : i.space == Space::Local ? LOCAL_WINDOW
                             : i.space == Space::Param ? PARAM_WINDOW : 0;
            each([&](int l) { return i.has(TO) ? a[l] - window : a[l] + window; });
            return;
        }
        case Op::Isspacep:
            each([&](int l) -> u64 {
                const u64 window = a[l] & ~u64(0xffffffff);
                if (i.space == Space::Shared) return window == SHARED_WINDOW;
                if (i.space == Space::Local) return window == LOCAL_WINDOW;
                return window != SHARED_WINDOW && window != LOCAL_WINDOW && window != PARAM_WINDOW;
            });
            return;
        default: break;
    }
    // Only what computes: and … cvt are after abs in the enumeration, and sad and the functions after those.
    const bool arithmetic = (i.op >= Op::Add && i.op <= Op::Abs) || i.op == Op::Sad || (i.op >= Op::Ex2 && i.op <= Op::Tanh);
    if (!arithmetic) {
        each([&](int l) { return compute_bits(i, a[l], b[l], c[l], d[l]); });
        return;
    }
    if (is_pair(i.type) || i.type == Type::F16 || i.type == Type::BF16) {
        const bool pair = is_pair(i.type);
        const Type half = i.type == Type::F16x2 || i.type == Type::F16 ? Type::F16 : Type::BF16;
        each([&](int l) {
            u64 value = compute_half(i, half, a[l] & 0xffff, b[l] & 0xffff, c[l] & 0xffff);
            if (pair) value |= compute_half(i, half, a[l] >> 16, b[l] >> 16, c[l] >> 16) << 16;
            return value;
        });
    } else if (i.type == Type::F32 || i.type == Type::F64) {
        const RoundingScope scope(i.rounding);
        const bool plain = i.type == Type::F32 && !i.has(FTZ) && !i.has(SAT) && i.op == Op::Fma;
        if (plain) {
            each([&](int l) {
                const float value = std::fma(to_float(a[l]), to_float(b[l]), to_float(c[l]));
                return std::isnan(value) ? 0x7fffffffu : from_float(value);
            });
        } else if (i.type == Type::F32) each([&](int l) { return compute_float32(i, a[l], b[l], c[l]); });
        else each([&](int l) { return compute_float64(i, a[l], b[l], c[l]); });
    } else {
        const bool is_simple = i.op == Op::Add && !i.has(SAT);
        if (is_simple) each([&](int l) { return a[l] + b[l]; });
        else {
            const Type third = i.has(WIDE) ? Type::U64 : i.type;
            each([&](int l) {
                lane = l;
                const u64 x = extend(i.type, a[l]), y = extend(i.type, b[l]), z = extend(third, c[l]);
                return is_signed(i.type) ? compute_integer<s64, __int128>(i, x, y, z)
                                         : compute_integer<u64, unsigned __int128>(i, x, y, z);
            });
        }
    }
}

}  // namespace ptx
