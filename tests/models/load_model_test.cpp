// Names of presets, and paths.
#include "models/load_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tw {
namespace {

TEST(LoadModel, NamesOfPresetsMayHaveDots) {
    EXPECT_TRUE(load_model("llama3.2-1b"));
    for (const char* name : {"llama3.1-405b", "qwen2.5", "llama31-405b"}) {
        const auto model = load_model(name);
        ASSERT_FALSE(model);
        EXPECT_EQ(model.errors().front().code, ErrorCode::Usage) << name;
        EXPECT_THAT(to_string(model.errors()), ::testing::HasSubstr("did you mean")) << name;
    }
}

TEST(LoadModel, ExtensionsAndFoldersAreOfFiles) {
    for (const char* name : {"no-such.json", "no-such.txt", "./no-such", "no-such/llama3-8b"}) {
        const auto model = load_model(name);
        ASSERT_FALSE(model);
        EXPECT_THAT(to_string(model.errors()), ::testing::HasSubstr("cannot be opened")) << name;
    }
}

}  // namespace
}  // namespace tw
