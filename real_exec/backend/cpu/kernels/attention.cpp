// Attention of one sample and one key-value head. Rows of queries are taken in blocks of kBlock: a block's
// scores against all keys that it sees stay in the cache, so neither scores nor probabilities are ever
// stored; the backward computes them again from the log-sum-exp (Dao et al. 2022). All operands are first
// packed into fp32 with padded rows, keys and values also in panels of kPanel columns of their transpose.
#include "real_exec/backend/cpu/kernels/small_gemm.hpp"

namespace tw::cpu::TW_KERNEL_ISA {
namespace {

constexpr std::int64_t kBlock = 36;  // a multiple of the tile's 6 rows
constexpr std::int64_t kPanel = kTileVectors * W;

std::int64_t round_up(std::int64_t x, std::int64_t unit) {
    return (x + unit - 1) / unit * unit;
}

struct Sizes {
    std::int64_t seq, dim, width, columns;  // width: dim padded; columns: seq padded to panels
    explicit Sizes(const Attention& a)
        : seq(a.seq_len),
          dim(a.head_dim),
          width(round_up(a.head_dim, W)),
          columns(round_up(a.seq_len, kPanel)) {}
};

// rows x dim of a matrix into fp32 rows of `width`, zero-padded.
template <typename T>
void pack_rows(const T* from, std::int64_t ld, std::int64_t rows, const Sizes& z, float* to) {
    for (std::int64_t r = 0; r < rows; ++r) {
        for_vectors(z.dim, [&](std::int64_t i, std::int64_t valid) {
            store(to + r * z.width + i, load_n(from + r * ld + i, valid));
        });
    }
}
void pack(Matrix from, std::int64_t column, std::int64_t row, std::int64_t rows, const Sizes& z, float* to) {
    typed(from.num, [&](auto t) {
        using T = decltype(t);
        pack_rows(static_cast<const T*>(from.data) + row * from.ld + column, from.ld, rows, z, to);
    });
}
void unpack(const float* from, std::int64_t rows, const Sizes& z, Matrix to, std::int64_t column,
            std::int64_t row) {
    typed(to.num, [&](auto t) {
        using T = decltype(t);
        T* out = static_cast<T*>(to.data) + row * to.ld + column;
        for (std::int64_t r = 0; r < rows; ++r) {
            for_vectors(z.dim, [&](std::int64_t i, std::int64_t valid) {
                store_n(out + r * to.ld + i, load(from + r * z.width + i), valid);
            });
        }
    });
}
// Packed rows into panels of the transpose: panel p holds [dim][kPanel] of keys p * kPanel ...
void transpose(const float* rows, const Sizes& z, float* panels) {
    for (std::int64_t p = 0; p < z.columns; p += kPanel) {
        float* panel = panels + p * z.dim;
        for (std::int64_t c = 0; c < kPanel; ++c) {
            const bool inside = p + c < z.seq;
            for (std::int64_t i = 0; i < z.dim; ++i)
                panel[i * kPanel + c] = inside ? rows[(p + c) * z.width + i] : 0.0F;
        }
    }
}

// Keys that query `row` sees: [first, last).
struct Range {
    std::int64_t first, last;
};
Range seen(const Attention& a, std::int64_t row) {
    const std::int64_t last = a.causal ? row + 1 : a.seq_len;
    const std::int64_t first = a.window > 0 && row + 1 > a.window ? row + 1 - a.window : 0;
    return {first, last};
}
// Of the block [row, row + rows), in whole panels.
Range panels_seen(const Attention& a, std::int64_t row, std::int64_t rows) {
    return {seen(a, row).first / kPanel * kPanel, round_up(seen(a, row + rows - 1).last, kPanel)};
}

// product[r][c] of a block against all panels in the range; column c is relative to range.first.
void against_panels(const float* block, std::int64_t rows, const Sizes& z, const float* panels, Range range,
                    float* product, std::int64_t ld) {
    for (std::int64_t p = range.first; p < range.last; p += kPanel)
        padded_gemm(rows, kPanel, z.dim, block, z.width, 1, panels + p * z.dim, kPanel,
                    product + (p - range.first), ld, false);
}

// Zeroes what lies outside the row's range; calls body(column, valid) over what lies inside.
template <class Body>
void over_row(float* row, Range range, Range own, Body body) {
    for (std::int64_t c = 0; c < own.first - range.first; ++c)
        row[c] = 0;
    for_vectors(own.last - own.first,
                [&](std::int64_t i, std::int64_t valid) { body(own.first - range.first + i, valid); });
    for (std::int64_t c = own.last - range.first; c < range.last - range.first; ++c)
        row[c] = 0;
}

std::int64_t dropout_index(const Attention& a, std::int64_t head, std::int64_t query, std::int64_t key) {
    return (a.dropout_row + head * a.seq_len + query) * a.seq_len + key;
}

}  // namespace

std::int64_t attention_scratch(const Attention& a, bool backward) {
    const Sizes z(a);
    const std::int64_t block = kBlock * z.width;
    const std::int64_t scores = kBlock * z.columns;
    if (!backward) return z.columns * z.dim + 2 * z.seq * z.width + 2 * block + scores;
    return 2 * z.columns * z.dim + 4 * z.seq * z.width + 4 * block + 2 * scores;
}

void attention(const Attention& a, std::int64_t group, Matrix q, Matrix k, Matrix v, Matrix out, float* lse,
               float* scratch) {
    const Sizes z(a);
    float* keys = scratch;
    float* values = keys + z.seq * z.width;
    float* key_panels = values + z.seq * z.width;
    float* queries = key_panels + z.columns * z.dim;
    float* result = queries + kBlock * z.width;
    float* scores = result + kBlock * z.width;
    pack(k, 0, 0, z.seq, z, keys);
    pack(v, 0, 0, z.seq, z, values);
    transpose(keys, z, key_panels);
    const Dropper dropper(a.dropout);
    for (std::int64_t h = 0; h < group; ++h) {
        for (std::int64_t row = 0; row < z.seq; row += kBlock) {
            const std::int64_t rows = row + kBlock < z.seq ? kBlock : z.seq - row;
            const Range range = panels_seen(a, row, rows);
            const std::int64_t ld = range.last - range.first;
            pack(q, h * z.dim, row, rows, z, queries);
            against_panels(queries, rows, z, key_panels, range, scores, ld);
            float inverse[kBlock];
            for (std::int64_t r = 0; r < rows; ++r) {
                float* s = scores + r * ld;
                const Range own = seen(a, row + r);
                vf largest = splat(-__builtin_inff());
                for_vectors(own.last - own.first, [&](std::int64_t i, std::int64_t valid) {
                    largest = max(largest, load_n(s + own.first - range.first + i, valid, -__builtin_inff()));
                });
                const float top = max_of(largest);
                vf total = splat(0);
                over_row(s, range, own, [&](std::int64_t c, std::int64_t valid) {
                    const vf p = exp((load_n(s + c, valid, -__builtin_inff()) - top) * a.scale);
                    total += p;
                    const vf kept =
                        a.dropout.on ? p * dropper.mask(dropout_index(a, h, row + r, range.first + c)) : p;
                    store_n(s + c, kept, valid);
                });
                const float t = sum(total);
                inverse[r] = 1.0F / t;
                lse[h * z.seq + row + r] = top * a.scale + __builtin_logf(t);
            }
            const std::int64_t last = seen(a, row + rows - 1).last;
            padded_gemm(rows, z.width, last - range.first, scores, ld, 1, values + range.first * z.width,
                        z.width, result, z.width, false);
            for (std::int64_t r = 0; r < rows; ++r) {
                for (std::int64_t i = 0; i < z.width; i += W)
                    store(result + r * z.width + i, load(result + r * z.width + i) * inverse[r]);
            }
            unpack(result, rows, z, out, h * z.dim, row);
        }
    }
}

void attention_grad(const Attention& a, std::int64_t group, Matrix q, Matrix k, Matrix v, Matrix out,
                    const float* lse, Matrix dout, Matrix dq, Matrix dk, Matrix dv, float* scratch) {
    const Sizes z(a);
    const std::int64_t whole = z.seq * z.width;
    const std::int64_t block = kBlock * z.width;
    float* keys = scratch;
    float* values = keys + whole;
    float* key_grads = values + whole;
    float* value_grads = key_grads + whole;
    float* key_panels = value_grads + whole;
    float* value_panels = key_panels + z.columns * z.dim;
    float* queries = value_panels + z.columns * z.dim;
    float* grads = queries + block;
    float* outs = grads + block;
    float* query_grads = outs + block;
    float* scores = query_grads + block;
    float* score_grads = scores + kBlock * z.columns;
    pack(k, 0, 0, z.seq, z, keys);
    pack(v, 0, 0, z.seq, z, values);
    transpose(keys, z, key_panels);
    transpose(values, z, value_panels);
    for (std::int64_t i = 0; i < 2 * whole; ++i)
        key_grads[i] = 0;
    const Dropper dropper(a.dropout);
    for (std::int64_t h = 0; h < group; ++h) {
        for (std::int64_t row = 0; row < z.seq; row += kBlock) {
            const std::int64_t rows = row + kBlock < z.seq ? kBlock : z.seq - row;
            const Range range = panels_seen(a, row, rows);
            const std::int64_t ld = range.last - range.first;
            pack(q, h * z.dim, row, rows, z, queries);
            pack(dout, h * z.dim, row, rows, z, grads);
            pack(out, h * z.dim, row, rows, z, outs);
            against_panels(queries, rows, z, key_panels, range, scores, ld);
            against_panels(grads, rows, z, value_panels, range, score_grads, ld);
            for (std::int64_t r = 0; r < rows; ++r) {
                vf product = splat(0);  // padding is zero
                for (std::int64_t i = 0; i < z.width; i += W)
                    product += load(grads + r * z.width + i) * load(outs + r * z.width + i);
                const float delta = sum(product);
                float* s = scores + r * ld;
                float* d = score_grads + r * ld;
                const float log_sum = lse[h * z.seq + row + r];
                const Range own = seen(a, row + r);
                over_row(s, range, own, [&](std::int64_t c, std::int64_t valid) {
                    const vf p = exp(load_n(s + c, valid) * a.scale - log_sum);
                    vf g = load_n(d + c, valid);
                    vf kept = p;
                    if (a.dropout.on) {
                        const vf mask = dropper.mask(dropout_index(a, h, row + r, range.first + c));
                        g *= mask;
                        kept *= mask;
                    }
                    store_n(s + c, kept, valid);
                    store_n(d + c, p * (g - delta) * a.scale, valid);
                });
                over_row(d, range, own, [](std::int64_t, std::int64_t) {});
            }
            const std::int64_t count = seen(a, row + rows - 1).last - range.first;
            float* to_keys = key_grads + range.first * z.width;
            float* to_values = value_grads + range.first * z.width;
            padded_gemm(count, z.width, rows, scores, 1, ld, grads, z.width, to_values, z.width, true);
            padded_gemm(count, z.width, rows, score_grads, 1, ld, queries, z.width, to_keys, z.width, true);
            padded_gemm(rows, z.width, count, score_grads, ld, 1, keys + range.first * z.width, z.width,
                        query_grads, z.width, false);
            unpack(query_grads, rows, z, dq, h * z.dim, row);
        }
    }
    unpack(key_grads, z.seq, z, dk, 0, 0);
    unpack(value_grads, z.seq, z, dv, 0, 0);
}

void rotate(Matrix x, std::int64_t rows, std::int64_t cols, std::int64_t head_dim, std::int64_t first_row,
            std::int64_t seq_len, const float* cosines, const float* sines) {
    const std::int64_t half = head_dim / 2;
    typed(x.num, [&](auto t) {
        using T = decltype(t);
        for (std::int64_t r = 0; r < rows; ++r) {
            const std::int64_t position = (first_row + r) % seq_len;
            const float* cosine = cosines + position * half;
            const float* sine = sines + position * half;
            for (std::int64_t h = 0; h < cols; h += head_dim) {
                T* low = static_cast<T*>(x.data) + r * x.ld + h;
                T* high = low + half;
                for_vectors(half, [&](std::int64_t i, std::int64_t valid) {
                    const vf a = load_n(low + i, valid);
                    const vf b = load_n(high + i, valid);
                    const vf c = load_n(cosine + i, valid);
                    const vf s = load_n(sine + i, valid);
                    store_n(low + i, a * c - b * s, valid);
                    store_n(high + i, b * c + a * s, valid);
                });
            }
        }
    });
}

// The product for builds without a BLAS, and the parts of it that are narrower than a vector.
void small_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_row,
                std::int64_t a_col, const float* b, std::int64_t ldb, float* c, std::int64_t ldc,
                bool accumulate) {
    const std::int64_t whole = n / W * W;
    if (whole > 0) padded_gemm(m, whole, k, a, a_row, a_col, b, ldb, c, ldc, accumulate);
    if (whole == n) return;
    for (std::int64_t i = 0; i < m; ++i) {
        vf acc = accumulate ? load_part(c + i * ldc + whole, n - whole) : splat(0);
        for (std::int64_t p = 0; p < k; ++p)
            acc += a[i * a_row + p * a_col] * load_part(b + p * ldb + whole, n - whole);
        store_part(c + i * ldc + whole, acc, n - whole);
    }
}

}  // namespace tw::cpu::TW_KERNEL_ISA
