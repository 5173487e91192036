// The shipped figures against a collection of datasheets kept beside the repository.
#include <filesystem>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "models/hardware/cluster.hpp"

namespace tw {
namespace {

const std::filesystem::path kDatasheets =
    std::filesystem::path(TW_SOURCE_DIR) / ".." / "shared/hw/datasheet_gpus.json";

double figure(const Json& gpu, const char* key) {
    return gpu.contains(key) ? gpu[key].get<double>() : 0.0;
}

TEST(Datasheets, AgreeWithTheShippedDevices) {
    if (!std::filesystem::exists(kDatasheets)) GTEST_SKIP() << "no datasheets at " << kDatasheets;
    const Json document = *read_json_file(kDatasheets);
    const std::vector<std::pair<const char*, const char*>> pairs = {{"V100-SXM2-16GB", "v100-16"},
                                                                    {"V100-SXM2-32GB", "v100-32"},
                                                                    {"A100-SXM4-40GB", "a100-40"},
                                                                    {"A100-SXM4-80GB", "a100"},
                                                                    {"A100-PCIe-80GB", "a100-pcie"},
                                                                    {"H100-SXM5-80GB", "h100"},
                                                                    {"H100-PCIe-80GB", "h100-pcie"},
                                                                    {"H200-SXM-141GB", "h200"},
                                                                    {"B200-SXM-180GB", "b200"},
                                                                    {"GB200-186GB", "gb200"},
                                                                    {"B300-SXM-288GB", "b300"},
                                                                    {"GB300-288GB", "gb300"},
                                                                    {"MI300X", "mi300x"},
                                                                    {"L40S", "l40s"},
                                                                    {"A10G", "a10g"},
                                                                    {"T4", "t4"},
                                                                    {"RTX3090", "rtx3090"}};
    for (const auto& [datasheet, name] : pairs) {
        SCOPED_TRACE(name);
        const Json& gpu = document["gpus"][datasheet];
        const Device device = *load_device(name);
        EXPECT_DOUBLE_EQ(device.peak_fp32.value, figure(gpu, "fp32") * 1e12);
        EXPECT_DOUBLE_EQ(device.peak_tf32.value, figure(gpu, "tf32") * 1e12);
        EXPECT_DOUBLE_EQ(device.peak_fp8.value, figure(gpu, "fp8") * 1e12);
        EXPECT_DOUBLE_EQ(device.peak_nvfp4.value, figure(gpu, "fp4") * 1e12);
        if (figure(gpu, "bf16") > 0) {
            EXPECT_DOUBLE_EQ(device.peak_bf16.value, figure(gpu, "bf16") * 1e12);
        }
        if (figure(gpu, "fp16_tc") > 0) {
            EXPECT_DOUBLE_EQ(device.peak_fp16.value, figure(gpu, "fp16_tc") * 1e12);
        }
        EXPECT_DOUBLE_EQ(device.memory_bandwidth.value, figure(gpu, "mem_GBps") * 1e9);
        if (figure(gpu, "sms") > 0) {
            EXPECT_EQ(device.sms, figure(gpu, "sms"));
        }
        if (figure(gpu, "tdp_W") > 0) {
            EXPECT_EQ(device.tdp_w, figure(gpu, "tdp_W"));
        }
        // The driver reports between 0.98 GB (ECC and firmware keep the rest) and one GiB for a nameplate GB.
        const double per_nameplate = as_double(device.memory) / (figure(gpu, "mem_GB") * 1e9);
        EXPECT_GT(per_nameplate, 0.98);
        EXPECT_LT(per_nameplate, 1.074);
        const NodeType node = *load_node_type(device.default_node);
        const double nvlink = figure(gpu, "nvlink_GBps_uni");
        if (nvlink > 0 && node.link != IntraNodeLink::Pcie) {
            EXPECT_DOUBLE_EQ(node.link_bandwidth.value, nvlink * 1e9);
        }
    }
}

}  // namespace
}  // namespace tw
