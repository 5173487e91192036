#include "plan/schedule/generators/zero_bubble_greedy.hpp"

#include <algorithm>

namespace tw {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
// Room for rounding where limits are sums of activation sizes.
constexpr double kSlack = 1e-9;

std::int64_t duration(const ZeroBubbleRank& costs, Opcode opcode) {
    if (opcode == Opcode::Forward) return costs.forward;
    return opcode == Opcode::BackwardInput ? costs.input : costs.weight;
}

}  // namespace

bool within_limits(const ZeroBubbleProblem& problem, const ZeroBubbleRows& rows) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const ZeroBubbleRank& costs = problem.ranks[r];
        double held = 0;
        for (const Opcode opcode : rows[r]) {
            if (opcode == Opcode::Forward) held += costs.activation;
            if (opcode == Opcode::BackwardInput) held -= costs.activation - costs.kept_for_weight;
            if (opcode == Opcode::BackwardWeight) held -= costs.kept_for_weight;
            if (held > costs.limit * (1 + kSlack)) return false;
        }
    }
    return true;
}

ZeroBubbleScore score_of(const ZeroBubbleProblem& problem, const ZeroBubbleRows& rows) {
    const std::size_t p = rows.size();
    const auto m = static_cast<std::size_t>(problem.microbatches);
    std::vector<std::int64_t> forward(p * m, kUnknown), input(p * m, kUnknown);  // when each is done
    struct Rank {
        std::size_t next = 0, forwards = 0, inputs = 0;
        std::int64_t begin = kUnknown, end = 0;
    };
    std::vector<Rank> ranks(p);
    // A rank goes on when a neighbour has given it something; they take turns down and up the pipeline.
    bool moved = true;
    const auto advance = [&](std::size_t r) {
        Rank& rank = ranks[r];
        const ZeroBubbleRank& costs = problem.ranks[r];
        for (; rank.next < rows[r].size(); ++rank.next, moved = true) {
            const Opcode opcode = rows[r][rank.next];
            std::int64_t ready = 0;
            if (opcode == Opcode::Forward && r > 0) ready = forward[(r - 1) * m + rank.forwards];
            if (opcode == Opcode::BackwardInput && r + 1 < p) ready = input[(r + 1) * m + rank.inputs];
            if (ready == kUnknown) return;
            if (ready > 0) ready += problem.transfer;
            const std::int64_t start = std::max(rank.end, ready);
            if (rank.begin == kUnknown) rank.begin = start;
            rank.end = start + duration(costs, opcode);
            if (opcode == Opcode::Forward) forward[r * m + rank.forwards++] = rank.end;
            if (opcode == Opcode::BackwardInput) input[r * m + rank.inputs++] = rank.end;
        }
    };
    while (moved) {
        moved = false;
        for (std::size_t r = 0; r < p; ++r)
            advance(r);
        for (std::size_t r = p; r-- > 0;)
            advance(r);
    }
    ZeroBubbleScore score{0, 0};
    for (const Rank& rank : ranks) {
        score.stretch = std::max(score.stretch, rank.end - rank.begin);
        score.end = std::max(score.end, rank.end);
    }
    return score;
}

ZeroBubbleGreedy::ZeroBubbleGreedy(const ZeroBubbleProblem& problem)
    : problem_(problem),
      m_(static_cast<std::size_t>(problem.microbatches)),
      ranks_(problem.ranks.size()),
      forward_(ranks_.size() * m_),
      input_(forward_.size()) {
    while (leaves_ < ranks_.size())
        leaves_ *= 2;
    winner_.resize(2 * leaves_);
    next_.resize(leaves_);
}

void ZeroBubbleGreedy::reset(const ZeroBubblePolicy& policy) {
    policy_ = policy;
    const std::size_t p = ranks_.size();
    std::fill(forward_.begin(), forward_.end(), Arrival{kUnknown, kUnknown});
    std::fill(input_.begin(), input_.end(), Arrival{kUnknown, kUnknown});
    std::fill_n(forward_.begin(), m_, Arrival{0, 0});
    std::fill(next_.begin(), next_.end(), kUnknown);
    next_.front() = 0;
    for (std::size_t leaf = 0; leaf < leaves_; ++leaf)
        winner_[leaves_ + leaf] = static_cast<std::uint32_t>(leaf);
    for (std::size_t i = leaves_; i-- > 1;)
        winner_[i] = winner_[2 * i];  // rank 0 is first, and of ranks that know nothing the lowest
    rows_.resize(p);
    for (std::size_t r = 0; r < p; ++r) {
        ranks_[r] = Rank{};
        ranks_[r].window = policy.depth == 0
                               ? problem_.microbatches
                               : policy.depth * (static_cast<int>(p) - static_cast<int>(r) - 1) + 1;
        rows_[r].clear();
        rows_[r].reserve(3 * m_);
    }
}

std::int64_t ZeroBubbleGreedy::forward_at(std::size_t r) const {
    const auto b = static_cast<std::size_t>(ranks_[r].forwards);
    return b < m_ ? forward_[r * m_ + b].greedy : kUnknown;
}

std::int64_t ZeroBubbleGreedy::input_at(std::size_t r) const {
    const Rank& rank = ranks_[r];
    return rank.inputs < rank.forwards ? input_[r * m_ + static_cast<std::size_t>(rank.inputs)].greedy
                                       : kUnknown;
}

void ZeroBubbleGreedy::wake(std::size_t r, std::int64_t at) {
    next_[r] = at;
    for (std::size_t i = (leaves_ + r) / 2; i > 0; i /= 2) {
        const std::uint32_t left = winner_[2 * i], right = winner_[2 * i + 1];
        winner_[i] = next_[right] < next_[left] ? right : left;
    }
}

Opcode ZeroBubbleGreedy::choose(std::size_t r, std::int64_t now) const {
    const Rank& rank = ranks_[r];
    const ZeroBubbleRank& costs = problem_.ranks[r];
    const bool fits =
        rank.weights == rank.forwards || rank.held + costs.activation <= costs.limit * (1 + kSlack);
    const std::int64_t forward = forward_at(r);
    const std::int64_t input = input_at(r);
    const bool ahead = rank.forwards - rank.inputs >= rank.window;
    const bool forward_ready = forward <= now && !ahead;
    const bool input_ready = input <= now;
    if (input_ready)
        return forward_ready && fits && policy_.forward_first ? Opcode::Forward : Opcode::BackwardInput;
    if (forward_ready && fits) {
        const bool delays = input != kUnknown && input < now + costs.forward;
        if (!delays || policy_.forward_may_delay_backward) return Opcode::Forward;
    }
    if (rank.weights == rank.inputs) return Opcode::Wait;       // none is owed
    if (forward_ready && !fits) return Opcode::BackwardWeight;  // makes room
    if (policy_.fill_any_gap) return Opcode::BackwardWeight;
    const std::int64_t arrival = std::min(fits && !ahead ? forward : kUnknown, input);
    const bool gap_fits = arrival == kUnknown || std::max(arrival, now) >= now + costs.weight;
    return gap_fits ? Opcode::BackwardWeight : Opcode::Wait;
}

// A rank that waits is looked at again when something arrives: until then it knows no more, and time that
// passes opens no gap.
void ZeroBubbleGreedy::arrive(Arrival& arrival, std::size_t r, std::int64_t greedy, std::int64_t earliest) {
    arrival = {greedy, earliest};
    if (ranks_[r].waits && greedy < next_[r]) wake(r, greedy);
}

void ZeroBubbleGreedy::start(std::size_t r, Opcode opcode, std::int64_t now) {
    Rank& rank = ranks_[r];
    const ZeroBubbleRank& costs = problem_.ranks[r];
    const std::int64_t own = duration(costs, opcode);
    std::int64_t ready = 0;
    std::size_t at = r * m_;
    if (opcode == Opcode::Forward) {
        at += static_cast<std::size_t>(rank.forwards++);
        ready = forward_[at].earliest;
        rank.held += costs.activation;
    } else if (opcode == Opcode::BackwardInput) {
        at += static_cast<std::size_t>(rank.inputs++);
        ready = input_[at].earliest;
        rank.held -= costs.activation - costs.kept_for_weight;
    } else {
        ++rank.weights;
        rank.held -= costs.kept_for_weight;
    }
    const std::int64_t begin = std::max(rank.end, ready);
    if (rank.begun) rank.idle += begin - rank.end;
    rank.begun = true;
    rank.end = begin + own;
    rank.waits = false;
    rows_[r].push_back(opcode);
    wake(r, now + own);
    const std::int64_t there = now + own + problem_.transfer, earliest = rank.end + problem_.transfer;
    if (opcode == Opcode::Forward) {
        if (r + 1 < ranks_.size()) {
            arrive(forward_[at + m_], r + 1, there, earliest);
        } else {
            input_[at] = {now + own, rank.end};
        }
    } else if (opcode == Opcode::BackwardInput && r > 0) {
        arrive(input_[at - m_], r - 1, there, earliest);
    }
}

bool ZeroBubbleGreedy::run(const ZeroBubblePolicy& policy, const ZeroBubbleScore& best) {
    reset(policy);
    const auto longest = [&](std::size_t r) {  // of a stretch, were nothing to idle from now on
        return static_cast<std::int64_t>(m_) * problem_.ranks[r].step() + ranks_[r].idle;
    };
    while (true) {
        const std::size_t r = winner_[1];
        const std::int64_t now = next_[r];
        if (now == kUnknown) break;
        const Opcode opcode = choose(r, now);
        if (opcode != Opcode::Wait) {
            start(r, opcode, now);
            if (longest(r) > best.stretch) return false;
            continue;
        }
        std::int64_t arrival = kUnknown;
        for (const std::int64_t at : {forward_at(r), input_at(r)}) {
            if (at > now) arrival = std::min(arrival, at);
        }
        ranks_[r].waits = true;
        wake(r, arrival);
    }
    score_ = {0, 0};
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        score_.stretch = std::max(score_.stretch, longest(r));
        score_.end = std::max(score_.end, ranks_[r].end);
    }
    return score_ <= best;
}

}  // namespace tw
