// Values that a strong load (relaxed, volatile, acquire) may read: the newest, or one that was overwritten while nothing
// makes the overwriting visible to the thread (section "Memory Consistency Model"). Weak loads read the newest value: if
// there is a choice, they are in a data race. Atomics read the newest value by definition.
#include <algorithm>

#include "machine.h"

namespace ptx {

constexpr size_t KEPT_VERSIONS = 3;

void Machine::keep_version(const Instruction& i, Published* place, const u8* data, u32 thread, const ThreadState& state) {
    if (!place || !launch.races || !kernel.has_strong_loads || i.vector > 1 || i.bytes > 8) return;
    Version old = {0, i.bytes, place->by_scope, {thread, state.clock}, std::move(place->readers)};
    memcpy(&old.value, data, i.bytes);
    place->readers.clear();
    place->older.push_back(std::move(old));
    if (place->older.size() > KEPT_VERSIONS) place->older.erase(place->older.begin());
}

// Fences of sequential consistency synchronise in the order of their execution. Threads that a fencing thread releases
// later are covered as well: whatever they know of it, it is at most what all fences have published by then.
bool Machine::is_visible(const Event& event, u32 thread, const ThreadState& state) const {
    return happened_before(event, thread, state) ||
           (state.sequential && state.sequential->of(event.thread / stride, event.thread % stride) >= event.clock);
}

const Version* Machine::choose_version(const Instruction& i, Published* place, u32 thread, ThreadState& state) {
    if (!place || !launch.races || i.vector > 1 || i.bytes > 8) return nullptr;
    if (state.known != state.known_before) {
        state.known_before = state.known;
        state.sequential = sequential;
    }
    auto is_read = [&](const std::map<u32, u32>& readers) {  // by an operation that happened before
        return std::any_of(readers.begin(), readers.end(), [&](const auto& reader) {
            return is_visible({reader.first, reader.second}, thread, state);
        });
    };
    size_t oldest = place->older.size();
    if (!is_read(place->readers)) {
        while (oldest) {
            const Version& version = place->older[oldest - 1];
            if (version.bytes != i.bytes || is_visible(version.overwritten, thread, state)) break;
            --oldest;
            if (is_read(version.readers)) break;
        }
    }
    const size_t choices = place->older.size() - oldest;
    Version* chosen = choices && random() % 2 ? &place->older[oldest + random() % choices] : nullptr;
    (chosen ? chosen->readers : place->readers).emplace(thread, state.clock);  // its first reading
    return chosen;
}

}  // namespace ptx
