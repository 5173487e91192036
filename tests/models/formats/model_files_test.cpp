// Layer lists and PipeDream profiles through the door that users take: a preset's name or a path.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/json.hpp"
#include "models/load_model.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;

class ModelFiles : public ::testing::Test {
  protected:
    void SetUp() override { fs::create_directories(folder_); }
    void TearDown() override { fs::remove_all(folder_); }
    std::string write(const std::string& name, const std::string& text) {
        const fs::path path = folder_ / name;
        EXPECT_TRUE(write_text_file(path, text).has_value());
        return path.string();
    }
    // One per process: tests run in parallel.
    fs::path folder_ = fs::temp_directory_path() / ("tw_model_files_" + std::to_string(getpid())) / "toynet";
};

TEST_F(ModelFiles, PresetsOfConvolutionalNetworksLoadByName) {
    const auto names = model_names();
    for (const char* name : {"vgg16", "resnet50"}) {
        EXPECT_NE(std::find(names.begin(), names.end(), name), names.end());
        const auto loaded = load_model(name);
        ASSERT_TRUE(loaded.has_value()) << to_string(loaded.errors());
        EXPECT_EQ(loaded->graph.name, name);
        EXPECT_EQ(loaded->graph.family, "cnn");
    }
}

TEST_F(ModelFiles, AProfileIsNamedAfterItsFolder) {
    const std::string path =
        write("graph.txt",
              "node1 -- Linear(in_features=2, out_features=2) -- forward_compute_time=1.5, "
              "backward_compute_time=2.0, activation_size=64.0, parameter_size=24.0\n");
    const auto loaded = load_model(path);
    ASSERT_TRUE(loaded.has_value()) << to_string(loaded.errors());
    EXPECT_EQ(loaded->graph.name, "toynet");
    EXPECT_EQ(loaded->graph.parameters(), 6);
    EXPECT_FALSE(loaded->graph.measured_on.empty());
}

TEST_F(ModelFiles, ErrorsNameTheFileAndThePlace) {
    const auto list =
        load_model(write("net.json", R"({"schema": "trainwright/layer-list", "version": 1, "layers": []})"));
    ASSERT_FALSE(list.has_value());
    EXPECT_NE(to_string(list.errors()).find("net.json: /input"), std::string::npos)
        << to_string(list.errors());
    const auto graph = load_model(write("graph.txt", "node1 -- ReLU\n"));
    ASSERT_FALSE(graph.has_value());
    EXPECT_NE(to_string(graph.errors()).find("graph.txt:1: not a node"), std::string::npos);
}

}  // namespace
}  // namespace tw
