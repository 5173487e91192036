#include <map>
#include <mutex>
#include <string>

#include "profiler/bench/kernel_log.hpp"

namespace tw {
namespace {

using Sizes = std::array<std::int64_t, 7>;

class TimingBackend final : public Backend {
  public:
    TimingBackend(Backend& inner, KernelLog& log, const Clock& clock)
        : inner_(inner), log_(log), clock_(clock) {}

    [[nodiscard]] std::string_view name() const override { return inner_.name(); }
    [[nodiscard]] std::string description() const override { return inner_.description(); }
    [[nodiscard]] int multiprocessors() const override { return inner_.multiprocessors(); }
    [[nodiscard]] bool host_memory() const override { return inner_.host_memory(); }
    [[nodiscard]] bool holds(const void* data) const override { return inner_.holds(data); }
    void release_cached() override { inner_.release_cached(); }
    void synchronize() override { inner_.synchronize(); }
    void copy_from_host(const Tensor& to, const void* from) override { inner_.copy_from_host(to, from); }
    void copy_to_host(void* to, const Tensor& from) override { inner_.copy_to_host(to, from); }

    void copy(const Tensor& from, const Tensor& to) override {
        timed("copy", from, [&] { inner_.copy(from, to); });
    }
    void fill(const Tensor& x, double value) override {
        timed("fill", x, [&] { inner_.fill(x, value); });
    }
    void add(const Tensor& x, const Tensor& y) override {
        timed("add", x, [&] { inner_.add(x, y); });
    }
    void scale(const Tensor& x, double factor) override { inner_.scale(x, factor); }
    void axpby(double a, const Tensor& x, double b, const Tensor& y) override { inner_.axpby(a, x, b, y); }
    double sum_squares(const Tensor& x) override {
        double sum = 0;
        timed("square_sum", x, [&] { sum = inner_.sum_squares(x); });
        return sum;
    }
    bool all_finite(const Tensor& x) override { return inner_.all_finite(x); }
    void activation_forward(Activation kind, const Tensor& x, const Tensor& y) override {
        timed("activation", x, [&] { inner_.activation_forward(kind, x, y); });
    }
    void activation_backward(Activation kind, const Tensor& x, const Tensor& dy, const Tensor& dx) override {
        timed("activation_backward", x, [&] { inner_.activation_backward(kind, x, dy, dx); });
    }
    void gated_forward(Activation kind, const MatrixView& gate, const MatrixView& up,
                       const MatrixView& y) override {
        timed("gated", y, [&] { inner_.gated_forward(kind, gate, up, y); });
    }
    void gated_backward(Activation kind, const MatrixView& gate, const MatrixView& up, const MatrixView& dy,
                        const MatrixView& dgate, const MatrixView& dup) override {
        timed("gated_backward", dy, [&] { inner_.gated_backward(kind, gate, up, dy, dgate, dup); });
    }
    void dropout_add(const Tensor& x, const Tensor& residual, const Tensor& y,
                     const DropoutSpec& dropout) override {
        timed(residual ? "residual_add" : "dropout_copy", x,
              [&] { inner_.dropout_add(x, residual, y, dropout); });
    }
    void dropout_backward(const Tensor& dy, const Tensor& dx, const DropoutSpec& dropout) override {
        timed("dropout_copy", dy, [&] { inner_.dropout_backward(dy, dx, dropout); });
    }
    void gemm(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
              const MatrixView& c, bool accumulate, const Tensor& bias) override {
        const std::int64_t layout = (transpose_a ? 2 : 0) + (transpose_b ? 1 : 0);
        const KernelCall call{
            "gemm", a.dtype, {c.rows, c.cols, transpose_a ? a.rows : a.cols, layout, accumulate ? 1 : 0}};
        run(call, [&] { inner_.gemm(a, transpose_a, b, transpose_b, c, accumulate, bias); });
    }
    void column_sum(const MatrixView& x, const Tensor& sum) override {
        timed("column_sum", x, [&] { inner_.column_sum(x, sum); });
    }
    void layer_norm_forward(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                            const Tensor& y, const Tensor& stats) override {
        timed("norm", x, [&] { inner_.layer_norm_forward(x, gain, bias, eps, y, stats); });
    }
    void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& stats,
                             const Tensor& more, const Tensor& dx, const Tensor& dgain,
                             const Tensor& dbias) override {
        timed("norm_backward", x,
              [&] { inner_.layer_norm_backward(dy, x, gain, stats, more, dx, dgain, dbias); });
    }
    void rms_norm_forward(const Tensor& x, const Tensor& gain, double eps, const Tensor& y,
                          const Tensor& stats) override {
        timed("norm", x, [&] { inner_.rms_norm_forward(x, gain, eps, y, stats); });
    }
    void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& stats,
                           const Tensor& more, const Tensor& dx, const Tensor& dgain) override {
        timed("norm_backward", x, [&] { inner_.rms_norm_backward(dy, x, gain, stats, more, dx, dgain); });
    }
    void attention_forward(const AttentionCall& shape, const MatrixView& q, const MatrixView& k,
                           const MatrixView& v, const MatrixView& out, const Tensor& lse) override {
        run(attention("attention", shape, q), [&] { inner_.attention_forward(shape, q, k, v, out, lse); });
    }
    void attention_backward(const AttentionCall& shape, const MatrixView& q, const MatrixView& k,
                            const MatrixView& v, const MatrixView& out, const Tensor& lse,
                            const MatrixView& dout, const MatrixView& dq, const MatrixView& dk,
                            const MatrixView& dv) override {
        run(attention("attention_backward", shape, q),
            [&] { inner_.attention_backward(shape, q, k, v, out, lse, dout, dq, dk, dv); });
    }
    void rope(const MatrixView& x, std::int64_t seq_len, std::int64_t head_dim, double theta,
              bool inverse) override {
        timed("rope", x, [&] { inner_.rope(x, seq_len, head_dim, theta, inverse); });
    }
    void embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_token,
                           const Tensor& y) override {
        timed("embedding", y, [&] { inner_.embedding_forward(tokens, table, first_token, y); });
    }
    void embedding_backward(const Tensor& tokens, const Tensor& dy, std::int64_t first_token,
                            const Tensor& dtable) override {
        timed("embedding_backward", dy, [&] { inner_.embedding_backward(tokens, dy, first_token, dtable); });
    }
    void position_add(const Tensor& table, std::int64_t seq_len, std::int64_t first_row, std::int64_t offset,
                      const Tensor& y) override {
        timed("position", y, [&] { inner_.position_add(table, seq_len, first_row, offset, y); });
    }
    void position_backward(const Tensor& dy, std::int64_t seq_len, std::int64_t first_row,
                           std::int64_t offset, const Tensor& dtable) override {
        timed("position_backward", dy,
              [&] { inner_.position_backward(dy, seq_len, first_row, offset, dtable); });
    }
    void row_max(const Tensor& logits, std::int64_t columns, const Tensor& max) override {
        timed("row_max", logits, [&] { inner_.row_max(logits, columns, max); });
    }
    void softmax_sums(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                      std::int64_t first_token, const Tensor& max, const Tensor& sum,
                      const Tensor& picked) override {
        timed("softmax_sums", logits,
              [&] { inner_.softmax_sums(logits, columns, targets, first_token, max, sum, picked); });
    }
    double cross_entropy_sum(const Tensor& targets, const Tensor& max, const Tensor& sum,
                             const Tensor& picked, std::int64_t* count) override {
        return inner_.cross_entropy_sum(targets, max, sum, picked, count);
    }
    void cross_entropy_backward(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                                std::int64_t first_token, const Tensor& max, const Tensor& sum,
                                double factor) override {
        timed("loss_backward", logits, [&] {
            inner_.cross_entropy_backward(logits, columns, targets, first_token, max, sum, factor);
        });
    }
    void adamw(const Tensor& param, const Tensor& master, const Tensor& grad, const Tensor& m,
               const Tensor& v, const AdamSpec& spec) override {
        timed("optimizer", grad, [&] { inner_.adamw(param, master, grad, m, v, spec); });
    }
    void sgd(const Tensor& param, const Tensor& master, const Tensor& grad, const Tensor& momentum,
             const SgdSpec& spec) override {
        inner_.sgd(param, master, grad, momentum, spec);
    }
    void lamb_direction(const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v,
                        const AdamSpec& spec, const Tensor& direction) override {
        inner_.lamb_direction(weight, grad, m, v, spec, direction);
    }
    void router_top_k(const Tensor& logits, std::int64_t k, bool normalise, const Tensor& probabilities,
                      const Tensor& chosen, const Tensor& weight) override {
        inner_.router_top_k(logits, k, normalise, probabilities, chosen, weight);
    }
    void router_backward(const Tensor& probabilities, const Tensor& chosen, const Tensor& weight,
                         const Tensor& dweight, bool normalise, const Tensor& dlogits) override {
        inner_.router_backward(probabilities, chosen, weight, dweight, normalise, dlogits);
    }
    void gather_rows(const Tensor& x, const Tensor& index, const Tensor& y) override {
        inner_.gather_rows(x, index, y);
    }
    void combine_rows(const Tensor& x, const Tensor& place, const Tensor& weight, const Tensor& y) override {
        inner_.combine_rows(x, place, weight, y);
    }
    void combine_backward(const Tensor& dy, const Tensor& x, const Tensor& place, const Tensor& weight,
                          const Tensor& dx, const Tensor& dweight) override {
        inner_.combine_backward(dy, x, place, weight, dx, dweight);
    }
    void conv_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvSpec& spec,
                      const Tensor& y) override {
        inner_.conv_forward(x, weight, bias, spec, y);
    }
    void conv_backward_input(const Tensor& dy, const Tensor& weight, const ConvSpec& spec,
                             const Tensor& dx) override {
        inner_.conv_backward_input(dy, weight, spec, dx);
    }
    void conv_backward_weight(const Tensor& dy, const Tensor& x, const ConvSpec& spec, const Tensor& dweight,
                              const Tensor& dbias) override {
        inner_.conv_backward_weight(dy, x, spec, dweight, dbias);
    }
    void max_pool_forward(const Tensor& x, const PoolSpec& spec, const Tensor& y,
                          const Tensor& argmax) override {
        inner_.max_pool_forward(x, spec, y, argmax);
    }
    void max_pool_backward(const Tensor& dy, const Tensor& argmax, const Tensor& dx) override {
        inner_.max_pool_backward(dy, argmax, dx);
    }
    void average_pool_forward(const Tensor& x, const PoolSpec& spec, const Tensor& y) override {
        inner_.average_pool_forward(x, spec, y);
    }
    void average_pool_backward(const Tensor& dy, const PoolSpec& spec, const Tensor& dx) override {
        inner_.average_pool_backward(dy, spec, dx);
    }

  protected:
    void* raw_allocate(std::size_t bytes) override {
        Buffer buffer = inner_.allocate(bytes, MemoryUse::Temporaries);
        void* data = buffer.data();
        const std::lock_guard lock(mutex_);
        buffers_[data] = std::move(buffer);
        return data;
    }
    void raw_free(void* data, std::size_t) override {
        Buffer freed;
        const std::lock_guard lock(mutex_);
        const auto found = buffers_.find(data);
        freed = std::move(found->second);
        buffers_.erase(found);
    }

  private:
    template <class Kernel>
    void run(const KernelCall& call, Kernel kernel) {
        const double begin = clock_();
        kernel();
        inner_.synchronize();
        log_.add(call, clock_() - begin);
    }
    template <class Kernel>
    void timed(std::string_view kernel, const Tensor& shape, Kernel body) {
        timed(kernel, MatrixView::of(shape), body);
    }
    template <class Kernel>
    void timed(std::string_view kernel, const MatrixView& shape, Kernel body) {
        run({kernel, shape.dtype, {shape.rows, shape.cols}}, body);
    }
    static KernelCall attention(std::string_view kernel, const AttentionCall& a, const MatrixView& q) {
        return {kernel,
                q.dtype,
                {a.batch, a.seq_len, a.heads, a.kv_heads, a.head_dim, a.causal ? 1 : 0, a.window}};
    }

    Backend& inner_;
    KernelLog& log_;
    Clock clock_;
    std::mutex mutex_;
    std::map<void*, Buffer> buffers_;
};

}  // namespace

std::unique_ptr<Backend> make_timing_backend(Backend& inner, KernelLog& log, const Clock& clock) {
    return std::make_unique<TimingBackend>(inner, log, clock);
}

}  // namespace tw
