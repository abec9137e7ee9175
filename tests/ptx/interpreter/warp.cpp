// Instructions by which the lanes of a warp communicate (section "Parallel Synchronization and Communication").
#include "machine.h"

namespace ptx {

// Returns whether all lanes of some member mask are here, and leaves only those in `run`. Lanes that have ended do not
// count.
bool Machine::converge(Warp& w, u32& run, const Operand& operand) {
    u32 left = run;
    while (left) {
        lane = __builtin_ctz(left);
        const u32 mask = static_cast<u32>(read(w, operand, lane));
        u32 here = 0;
        for (u32 others = left; others; others &= others - 1) {
            const int l = __builtin_ctz(others);
            if (static_cast<u32>(read(w, operand, l)) == mask) here |= 1u << l;
        }
        if (here & ~mask) {
            lane = __builtin_ctz(here & ~mask);
            fail("convergence", "the lane is not in its own member mask");
        }
        if (!(mask & w.alive & ~here)) {
            run = here;
            return true;
        }
        left &= ~here;
    }
    return false;
}

bool Machine::execute_warp(Warp& w, const Instruction& i, u32& run) {
    const auto& operands = i.operands;
    if (i.op == Op::Activemask) {
        for (u32 left = run; left; left &= left - 1) write(w, operands.at(0), __builtin_ctz(left), run);
        return true;
    }
    if (operands.empty() || !converge(w, run, operands.back())) return false;
    Row buffer, result = {}, flags = {};
    switch (i.op) {
        case Op::WarpSync: {
            std::vector<u32> indices;
            for (u32 left = run; left; left &= left - 1) indices.push_back(w.index * LANES + __builtin_ctz(left));
            synchronize(*w.block, indices);
            return true;
        }
        case Op::Shfl: {
            const u64* values = read_row(w, operands.at(1), run, buffer);
            for (u32 left = run; left; left &= left - 1) {
                lane = __builtin_ctz(left);
                const int b = read(w, operands.at(2), lane) & 31;
                const u32 c = static_cast<u32>(read(w, operands.at(3), lane));
                const int segment = c >> 8 & 31, clamp = c & 31;
                const int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
                int from;
                bool inside;
                switch (i.action) {
                    case Action::Up: from = lane - b; inside = from >= last; break;
                    case Action::Down: from = lane + b; inside = from <= last; break;
                    case Action::Bfly: from = lane ^ b; inside = from <= last; break;
                    default: from = first | (b & ~segment); inside = from <= last;
                }
                if (!inside) from = lane;
                if (!(run >> from & 1)) fail("convergence", print("the shuffle reads lane %d, which does not take part", from));
                result[lane] = values[from];
                flags[lane] = inside;
            }
            break;
        }
        case Op::Vote: {
            const u64* values = read_row(w, operands.at(1), run, buffer);
            u32 ballot = 0;
            for (u32 left = run; left; left &= left - 1) {
                const int l = __builtin_ctz(left);
                ballot |= static_cast<u32>(values[l] & 1) << l;
            }
            const u64 value = i.action == Action::Ballot ? ballot : i.action == Action::Any ? ballot != 0
                            : i.action == Action::All ? ballot == run : ballot == run || !ballot;
            result.fill(value);
            break;
        }
        case Op::Redux: {
            const u64* values = read_row(w, operands.at(1), run, buffer);
            u64 sum = values[__builtin_ctz(run)];
            for (u32 left = run & (run - 1); left; left &= left - 1) sum = combine(i, sum, values[__builtin_ctz(left)], 0);
            result.fill(sum);
            break;
        }
        case Op::Match: {
            const u64* values = read_row(w, operands.at(1), run, buffer);
            const u64 mask = truncate(~u64(0), bytes_of(i.type));
            for (u32 left = run; left; left &= left - 1) {
                const int l = __builtin_ctz(left);
                u32 equal = 0;
                for (u32 others = run; others; others &= others - 1) {
                    const int k = __builtin_ctz(others);
                    if ((values[k] & mask) == (values[l] & mask)) equal |= 1u << k;
                }
                flags[l] = equal == run;
                result[l] = i.action == Action::Any || equal == run ? equal : 0;
            }
            break;
        }
        case Op::Elect:
            result.fill(__builtin_ctz(run));
            flags[__builtin_ctz(run)] = 1;
            break;
        default: fail("unsupported", "unknown instruction of a warp");
    }
    for (u32 left = run; left; left &= left - 1) {
        const int l = __builtin_ctz(left);
        write(w, operands[0], l, result[l]);
        if (!operands[0].parts.empty()) write(w, operands[0].parts[0], l, flags[l]);
    }
    return true;
}

}  // namespace ptx
