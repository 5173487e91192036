#include "plan/schedule/rendezvous.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.hpp"

namespace tw {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

// Nodes: for each instruction its start (it may begin as far as its own rank is concerned) and its event (it
// happens); for each batch group its start and its end. event(i) of instructions that meet is one node.
class Graph {
  public:
    Graph(const Schedule& schedule, const Meetings& meetings) : schedule_(schedule) {
        number();
        merge(meetings);
        link();
    }

    std::optional<std::vector<InstructionRef>> cycle() {
        peel();
        std::uint32_t node = 0;
        while (node < open_.size() && open_[node] == 0)
            ++node;
        if (node == open_.size()) return std::nullopt;
        // Every open node has an open predecessor: walking back must come round.
        std::vector<char> seen(open_.size(), 0);
        while (seen[node] == 0) {
            seen[node] = 1;
            node = open_predecessor(node).from;
        }
        std::vector<InstructionRef> found;
        const auto add = [&](InstructionRef i) {
            if (i.index != kNone && (found.empty() || found.back() != i)) found.push_back(i);
        };
        const std::uint32_t first = node;
        do {
            add(owner_[node]);
            const Edge& edge = open_predecessor(node);
            add(edge.because);
            node = edge.from;
        } while (node != first);
        if (found.size() > 1 && found.front() == found.back()) found.pop_back();
        return found;
    }

  private:
    struct Edge {
        std::uint32_t from = 0, to = 0;
        InstructionRef because;
    };

    std::uint32_t new_node(InstructionRef owner) {
        owner_.push_back(owner);
        return static_cast<std::uint32_t>(owner_.size() - 1);
    }
    [[nodiscard]] std::size_t at(InstructionRef i) const { return base_[i.rank] + i.index; }

    void number() {
        base_.assign(1, 0);
        for (const RankProgram& program : schedule_.programs)
            base_.push_back(base_.back() + program.instructions.size());
        start_.resize(base_.back());
        event_.assign(base_.back(), kNone);
        end_.resize(base_.back());
        for (std::uint32_t r = 0; r < schedule_.programs.size(); ++r) {
            for (std::uint32_t i = 0; i < schedule_.programs[r].instructions.size(); ++i) {
                start_[at({r, i})] = new_node({r, i});
            }
        }
    }

    void merge(const Meetings& meetings) {
        for (const auto& meeting : meetings) {
            const std::uint32_t node = new_node({0, kNone});
            for (const InstructionRef& i : meeting)
                event_[at(i)] = node;
        }
        for (std::size_t i = 0; i < event_.size(); ++i) {
            if (event_[i] == kNone) event_[i] = new_node({0, kNone});
        }
    }

    // `because`: the instruction of the same rank that `to` waits for.
    void edge(std::uint32_t from, std::uint32_t to, InstructionRef because = {0, kNone}) {
        edges_.push_back({from, to, because});
    }

    void link() {
        for (std::uint32_t r = 0; r < schedule_.programs.size(); ++r) {
            const RankProgram& program = schedule_.programs[r];
            std::map<std::uint16_t, std::pair<std::uint32_t, std::uint32_t>> batches;  // start and end nodes
            std::map<std::pair<Stream, std::uint16_t>, std::uint32_t> lanes;  // last instruction of each
            for (std::uint32_t i = 0; i < program.instructions.size(); ++i) {
                const Instruction& instruction = program.instructions[i];
                const std::size_t self = at({r, i});
                if (instruction.batch_group == 0) {
                    edge(start_[self], event_[self]);
                    end_[self] = event_[self];
                } else {
                    auto [batch, added] = batches.try_emplace(instruction.batch_group);
                    if (added) batch->second = {new_node({0, kNone}), new_node({0, kNone})};
                    edge(start_[self], batch->second.first);
                    edge(batch->second.first, event_[self]);
                    edge(event_[self], batch->second.second);
                    end_[self] = batch->second.second;
                }
                for (const std::uint32_t wait : program.waits_of(i))
                    edge(end_[at({r, wait})], start_[self], {r, wait});
                auto [lane, first] = lanes.try_emplace({instruction.stream, instruction.communicator}, i);
                if (first) continue;
                const Instruction& before = program.instructions[lane->second];
                const bool same_batch =
                    instruction.batch_group != 0 && before.batch_group == instruction.batch_group;
                // Members of one batch begin together, so what the first waits for holds the others back as
                // well.
                if (!same_batch) edge(end_[at({r, lane->second})], start_[self], {r, lane->second});
                lane->second = i;
            }
        }
    }

    // Removes what can happen, in any order; `open_` keeps the number of unmet predecessors of the rest.
    void peel() {
        const std::size_t nodes = owner_.size();
        std::vector<std::uint32_t> begin(nodes + 1, 0);
        open_.assign(nodes, 0);
        for (const Edge& e : edges_) {
            ++begin[e.from + 1];
            ++open_[e.to];
        }
        for (std::size_t n = 0; n < nodes; ++n)
            begin[n + 1] += begin[n];
        std::vector<std::uint32_t> successors(edges_.size());
        std::vector<std::uint32_t> fill(begin.begin(), begin.end() - 1);
        for (const Edge& e : edges_)
            successors[fill[e.from]++] = e.to;
        std::vector<std::uint32_t> ready;
        for (std::uint32_t n = 0; n < nodes; ++n) {
            if (open_[n] == 0) ready.push_back(n);
        }
        for (std::size_t head = 0; head < ready.size(); ++head) {
            for (std::uint32_t k = begin[ready[head]]; k < begin[ready[head] + 1]; ++k) {
                if (--open_[successors[k]] == 0) ready.push_back(successors[k]);
            }
        }
        if (ready.size() == nodes) return;
        predecessor_.assign(nodes, nullptr);
        for (const Edge& e : edges_) {
            if (open_[e.from] != 0 && open_[e.to] != 0 && predecessor_[e.to] == nullptr)
                predecessor_[e.to] = &e;
        }
    }

    [[nodiscard]] const Edge& open_predecessor(std::uint32_t node) const {
        TW_CHECK(predecessor_[node] != nullptr);
        return *predecessor_[node];
    }

    const Schedule& schedule_;
    std::vector<std::size_t> base_;
    std::vector<std::uint32_t> start_, event_, end_;  // by instruction: nodes
    std::vector<InstructionRef> owner_;               // by node: the instruction a start belongs to
    std::vector<Edge> edges_;
    std::vector<std::uint32_t> open_;
    std::vector<const Edge*> predecessor_;  // by node: an edge from another open node
};

}  // namespace

std::optional<std::vector<InstructionRef>> find_deadlock(const Schedule& schedule, const Meetings& meetings) {
    return Graph(schedule, meetings).cycle();
}

}  // namespace tw
