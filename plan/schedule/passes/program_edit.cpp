#include "plan/schedule/passes/program_edit.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"

namespace tw {

ProgramEdit::Ref ProgramEdit::insert(std::size_t before, const Instruction& instruction,
                                     std::span<const Ref> waits) {
    TW_CHECK(before <= size());
    if (insertions_.empty()) {  // most edits are a few instructions: one allocation each
        insertions_.reserve(16);
        insertion_waits_.reserve(32);
    }
    const auto begin = static_cast<std::uint32_t>(insertion_waits_.size());
    insertion_waits_.insert(insertion_waits_.end(), waits.begin(), waits.end());
    insertions_.push_back({before, instruction, begin, static_cast<std::uint32_t>(insertion_waits_.size())});
    return kInserted | static_cast<Ref>(insertions_.size() - 1);
}

void ProgramEdit::apply() {
    if (insertions_.empty() && added_waits_.empty()) return;
    const std::size_t old_size = size();
    // Kept from one edit to the next: lowering makes a few small edits of each of many programs.
    struct Scratch {
        std::vector<std::uint32_t> order, new_index, inserted_index, waits;
        RankProgram tail;
    };
    thread_local Scratch scratch;
    std::vector<std::uint32_t>& order = scratch.order;
    order.resize(insertions_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
        return insertions_[a].before < insertions_[b].before;
    });
    std::stable_sort(added_waits_.begin(), added_waits_.end(),
                     [](const AddedWait& a, const AddedWait& b) { return a.existing < b.existing; });

    // Everything before the first change stays where it is; the rest is taken off and appended again.
    std::size_t keep = old_size;
    if (!order.empty()) keep = std::min(keep, insertions_[order.front()].before);
    if (!added_waits_.empty()) keep = std::min<std::size_t>(keep, added_waits_.front().existing);
    RankProgram& tail = scratch.tail;
    tail.wait_begin.clear();
    tail.waits.clear();
    tail.instructions.assign(program_->instructions.begin() + static_cast<std::ptrdiff_t>(keep),
                             program_->instructions.end());
    for (std::size_t i = keep; i < old_size; ++i) {
        tail.wait_begin.push_back(static_cast<std::uint32_t>(tail.waits.size()));
        const auto waits = program_->waits_of(i);
        tail.waits.insert(tail.waits.end(), waits.begin(), waits.end());
    }
    tail.wait_begin.push_back(static_cast<std::uint32_t>(tail.waits.size()));
    if (program_->wait_begin.empty()) program_->wait_begin.push_back(0);
    program_->waits.resize(program_->wait_begin[keep]);
    program_->wait_begin.resize(keep + 1);
    program_->instructions.resize(keep);

    constexpr std::uint32_t kUnplaced = 0xffffffffU;
    std::vector<std::uint32_t>&new_index = scratch.new_index, &inserted_index = scratch.inserted_index;
    new_index.assign(old_size - keep, kUnplaced);
    inserted_index.assign(insertions_.size(), kUnplaced);
    std::vector<std::uint32_t>& waits = scratch.waits;
    const auto add_ref = [&](Ref ref) {
        std::uint32_t index = ref;
        if ((ref & kInserted) != 0) {
            index = inserted_index[ref & ~kInserted];
        } else if (ref >= keep) {
            index = new_index[ref - keep];
        }
        TW_CHECK_MSG(index != kUnplaced, "an instruction waits for a later one");
        waits.push_back(index);
    };
    std::size_t next_insertion = 0;
    std::size_t next_added = 0;
    for (std::size_t i = keep; i <= old_size; ++i) {
        for (; next_insertion < order.size() && insertions_[order[next_insertion]].before == i;
             ++next_insertion) {
            const Insertion& insertion = insertions_[order[next_insertion]];
            waits.clear();
            for (std::uint32_t w = insertion.waits_begin; w < insertion.waits_end; ++w)
                add_ref(insertion_waits_[w]);
            inserted_index[order[next_insertion]] = program_->append(insertion.instruction, waits);
        }
        if (i == old_size) break;
        waits.clear();
        for (const std::uint32_t wait : tail.waits_of(i - keep))
            add_ref(wait);
        for (; next_added < added_waits_.size() && added_waits_[next_added].existing == i; ++next_added) {
            add_ref(added_waits_[next_added].on);
        }
        new_index[i - keep] = program_->append(tail.instructions[i - keep], waits);
    }
    insertions_.clear();
    insertion_waits_.clear();
    added_waits_.clear();
}

}  // namespace tw
