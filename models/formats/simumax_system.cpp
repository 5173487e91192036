// SimuMax's system files (MooreThreads/SimuMax, configs/system):
// accelerator.op.matmul.accurate_efficient_factor holds measured shares of the peak by shape, networks hold
// GB/s, efficient_factor and latency_us.
#include <charconv>

#include "models/formats/foreign_hardware.hpp"
#include "models/formats/foreign_json.hpp"
#include "models/formats/json_slice.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

// The number behind "m=" in "b=1, m=4096, k=5120, n=1536, layout=TN, ...".
std::int64_t number_of(std::string_view text, std::string_view key) {
    for (std::string_view part : split_by(text, ",")) {
        part = trim(part);
        if (part.starts_with(key) && part.substr(key.size()).starts_with('='))
            return parse_integer(part.substr(key.size() + 1)).value_or(0);
    }
    return 0;
}

// TN multiplies activations by weights, NN gradients by weights, NT the two into the weights' gradient; the
// shapes are given as the product's own m, k, n.
std::optional<GemmForm> form_of(std::string_view text) {
    if (text.find("layout=TN") != std::string_view::npos) return GemmForm::Forward;
    if (text.find("layout=NN") != std::string_view::npos) return GemmForm::InputGrad;
    if (text.find("layout=NT") != std::string_view::npos) return GemmForm::WeightGrad;
    return std::nullopt;
}

void read_products(const Json& matmul, double default_tflops, ForeignHardware& hardware) {
    const double tflops = positive_number(matmul, "tflops").value_or(default_tflops);
    const Json* table = member(matmul, "accurate_efficient_factor");
    if (table == nullptr || tflops <= 0) return;
    int unread = 0;
    for (const auto& item : table->items()) {
        const auto form = form_of(item.key());
        const std::int64_t m = number_of(item.key(), "m"), k = number_of(item.key(), "k"),
                           n = number_of(item.key(), "n");
        const auto share = positive_number(*table, item.key());
        constexpr std::int64_t kMost = 1 << 24;
        if (!form || !share || *share > 2 || number_of(item.key(), "b") != 1 || m < 1 || k < 1 || n < 1 ||
            m > kMost || k > kMost || n > kMost) {
            ++unread;
            continue;
        }
        ForeignProduct product;
        product.shape.m = m;
        product.shape.n = n;
        product.shape.k = k;
        product.form = *form;
        product.seconds = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) /
                          (*share * tflops * 1e12);
        hardware.products.push_back(product);
    }
    if (unread > 0) {
        hardware.findings.push_back(
            {"numbers-missing", std::to_string(unread) + " products without a shape or a share of the peak"});
    }
}

}  // namespace

bool is_simumax_system(std::string_view text) {
    const std::string_view head = trim(text);
    return head.starts_with('{') && !json_slice::find(head, "accelerator").empty() &&
           !json_slice::find(head, "num_per_node").empty();
}

Result<ForeignHardware> read_simumax_system(std::string_view text, std::string_view name) {
    const auto json = foreign_object(text, name);
    if (!json) return json.errors();
    const Json* accelerator = member(*json, "accelerator");
    if (accelerator == nullptr)
        return Error{ErrorCode::Unreadable, "a SimuMax system has an object accelerator", std::string(name),
                     ""};
    ForeignHardware hardware;
    hardware.about = "MooreThreads/SimuMax, configs/system";
    if (const auto said = json->find("sys_name"); said != json->end() && said->is_string())
        hardware.device = excerpt(said->get<std::string>());
    const auto devices = positive_number(*json, "num_per_node");
    hardware.devices_per_node = devices && *devices < 4096 ? static_cast<int>(*devices) : 0;
    hardware.memory = Bytes(static_cast<std::int64_t>(
        std::min(positive_number(*accelerator, "mem_gbs").value_or(0), 1e6) * 1073741824.0));
    double tflops = 0;
    if (const Json* op = member(*accelerator, "op")) {
        if (const Json* plain = member(*op, "default"))
            tflops = positive_number(*plain, "tflops").value_or(0);
        if (const Json* matmul = member(*op, "matmul")) read_products(*matmul, tflops, hardware);
    }
    if (tflops > 0) hardware.peaks.emplace_back(Precision::Bf16, FlopRate(tflops * 1e12));
    if (const Json* bandwidth = member(*accelerator, "bandwidth")) {
        if (const Json* plain = member(*bandwidth, "default"))
            hardware.memory_bandwidth = BytesPerSecond(positive_number(*plain, "gbps").value_or(0) * 1e9);
    }
    if (const Json* networks = member(*json, "networks")) {
        for (const auto& item : networks->items()) {
            const Json* bandwidth = member(item.value(), "bandwidth");
            if (bandwidth == nullptr || hardware.links.size() >= 16) continue;
            ForeignLink link;
            link.name = item.key() == "inter_node" ? "between nodes" : excerpt(item.key(), 40);
            link.bandwidth = BytesPerSecond(positive_number(*bandwidth, "gbps").value_or(0) * 1e9);
            link.efficiency = positive_number(*bandwidth, "efficient_factor").value_or(1);
            link.latency_s = positive_number(*bandwidth, "latency_us").value_or(0) * 1e-6;
            hardware.links.push_back(std::move(link));
        }
    }
    hardware.title = (hardware.device.empty() ? "a machine" : hardware.device) + ", " + compact(tflops) +
                     " TFLOP/s, " + std::to_string(hardware.products.size()) + " measured products";
    return hardware;
}

}  // namespace tw
