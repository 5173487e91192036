#include "real_exec/runtime/gather.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace tw {
namespace {

// Doubles travel as pairs of 32-bit words.
Tensor as_words(void* data, std::size_t words) {
    return {data, DType::I32, Shape{static_cast<std::int64_t>(words)}};
}

}  // namespace

GatheredNumbers::GatheredNumbers(Communicator& group, const std::vector<double>& own)
    : size_(group.size()),
      count_(own.size()),
      all_(own.size() * static_cast<std::size_t>(group.size())),
      own_(own) {
    request_ = group.all_gather(as_words(own_.data(), 2 * count_), as_words(all_.data(), 2 * all_.size()));
}

double GatheredNumbers::of(int rank, std::size_t i) const {
    return all_[static_cast<std::size_t>(rank) * count_ + i];
}

double GatheredNumbers::sum(std::size_t i) const {
    double total = 0;
    for (int r = 0; r < size_; ++r)
        total += of(r, i);
    return total;
}

double GatheredNumbers::max(std::size_t i) const {
    double largest = of(0, i);
    for (int r = 1; r < size_; ++r)
        largest = std::max(largest, of(r, i));
    return largest;
}

Result<std::vector<std::string>> gather_texts(Communicator& group, const std::string& own) {
    constexpr int kTag = 30000;  // schedules use small ones
    GatheredNumbers lengths(group, {static_cast<double>(own.size())});
    if (Status status = lengths.wait(); !status) return status.errors();
    const auto words = [](std::size_t bytes) { return (bytes + 3) / 4; };
    if (group.rank() != 0) {
        std::vector<std::int32_t> padded(words(own.size()));
        if (padded.empty()) return std::vector<std::string>{};
        std::memcpy(padded.data(), own.data(), own.size());
        const Status sent = group.send(as_words(padded.data(), padded.size()), 0, kTag)->wait();
        if (!sent) return sent.errors();
        return std::vector<std::string>{};
    }
    std::vector<std::string> texts{own};
    for (int r = 1; r < group.size(); ++r) {
        const auto bytes = static_cast<std::size_t>(lengths.of(r, 0));
        std::vector<std::int32_t> padded(words(bytes));
        if (bytes > 0) {
            const Status got = group.receive(as_words(padded.data(), padded.size()), r, kTag)->wait();
            if (!got) return got.errors();
        }
        std::string text(bytes, '\0');
        if (bytes > 0) std::memcpy(text.data(), padded.data(), bytes);
        texts.push_back(std::move(text));
    }
    return texts;
}

}  // namespace tw
