// The collected real documents, where they lie beside the checkout: how many are read.
#include <algorithm>
#include <filesystem>
#include <tuple>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "models/formats/document.hpp"
#include "models/formats/nccl_tests.hpp"
#include "models/formats/nccl_xml.hpp"
#include "models/formats/pipedream_graph.hpp"
#include "models/load_model.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;

const fs::path kInputs = fs::path(TW_SOURCE_DIR) / ".." / "shared" / "inputs";

std::vector<fs::path> files_below(const char* folder) {
    std::vector<fs::path> files;
    std::error_code ec;
    for (const auto& entry : fs::recursive_directory_iterator(kInputs / folder, ec)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

struct Count {
    int read = 0, files = 0;
    std::string refused;
};

Count count_read(const char* folder, std::string_view kind) {
    Count count;
    for (const fs::path& file : files_below(folder)) {
        ++count.files;
        const auto summary = inspect_document(file);
        if (summary.has_value() && (kind.empty() || summary->kind == kind)) {
            ++count.read;
        } else {
            count.refused += summary.has_value()
                                 ? file.filename().string() + " is read as " + summary->kind + "\n"
                                 : to_string(summary.error()) + "\n";
        }
    }
    return count;
}

class ForeignFiles : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!fs::exists(kInputs)) GTEST_SKIP() << "no collection of real documents at " << kInputs;
    }
};

TEST_F(ForeignFiles, EveryPipeDreamProfile) {
    const Count count = count_read("profiles/pipedream", "PipeDream profile graph");
    EXPECT_EQ(count.files, 7);
    EXPECT_EQ(count.read, 7) << count.refused;
}

TEST_F(ForeignFiles, PipeDreamProfilesHaveThePublishedParameters) {
    struct Case {
        const char* name;
        std::int64_t parameters, minibatch;  // torchvision's and pretrainedmodels' counts
    };
    for (const Case& c : {Case{"alexnet", 61'100'840, 256}, Case{"vgg16", 138'357'544, 128},
                          Case{"resnet50", 25'557'032, 128}, Case{"resnext50", 25'028'904, 128}}) {
        const fs::path file =
            kInputs / "profiles/pipedream" /
            ("profiler__image_classification__profiles__" + std::string(c.name) + "__graph.txt");
        const auto text = read_text_file(file);
        ASSERT_TRUE(text.has_value());
        const auto graph = parse_pipedream_graph(*text, c.name);
        const auto loaded = load_pipedream_graph(*text, c.name);
        ASSERT_TRUE(graph.has_value() && loaded.has_value());
        EXPECT_EQ(graph->minibatch, c.minibatch) << c.name;
        EXPECT_EQ(loaded->graph.parameters(), c.parameters) << c.name;
    }
}

TEST_F(ForeignFiles, EveryNcclTestsLog) {
    const Count count = count_read("nccl-tests", "nccl-tests log");
    EXPECT_EQ(count.files, 32);
    EXPECT_EQ(count.read, 32) << count.refused;
    // What a file's own name says of its operation, and ranks that name or content state.
    struct Case {
        const char* file;
        CollectiveKind kind;
        int ranks;
    };
    for (const Case& c : {Case{"aws_eks_p4d", CollectiveKind::AllReduce, 16},
                          Case{"dgxc_h100_ib", CollectiveKind::AllReduce, 8},
                          Case{"gke_a3mega_h100_2n16_allgather", CollectiveKind::AllGather, 16},
                          Case{"mi355x_8gpu_alltoall", CollectiveKind::AllToAll, 8},
                          Case{"simumax_h100_8gpu_reducescatter", CollectiveKind::ReduceScatter, 8},
                          Case{"superbench_8gpu_broadcast", CollectiveKind::Broadcast, 8}}) {
        const auto text = read_text_file(kInputs / "nccl-tests" / (std::string(c.file) + ".txt"));
        ASSERT_TRUE(text.has_value());
        const auto log = parse_nccl_tests(*text, c.file);
        ASSERT_TRUE(log.has_value());
        EXPECT_EQ(log->ranks, c.ranks) << c.file;
        EXPECT_EQ(log->operations.front(), c.kind) << c.file;
    }
}

TEST_F(ForeignFiles, EveryTopology) {
    const Count matrices = count_read("topology/topo-m", "nvidia-smi topology matrix");
    EXPECT_EQ(matrices.files, 17);
    EXPECT_EQ(matrices.read, 17) << matrices.refused;
    const Count xml = count_read("topology/xml", "");
    EXPECT_EQ(xml.files, 12);
    EXPECT_EQ(xml.read, 12) << xml.refused;
    const auto text = read_text_file(kInputs / "topology/xml/oci__H100-topology.xml");
    ASSERT_TRUE(text.has_value());
    const auto topology = parse_nccl_topology(*text, "oci");
    ASSERT_TRUE(topology.has_value());
    EXPECT_EQ(topology->gpus.size(), 8U);
    EXPECT_EQ(topology->switches.size(), 4U);
    EXPECT_DOUBLE_EQ(topology->gpus[0].nvlink.value, 370.8e9);
}

TEST_F(ForeignFiles, EveryTrace) {
    const Count count = count_read("traces", "");
    EXPECT_EQ(count.files, 18);
    EXPECT_EQ(count.read, 18) << count.refused;
    const auto timeline = count_read("traces", "PyTorch profiler trace");
    EXPECT_EQ(timeline.read, 17) << timeline.refused;
}

// What holds no figures is refused with its reason: archives, configurations of programs.
TEST_F(ForeignFiles, ProfilesOfOtherTools) {
    const Count count = count_read("profiles", "");
    EXPECT_EQ(count.files, 156);
    EXPECT_EQ(count.files - count.read, 9) << count.refused;
    EXPECT_EQ(count.refused.find("none of the documents that are known"), std::string::npos) << count.refused;
    for (const auto& [folder, kind, files] :
         {std::tuple{"profiles/calculon/systems", "Calculon system", 3},
          std::tuple{"profiles/galvatron_hw", "Galvatron hardware profile", 3},
          std::tuple{"profiles/chimera", "Chimera profile", 10}}) {
        EXPECT_EQ(count_read(folder, kind).read, files) << folder;
    }
}

// Some of them are not models; inspect says which and why.
TEST_F(ForeignFiles, ModelConfigs) {
    const Count configs = count_read("models", "Hugging Face config");
    EXPECT_EQ(configs.files, 122);
    EXPECT_GE(configs.read, 104) << configs.refused;
    const Count all = count_read("models", "");
    EXPECT_GE(all.read, 109) << all.refused;
}

}  // namespace
}  // namespace tw
