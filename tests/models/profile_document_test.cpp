#include "models/hardware/profile_document.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "models/hardware/profile_document_json.hpp"
#include "models/hardware/profile_json.hpp"

namespace tw {
namespace {

ProfileDocument measured_document() {
    ProfileDocument d;
    d.profile = *load_profile("cpu");
    MeasuredEnvironment e;
    e.date = "2026-11-30T10:50:00Z";
    e.tool = "trainwright";
    e.cores = 2;
    e.seconds = 120;
    e.noise = 0.02;
    e.noise_verdict = "quiet";
    e.complete = false;
    e.missing = {"convolution: out of budget"};
    d.environment = e;
    d.samples.push_back(
        {"gemm", "fp32 forward", {{"m", 1024}, {"n", 256}, {"k", 256}}, "s", 3, {1e-3, 1.1e-3}});
    d.samples.push_back({"memory_outside", "", {}, "bytes", 1, {4e7}});
    d.cluster = *load_cluster("cpu:2");
    d.cluster->name = "bench";
    return d;
}

std::filesystem::path write_document(const ProfileDocument& document, const std::string& name) {
    const auto path = std::filesystem::path(testing::TempDir()) / name;
    std::ofstream(path) << profile_document_text(document);
    return path;
}

TEST(ProfileDocument, IsReadBackAsItWasWritten) {
    const ProfileDocument document = measured_document();
    const auto json = parse_json(profile_document_text(document), "text");
    ASSERT_TRUE(json.has_value());
    const auto again = decode_profile_document(*json, "again");
    ASSERT_TRUE(again.has_value()) << to_string(again.errors());
    EXPECT_EQ(*again, document);
    EXPECT_EQ(*decode_profile(*json, "curves"), document.profile);
}

TEST(ProfileDocument, VersionOneHasCurvesAlone) {
    Json old = encode_profile(*load_profile("cpu"));
    old["version"] = 1;
    const auto read = decode_profile_document(old, "old");
    ASSERT_TRUE(read.has_value()) << to_string(read.errors());
    EXPECT_EQ(read->profile, *load_profile("cpu"));
    EXPECT_FALSE(read->environment || read->cluster);
    EXPECT_TRUE(read->samples.empty());
    EXPECT_EQ(encode_profile_document(*read)["version"], 2);
}

// Interrupted before there was anything to fit: its samples are gone on with, and nobody plans by it.
TEST(ProfileDocument, WithoutCurvesIsSamplesAlone) {
    ProfileDocument young;
    young.profile.name = "cpu-local";
    young.environment = measured_document().environment;
    young.environment->complete = false;
    young.samples = measured_document().samples;
    const Json json = *parse_json(profile_document_text(young), "text");
    const auto refused = decode_profile_document(json, "p");
    ASSERT_FALSE(refused);
    EXPECT_EQ(
        to_string(refused.errors()),
        "p: /environment/complete: was interrupted before anything could be fitted to its samples (hint: "
        "the command that measured it goes on)");
    const auto samples = decode_measured_samples(json, "p");
    ASSERT_TRUE(samples) << to_string(samples.errors());
    EXPECT_EQ(samples->samples, young.samples);
    EXPECT_EQ(samples->environment, young.environment);
}

TEST(ProfileDocument, NamesEveryErrorAtItsPlace) {
    Json json = encode_profile_document(measured_document());
    json["samples"][0]["unti"] = "s";
    json["samples"][1]["values"] = Json::array();
    json["environment"]["noise"] = -1;
    json["cluster"]["groups"][0]["count"] = 0;
    const auto refused = decode_profile_document(json, "p");
    ASSERT_FALSE(refused.has_value());
    const std::string text = to_string(refused.errors());
    for (const char* part :
         {"/samples/0/unti", "/samples/1/values", "/environment/noise", "/cluster/groups/0/count"})
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(ClusterOfDocument, TakesItsNodeAndItsSize) {
    const std::string path = write_document(measured_document(), "bench.profile.json").string();
    const auto whole = load_cluster(path);
    ASSERT_TRUE(whole.has_value()) << to_string(whole.errors());
    EXPECT_EQ(whole->devices(), 2);
    EXPECT_EQ(whole->profile, path);
    EXPECT_EQ(load_cluster(path + ":1")->devices(), 1);
    EXPECT_EQ(load_cluster(path + ":8")->nodes(), 4);
    EXPECT_NE(load_cluster(path + ":3").error().hint.find("2 and 4"), std::string::npos);
    EXPECT_EQ(load_cluster(path + ":x").error().code, ErrorCode::Usage);
}

TEST(ClusterOfDocument, RefusesWhatWasNotMeasured) {
    ProfileDocument document = measured_document();
    document.cluster->groups[0].type.nics = 0;
    const std::string path = write_document(document, "alone.profile.json").string();
    EXPECT_EQ(load_cluster(path + ":2")->devices(), 2);
    EXPECT_NE(load_cluster(path + ":4").error().message.find("no network"), std::string::npos);
    document.cluster.reset();
    const std::string bare = write_document(document, "bare.profile.json").string();
    EXPECT_NE(load_cluster(bare).error().message.find("nothing of a node"), std::string::npos);
}

}  // namespace
}  // namespace tw
