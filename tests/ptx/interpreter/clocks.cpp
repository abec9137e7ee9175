#include "clocks.h"

#include <algorithm>

namespace ptx {

u32 Knowledge::of(u32 block, u32 index) const {
    for (const auto& [number, clocks] : blocks)
        if (number == block) return clocks[index];
    return 0;
}

std::vector<u32>& Knowledge::clocks(u32 block, u32 threads) {
    auto place = std::lower_bound(blocks.begin(), blocks.end(), block,
                                  [](const auto& entry, u32 number) { return entry.first < number; });
    if (place == blocks.end() || place->first != block) place = blocks.emplace(place, block, std::vector<u32>(threads));
    return place->second;
}

Clock join(const Clock& a, const Clock& b) {
    if (a == b || !b) return a;
    if (!a) return b;
    auto result = std::make_shared<Knowledge>(*a);
    bool changed = false;
    for (const auto& [number, clocks] : b->blocks) {
        std::vector<u32>& known = result->clocks(number, static_cast<u32>(clocks.size()));
        for (size_t i = 0; i < clocks.size(); ++i) {
            changed |= clocks[i] > known[i];
            known[i] = std::max(known[i], clocks[i]);
        }
    }
    return changed ? result : a;
}

}  // namespace ptx
