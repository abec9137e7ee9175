// Matrix instructions (section "Matrix Multiply-Accumulate Instructions"). Products of 16-bit floats and their sums over
// one instruction are computed in double and rounded once: the hardware's own order and rounding are not documented.
#include <cmath>

#include "machine.h"

namespace ptx {

void Machine::execute_tensor(Warp& w, const Instruction& i) {
    const auto& operands = i.operands;
    switch (i.op) {
        case Op::Ldmatrix: {
            // The lanes 8·m … 8·m + 7 give the addresses of the rows of matrix m.
            u16 matrix[4][8][8];
            for (int m = 0; m < i.vector; ++m) {
                for (int row = 0; row < 8; ++row) {
                    lane = 8 * m + row;
                    const u64 address = address_of(w, operands.at(1), lane);
                    memcpy(matrix[m][row], access(w, Space::Shared, address, 16, Access::Load, 0).data, 16);
                }
            }
            for (int m = 0; m < i.vector; ++m) {
                for (int l = 0; l < LANES; ++l) {
                    u32 pair = 0;
                    for (int k = 0; k < 2; ++k) {
                        const int major = l / 4, minor = l % 4 * 2 + k;
                        pair |= static_cast<u32>(i.has(TRANS) ? matrix[m][minor][major] : matrix[m][major][minor]) << (16 * k);
                    }
                    write(w, operands[0].parts.at(m), l, pair);
                }
            }
            break;
        }
        case Op::Stmatrix: {
            for (int m = 0; m < i.vector; ++m) {
                u16 matrix[8][8];
                for (int l = 0; l < LANES; ++l) {
                    const u64 pair = read(w, operands.at(1).parts.at(m), l);
                    for (int k = 0; k < 2; ++k) {
                        const int major = l / 4, minor = l % 4 * 2 + k;
                        (i.has(TRANS) ? matrix[minor][major] : matrix[major][minor]) = static_cast<u16>(pair >> (16 * k));
                    }
                }
                for (int row = 0; row < 8; ++row) {
                    lane = 8 * m + row;
                    const u64 address = address_of(w, operands[0], lane);
                    memcpy(access(w, Space::Shared, address, 16, Access::Store, 0).data, matrix[row], 16);
                }
            }
            break;
        }
        case Op::Mma: multiply(w, i); break;
        case Op::WgmmaFence: std::fill(w.unfenced.begin(), w.unfenced.end(), 0); break;
        case Op::Wgmma: issue_wgmma(w, i); break;
        case Op::WgmmaCommit:
            w.wgmma_groups.push_back(std::move(w.open_wgmma));
            w.open_wgmma.clear();
            break;
        case Op::WgmmaWait: finish_wgmma(w, read(w, operands.at(0), 0)); break;
        case Op::Setmaxnreg: {
            const u64 count = read(w, operands.at(0), 0);
            if (count < 24 || count > 256 || count % 8) fail("barrier", "setmaxnreg takes multiples of 8 from 24 to 256");
            break;
        }
        default: fail("unsupported", "unknown matrix instruction");
    }
}

void Machine::multiply(Warp& w, const Instruction& i) {
    const auto& operands = i.operands;
    const int m = i.shape[0], n = i.shape[1], depth = i.shape[2];
    // A register holds this many elements that lie next to each other along k.
    const int packed = i.type == Type::F16 || i.type == Type::BF16 ? 2 : 1;
    double a[16][16], b[16][8], c[16][8];
    for (int l = 0; l < LANES; ++l) {
        const int group = l / 4, member = l % 4;
        auto value = [&](const Operand& operand, size_t index, int k) {
            const Operand& element = operand.kind == Operand::Vector ? operand.parts.at(index) : operand;
            return decode_float(i.type, packed == 2 ? read(w, element, l) >> (16 * k) & 0xffff : read(w, element, l));
        };
        const int registers_m = m / 8, registers_k = depth / (4 * packed);
        for (int part = 0; part < registers_k; ++part) {
            for (int k = 0; k < packed; ++k) {
                const int column = part * 4 * packed + member * packed + k;
                for (int half = 0; half < registers_m; ++half)
                    a[group + 8 * half][column] = value(operands.at(1), part * registers_m + half, k);
                b[column][group] = value(operands.at(2), part, k);
            }
        }
        for (int half = 0; half < registers_m; ++half)
            for (int k = 0; k < 2; ++k)
                c[group + 8 * half][member * 2 + k] = decode_float(i.source, read(w, operands.at(3).parts.at(half * 2 + k), l));
    }
    for (int row = 0; row < m; ++row) {
        for (int column = 0; column < n; ++column) {
            double sum = i.type == Type::F64 ? c[row][column] : 0;
            for (int k = 0; k < depth; ++k) sum = std::fma(a[row][k], b[k][column], sum);
            const double result = i.type == Type::F64 ? sum : sum + c[row][column];
            const int l = row % 8 * 4 + column / 2;
            write(w, operands[0].parts.at(row / 8 * 2 + column % 2), l, encode_float(i.source, result));
        }
    }
}

// The products run when they are waited for, as late as the ISA allows; until then their registers are in flight.
void Machine::issue_wgmma(Warp& w, const Instruction& i) {
    const auto& operands = i.operands;
    const bool in_registers = operands.size() > 1 && operands[1].kind == Operand::Vector;
    // Only matrices of 16-bit floats in shared memory may be transposed.
    const size_t transposable = i.type == Type::TF32 ? 0 : in_registers ? 1 : 2;
    if (operands.size() != 6 + transposable || operands[0].parts.size() != static_cast<size_t>(i.shape[1] / 2) ||
        (in_registers && operands[1].parts.size() != 4))
        fail("syntax", "operands of wgmma of the wrong kind or number");
    const u64 a = in_registers ? 0 : read(w, operands[1], 0), b = read(w, operands[2], 0), accumulate = read(w, operands[3], 0);
    for (int l = 1; l < LANES; ++l) {
        if ((!in_registers && read(w, operands[1], l) != a) || read(w, operands[2], l) != b ||
            read(w, operands[3], l) != accumulate) {
            lane = l;
            fail("convergence", "the lanes have different operands of wgmma");
        }
    }
    for (size_t k = 6; k < operands.size(); ++k)
        if (read(w, operands[k], 0) > 1) fail("syntax", "a matrix of wgmma is transposed (1) or not (0)");
    std::vector<double> rows;
    if (in_registers) {
        const int packed = i.type == Type::TF32 ? 1 : 2, depth = i.shape[2];
        rows.resize(static_cast<size_t>(16 * depth));
        for (int number = 0; number < 4; ++number) {
            const Operand& part = operands[1].parts[number];
            if (part.kind != Operand::Row || part.constant) fail("syntax", "a row of A is no register");
            if (w.unfenced[part.row])
                fail("in-flight", "register " + kernel.register_names[part.row] + " has been used since the last wgmma.fence");
            if (w.initialised[part.row] != FULL_WARP)
                fail("uninitialised", "register " + kernel.register_names[part.row] + " of A is read before it is written");
            for (int l = 0; l < LANES; ++l) {
                const u64 value = w.registers[static_cast<size_t>(part.row) * LANES + l];
                const int row = l / 4 + number % 2 * 8, column = number / 2 * depth / 2 + l % 4 * packed;
                for (int k = 0; k < packed; ++k)
                    rows[row * depth + column + k] = decode_float(i.type, packed == 2 ? value >> (16 * k) & 0xffff : value);
            }
            ++w.in_flight[part.row];
            ++w.in_flight_count;
        }
    }
    if (read(w, operands[4], 0) != 1 || read(w, operands[5], 0) != 1) fail("unsupported", "wgmma that negates");
    for (const Operand& sum : operands[0].parts) {
        if (w.unfenced[sum.row])
            fail("in-flight", "register " + kernel.register_names[sum.row] + " has been used since the last wgmma.fence");
        if (accumulate && !w.in_flight[sum.row] && w.initialised[sum.row] != FULL_WARP)
            fail("uninitialised", "register " + kernel.register_names[sum.row] + " is added to before it is written");
        ++w.in_flight[sum.row];
        ++w.in_flight_count;
    }
    w.open_wgmma.push_back({&i, a, b, accumulate != 0, launch.races ? snapshot(*w.block, w.index * LANES) : nullptr,
                            state_of(w, 0).proxied, std::move(rows)});
}

void Machine::finish_wgmma(Warp& w, size_t left) {
    if (w.wgmma_groups.size() <= left) return;
    while (w.wgmma_groups.size() > left) {
        for (const PendingWgmma& pending : w.wgmma_groups.front()) run_wgmma(w, pending);
        w.wgmma_groups.pop_front();
    }
    if (!launch.races) return;
    // What the finished instructions read happened before whatever any of the lanes does next.
    auto finished = std::make_shared<Knowledge>();
    finished->clocks(w.block->number, stride)[threads + 1 + w.index] = w.wgmma_clock;
    Clock before, after;
    for (int l = 0; l < LANES; ++l) {
        ThreadState& state = state_of(w, l);
        if (!after || state.known != before) {
            before = state.known;
            after = join(before, finished);
        }
        state.known = after;
    }
}

void Machine::run_wgmma(Warp& w, const PendingWgmma& pending) {
    const Instruction& i = *pending.instruction;
    const Instruction* waiting = current;
    current = &i;
    lane = 0;
    const u32 first_row = w.index % 4 * 16, actor = w.block->number * stride + threads + 1 + w.index;
    ThreadState state;
    state.known = pending.known;
    state.proxied = pending.proxied;
    state.clock = ++w.wgmma_clock;
    const u32 size = i.type == Type::TF32 ? 4 : 2, depth = static_cast<u32>(i.shape[2]);
    // A matrix descriptor: addresses in units of 16 bytes, and how the memory is swizzled.
    auto read_chunk = [&](u64 descriptor, u32 offset, double* values, size_t step) {
        if (descriptor >> 62 != 1 || (descriptor >> 49 & 7))
            fail("unsupported", "a matrix descriptor without the 128-byte swizzle");
        u32 address = static_cast<u32>((descriptor & 0x3fff) << 4) + offset;
        address ^= (address >> 7 & 7) << 4;
        const u8* data = read_asynchronously(*w.block, address, 16, actor, state);
        for (u32 k = 0; k < 16 / size; ++k) {
            u32 bits = 0;
            memcpy(&bits, data + size * k, size);
            values[k * step] = decode_float(i.type, bits);
        }
    };
    // Fills values[outer·depth + k] with rows of A or columns of B. In a transposed matrix, k is the outer dimension.
    auto read_matrix = [&](u64 descriptor, bool transposed, u32 begin, u32 count, double* values) {
        const u32 leading = static_cast<u32>(descriptor >> 16 & 0x3fff) << 4, stride_bytes = static_cast<u32>(descriptor >> 32 & 0x3fff) << 4;
        if (!transposed) {
            for (u32 row = 0; row < count; ++row)
                for (u32 k = 0; k < depth; k += 16 / size)
                    read_chunk(descriptor, (begin + row) % 8 * 128 + (begin + row) / 8 * stride_bytes + size * k,
                               values + row * depth + k, 1);
        } else {
            for (u32 k = 0; k < 16; ++k)
                for (u32 row = 0; row < count; row += 8)
                    read_chunk(descriptor, (begin + row) % 64 * 2 + (begin + row) / 64 * leading + k % 8 * 128 + k / 8 * stride_bytes,
                               values + row * 16 + k, 16);
        }
    };
    const u32 columns = static_cast<u32>(i.shape[1]);
    std::vector<double> a = pending.in_registers, b(static_cast<size_t>(columns) * depth);
    const bool transposable = i.type != Type::TF32;
    if (a.empty()) {
        a.resize(16 * depth);
        read_matrix(pending.a, transposable && read(w, i.operands[6], 0), first_row, 16, a.data());
    }
    read_matrix(pending.b, transposable && read(w, i.operands.back(), 0), 0, columns, b.data());
    for (u32 column = 0; column < columns; ++column) {
        for (u32 row = 0; row < 16; ++row) {
            double sum = 0;
            for (u32 k = 0; k < depth; ++k) sum += a[row * depth + k] * b[column * depth + k];
            const u32 l = row % 8 * 4 + column % 8 / 2;
            const int number = i.operands[0].parts[column / 8 * 4 + row / 8 * 2 + column % 2].row;
            u64& place = w.registers[static_cast<size_t>(number) * LANES + l];
            if (pending.accumulate) sum += to_float(place);
            place = from_float(static_cast<float>(sum));
        }
    }
    for (const Operand& sum : i.operands[0].parts) {
        w.initialised[sum.row] = FULL_WARP;
        --w.in_flight[sum.row];
        --w.in_flight_count;
    }
    for (const Operand& part : i.operands[1].parts) {
        --w.in_flight[part.row];
        --w.in_flight_count;
    }
    current = waiting;
}

}  // namespace ptx
