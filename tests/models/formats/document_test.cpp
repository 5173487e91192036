#include "models/formats/document.hpp"

#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "models/data/embedded.hpp"

namespace tw {
namespace {

std::string fact(const DocumentSummary& summary, std::string_view name) {
    for (const auto& [key, value] : summary.facts) {
        if (key == name) return value;
    }
    return "";
}

DocumentSummary inspected(std::string_view text) {
    const auto summary = inspect_text(text, "file");
    EXPECT_TRUE(summary.has_value()) << to_string(summary.errors());
    return summary.has_value() ? *summary : DocumentSummary{};
}

TEST(Document, KindsAreDistinctAndTriedInOrder) {
    std::set<std::string_view> names;
    for (const DocumentKind& kind : document_kinds()) {
        EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
        EXPECT_FALSE(kind.sniff("", "")) << kind.name;
        EXPECT_FALSE(kind.sniff("plain words\n", "")) << kind.name;
        EXPECT_FALSE(kind.describe("", "f").has_value()) << kind.name;
    }
    EXPECT_GE(names.size(), 14U);
}

TEST(Document, DescribesWhatMachinesPrint) {
    const DocumentSummary log =
        inspected("1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 6281.2 170.95 299.15 0\n");
    EXPECT_EQ(log.kind, "nccl-tests log");
    EXPECT_EQ(log.title, "all_reduce on 8 ranks, best busbw 299.4 GB/s");
    EXPECT_EQ(fact(log, "largest size"), "1.00 GiB");

    const DocumentSummary matrix = inspected(
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV12\tPIX\t0-15\nGPU1\tNV12\t X "
        "\tSYS\t16-31\nNIC0\tPIX\tSYS\t X \n");
    EXPECT_EQ(matrix.kind, "nvidia-smi topology matrix");
    EXPECT_EQ(matrix.title, "2 GPUs, NVLink between all pairs, 1 NIC");
    EXPECT_EQ(fact(matrix, "GPU pairs"), "1 x NV12");
    EXPECT_EQ(fact(matrix, "nearest NICs"), "GPU0: NIC0 (PIX), GPU1: NIC0 (SYS)");

    const DocumentSummary topology = inspected(
        R"(<system version="1"><cpu numaid="0"><pci busid="a" class="0x030200" link_speed="16 GT/s" link_width="16"/></cpu></system>)");
    EXPECT_EQ(topology.kind, "NCCL topology");
    EXPECT_EQ(fact(topology, "PCI link of a GPU"), "24 GB/s");
    EXPECT_EQ(topology.warnings.size(), 1U);
    const DocumentSummary graphs = inspected(
        R"(<graphs version="1"><graph id="0" pattern="4" nchannels="2" speedintra="12" speedinter="12" typeintra="SYS" typeinter="PIX"/></graphs>)");
    EXPECT_EQ(graphs.kind, "NCCL graphs");
    EXPECT_NE(fact(graphs, "graph 0").find("ring, 2 channels of 12 GB/s"), std::string::npos);
}

TEST(Document, DescribesModels) {
    const DocumentSummary resnet = inspected(embedded_document("models/resnet50.json"));
    EXPECT_EQ(resnet.kind, "trainwright layer list");
    EXPECT_EQ(fact(resnet, "parameters"), "25,557,032");
    EXPECT_EQ(fact(resnet, "forward GFLOP an image"), "8.18");
    const DocumentSummary profile = inspected(
        "node1 -- Linear(in_features=2, out_features=2) -- forward_compute_time=1.5, "
        "backward_compute_time=2.0, "
        "activation_size=64.0, parameter_size=24.0\n");
    EXPECT_EQ(profile.kind, "PipeDream profile graph");
    EXPECT_EQ(fact(profile, "parameters"), "6");
    EXPECT_EQ(fact(profile, "profiled minibatch"), "8");
    EXPECT_EQ(fact(profile, "forward ms"), "1.500");
}

TEST(Document, DescribesAQuantizationConfig) {
    const DocumentSummary quantized = inspected(
        R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8",
            "exclude_modules": ["lm_head", "embed"]}})");
    EXPECT_EQ(quantized.kind, "quantization config");
    EXPECT_EQ(quantized.title, "weights in NVFP4, kv cache FP8");
    EXPECT_EQ(fact(quantized, "modules left out"), "2");
    EXPECT_FALSE(inspect_text(R"({"quantization": [], "quant_algo": 4})", "f").has_value());
}

TEST(Document, EveryShippedDocumentIsRead) {
    int read = 0;
    for (const EmbeddedDocument& document : embedded_documents()) {
        const auto summary = inspect_text(document.text, document.path);
        ASSERT_TRUE(summary.has_value()) << document.path << ": " << to_string(summary.errors());
        EXPECT_FALSE(summary->title.empty()) << document.path;
        EXPECT_NE(summary->kind, "trainwright document") << document.path;
        ++read;
    }
    EXPECT_GE(read, 2);
}

TEST(Document, OtherDocumentsOfOursAreShownByTheirKeys) {
    const DocumentSummary plan = inspected(
        R"({"schema": "trainwright/plan", "version": 1, "model": "gpt3-175b", "stages": [{}, {}]})");
    EXPECT_EQ(plan.title, "a trainwright/plan document");
    EXPECT_EQ(fact(plan, "model"), "gpt3-175b");
    EXPECT_EQ(fact(plan, "stages"), "2 entries");
}

TEST(Document, ARefusalSaysWhatTheFileIsAndWhatWasTried) {
    struct Case {
        std::string text, message;
    };
    for (const Case& c :
         {Case{"", "is an empty file"}, Case{std::string("\x1f\x8b\x08\0\0", 5), "is binary data"},
          Case{"[1, 2]", "is a JSON array"}, Case{"{\"a\": 1, \"b\": 2}", "a JSON object with the keys a, b"},
          Case{"{\"a\": ", "starts like JSON but is not"}, Case{"once upon a time", "'once upon a time'"}}) {
        const auto summary = inspect_text(c.text, "f");
        ASSERT_FALSE(summary.has_value()) << c.message;
        EXPECT_EQ(summary.error().code, ErrorCode::Unreadable);
        EXPECT_NE(summary.error().message.find(c.message), std::string::npos) << summary.error().message;
        EXPECT_NE(summary.error().hint.find("nccl-tests log"), std::string::npos);
    }
    // A document that is recognised but wrong is an error of its own kind, not "unknown".
    const auto broken = inspect_text("{\"schema\": \"trainwright/layer-list\", \"version\": 1}", "f");
    ASSERT_FALSE(broken.has_value());
    EXPECT_NE(to_string(broken.errors()).find("/layers"), std::string::npos);
    EXPECT_FALSE(inspect_document("/nonexistent/file").has_value());
}

}  // namespace
}  // namespace tw
