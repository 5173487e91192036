// Attention, embeddings, cross entropy and mixture of experts on the CPU.
#include <cmath>
#include <cstring>
#include <numeric>

#include "real_exec/backend/cpu/cpu_backend.hpp"

namespace tw::cpu {
namespace {

Attention attention_of(const AttentionCall& s) {
    Attention a{};
    a.seq_len = s.seq_len;
    a.head_dim = s.head_dim;
    a.causal = s.causal;
    a.window = s.window;
    a.scale = static_cast<float>(s.scale);
    a.dropout = dropout_of(s.dropout);
    return a;
}

// First dropout row of a sample and local head.
std::int64_t dropout_row(const AttentionCall& s, std::int64_t sample, std::int64_t head) {
    const std::int64_t all = s.all_heads > 0 ? s.all_heads : s.heads;
    return ((s.dropout.first_row + sample) * all + s.dropout.first_col + head) * s.seq_len;
}

void check(const AttentionCall& s, const MatrixView& q, const MatrixView& k, const MatrixView& v) {
    TW_CHECK(s.heads % s.kv_heads == 0);
    TW_CHECK(q.rows == s.batch * s.seq_len && k.rows == q.rows && v.rows == q.rows);
    TW_CHECK(q.cols == s.heads * s.head_dim && k.cols == s.kv_heads * s.head_dim && v.cols == k.cols);
}

}  // namespace

void CpuBackend::attention_forward(const AttentionCall& s, const MatrixView& q, const MatrixView& k,
                                   const MatrixView& v, const MatrixView& out, const Tensor& lse) {
    check(s, q, k, v);
    const std::int64_t group = s.heads / s.kv_heads;
    const Attention base = attention_of(s);
    const std::int64_t scratch = k_.attention_scratch(base, false);
    parallel(s.batch * s.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
        const Buffer buffer = allocate(static_cast<std::size_t>(scratch) * 4, MemoryUse::Temporaries);
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t sample = i / s.kv_heads;
            const std::int64_t kv = i % s.kv_heads;
            const std::int64_t row = sample * s.seq_len;
            Attention a = base;
            a.dropout_row = dropout_row(s, sample, kv * group);
            k_.attention(a, group, matrix_of(q, row, kv * group * s.head_dim),
                         matrix_of(k, row, kv * s.head_dim), matrix_of(v, row, kv * s.head_dim),
                         matrix_of(out, row, kv * group * s.head_dim),
                         lse.as<float>() + (sample * s.heads + kv * group) * s.seq_len,
                         static_cast<float*>(buffer.data()));
        }
    });
}

void CpuBackend::attention_backward(const AttentionCall& s, const MatrixView& q, const MatrixView& k,
                                    const MatrixView& v, const MatrixView& out, const Tensor& lse,
                                    const MatrixView& dout, const MatrixView& dq, const MatrixView& dk,
                                    const MatrixView& dv) {
    check(s, q, k, v);
    const std::int64_t group = s.heads / s.kv_heads;
    const Attention base = attention_of(s);
    const std::int64_t scratch = k_.attention_scratch(base, true);
    parallel(s.batch * s.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
        const Buffer buffer = allocate(static_cast<std::size_t>(scratch) * 4, MemoryUse::Temporaries);
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t sample = i / s.kv_heads;
            const std::int64_t kv = i % s.kv_heads;
            const std::int64_t row = sample * s.seq_len;
            const std::int64_t head = kv * group * s.head_dim;
            Attention a = base;
            a.dropout_row = dropout_row(s, sample, kv * group);
            k_.attention_grad(a, group, matrix_of(q, row, head), matrix_of(k, row, kv * s.head_dim),
                              matrix_of(v, row, kv * s.head_dim), matrix_of(out, row, head),
                              lse.as<float>() + (sample * s.heads + kv * group) * s.seq_len,
                              matrix_of(dout, row, head), matrix_of(dq, row, head),
                              matrix_of(dk, row, kv * s.head_dim), matrix_of(dv, row, kv * s.head_dim),
                              static_cast<float*>(buffer.data()));
        }
    });
}

void CpuBackend::rope(const MatrixView& x, std::int64_t seq_len, std::int64_t head_dim, double theta,
                      bool inverse) {
    RopeTable& table = rope_tables_[{seq_len, head_dim, theta}];
    if (table.cosines.empty()) {
        const std::int64_t half = head_dim / 2;
        for (std::int64_t p = 0; p < seq_len; ++p) {
            for (std::int64_t i = 0; i < half; ++i) {
                const double angle =
                    static_cast<double>(p) *
                    std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
                table.cosines.push_back(static_cast<float>(std::cos(angle)));
                table.sines.push_back(static_cast<float>(std::sin(angle)));
                table.minus_sines.push_back(static_cast<float>(-std::sin(angle)));
            }
        }
    }
    parallel(x.rows, 16, [&](std::int64_t begin, std::int64_t end) {
        k_.rotate(matrix_of(x, begin), end - begin, x.cols, head_dim, begin, seq_len, table.cosines.data(),
                  inverse ? table.minus_sines.data() : table.sines.data());
    });
}

// ---- embedding ----

void CpuBackend::embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_token,
                                   const Tensor& y) {
    const MatrixView rows = MatrixView::of(table);
    TW_CHECK(y.elements() == tokens.elements() * rows.cols && y.dtype == table.dtype);
    const std::size_t bytes = static_cast<std::size_t>(rows.cols) * bytes_of(y.dtype);
    auto* out = static_cast<std::byte*>(y.data);
    for (std::int64_t r = 0; r < tokens.elements(); ++r, out += bytes) {
        const std::int64_t token = tokens.as<std::int32_t>()[r] - first_token;
        if (token >= 0 && token < rows.rows) {
            std::memcpy(out, matrix_of(rows, token).data, bytes);
        } else {
            std::memset(out, 0, bytes);
        }
    }
}

void CpuBackend::embedding_backward(const Tensor& tokens, const Tensor& dy, std::int64_t first_token,
                                    const Tensor& dtable) {
    const MatrixView rows = MatrixView::of(dtable);
    for (std::int64_t r = 0; r < tokens.elements(); ++r) {
        const std::int64_t token = tokens.as<std::int32_t>()[r] - first_token;
        if (token < 0 || token >= rows.rows) continue;
        k_.add_rows(array_of(dy, r * rows.cols), array_of(dtable, token * rows.cols), rows.cols, 1);
    }
}

void CpuBackend::position_add(const Tensor& table, std::int64_t seq_len, std::int64_t first_row,
                              std::int64_t offset, const Tensor& y) {
    const MatrixView rows = MatrixView::of(y);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
        const std::int64_t position = (first_row + r) % seq_len + offset;
        k_.add_rows(array_of(table, position * rows.cols), array_of(y, r * rows.cols), rows.cols, 1);
    }
}

void CpuBackend::position_backward(const Tensor& dy, std::int64_t seq_len, std::int64_t first_row,
                                   std::int64_t offset, const Tensor& dtable) {
    const MatrixView rows = MatrixView::of(dy);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
        const std::int64_t position = (first_row + r) % seq_len + offset;
        k_.add_rows(array_of(dy, r * rows.cols), array_of(dtable, position * rows.cols), rows.cols, 1);
    }
}

// ---- cross entropy ----

void CpuBackend::row_max(const Tensor& logits, std::int64_t columns, const Tensor& max) {
    const MatrixView x = MatrixView::of(logits);
    parallel(x.rows, 8, [&](std::int64_t begin, std::int64_t end) {
        k_.row_max(array_of(logits, begin * x.cols), x.cols, end - begin, columns, max.as<float>() + begin);
    });
}

void CpuBackend::softmax_sums(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                              std::int64_t first_token, const Tensor& max, const Tensor& sum,
                              const Tensor& picked) {
    const MatrixView x = MatrixView::of(logits);
    parallel(x.rows, 8, [&](std::int64_t begin, std::int64_t end) {
        k_.softmax_sums(array_of(logits, begin * x.cols), x.cols, end - begin, columns,
                        max.as<float>() + begin, sum.as<float>() + begin);
        for (std::int64_t r = begin; r < end; ++r) {
            const std::int64_t target = targets.as<std::int32_t>()[r] - first_token;
            float* own = picked.as<float>() + r;
            *own = 0;
            if (targets.as<std::int32_t>()[r] >= 0 && target >= 0 && target < columns)
                k_.convert({own, Num::F32}, array_of(logits, r * x.cols + target), 1);
        }
    });
}

double CpuBackend::cross_entropy_sum(const Tensor& targets, const Tensor& max, const Tensor& sum,
                                     const Tensor& picked, std::int64_t* count) {
    double total = 0;
    *count = 0;
    for (std::int64_t r = 0; r < targets.elements(); ++r) {
        if (targets.as<std::int32_t>()[r] < 0) continue;
        total += std::log(static_cast<double>(sum.as<float>()[r])) + static_cast<double>(max.as<float>()[r]) -
                 static_cast<double>(picked.as<float>()[r]);
        ++*count;
    }
    return total;
}

void CpuBackend::cross_entropy_backward(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                                        std::int64_t first_token, const Tensor& max, const Tensor& sum,
                                        double scale) {
    const MatrixView x = MatrixView::of(logits);
    parallel(x.rows, 8, [&](std::int64_t begin, std::int64_t end) {
        k_.softmax_grad(array_of(logits, begin * x.cols), x.cols, end - begin, columns,
                        targets.as<std::int32_t>() + begin, first_token, max.as<float>() + begin,
                        sum.as<float>() + begin, static_cast<float>(scale));
    });
}

// ---- mixture of experts ----

void CpuBackend::router_top_k(const Tensor& logits, std::int64_t k, bool normalise,
                              const Tensor& probabilities, const Tensor& chosen, const Tensor& weight) {
    const MatrixView x = MatrixView::of(logits);
    const auto experts = static_cast<std::size_t>(x.cols);
    std::vector<std::int32_t> order(experts);
    for (std::int64_t r = 0; r < x.rows; ++r) {
        const float* row = logits.as<float>() + r * x.cols;
        float* p = probabilities.as<float>() + r * x.cols;
        const float top = *std::max_element(row, row + x.cols);
        double sum = 0;
        for (std::int64_t e = 0; e < x.cols; ++e)
            sum += std::exp(static_cast<double>(row[e] - top));
        for (std::int64_t e = 0; e < x.cols; ++e)
            p[e] = static_cast<float>(std::exp(static_cast<double>(row[e] - top)) / sum);
        std::iota(order.begin(), order.end(), 0);
        // By logits, which have no ties that rounding of the probabilities made.
        std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](std::int32_t a, std::int32_t b) {
            return row[a] != row[b] ? row[a] > row[b] : a < b;
        });
        float kept = 0;
        for (std::int64_t j = 0; j < k; ++j)
            kept += p[order[static_cast<std::size_t>(j)]];
        for (std::int64_t j = 0; j < k; ++j) {
            const std::int32_t e = order[static_cast<std::size_t>(j)];
            chosen.as<std::int32_t>()[r * k + j] = e;
            weight.as<float>()[r * k + j] = normalise ? p[e] / kept : p[e];
        }
    }
}

void CpuBackend::router_backward(const Tensor& probabilities, const Tensor& chosen, const Tensor& weight,
                                 const Tensor& dweight, bool normalise, const Tensor& dlogits) {
    const MatrixView p = MatrixView::of(probabilities);
    const std::int64_t k = MatrixView::of(chosen).cols;
    for (std::int64_t r = 0; r < p.rows; ++r) {
        const float* row = probabilities.as<float>() + r * p.cols;
        const std::int32_t* e = chosen.as<std::int32_t>() + r * k;
        const float* w = weight.as<float>() + r * k;
        const float* dw = dweight.as<float>() + r * k;
        float* d = dlogits.as<float>() + r * p.cols;
        // Gradient of the probabilities; those that were not chosen have none.
        double kept = 0;
        double inner = 0;
        for (std::int64_t j = 0; j < k; ++j) {
            kept += static_cast<double>(row[e[j]]);
            inner += static_cast<double>(dw[j]) * static_cast<double>(w[j]);
        }
        double weighted = 0;
        std::fill(d, d + p.cols, 0.0F);
        for (std::int64_t j = 0; j < k; ++j) {
            const double g =
                normalise ? (static_cast<double>(dw[j]) - inner) / kept : static_cast<double>(dw[j]);
            d[e[j]] = static_cast<float>(g);
            weighted += g * static_cast<double>(row[e[j]]);
        }
        for (std::int64_t i = 0; i < p.cols; ++i)
            d[i] = static_cast<float>(static_cast<double>(row[i]) * (static_cast<double>(d[i]) - weighted));
    }
}

void CpuBackend::gather_rows(const Tensor& x, const Tensor& index, const Tensor& y) {
    const MatrixView from = MatrixView::of(x);
    const MatrixView to = MatrixView::of(y);
    TW_CHECK(to.rows == index.elements() && to.cols == from.cols);
    const std::size_t bytes = static_cast<std::size_t>(to.cols) * bytes_of(y.dtype);
    for (std::int64_t r = 0; r < to.rows; ++r)
        std::memcpy(matrix_of(to, r).data, matrix_of(from, index.as<std::int32_t>()[r]).data, bytes);
}

void CpuBackend::combine_rows(const Tensor& x, const Tensor& place, const Tensor& weight, const Tensor& y) {
    const MatrixView to = MatrixView::of(y);
    const std::int64_t k = MatrixView::of(place).cols;
    parallel(to.rows, 8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
            for (std::int64_t j = 0; j < k; ++j) {
                const std::int32_t from = place.as<std::int32_t>()[r * k + j];
                if (from < 0) continue;
                k_.add_rows(array_of(x, from * to.cols), array_of(y, r * to.cols), to.cols,
                            weight ? weight.as<float>()[r * k + j] : 1.0F);
            }
        }
    });
}

void CpuBackend::combine_backward(const Tensor& dy, const Tensor& x, const Tensor& place,
                                  const Tensor& weight, const Tensor& dx, const Tensor& dweight) {
    const MatrixView from = MatrixView::of(dy);
    const std::int64_t k = MatrixView::of(place).cols;
    parallel(from.rows, 8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
            for (std::int64_t j = 0; j < k; ++j) {
                const std::int64_t at = r * k + j;
                const std::int32_t to = place.as<std::int32_t>()[at];
                if (to < 0) {
                    dweight.as<float>()[at] = 0;
                    continue;
                }
                dweight.as<float>()[at] =
                    k_.dot(array_of(dy, r * from.cols), array_of(x, to * from.cols), from.cols);
                k_.axpby(weight.as<float>()[at], array_of(dy, r * from.cols), 0, array_of(dx, to * from.cols),
                         from.cols);
            }
        }
    });
}

}  // namespace tw::cpu
