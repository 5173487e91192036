// Measurements that come as JSON documents.
#include <algorithm>

#include "base/json.hpp"
#include "profiler/fit/measurements.hpp"
#include "profiler/fit/table.hpp"

namespace tw {
namespace {

Precision torch_precision(const std::string& dtype) {
    if (dtype == "float32") return Precision::Fp32;
    if (dtype == "tf32") return Precision::Tf32;
    return Precision::Bf16;
}

GemmForm torch_form(const std::string& form) {
    if (form == "nn") return GemmForm::InputGrad;
    if (form == "tn") return GemmForm::WeightGrad;
    return GemmForm::Forward;
}

void read_torch_row(const JsonObject& row, TorchRows& rows) {
    const std::string kind = row.string("kind");
    const double seconds = row.number("time_s", 0, 1e6);
    if (kind == "gemm") {
        GemmPoint point;
        point.shape = {row.integer("m", 1, 1 << 30), row.integer("n", 1, 1 << 30),
                       row.integer("k", 1, 1 << 30)};
        point.precision = torch_precision(row.string("dtype"));
        point.form = torch_form(row.string("form"));
        point.shape.element_bytes = point.shape.output_bytes = bytes_per_element(point.precision);
        point.shape.weights_in_turn = 1;  // the same operands again and again
        point.seconds = seconds;
        rows.gemm.push_back(point);
    } else if (kind == "attention_fwd" || kind == "attention_bwd") {
        AttentionPoint point;
        AttentionShape& s = point.shape;
        s.batch = row.integer("b", 1, 1 << 20);
        s.seq_q = s.seq_kv = row.integer("s", 1, 1 << 26);
        s.heads = row.integer("hq", 1, 1 << 16);
        s.kv_heads = row.integer("hk", 1, 1 << 16);
        s.head_dim_qk = s.head_dim_v = row.integer("d", 1, 4096);
        s.causal = row.boolean("causal");
        s.backward = kind == "attention_bwd";
        point.kernel = row.string("kernel");
        point.seconds = seconds;
        rows.attention.push_back(point);
    } else if (kind == "copy_d2d") {
        rows.copies.push_back({row.number("bytes", 1, 1e15), seconds});
    } else if (kind == "adamw_fused_fp32") {
        rows.adamw.push_back({row.number("params", 1, 1e15), seconds});
    } else if (kind == "host_dispatch") {
        rows.dispatch.emplace_back(row.string("op"), seconds);
    } else if (kind == "kernel_in_graph") {
        rows.kernel_in_graph_s = seconds;
    } else if (row.has("rows")) {
        rows.traffic.push_back({kind, row.number("rows", 1, 1e9), row.number("cols", 1, 1e9), seconds});
    }
}

Result<Json> gpu_benches(const Folder& hw) {
    auto document = read_json_file(hw / "gpu_benches.json");
    if (!document) return document.errors();
    if (!document->is_object() || !document->contains("data"))
        return Error{ErrorCode::Unreadable, "no \"data\"", "gpu_benches.json", ""};
    return (*document)["data"];
}

}  // namespace

Result<TorchRows> read_torch_rows(const Folder& hw) {
    const Folder file = hw / "h200_torch" / "micro_rows.jsonl";
    const auto lines = read_lines(file);
    if (!lines) return lines.errors();
    TorchRows rows;
    Errors errors;
    for (std::size_t i = 0; i < lines->size(); ++i) {
        const auto document = parse_json((*lines)[i], file.string() + " line " + std::to_string(i + 1));
        if (!document) return document.errors();
        read_torch_row(JsonObject(*document, "line " + std::to_string(i + 1), errors), rows);
    }
    if (!errors.empty()) return errors;
    return rows;
}

Result<std::vector<SizePoint>> read_small_kernels(const Folder& hw, const std::string& key) {
    const auto data = gpu_benches(hw);
    if (!data) return data.errors();
    const Json* kernels = data->contains("small_kernels") ? &data->at("small_kernels") : nullptr;
    if (kernels == nullptr || !kernels->contains(key) || !kernels->at(key).contains("points_bytes_us")) {
        return Error{ErrorCode::Unreadable, "no small_kernels/" + key, "gpu_benches.json", ""};
    }
    std::vector<SizePoint> points;
    for (const Json& point : kernels->at(key).at("points_bytes_us")) {
        if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number())
            return Error{ErrorCode::Unreadable, "a point of " + key + " is not [bytes, us]",
                         "gpu_benches.json", ""};
        points.push_back({point[0].get<double>(), point[1].get<double>() * 1e-6});
    }
    return points;
}

Result<double> read_stream_rate(const Folder& hw, const std::string& device, const std::string& kernel) {
    const auto data = gpu_benches(hw);
    if (!data) return data.errors();
    if (!data->contains(device) || !data->at(device).contains("stream_peak_GBps") ||
        !data->at(device).at("stream_peak_GBps").contains(kernel)) {
        return Error{ErrorCode::Unreadable, "no " + device + " " + kernel, "gpu_benches.json", ""};
    }
    const Json& rate = data->at(device).at("stream_peak_GBps").at(kernel);
    if (!rate.is_number())
        return Error{ErrorCode::Unreadable, device + " " + kernel + " is no number", "gpu_benches.json", ""};
    return rate.get<double>() * 1e9;
}

}  // namespace tw
