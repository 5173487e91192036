#include "models/hardware/profile_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/nearest.hpp"
#include "models/hardware/profile_entry_json.hpp"

namespace tw {
namespace {

constexpr std::array kKernels = {AttentionKernel::Flash1, AttentionKernel::Flash2, AttentionKernel::Flash3,
                                 AttentionKernel::CuDnn};
constexpr std::array kMemoryKinds = {MemoryOpKind::Norm,           MemoryOpKind::Softmax,
                                     MemoryOpKind::Activation,     MemoryOpKind::Add,
                                     MemoryOpKind::Dropout,        MemoryOpKind::Rope,
                                     MemoryOpKind::Embedding,      MemoryOpKind::CrossEntropy,
                                     MemoryOpKind::Cast,           MemoryOpKind::Copy,
                                     MemoryOpKind::Permute,        MemoryOpKind::Optimizer,
                                     MemoryOpKind::GradAccumulate, MemoryOpKind::BiasAct,
                                     MemoryOpKind::BiasDropoutAdd, MemoryOpKind::Router,
                                     MemoryOpKind::Pool,           MemoryOpKind::Other};
constexpr std::array kCollectives = {CollectiveKind::AllReduce,     CollectiveKind::AllGather,
                                     CollectiveKind::ReduceScatter, CollectiveKind::AllToAll,
                                     CollectiveKind::Broadcast,     CollectiveKind::Reduce,
                                     CollectiveKind::SendRecv};

void read_tile_factors(const JsonObject& o, GemmCurve& curve) {
    if (!o.has("tile_factors")) return;
    const std::vector<double> factors = read_numbers(o, "tile_factors", kGemmTiles);
    const auto sound = [](double factor) { return factor >= 0.01 && factor <= 100; };
    if (factors.size() != kGemmTiles || !std::all_of(factors.begin(), factors.end(), sound))
        return o.error("tile_factors", "one number of 0.01 to 100 a tile size, the largest first");
    std::copy(factors.begin(), factors.end(), curve.factors.begin());
}

void write_cache(Json& o, double bytes, double gain) {
    if (bytes <= 0) return;
    o["cache_bytes"] = bytes;
    o["cache_gain"] = gain;
}

GemmEntry read_gemm(const JsonObject& o, Errors& errors) {
    GemmEntry entry;
    entry.precision = read_enum(o, "precision", kPrecisions);
    GemmCurve& c = entry.curve;
    c.launch_s = amount(o, "launch_s");
    c.rate = positive(o, "rate_flops_per_s");
    c.overhead = amount(o, "tile_overhead");
    c.prologue_s = amount(o, "tile_prologue_s");
    c.bandwidth = positive(o, "bandwidth_bytes_per_s");
    c.split_s = amount(o, "split_s");
    c.least_split = o.number_or("least_split", 0, 0, kHuge);
    c.blend = o.number("blend", 1, 100);
    c.throttle = amount(o, "throttle");
    c.slack = o.number("wave_slack", 0, 1);
    c.unaligned = positive_or(o, "unaligned_128_factor", 1);
    c.scalar = positive_or(o, "unaligned_16_factor", 1);
    c.step_s = o.number_or("tile_step_s", 0, 0, 1);
    c.epilogue_s = o.number_or("tile_epilogue_s", 0, 0, 1);
    c.vector_s = o.number_or("vector_s", 0, 0, 1);
    c.vector_step_s = o.number_or("vector_step_s", 0, 0, 1);
    c.vector_split_s = o.number_or("vector_split_s", 0, 0, 1);
    c.cache_bytes = o.number_or("cache_bytes", 0, 0, kHuge);
    c.cache_gain = o.number_or("cache_gain", 1, 1, 1000);
    c.cache_fade = o.number_or("cache_fade", 1, 1e-3, 1000);
    read_tile_factors(o, c);
    c.sms = static_cast<int>(o.integer("sms", 1, 100000));
    c.largest_tile = static_cast<int>(o.integer("largest_tile", 128, 256));
    entry.m = read_range(o, "m");
    entry.n = read_range(o, "n");
    entry.k = read_range(o, "k");
    entry.excluded_s = o.number_or("excluded_s", 0, 0, 1);
    if (const Json* grid = o.find("residual_grid"))
        entry.residual = read_grid(*grid, o.pointer("residual_grid"), errors);
    entry.fit = read_fit(o);
    return entry;
}

Json gemm_json(const GemmEntry& entry) {
    Json o;
    const GemmCurve& c = entry.curve;
    o["precision"] = to_string(entry.precision);
    o["launch_s"] = c.launch_s;
    o["rate_flops_per_s"] = c.rate;
    o["tile_overhead"] = c.overhead;
    o["tile_prologue_s"] = c.prologue_s;
    o["bandwidth_bytes_per_s"] = c.bandwidth;
    o["split_s"] = c.split_s;
    if (c.least_split > 0) o["least_split"] = c.least_split;
    o["blend"] = c.blend;
    o["throttle"] = c.throttle;
    o["wave_slack"] = c.slack;
    o["unaligned_128_factor"] = c.unaligned;
    o["unaligned_16_factor"] = c.scalar;
    if (c.step_s > 0) o["tile_step_s"] = c.step_s;
    if (c.epilogue_s > 0) o["tile_epilogue_s"] = c.epilogue_s;
    if (c.vector_step_s > 0) {
        o["vector_s"] = c.vector_s;
        o["vector_step_s"] = c.vector_step_s;
        o["vector_split_s"] = c.vector_split_s;
    }
    write_cache(o, c.cache_bytes, c.cache_gain);
    if (c.cache_bytes > 0) o["cache_fade"] = c.cache_fade;
    if (c.factors != GemmCurve{}.factors) o["tile_factors"] = c.factors;
    o["sms"] = c.sms;
    o["largest_tile"] = c.largest_tile;
    o["m"] = range_json(entry.m);
    o["n"] = range_json(entry.n);
    o["k"] = range_json(entry.k);
    if (entry.excluded_s > 0) o["excluded_s"] = entry.excluded_s;
    write_fit(o, entry.fit);
    if (!entry.residual.empty()) o["residual_grid"] = grid_json(entry.residual);
    return o;
}

GemmFormEntry read_form(const JsonObject& o, Errors& errors) {
    GemmFormEntry entry;
    entry.form = read_enum(o, "form", kForms);
    if (o.find("precision") != nullptr) entry.precision = read_enum(o, "precision", kPrecisions);
    entry.factor = positive(o, "factor");
    entry.fit = read_fit(o);
    if (const Json* grid = o.find("residual_grid"))
        entry.residual = read_grid(*grid, o.pointer("residual_grid"), errors);
    return entry;
}

Json form_json(const GemmFormEntry& entry) {
    Json o;
    o["form"] = to_string(entry.form);
    if (entry.precision) o["precision"] = to_string(*entry.precision);
    o["factor"] = entry.factor;
    write_fit(o, entry.fit);
    if (!entry.residual.empty()) o["residual_grid"] = grid_json(entry.residual);
    return o;
}

AttentionEntry read_attention(const JsonObject& o, Errors&) {
    AttentionEntry entry;
    entry.kernel = read_enum(o, "kernel", kKernels);
    entry.backward = o.boolean("backward");
    AttentionCurve& c = entry.curve;
    c.launch_s = amount(o, "launch_s");
    c.rate = positive(o, "rate_flops_per_s");
    c.narrow = amount(o, "narrow_head_dim");
    c.prologue_s = amount(o, "tile_prologue_s");
    c.bandwidth = positive(o, "bandwidth_bytes_per_s");
    c.blend = o.number("blend", 1, 100);
    c.throttle = amount(o, "throttle");
    c.cache_bytes = o.number_or("cache_bytes", 0, 0, kHuge);
    c.cache_gain = o.number_or("cache_gain", 1, 1, 1000);
    c.rows = static_cast<int>(o.integer("tile_rows", 16, 512));
    c.whole_dims = o.boolean_or("power_of_two_head_dim", false);
    c.sms = static_cast<int>(o.integer("sms", 1, 100000));
    entry.seq = read_range(o, "seq");
    entry.head_dim = read_range(o, "head_dim");
    entry.fit = read_fit(o);
    return entry;
}

Json attention_json(const AttentionEntry& entry) {
    Json o;
    const AttentionCurve& c = entry.curve;
    o["kernel"] = to_string(entry.kernel);
    o["backward"] = entry.backward;
    o["launch_s"] = c.launch_s;
    o["rate_flops_per_s"] = c.rate;
    o["narrow_head_dim"] = c.narrow;
    o["tile_prologue_s"] = c.prologue_s;
    o["bandwidth_bytes_per_s"] = c.bandwidth;
    o["blend"] = c.blend;
    o["throttle"] = c.throttle;
    write_cache(o, c.cache_bytes, c.cache_gain);
    o["tile_rows"] = c.rows;
    if (c.whole_dims) o["power_of_two_head_dim"] = true;
    o["sms"] = c.sms;
    o["seq"] = range_json(entry.seq);
    o["head_dim"] = range_json(entry.head_dim);
    write_fit(o, entry.fit);
    return o;
}

MemoryEntry read_memory(const JsonObject& o, Errors&) {
    MemoryEntry entry;
    entry.kind = read_enum(o, "kind", kMemoryKinds);
    entry.backward = o.boolean("backward");
    entry.efficiency = o.number("efficiency", 1e-6, 100);
    entry.extra_latency_s = o.number_or("extra_latency_s", 0, 0, 1);
    entry.cached_efficiency = o.number_or("cached_efficiency", 0, 0, 100);
    entry.fit = read_fit(o);
    return entry;
}

Json memory_json(const MemoryEntry& entry) {
    Json o;
    o["kind"] = to_string(entry.kind);
    o["backward"] = entry.backward;
    o["efficiency"] = entry.efficiency;
    o["extra_latency_s"] = entry.extra_latency_s;
    if (entry.cached_efficiency > 0) o["cached_efficiency"] = entry.cached_efficiency;
    write_fit(o, entry.fit);
    return o;
}

ConvolutionEntry read_convolution(const JsonObject& o, Errors&) {
    ConvolutionEntry entry;
    entry.precision = read_enum(o, "precision", kPrecisions);
    entry.curve.forward = positive(o, "forward_factor");
    entry.curve.input_grad = positive(o, "input_grad_factor");
    entry.curve.weight_grad = positive(o, "weight_grad_factor");
    entry.curve.winograd = o.number_or("winograd_gain", 1, 1, 16);
    entry.curve.launch_s = amount(o, "launch_s");
    entry.fit = read_fit(o);
    return entry;
}

Json convolution_json(const ConvolutionEntry& entry) {
    Json o;
    o["precision"] = to_string(entry.precision);
    o["forward_factor"] = entry.curve.forward;
    o["input_grad_factor"] = entry.curve.input_grad;
    o["weight_grad_factor"] = entry.curve.weight_grad;
    o["winograd_gain"] = entry.curve.winograd;
    o["launch_s"] = entry.curve.launch_s;
    write_fit(o, entry.fit);
    return o;
}

// Of a dispatch in a tight loop, in an eager layer, inside a CUDA graph; the others: sim/cost/crowd_wait.hpp.
const std::vector<std::string> kHostModes = {"eager",         "layer",      "graph",
                                             "crowd",         "crowd idle", "crowd message",
                                             "crowd product", "crowd half", "crowd half idle"};

HostEntry read_host(const JsonObject& o, Errors&) {
    HostEntry entry{o.string("mode"), amount(o, "seconds_per_dispatch"), read_fit(o)};
    if (std::find(kHostModes.begin(), kHostModes.end(), entry.mode) == kHostModes.end())
        o.error("mode", "unknown mode '" + entry.mode + "'", unknown_name_hint(entry.mode, kHostModes));
    return entry;
}

Json host_json(const HostEntry& entry) {
    Json o;
    o["mode"] = entry.mode;
    o["seconds_per_dispatch"] = entry.seconds_per_dispatch;
    write_fit(o, entry.fit);
    return o;
}

CollectiveEntry read_collective(const JsonObject& o, Errors& errors) {
    CollectiveEntry entry;
    entry.kind = read_enum(o, "kind", kCollectives);
    entry.group_size = static_cast<int>(o.integer("group_size", 2, 1 << 20));
    entry.nodes = static_cast<int>(o.integer_or("nodes", 1, 1, 1 << 20));
    if (entry.group_size % entry.nodes != 0)
        o.error("nodes", std::to_string(entry.group_size) + " devices are not spread evenly over " +
                             std::to_string(entry.nodes) + " nodes");
    const Json& lines = o.array("lines");
    if (lines.empty() || lines.size() > 3) o.error("lines", "one to three lines alpha + bytes / rate");
    std::size_t index = 0;
    for (const Json& line : lines) {
        const JsonObject l(line, o.pointer("lines") + "/" + std::to_string(index++), errors);
        entry.curve.lines.push_back({amount(l, "alpha_s"), positive(l, "rate_bytes_per_s")});
        l.finish();
    }
    entry.bytes = read_range(o, "bytes");
    entry.fit = read_fit(o);
    return entry;
}

Json collective_json(const CollectiveEntry& entry) {
    Json o;
    o["kind"] = to_string(entry.kind);
    o["group_size"] = entry.group_size;
    if (entry.nodes > 1) o["nodes"] = entry.nodes;
    Json lines = Json::array();
    for (const AlphaBeta& line : entry.curve.lines) {
        Json l;
        l["alpha_s"] = line.alpha_s;
        l["rate_bytes_per_s"] = line.rate;
        lines.push_back(l);
    }
    o["lines"] = lines;
    o["bytes"] = range_json(entry.bytes);
    write_fit(o, entry.fit);
    return o;
}

InterferenceEntry read_interference(const JsonObject& o, Errors&) {
    InterferenceEntry entry;
    entry.beside = o.string("beside");
    entry.products = positive(o, "products");
    entry.attention = positive(o, "attention");
    entry.memory = positive(o, "memory");
    entry.communication = positive_or(o, "communication", 1);
    entry.fit = read_fit(o);
    return entry;
}

Json interference_json(const InterferenceEntry& entry) {
    Json o;
    o["beside"] = entry.beside;
    o["products"] = entry.products;
    o["attention"] = entry.attention;
    o["memory"] = entry.memory;
    o["communication"] = entry.communication;
    write_fit(o, entry.fit);
    return o;
}

template <class Entry>
std::vector<Entry> read_entries(const JsonObject& o, std::string_view key, Errors& errors,
                                Entry (*read)(const JsonObject&, Errors&)) {
    std::vector<Entry> entries;
    std::size_t index = 0;
    for (const Json& element : o.array(key)) {
        const JsonObject entry(element, o.pointer(key) + "/" + std::to_string(index++), errors);
        entries.push_back(read(entry, errors));
        entry.finish();
    }
    return entries;
}

template <class Entry>
Json entries_json(const std::vector<Entry>& entries, Json (*write)(const Entry&)) {
    Json array = Json::array();
    for (const Entry& entry : entries)
        array.push_back(write(entry));
    return array;
}

}  // namespace

HardwareProfile read_profile(const JsonObject& o, Errors& errors) {
    HardwareProfile profile;
    profile.name = o.string("name");
    profile.description = o.string("description");
    profile.gemm = read_entries(o, "gemm", errors, read_gemm);
    if (profile.gemm.empty()) o.error("gemm", "at least one precision");
    profile.gemm_forms = read_entries(o, "gemm_forms", errors, read_form);
    if (o.has("host_products")) profile.host_gemm = read_entries(o, "host_products", errors, read_host_gemm);
    if (const Json* sustained = o.find("sustained")) {
        const JsonObject s(*sustained, "/sustained", errors);
        profile.sustained = {s.number("slowdown", 1, 100), read_fit(s)};
        s.finish();
    }
    profile.attention = read_entries(o, "attention", errors, read_attention);
    if (const Json* memory = o.find("memory")) {
        const JsonObject m(*memory, "/memory", errors);
        profile.memory.latency_s = amount(m, "latency_s");
        profile.memory.bandwidth = positive(m, "bandwidth_bytes_per_s");
        profile.memory.l2_bandwidth = positive(m, "l2_bandwidth_bytes_per_s");
        profile.memory.l2_bytes = amount(m, "l2_bytes");
        profile.memory_fit = read_fit(m);
        m.finish();
    } else {
        o.error("memory", "required");
    }
    profile.memory_ops = read_entries(o, "memory_ops", errors, read_memory);
    profile.convolution = read_entries(o, "convolution", errors, read_convolution);
    profile.host = read_entries(o, "host", errors, read_host);
    profile.collectives = read_entries(o, "collectives", errors, read_collective);
    if (o.has("interference"))
        profile.interference = read_entries(o, "interference", errors, read_interference);
    profile.memory_outside_bytes = o.number_or("memory_outside_bytes", 0, 0, kHuge);
    return profile;
}

Json encode_profile(const HardwareProfile& profile) {
    Json o;
    o["schema"] = "trainwright/profile";
    o["version"] = kProfileVersion;
    o["name"] = profile.name;
    o["description"] = profile.description;
    o["gemm"] = entries_json(profile.gemm, gemm_json);
    o["gemm_forms"] = entries_json(profile.gemm_forms, form_json);
    if (!profile.host_gemm.empty()) o["host_products"] = entries_json(profile.host_gemm, host_gemm_json);
    if (profile.sustained.slowdown > 1) {
        o["sustained"] = {{"slowdown", profile.sustained.slowdown}};
        write_fit(o["sustained"], profile.sustained.fit);
    }
    o["attention"] = entries_json(profile.attention, attention_json);
    Json memory;
    memory["latency_s"] = profile.memory.latency_s;
    memory["bandwidth_bytes_per_s"] = profile.memory.bandwidth;
    memory["l2_bandwidth_bytes_per_s"] = profile.memory.l2_bandwidth;
    memory["l2_bytes"] = profile.memory.l2_bytes;
    write_fit(memory, profile.memory_fit);
    o["memory"] = memory;
    o["memory_ops"] = entries_json(profile.memory_ops, memory_json);
    o["convolution"] = entries_json(profile.convolution, convolution_json);
    o["host"] = entries_json(profile.host, host_json);
    o["collectives"] = entries_json(profile.collectives, collective_json);
    if (!profile.interference.empty())
        o["interference"] = entries_json(profile.interference, interference_json);
    if (profile.memory_outside_bytes > 0) o["memory_outside_bytes"] = profile.memory_outside_bytes;
    return o;
}

}  // namespace tw
