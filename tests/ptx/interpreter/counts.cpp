// Counts of the budget of instructions: issue slots, lanes, and accesses to shared and global memory.
#include <algorithm>

#include "machine.h"

namespace ptx {

namespace {

constexpr u32 BANKS = 32, BANK_BYTES = 4, SECTOR_BYTES = 32;

using Addresses = std::array<u64, LANES>;

// Shared memory has 32 banks of 4 bytes. Lanes whose accesses exceed 128 bytes together take turns: half warps of 8 bytes,
// quarter warps of 16, but half warps for loads of 16 bytes. A pass takes one wavefront for each word of its fullest bank;
// lanes that read or write the same word share it, except atomics. Nsight Compute counted on an H100: a load of 16 bytes
// takes two wavefronts if each half warp reads at most 128 different bytes (float32 and float64 products), four otherwise.
// Conflicts are the wavefronts beyond one for each part of the warp that accesses 128 bytes.
void count_shared(Tally& tally, const Addresses& addresses, u32 lanes, u32 bytes, const Instruction& i) {
    const bool atomic = i.op == Op::Atom || i.op == Op::Red;
    const u32 part = std::min<u32>(LANES, BANKS * BANK_BYTES / bytes);  // lanes that access 128 bytes
    const u32 width = i.op == Op::Ld && bytes == 16 ? LANES / 2 : part;
    for (u32 first = 0; first < LANES; first += width) {
        std::vector<u64> words[BANKS];
        for (u32 l = first; l < first + width; ++l) {
            if (!(lanes >> l & 1)) continue;
            for (u64 word = addresses[l] / BANK_BYTES; word <= (addresses[l] + bytes - 1) / BANK_BYTES; ++word) {
                std::vector<u64>& bank = words[word % BANKS];
                if (atomic || std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
            }
        }
        size_t fullest = 0, parts = 0;
        for (const auto& bank : words) fullest = std::max(fullest, bank.size());
        for (u32 l = first; l < first + width; l += part) parts += (lanes >> l & u32((u64(1) << part) - 1)) != 0;
        tally.wavefronts += fullest;
        tally.conflicts += fullest - std::min(fullest, parts);
    }
}

}  // namespace

void Machine::count_global(Tally& tally, const Addresses& addresses, u32 lanes, u32 bytes) {
    std::vector<u64> places, sectors;
    for (; lanes; lanes &= lanes - 1) {
        const u64 address = addresses[__builtin_ctz(lanes)];
        places.push_back(address);
        for (u64 sector = address / SECTOR_BYTES; sector <= (address + bytes - 1) / SECTOR_BYTES; ++sector)
            sectors.push_back(sector);
    }
    auto distinct = [](std::vector<u64>& values) {
        std::sort(values.begin(), values.end());
        values.erase(std::unique(values.begin(), values.end()), values.end());
        return values.size();
    };
    ++tally.requests;
    tally.used_bytes += distinct(places) * bytes;
    tally.sectors += distinct(sectors);
    touched.insert(sectors.begin(), sectors.end());
}

// Immediate postdominators, by the algorithm of Cooper, Harvey and Kennedy on the reversed graph; code.size() is the end.
void Machine::find_meetings() {
    const u32 end = static_cast<u32>(kernel.code.size()), unknown = end + 1;
    auto next = [&](u32 at) {
        const Instruction& i = kernel.code[at];
        const bool stops = i.op == Op::Ret || i.op == Op::Trap, jumps = i.op == Op::Bra;
        std::vector<u32> found;
        if (stops) found.push_back(end);
        if (jumps) found.push_back(static_cast<u32>(i.target));
        if ((!stops && !jumps) || i.guard >= 0) found.push_back(at + 1);
        return found;
    };
    std::vector<std::vector<u32>> before(end + 1);
    for (u32 at = 0; at < end; ++at)
        for (u32 after : next(at)) before[after].push_back(at);
    std::vector<u32> order, rank(end + 1, 0), open = {end};  // in postorder from the end backwards
    std::vector<size_t> visited(end + 1, 0);
    std::vector<bool> known(end + 1);
    known[end] = true;
    while (!open.empty()) {
        const u32 at = open.back();
        if (visited[at] < before[at].size()) {
            const u32 earlier = before[at][visited[at]++];
            if (!known[earlier]) known[earlier] = true, open.push_back(earlier);
        } else {
            rank[at] = static_cast<u32>(order.size());
            order.push_back(at);
            open.pop_back();
        }
    }
    meetings.assign(end + 1, unknown);
    meetings[end] = end;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t k = order.size(); k-- > 0;) {
            const u32 at = order[k];
            if (at == end) continue;
            u32 meeting = unknown;
            for (u32 after : next(at)) {
                if (meetings[after] == unknown) continue;
                u32 other = meeting == unknown ? after : meeting;
                while (after != other) {
                    while (rank[after] < rank[other]) after = meetings[after];
                    while (rank[other] < rank[after]) other = meetings[other];
                }
                meeting = other;
            }
            changed |= meetings[at] != meeting;
            meetings[at] = meeting;
        }
    }
}

// Executes one instruction, as `step` does, but lanes that a branch separated wait where its paths meet, as compilers
// arrange it on hardware; they go on if nothing else can run.
bool Machine::step_together(Warp& w) {
    auto& groups = w.groups;
    for (bool changed = true; changed;) {
        changed = false;
        for (Group& g : groups)
            while (g.waits() && !(g.joins.back().mask & w.alive & ~g.mask)) g.joins.pop_back();
        for (size_t a = 0; a < groups.size(); ++a) {
            for (size_t b = groups.size(); --b > a;) {
                if (groups[a].pc != groups[b].pc || groups[a].barrier >= 0 || groups[b].barrier >= 0) continue;
                if (!(groups[a].joins == groups[b].joins)) continue;
                groups[a].mask |= groups[b].mask;
                groups[a].timed_out |= groups[b].timed_out;
                groups.erase(groups.begin() + b);
                changed = true;
            }
        }
    }
    std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.pc < b.pc; });
    for (const bool waiting : {false, true})
        for (size_t k = 0; k < groups.size(); ++k)
            if (groups[k].waits() == waiting && execute(w, k)) return true;
    return false;
}

// Called before the instruction, which may overwrite the registers of its addresses. Accesses to local memory, parameters
// and constants are not counted, nor are bulk copies and the operands of wgmma, which take other paths.
void Machine::count_accesses(Warp& w, const Instruction& i, u32 run) {
    Tally& tally = tallies[&i - kernel.code.data()];
    auto count = [&](size_t operand, Space space, u32 lanes, u32 bytes) {
        Addresses addresses = {};
        u32 shared = 0, global = 0;
        for (u32 left = lanes; left; left &= left - 1) {
            lane = __builtin_ctz(left);
            const u64 address = addresses[lane] = address_of(w, i.operands.at(operand), lane);
            const u64 window = address & ~u64(0xffffffff);
            if (space == Space::Shared || (space == Space::Generic && window == SHARED_WINDOW)) shared |= 1u << lane;
            else if (space == Space::Global || (space == Space::Generic && window != LOCAL_WINDOW && window != PARAM_WINDOW))
                global |= 1u << lane;
        }
        if (shared) count_shared(tally, addresses, shared, bytes, i);
        if (global) count_global(tally, addresses, global, bytes);
    };
    switch (i.op) {
        case Op::Ld: case Op::Atom: count(1, i.space, run, i.bytes * i.vector); break;
        case Op::St: case Op::Red: count(0, i.space, run, i.bytes * i.vector); break;
        case Op::Ldmatrix: case Op::Stmatrix:  // lanes 8·m … 8·m + 7 have the addresses of matrix m
            count(i.op == Op::Ldmatrix ? 1 : 0, Space::Shared, i.vector == 4 ? FULL_WARP : (1u << 8 * i.vector) - 1, 16);
            break;
        case Op::CpAsync: {
            const u32 bytes = static_cast<u32>(read(w, i.operands.at(2), __builtin_ctz(run)));
            u32 reading = run;  // lanes that read nothing fill with zeros
            for (u32 left = i.operands.size() > 3 ? run : 0; left; left &= left - 1)
                if (!read(w, i.operands[3], __builtin_ctz(left))) reading &= ~(left & -left);
            count(0, Space::Shared, run, bytes);
            count(1, Space::Global, reading, bytes);
            break;
        }
        default: break;
    }
}

}  // namespace ptx
