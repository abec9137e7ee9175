// Accesses to memory: state spaces, bounds, alignment, initialisation, races (sections "State Spaces" and "Memory
// Consistency Model").
#include <algorithm>
#include <cmath>

#include "machine.h"

namespace ptx {

u64 Machine::address_of(Warp& w, const Operand& operand, int l) {
    if (operand.kind != Operand::Address) fail("syntax", "an operand is not an address");
    Operand base = operand;
    base.kind = Operand::Row;
    return read(w, base, l) + static_cast<u64>(operand.offset);
}

bool Machine::happened_before(const Event& event, u32 thread, const ThreadState& state) const {
    if (!event.clock || event.thread == thread) return true;
    return state.known && state.known->of(event.thread / stride, event.thread % stride) >= event.clock;
}

void Machine::observe(Cell& cell, Access kind, u8 strength, u32 thread, const ThreadState& state, bool same_value,
                      unsigned array, u64 byte) {
    auto conflict = [&](const Event& other, u8 other_strength) {
        if (happened_before(other, thread, state)) return false;
        const u32 block = thread / stride, other_block = other.thread / stride;
        const int apart = block == other_block ? 1 : block / kernel.cluster == other_block / kernel.cluster ? 2 : 3;
        if (std::min(strength, other_strength) >= apart) return false;  // the scope of each includes the other
        // Lanes that store one value to one place agree, in whatever order they are.
        return !(same_value && warp_of(other.thread) == warp_of(thread));
    };
    auto report = [&](const Event& other, const char* what) {
        const u32 index = other.thread % stride;
        fail("race", print("byte %llu of %s, which %s of block %u %s without synchronisation",
                           static_cast<unsigned long long>(byte),
                           array ? print("array %u", array).c_str() : "shared memory",
                           index < threads    ? print("thread %u", index).c_str()
                           : index == threads ? "the copy engine"
                                              : print("a wgmma of warp %u", index - threads - 1).c_str(),
                           other.thread / stride, what));
    };
    if (conflict(cell.write, cell.write_strength)) report(cell.write, "wrote");
    if (kind == Access::Load) {
        Event* slot = nullptr;
        bool first = true;
        for (Event& other : cell.reads) {
            first &= !other.clock;
            const bool same_warp = other.clock && warp_of(other.thread) == warp_of(thread);
            if (!slot && (same_warp || happened_before(other, thread, state))) slot = &other;
        }
        if (!slot) slot = &cell.reads[random() % 4];
        *slot = {thread, state.clock};
        cell.read_strength = first ? strength : std::min(strength, cell.read_strength);
        return;
    }
    for (Event& other : cell.reads) {
        if (conflict(other, cell.read_strength)) report(other, "read");
        other = {};
    }
    cell.write = {thread, state.clock};
    cell.write_strength = strength;
}

u8* Machine::access_global(u64 address, int bytes, Access kind, u8 strength, u32 thread, const ThreadState& state) {
    s64 offset;
    Array* array = memory.find(address, offset);
    if (!array) fail("bounds", print("address %#llx is in no array", static_cast<unsigned long long>(address)));
    if (!array->data) fail("bounds", "the array has been freed");
    const unsigned number = static_cast<unsigned>(address >> 32);
    if (offset < 0 || static_cast<u64>(offset) + bytes > array->bytes)
        fail("bounds", print("%d bytes at byte %lld of array %u, which has %llu", bytes, static_cast<long long>(offset),
                             number, static_cast<unsigned long long>(array->bytes)));
    if (kind != Access::Load && array->read_only) fail("read-only", print("array %u is written", number));
    if (!array->written.empty()) {
        for (int k = 0; k < bytes; ++k) {
            if (kind != Access::Store && !array->written[offset + k])
                fail("uninitialised", print("byte %lld of array %u is read before it is written",
                                            static_cast<long long>(offset) + k, number));
            array->written[offset + k] = true;
        }
    }
    if (launch.races && !array->read_only) {
        const bool same_value = stored && !memcmp(array->data + offset, stored, bytes);
        constexpr u64 PAGE = 1024;
        if (array->launch != generation) {
            array->launch = generation;
            array->pages.clear();
            array->pages.resize(array->bytes / PAGE + 1);
        }
        const u32 granule = kernel.least_granule;
        for (u64 at = offset / granule * granule; at < static_cast<u64>(offset) + bytes; at += granule) {
            auto& page = array->pages[at / PAGE];
            if (page.empty()) page.resize(PAGE / granule);
            Cell& cell = page[at % PAGE / granule];
            const bool non_coherent = kind == Access::Load && current->has(NON_COHERENT);
            cell.read_non_coherently |= non_coherent;
            if (cell.read_non_coherently && (kind != Access::Load || (non_coherent && cell.write.clock)))
                fail("non-coherent", print("byte %llu of array %u is read by ld.global.nc and written by the same kernel",
                                           static_cast<unsigned long long>(at), number));
            if (kind == Access::Load && cell.reads[0].thread == thread && cell.reads[0].clock == state.clock) continue;
            observe(cell, kind, strength, thread, state, same_value, number, at);
        }
    }
    return array->data + offset;
}

Block& Machine::shared_owner(Block& block, u32 address, u32& offset) {
    // An address of .shared::cluster holds the rank of another block, plus 1, in its upper byte.
    const u32 rank = address >> 24;
    offset = address & 0xffffff;
    if (!rank) return block;
    if (!block.cluster || rank > block.cluster->blocks.size())
        fail("bounds", print("address %#x is in no block's shared memory", address));
    Block& owner = *block.cluster->blocks[rank - 1];
    if (!owner.alive) fail("bounds", "the block whose shared memory is accessed has ended");
    if (&owner != &block) {
        const ThreadState& visitor = state_of(*warp, lane);
        const u32 phase = visitor.at_cluster ? visitor.cluster_phase : block.cluster->phase;
        owner.visits[thread_of(*warp, lane)] = {visitor.clock, phase + 1};
    }
    return owner;
}

u8* Machine::access_shared(Block& block, u32 address, int bytes, Access kind, u8 strength, u32 thread,
                           const ThreadState& state) {
    u32 offset;
    Block& owner = shared_owner(block, address, offset);
    if (static_cast<u64>(offset) + bytes > owner.shared.size())
        fail("bounds", print("%d bytes at byte %u of shared memory, which has %zu", bytes, offset, owner.shared.size()));
    for (int k = 0; k < bytes; ++k) {
        u8& now = owner.state[offset + k];
        if (now == Block::InFlight)
            fail("in-flight", print("byte %u of shared memory is used before its copy is complete", offset + k));
        if (kind != Access::Store && now == Block::Unwritten)
            fail("uninitialised", print("byte %u of shared memory is read before it is written", offset + k));
        if (kind == Access::Load) continue;
        if (now == Block::BeingStored)
            fail("in-flight", print("byte %u of shared memory is overwritten before its bulk store has read it", offset + k));
        now = Block::Written;
    }
    if (launch.races) {
        const bool same_value = stored && !memcmp(&owner.shared[offset], stored, bytes);
        const u32 granule = kernel.least_granule;
        for (u32 at = offset / granule; at <= (offset + bytes - 1) / granule; ++at) {
            Cell& cell = owner.cells[at];
            if (kind == Access::Load && cell.reads[0].thread == thread && cell.reads[0].clock == state.clock) continue;
            observe(cell, kind, strength, thread, state, same_value, 0, at * granule);
        }
    }
    return &owner.shared[offset];
}

Machine::Place Machine::access(Warp& w, Space space, u64 address, int bytes, Access kind, u8 strength) {
    if (address % bytes)
        fail("misaligned", print("%d bytes at address %#llx", bytes, static_cast<unsigned long long>(address)));
    const u64 window = address & ~u64(0xffffffff);
    if (space == Space::Generic) {
        if (window == LAUNCH_WINDOW) return {access_launch_parameters(address, bytes, kind, thread_of(w, lane)), nullptr};
        space = window == SHARED_WINDOW ? Space::Shared : window == LOCAL_WINDOW ? Space::Local
              : window == PARAM_WINDOW ? Space::Param : Space::Global;
    } else if (space == Space::Const) space = Space::Global;
    const u32 low = static_cast<u32>(address);
    ThreadState& state = state_of(w, lane);
    switch (space) {
        case Space::Shared: {
            u8* data = access_shared(*w.block, low, bytes, kind, strength, thread_of(w, lane), state);
            if (!strength) return {data, nullptr};
            u32 offset;
            return {data, &shared_owner(*w.block, low, offset).published[offset]};
        }
        case Space::Local: {
            if (static_cast<u64>(low) + bytes > local_bytes)
                fail("bounds", print("%d bytes at byte %u of local memory, which has %llu", bytes, low,
                                     static_cast<unsigned long long>(local_bytes)));
            const size_t at = lane * local_bytes + low;
            for (int k = 0; k < bytes; ++k) {
                if (kind != Access::Store && !w.local_written[at + k])
                    fail("uninitialised", print("byte %u of local memory is read before it is written", low + k));
                w.local_written[at + k] = 1;
            }
            return {&w.local[at], nullptr};
        }
        case Space::Param:
            if (kind != Access::Load) fail("read-only", "a parameter is written");
            if (static_cast<u64>(low) + bytes > parameters.size())
                fail("bounds", print("%d bytes at byte %u of the parameters", bytes, low));
            return {&parameters[low], nullptr};
        default: {
            u8* data = access_global(address, bytes, kind, strength, thread_of(w, lane), state);
            return {data, strength ? &published[address] : nullptr};
        }
    }
}

u64 Machine::combine(const Instruction& i, u64 old, u64 a, u64 b) {
    const Type t = i.type;
    const int bytes = bytes_of(t);
    auto extended = [&](u64 value) { return is_signed(t) ? static_cast<u64>(extend_sign(value, bytes)) : truncate(value, bytes); };
    auto less = [&](u64 x, u64 y) {
        x = extended(x), y = extended(y);
        return is_signed(t) ? static_cast<s64>(x) < static_cast<s64>(y) : x < y;
    };
    switch (i.action) {
        case Action::Add:
            if (t == Type::F16x2 || t == Type::BF16x2) {
                const Type half = t == Type::F16x2 ? Type::F16 : Type::BF16;
                u64 result = 0;
                for (int shift : {0, 16})
                    result |= encode_float(half, add_to_odd(decode_float(half, old >> shift & 0xffff),
                                                            decode_float(half, a >> shift & 0xffff))) << shift;
                return result;
            }
            if (t == Type::F32) return from_float(to_float(old) + to_float(a));
            if (t == Type::F64) return from_double(to_double(old) + to_double(a));
            if (is_float(t)) return encode_float(t, add_to_odd(decode_float(t, old), decode_float(t, a)));
            return old + a;
        case Action::Min: return less(a, old) ? a : old;
        case Action::Max: return less(old, a) ? a : old;
        case Action::And: return old & a;
        case Action::Or: return old | a;
        case Action::Xor: return old ^ a;
        case Action::Exch: return a;
        case Action::Cas: return truncate(old, bytes) == truncate(a, bytes) ? b : old;
        case Action::Inc: return truncate(old, bytes) >= truncate(a, bytes) ? 0 : old + 1;
        case Action::Dec: return truncate(old, bytes) == 0 || less(a, old) ? a : old - 1;
        default: fail("unsupported", "unknown atomic operation");
    }
}

void Machine::execute_memory(Warp& w, const Instruction& i, u32 run) {
    const auto& operands = i.operands;
    if (i.op == Op::Prefetch) return;
    for (u32 left = run; left; left &= left - 1) {
        lane = __builtin_ctz(left);
        ThreadState& state = state_of(w, lane);
        const u32 index = w.index * LANES + lane;
        switch (i.op) {
            case Op::Fence:
                if (i.has(PROXY_ASYNC)) {
                    state.proxy_clock = state.clock++;
                    state.proxied = state.known;
                    break;
                }
                if (launch.races) fence(i, *w.block, index);
                break;
            case Op::Ld: {
                const u64 address = address_of(w, operands[1], lane);
                const int bytes = i.bytes * i.vector;
                const Place place = access(w, i.space, address, bytes, Access::Load, i.strength());
                const Version* stale = choose_version(i, place.published, thread_of(w, lane), state);
                if (place.published) observe_published(i, stale ? stale->by_scope : place.published->by_scope, *w.block, state);
                for (int k = 0; k < i.vector; ++k) {
                    u64 value = 0;
                    if (stale) value = stale->value;
                    else memcpy(&value, place.data + k * i.bytes, i.bytes);
                    if (is_signed(i.type)) value = static_cast<u64>(extend_sign(value, i.bytes));
                    write(w, i.vector > 1 ? operands[0].parts.at(k) : operands[0], lane, value);
                }
                break;
            }
            case Op::St: {
                const u64 address = address_of(w, operands[0], lane);
                u8 values[64];
                for (int k = 0; k < i.vector; ++k) {
                    const u64 value = read(w, i.vector > 1 ? operands[1].parts.at(k) : operands[1], lane);
                    memcpy(values + k * i.bytes, &value, i.bytes);
                }
                stored = values;
                const Place place = access(w, i.space, address, i.bytes * i.vector, Access::Store, i.strength());
                stored = nullptr;
                keep_version(i, place.published, place.data, thread_of(w, lane), state);
                publish(i, place.published, *w.block, index, true);
                memcpy(place.data, values, i.bytes * i.vector);
                break;
            }
            default: {  // Atom, Red
                const int first = i.op == Op::Atom ? 1 : 0;
                const u64 address = address_of(w, operands.at(first), lane);
                const u64 a = read(w, operands.at(first + 1), lane);
                const u64 b = operands.size() > static_cast<size_t>(first + 2) ? read(w, operands[first + 2], lane) : 0;
                const Place place = access(w, i.space, address, i.bytes, Access::Atomic, i.strength());
                if (place.published) observe_published(i, place.published->by_scope, *w.block, state);
                u64 old = 0;
                memcpy(&old, place.data, i.bytes);
                keep_version(i, place.published, place.data, thread_of(w, lane), state);
                const u64 value = combine(i, old, a, b);
                memcpy(place.data, &value, i.bytes);
                publish(i, place.published, *w.block, index, false);
                if (i.op == Op::Atom) write(w, operands[0], lane, old);
            }
        }
    }
}

u32 Machine::scope_number(const Block& block, int scope) const {
    return scope == 0 ? block.number : scope == 1 ? block.number / static_cast<u32>(kernel.cluster) : 0;
}

// A releasing access publishes what its thread knows, a relaxed one what it knew at its last fence. Threads synchronise
// within the scopes of both, so each is entered in all scopes up to its own (if the kernel uses narrow ones at all).
void Machine::publish(const Instruction& i, Published* place, Block& block, u32 index, bool replaces) {
    if (!place || !launch.races) return;
    if (replaces) place->by_scope = {};
    const Clock released = i.has(RELEASES) ? snapshot(block, index) : nullptr;
    for (int scope = static_cast<int>(kernel.least_scope); scope <= static_cast<int>(i.scope); ++scope) {
        Clock& entry = place->by_scope[scope][scope_number(block, scope)];
        entry = join(entry, released ? released : block.threads[index].fenced[scope]);
    }
}

void Machine::observe_published(const Instruction& i, const Scopes& by_scope, Block& block, ThreadState& state) {
    if (!launch.races) return;
    for (int scope = static_cast<int>(kernel.least_scope); scope <= static_cast<int>(i.scope); ++scope) {
        const auto found = by_scope[scope].find(scope_number(block, scope));
        if (found == by_scope[scope].end()) continue;
        state.observed[scope] = join(state.observed[scope], found->second);
        if (i.has(ACQUIRES)) acquire(state, found->second);
    }
}

void Machine::fence(const Instruction& i, Block& block, u32 index) {
    ThreadState& state = block.threads[index];
    const int least = static_cast<int>(kernel.least_scope), most = static_cast<int>(i.scope);
    for (int scope = least; scope <= most; ++scope) {
        acquire(state, state.observed[scope]);
        state.observed[scope] = nullptr;
    }
    const Clock known = snapshot(block, index);
    if (i.has(SEQUENTIAL)) state.sequential = sequential = join(sequential, known);
    for (int scope = least; scope <= most; ++scope) state.fenced[scope] = known;
}

Clock Machine::snapshot(Block& block, u32 index) {
    ThreadState& state = block.threads[index];
    auto result = state.known ? std::make_shared<Knowledge>(*state.known) : std::make_shared<Knowledge>();
    result->clocks(block.number, stride)[index] = state.clock++;
    return result;
}

void Machine::acquire(ThreadState& state, const Clock& clock) { state.known = join(state.known, clock); }

Clock Machine::join_threads(Block& block, const std::vector<u32>& indices) {
    Clock joined;
    for (u32 index : indices) joined = join(joined, block.threads[index].known);
    auto result = joined ? std::make_shared<Knowledge>(*joined) : std::make_shared<Knowledge>();
    std::vector<u32>& clocks = result->clocks(block.number, stride);
    for (u32 index : indices) clocks[index] = std::max(clocks[index], block.threads[index].clock++);
    return result;
}

void Machine::synchronize(Block& block, const std::vector<u32>& indices) {
    if (!launch.races) return;
    const Clock joined = join_threads(block, indices);
    for (u32 index : indices) block.threads[index].known = joined;
}

}  // namespace ptx
