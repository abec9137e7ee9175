// Vector clocks: which operations of other threads happened before a thread's present one.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "memory.h"

namespace ptx {

// For each block, the clocks of its threads up to which their operations are known. A block that is not listed is
// unknown. Many threads share one object, which is never changed once it is shared.
struct Knowledge {
    std::vector<std::pair<u32, std::vector<u32>>> blocks;  // in ascending order

    u32 of(u32 block, u32 index) const;
    std::vector<u32>& clocks(u32 block, u32 threads);
};

using Clock = std::shared_ptr<const Knowledge>;

Clock join(const Clock&, const Clock&);

// What a thread knows and has published.
struct ThreadState {
    Clock known;
    u32 clock = 1;
    Clock fenced;        // knowledge at its last fence: what its relaxed atomics publish
    Clock observed;      // published knowledge that it read and that its next fence acquires
    u32 proxy_clock = 0; // clock at its last fence.proxy.async
    u32 cluster_phase = 0;  // that ends when all threads of the cluster have arrived as this one last did
    bool at_cluster = false;  // whether it has arrived there and not waited
};

}  // namespace ptx
