#include "real_exec/runtime/compressed_reduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.hpp"

namespace tw {
namespace {

class Chain final : public Request {
  public:
    explicit Chain(std::vector<NextOperation> operations) : operations_(std::move(operations)) { go_on(); }

    bool test() override {
        while (current_ && current_->test())
            (void)wait_for_current();
        return current_ == nullptr;
    }
    Status wait() override {
        while (current_) {
            if (Status done = wait_for_current(); !done) return done;
        }
        return failed_;
    }
    [[nodiscard]] std::optional<DeviceTimes> device_times() const override { return times_; }
    [[nodiscard]] std::string waiting_for() const override {
        return current_ ? current_->waiting_for() : std::string();
    }

  private:
    // What follows a failed operation is not begun.
    Status wait_for_current() {
        if (Status done = current_->wait(); !done) {
            (void)(failed_ = std::move(done));
            current_.reset();
            return failed_;
        }
        // From the first operation's start to the last one's end; what the host does in between is part of
        // it.
        const std::optional<DeviceTimes> times = current_->device_times();
        if (times) times_ = {times_ ? times_->start : times->start, times->end};
        go_on();
        return ok();
    }
    void go_on() {
        current_.reset();
        while (!current_ && next_ < operations_.size())
            current_ = operations_[next_++]();
    }
    std::vector<NextOperation> operations_;
    std::size_t next_ = 0;
    RequestPtr current_;
    std::optional<DeviceTimes> times_;
    Status failed_ = ok();
};

// fp32 memory of the backend's, zero at first.
class Floats {
  public:
    Floats(Backend& backend, std::int64_t count, MemoryUse use)
        : buffer_(backend.allocate(DType::F32, Shape{count}, use)), count_(count) {
        std::fill_n(data(), count, 0.0F);
    }
    [[nodiscard]] float* data() const { return static_cast<float*>(buffer_.data()); }
    [[nodiscard]] std::span<const float> span() const { return {data(), static_cast<std::size_t>(count_)}; }
    [[nodiscard]] float& operator[](std::int64_t i) const { return data()[i]; }

  private:
    Buffer buffer_;
    std::int64_t count_;
};

Tensor words(const Buffer& buffer, std::int64_t first, std::int64_t count) {
    return {static_cast<std::int32_t*>(buffer.data()) + first, DType::I32, Shape{count}};
}

class TopK final : public CompressedReduce {
  public:
    TopK(double density, std::int64_t elements, int members, Backend& backend)
        : elements_(elements),
          chosen_(std::clamp<std::int64_t>(
              static_cast<std::int64_t>(std::ceil(density * static_cast<double>(elements))), 1, elements)),
          residual_(backend, elements, MemoryUse::CommunicationBuffers),
          own_(backend.allocate(DType::I32, Shape{2 * chosen_}, MemoryUse::CommunicationBuffers)),
          all_(backend.allocate(DType::I32, Shape{2 * chosen_ * members}, MemoryUse::CommunicationBuffers)) {}

    void append(Communicator& group, const Tensor& grads, std::vector<NextOperation>& operations) override {
        operations.emplace_back([this, &group, grads] {
            choose(grads.as<float>());
            return group.all_gather(words(own_, 0, 2 * chosen_), words(all_, 0, 2 * chosen_ * group.size()));
        });
        operations.emplace_back([this, &group, grads] {
            std::fill_n(grads.as<float>(), elements_, 0.0F);
            for (int r = 0; r < group.size(); ++r)
                add(words(all_, 2 * chosen_ * r, 2 * chosen_), grads.as<float>());
            return RequestPtr();
        });
    }
    [[nodiscard]] std::span<const float> residual() const override { return residual_.span(); }
    [[nodiscard]] std::vector<float> sent() const override {
        std::vector<float> dense(static_cast<std::size_t>(elements_));
        add(words(own_, 0, 2 * chosen_), dense.data());
        return dense;
    }

  private:
    // The residual takes the gradient in; the largest leave it.
    void choose(const float* grads) {
        for (std::int64_t i = 0; i < elements_; ++i)
            residual_[i] += grads[i];
        order_.resize(static_cast<std::size_t>(elements_));
        std::iota(order_.begin(), order_.end(), 0);
        const auto larger = [this](std::int32_t a, std::int32_t b) {
            const float x = std::abs(residual_[a]), y = std::abs(residual_[b]);
            return x != y ? x > y : a < b;
        };
        std::nth_element(order_.begin(), order_.begin() + (chosen_ - 1), order_.end(), larger);
        auto* index = static_cast<std::int32_t*>(own_.data());
        auto* value = static_cast<float*>(own_.data()) + chosen_;
        for (std::int64_t i = 0; i < chosen_; ++i) {
            index[i] = order_[static_cast<std::size_t>(i)];
            value[i] = residual_[index[i]];
            residual_[index[i]] = 0;
        }
    }
    void add(const Tensor& packed, float* dense) const {
        const auto* index = packed.as<std::int32_t>();
        const float* value = packed.as<float>() + chosen_;
        for (std::int64_t i = 0; i < chosen_; ++i)
            dense[index[i]] += value[i];
    }

    std::int64_t elements_, chosen_;
    Floats residual_;
    Buffer own_, all_;  // indices, then values
    std::vector<std::int32_t> order_;
};

class EightBit final : public CompressedReduce {
  public:
    EightBit(std::int64_t block, std::int64_t elements, int members, int member, Backend& backend)
        : elements_(elements),
          members_(members),
          member_(member),
          block_((block + 3) / 4 * 4),  // whole words
          part_(((elements + members - 1) / members + block_ - 1) / block_ * block_),
          words_(part_ / 4 + part_ / block_),
          residual_(backend, part_ * members, MemoryUse::CommunicationBuffers),
          owner_residual_(backend, part_, MemoryUse::CommunicationBuffers),
          sent_(make(backend)),
          received_(make(backend)) {}

    void append(Communicator& group, const Tensor& grads, std::vector<NextOperation>& operations) override {
        TW_CHECK(group.size() == members_ && group.rank() == member_);
        operations.emplace_back([this, &group, grads] {
            for (std::int64_t i = 0; i < elements_; ++i)
                residual_[i] += grads.as<float>()[i];
            for (int r = 0; r < members_; ++r)
                quantise(residual_.data() + part_ * r, sent_, r);
            const std::vector<std::int64_t> each(static_cast<std::size_t>(members_), words_);
            return group.all_to_all(words(sent_, 0, words_ * members_), each,
                                    words(received_, 0, words_ * members_), each);
        });
        operations.emplace_back([this, &group] {
            for (int r = 0; r < members_; ++r)
                add(received_, r, owner_residual_.data());
            quantise(owner_residual_.data(), received_, member_);
            return group.all_gather(words(received_, words_ * member_, words_),
                                    words(received_, 0, words_ * members_));
        });
        operations.emplace_back([this, grads] {
            std::vector<float> part(static_cast<std::size_t>(part_));
            for (int r = 0; r < members_; ++r) {
                std::fill(part.begin(), part.end(), 0.0F);
                add(received_, r, part.data());
                const std::int64_t begin = part_ * r;
                for (std::int64_t i = 0; i < part_ && begin + i < elements_; ++i)
                    grads.as<float>()[begin + i] = part[static_cast<std::size_t>(i)];
            }
            return RequestPtr();
        });
    }
    [[nodiscard]] std::span<const float> residual() const override {
        return residual_.span().first(static_cast<std::size_t>(elements_));
    }
    [[nodiscard]] std::vector<float> sent() const override {
        std::vector<float> dense(static_cast<std::size_t>(part_ * members_));
        for (int r = 0; r < members_; ++r)
            add(sent_, r, dense.data() + part_ * r);
        dense.resize(static_cast<std::size_t>(elements_));
        return dense;
    }

  private:
    Buffer make(Backend& backend) const {
        return backend.allocate(DType::I32, Shape{words_ * members_}, MemoryUse::CommunicationBuffers);
    }
    [[nodiscard]] std::int8_t* numbers(const Buffer& packed, int part) const {
        return reinterpret_cast<std::int8_t*>(static_cast<std::int32_t*>(packed.data()) + words_ * part);
    }
    [[nodiscard]] float* scales(const Buffer& packed, int part) const {
        return static_cast<float*>(packed.data()) + words_ * part + part_ / 4;
    }
    // `values` keeps what the packed numbers miss. A value and the nearest multiple of its scale lie within a
    // factor of two of each other, or the multiple is zero: the difference is exact (Sterbenz).
    void quantise(float* values, const Buffer& packed, int part) const {
        std::int8_t* q = numbers(packed, part);
        float* scale = scales(packed, part);
        for (std::int64_t b = 0; b < part_ / block_; ++b, values += block_, q += block_) {
            float largest = 0;
            for (std::int64_t i = 0; i < block_; ++i)
                largest = std::max(largest, std::abs(values[i]));
            scale[b] = largest / 127;
            const float inverse = scale[b] > 0 ? 1 / scale[b] : 0;
            for (std::int64_t i = 0; i < block_; ++i) {
                const float steps = std::clamp(std::nearbyint(values[i] * inverse), -127.0F, 127.0F);
                q[i] = static_cast<std::int8_t>(steps);
                values[i] -= static_cast<float>(q[i]) * scale[b];
            }
        }
    }
    void add(const Buffer& packed, int part, float* dense) const {
        const std::int8_t* q = numbers(packed, part);
        const float* scale = scales(packed, part);
        for (std::int64_t i = 0; i < part_; ++i)
            dense[i] += static_cast<float>(q[i]) * scale[i / block_];
    }

    std::int64_t elements_;
    int members_, member_;
    std::int64_t block_, part_, words_;  // words_: of a packed part, numbers and then scales
    Floats residual_;                    // of this rank's gradients
    Floats owner_residual_;              // of the sums of this rank's part
    Buffer sent_, received_;
};

}  // namespace

RequestPtr chain_operations(std::vector<NextOperation> operations) {
    return std::make_unique<Chain>(std::move(operations));
}

std::unique_ptr<CompressedReduce> make_compressed_reduce(SyncMethod method, const SyncOptions& options,
                                                         std::int64_t elements, int members, int member,
                                                         Backend& backend) {
    TW_CHECK(compresses(method) && elements > 0);
    if (method == SyncMethod::TopK)
        return std::make_unique<TopK>(options.density, elements, members, backend);
    return std::make_unique<EightBit>(options.block, elements, members, member, backend);
}

}  // namespace tw
