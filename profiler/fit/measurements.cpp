#include "profiler/fit/measurements.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "profiler/fit/statistics.hpp"
#include "profiler/fit/table.hpp"

namespace tw {
namespace {

// Columns by name; the first missing one becomes the error.
class Columns {
  public:
    Columns(const Table& table, const Folder& file) : table_(table), file_(file) {}
    std::size_t operator()(std::string_view name) {
        const auto found = table_.column(name);
        if (found) return *found;
        if (errors_.empty())
            errors_ = {Error{ErrorCode::Unreadable, found.error().message, file_.string(), ""}};
        return 0;
    }
    [[nodiscard]] const Errors& errors() const { return errors_; }

  private:
    const Table& table_;
    Folder file_;
    Errors errors_;
};

std::int64_t to_count(const std::string& text) {
    return static_cast<std::int64_t>(to_number(text));
}

// Sorted series with the median where a size occurs several times.
std::vector<SizePoint> medians(const std::map<double, std::vector<double>>& by_size) {
    std::vector<SizePoint> points;
    for (const auto& [bytes, seconds] : by_size)
        points.push_back({bytes, quantile(seconds, 0.5)});
    return points;
}

// "2.27.3" against "2.9": numbers, not text.
std::vector<int> version_numbers(const std::string& version) {
    std::vector<int> numbers(1, 0);
    for (const char c : version) {
        if (c == '.') {
            numbers.push_back(0);
        } else if (c >= '0' && c <= '9') {
            numbers.back() = numbers.back() * 10 + (c - '0');
        }
    }
    return numbers;
}

// The sizes that each row of these tables states.
struct VidurColumns {
    explicit VidurColumns(Columns& column)
        : tokens(column("num_tokens")),
          tp(column("num_tensor_parallel_workers")),
          hidden(column("n_embd")),
          wide(column("n_expanded_embd")),
          heads(column("n_head")),
          kv_heads(column("n_kv_head")),
          gated(column("use_gated_mlp")) {}
    std::size_t tokens, tp, hidden, wide, heads, kv_heads, gated;
};

// The tables of one device, in a fixed order.
Result<std::vector<Folder>> vidur_tables(const Folder& hw, const std::string& device) {
    std::vector<Folder> files;
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(hw / "vidur_compute", failed)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with("data__profiling__compute__" + device + "__")) files.push_back(entry.path());
    }
    if (failed || files.empty())
        return Error{ErrorCode::Unreadable, "no tables of " + device, (hw / "vidur_compute").string(), ""};
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace

// The tables' collector runs up to five linear modules in turn on one input
// (collector/trtllm/collect_gemm.py, "to reduce impact of L2 cache hit"): five in its version for
// TensorRT-LLM 1.0, later as few as together are no smaller than the cache (outside_loop_count). Of weights
// of just a cache, its half, third or quarter all of the loop then stays in it.
constexpr int kWeightsInTurn = 5;

Result<std::vector<GemmPoint>> read_gemm_table(const Folder& hw, const std::string& system,
                                               double cache_bytes) {
    const Folder file = hw / "aiconfigurator" / ("gemm_" + system + ".csv.gz");
    const auto table = read_table(file);
    if (!table) return table.errors();
    Columns column(*table, file);
    const std::size_t dtype = column("dtype"), m = column("m"), n = column("n"), k = column("k"),
                      time = column("time_us");
    if (!column.errors().empty()) return column.errors();
    std::vector<GemmPoint> points;
    for (const auto& row : table->rows) {
        GemmPoint point;
        point.precision = row[dtype] == "fp8" ? Precision::Fp8 : Precision::Bf16;
        point.shape = {to_count(row[m]), to_count(row[n]), to_count(row[k])};
        point.shape.element_bytes = bytes_per_element(point.precision);
        const double weight = point.shape.element_bytes * static_cast<double>(point.shape.n * point.shape.k);
        point.shape.weights_in_turn = kWeightsInTurn;
        if (cache_bytes > 0)
            point.shape.weights_in_turn = static_cast<int>(
                std::clamp(std::ceil(cache_bytes / std::max(1.0, weight)), 1.0, 1.0 * kWeightsInTurn));
        point.seconds = to_number(row[time]) * 1e-6;
        if (point.seconds > 0) points.push_back(point);
    }
    return points;
}

Result<std::vector<AttentionPoint>> read_attention_table(const Folder& hw, const std::string& system) {
    const Folder file = hw / "aiconfigurator" / ("attn_context_" + system + ".csv.gz");
    const auto table = read_table(file);
    if (!table) return table.errors();
    Columns column(*table, file);
    const std::size_t batch = column("batch"), seq = column("isl"), heads = column("heads"),
                      kv = column("kv_heads"), dim = column("head_dim"), window = column("window"),
                      time = column("time_us");
    if (!column.errors().empty()) return column.errors();
    std::vector<AttentionPoint> points;
    for (const auto& row : table->rows) {
        AttentionPoint point;
        AttentionShape& s = point.shape;
        s.batch = to_count(row[batch]);
        s.seq_q = s.seq_kv = to_count(row[seq]);
        s.heads = to_count(row[heads]);
        s.kv_heads = to_count(row[kv]);
        s.head_dim_qk = s.head_dim_v = to_count(row[dim]);
        s.window = to_count(row[window]);
        point.kernel = "trtllm";
        point.seconds = to_number(row[time]) * 1e-6;
        if (point.seconds > 0) points.push_back(point);
    }
    return points;
}

Result<std::vector<CollectiveSeries>> read_nccl_table(const Folder& hw, const std::string& system) {
    const Folder file = hw / "aiconfigurator" / "nccl_all.csv.gz";
    const auto table = read_table(file);
    if (!table) return table.errors();
    Columns column(*table, file);
    const std::size_t name = column("system"), version = column("nccl_dir"), op = column("op"),
                      ranks = column("num_gpus"), bytes = column("size_bytes"), time = column("time_us");
    if (!column.errors().empty()) return column.errors();
    const std::map<std::string, CollectiveKind> kinds = {{"all_reduce", CollectiveKind::AllReduce},
                                                         {"all_gather", CollectiveKind::AllGather},
                                                         {"reduce_scatter", CollectiveKind::ReduceScatter},
                                                         {"alltoall", CollectiveKind::AllToAll}};
    using Key = std::pair<CollectiveKind, int>;
    std::map<Key, std::map<std::vector<int>, std::map<double, std::vector<double>>>> all;
    std::map<std::vector<int>, std::string> names;
    for (const auto& row : table->rows) {
        if (row[name] != system) continue;
        const auto kind = kinds.find(row[op]);
        const double seconds = to_number(row[time]) * 1e-6;
        if (kind == kinds.end() || !(seconds > 0)) continue;
        const std::vector<int> numbers = version_numbers(row[version]);
        names[numbers] = row[version];
        all[{kind->second, static_cast<int>(to_number(row[ranks]))}][numbers][to_number(row[bytes])]
            .push_back(seconds);
    }
    std::vector<CollectiveSeries> series;
    for (const auto& [key, versions] : all) {
        const auto& [newest, by_size] = *versions.rbegin();
        series.push_back({key.first, key.second, names[newest], medians(by_size)});
    }
    return series;
}

namespace {

Result<std::vector<std::vector<std::string>>> deepbench_rows(const Folder& hw, Precision precision) {
    const std::string name = precision == Precision::Fp32
                                 ? "train_DeepBench_NV_V100__Results_FP32.csv"
                                 : "train_DeepBench_NV_V100__Results_FP16_ip_Mixed_math.csv";
    const auto lines = read_lines(hw / "deepbench" / name);
    if (!lines) return lines.errors();
    std::vector<std::vector<std::string>> rows;
    for (const std::string& line : *lines) {
        rows.push_back(split_fields(line));
        rows.back().resize(20);
    }
    return rows;
}

}  // namespace

Result<std::vector<GemmPoint>> read_deepbench_gemm(const Folder& hw, Precision precision) {
    const auto rows = deepbench_rows(hw, precision);
    if (!rows) return rows.errors();
    std::vector<GemmPoint> points;
    for (const auto& row : *rows) {
        if (row[0].starts_with("Convolution")) break;
        if (row[5] != "N" && row[5] != "T") continue;
        GemmPoint point;
        point.precision = precision;
        // DeepBench is column-major: its M is our n. Time (ms) is in column 8.
        point.shape = {to_count(row[3]), to_count(row[2]), to_count(row[4])};
        point.shape.element_bytes = point.shape.output_bytes = bytes_per_element(precision);
        point.form = row[6] == "T"   ? GemmForm::WeightGrad
                     : row[5] == "T" ? GemmForm::Forward
                                     : GemmForm::InputGrad;
        point.seconds = to_number(row[8]) * 1e-3;
        if (point.seconds > 0) points.push_back(point);
    }
    return points;
}

Result<std::vector<ConvolutionPoint>> read_deepbench_convolution(const Folder& hw, Precision precision) {
    const auto rows = deepbench_rows(hw, precision);
    if (!rows) return rows.errors();
    std::vector<ConvolutionPoint> points;
    bool inside = false;
    for (const auto& row : *rows) {
        if (row[0].starts_with("Convolution")) inside = true;
        if (row[0].starts_with("Recurrent")) break;
        if (!inside || to_number(row[2]) <= 0) continue;
        // W H C N K S R pad_w pad_h stride_w stride_h forward inputs parameters . P Q (ms)
        Convolution c;
        c.in_channels = to_count(row[4]);
        c.batch = to_count(row[5]);
        c.out_channels = to_count(row[6]);
        c.kernel_w = to_count(row[7]);
        c.kernel_h = to_count(row[8]);
        c.stride = to_count(row[11]);
        c.out_width = to_count(row[17]);
        c.out_height = to_count(row[18]);
        c.precision = precision;
        constexpr std::array kForms = {GemmForm::Forward, GemmForm::InputGrad, GemmForm::WeightGrad};
        for (std::size_t f = 0; f < kForms.size(); ++f) {
            const double seconds = to_number(row[13 + f]) * 1e-3;
            c.form = kForms[f];
            if (seconds > 0) points.push_back({c, seconds});
        }
    }
    return points;
}

Result<std::vector<CollectiveSeries>> read_vtrain_all_reduce(const Folder& hw, const std::string& device) {
    std::vector<CollectiveSeries> series;
    for (int ranks = 2; ranks <= 8; ++ranks) {
        const Folder file =
            hw / "vtrain_allreduce" / (device + "__AR_GPU" + std::to_string(ranks) + "_1M_1024M_LUT.csv");
        const auto table = read_table(file);
        if (!table) return table.errors();
        std::map<double, std::vector<double>> by_size;
        for (const auto& row :
             table->rows) {  // size, count, type, out-of-place ns, busbw, in-place ns, busbw
            if (row.size() >= 6) by_size[to_number(row[0])] = {to_number(row[3]) * 1e-9};
        }
        series.push_back({CollectiveKind::AllReduce, ranks, "", medians(by_size)});
    }
    return series;
}

Result<CollectiveSeries> read_vidur_send_recv(const Folder& hw, const std::string& node) {
    const Folder file = hw / "vidur_network" / ("data__profiling__network__" + node + "__send_recv.csv.gz");
    const auto table = read_table(file);
    if (!table) return table.errors();
    Columns column(*table, file);
    const std::size_t time = column("time_stats.send_recv.median"), bytes = column("size"),
                      per_node = column("devices_per_node");
    if (!column.errors().empty()) return column.errors();
    std::map<double, std::vector<double>> by_size;
    for (const auto& row : table->rows) {
        if (row[per_node] == "2") by_size[to_number(row[bytes])].push_back(to_number(row[time]) * 1e-3);
    }
    return CollectiveSeries{CollectiveKind::SendRecv, 2, "", medians(by_size)};
}

Result<std::vector<TrafficPoint>> read_vidur_kernels(const Folder& hw, const std::string& device) {
    const auto files = vidur_tables(hw, device);
    if (!files) return files.errors();
    std::vector<TrafficPoint> points;
    for (const Folder& file : *files) {
        const auto table = read_table(file);
        if (!table) return table.errors();
        Columns column(*table, file);
        const VidurColumns of(column);
        const std::array<std::pair<std::string, std::size_t>, 4> kernels = {
            {{"add", column("time_stats.add.median")},
             {"input_layernorm", column("time_stats.input_layernorm.median")},
             {"mlp_act", column("time_stats.mlp_act.median")},
             {"attn_rope", column("time_stats.attn_rope.median")}}};
        if (!column.errors().empty()) return column.errors();
        for (const auto& row : table->rows) {
            if (row[of.gated] != "True")
                continue;  // phi-2's parallel block adds twice and has another activation
            const double shards = std::max(1.0, to_number(row[of.tp]));
            const double width = to_number(row[of.hidden]);
            const double head = width / to_number(row[of.heads]);
            for (const auto& [name, index] : kernels) {
                double columns = width;
                if (name == "mlp_act") columns = to_number(row[of.wide]) / shards;
                if (name == "attn_rope")
                    columns = head * (to_number(row[of.heads]) + to_number(row[of.kv_heads])) / shards;
                const double seconds = to_number(row[index]) * 1e-3;
                if (seconds > 0) points.push_back({name, to_number(row[of.tokens]), columns, seconds});
            }
        }
    }
    return points;
}

Result<std::vector<GemmPoint>> read_vidur_products(const Folder& hw, const std::string& device) {
    const auto files = vidur_tables(hw, device);
    if (!files) return files.errors();
    std::vector<GemmPoint> points;
    for (const Folder& file : *files) {
        const auto table = read_table(file);
        if (!table) return table.errors();
        Columns column(*table, file);
        const VidurColumns of(column);
        const std::size_t up = column("time_stats.mlp_up_proj.median"),
                          down = column("time_stats.mlp_down_proj.median"),
                          before = column("time_stats.attn_pre_proj.median"),
                          after = column("time_stats.attn_post_proj.median");
        if (!column.errors().empty()) return column.errors();
        for (const auto& row : table->rows) {
            const auto whole = [&row](std::size_t at) { return std::llround(to_number(row[at])); };
            const std::int64_t shards = std::max<std::int64_t>(1, whole(of.tp)), width = whole(of.hidden);
            const std::int64_t head = width / std::max<std::int64_t>(1, whole(of.heads));
            const std::int64_t inner = whole(of.wide) / shards;
            const auto add = [&](std::size_t time, std::int64_t n, std::int64_t k) {
                GemmPoint point;
                point.shape.m = whole(of.tokens);
                point.shape.n = n;
                point.shape.k = k;
                point.seconds = to_number(row[time]) * 1e-3;
                if (point.seconds > 0) points.push_back(point);
            };
            add(up, row[of.gated] == "True" ? 2 * inner : inner, width);
            add(down, width, inner);
            add(before, head * (whole(of.heads) + 2 * whole(of.kv_heads)) / shards, width);
            add(after, width, width / shards);
        }
    }
    return points;
}

}  // namespace tw
