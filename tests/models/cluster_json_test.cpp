#include "models/hardware/cluster_json.hpp"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/prng.hpp"
#include "models/data/embedded.hpp"
#include "models/hardware/profile_json.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

constexpr const char* kMixed = R"({
  "schema": "trainwright/cluster", "version": 1, "name": "mixed",
  "groups": [
    {"node": "dgx-h100", "count": 2},
    {"node": "dgx-a100", "count": 1, "devices_per_node": 4},
    {"node": {"name": "lab", "devices": 2, "link": "pcie", "link_bandwidth_bytes_per_s": 2.5e10, "link_latency_s": 1e-6,
              "nics": 1, "nic_bandwidth_bytes_per_s": 1.25e9, "nic_latency_s": 3e-5,
              "pcie_bandwidth_bytes_per_s": 2.5e10,
              "device": {"name": "lab-gpu", "memory_bytes": 25769803776, "memory_bandwidth_bytes_per_s": 9e11,
                         "peak_flops_per_s": {"fp32": 3e13, "bf16": 1.2e14}}}, "count": 3}
  ],
  "oversubscription": 2, "nodes_per_pod": 3, "profile": "lab-profile"
})";

Json parsed(std::string_view text) {
    auto document = parse_json(text, "test");
    EXPECT_TRUE(document.has_value());
    return *document;
}

Errors errors_of(const Json& document) {
    const auto cluster = cluster_from_json(document, "");
    return cluster ? Errors{} : cluster.errors();
}

bool has_error_at(const Errors& errors, std::string_view pointer) {
    return std::any_of(errors.begin(), errors.end(), [&](const Error& e) { return e.context == pointer; });
}

TEST(ClusterJson, ReadsMixedClusters) {
    const auto cluster = cluster_from_json(parsed(kMixed), "");
    ASSERT_TRUE(cluster.has_value()) << to_string(cluster.errors());
    EXPECT_EQ(cluster->name, "mixed");
    EXPECT_EQ(cluster->devices(), 26);
    EXPECT_EQ(cluster->nodes(), 6);
    EXPECT_FALSE(cluster->uniform());
    EXPECT_EQ(cluster->groups[1].type.nics, 4);
    EXPECT_EQ(cluster->groups[2].device.name, "lab-gpu");
    EXPECT_EQ(cluster->groups[2].type.device, "lab-gpu");
    EXPECT_EQ(cluster->oversubscription, 2);
    EXPECT_EQ(cluster->nodes_per_pod, 3);
    EXPECT_EQ(cluster->profile, "lab-profile");
    EXPECT_EQ(cluster->node_of(25), 5);
}

TEST(ClusterJson, RoundTripsEveryPresetAndMixedClusters) {
    std::vector<Cluster> clusters = {*cluster_from_json(parsed(kMixed), "")};
    for (const std::string& name : cluster_names()) {
        clusters.push_back(*load_cluster(name));
        clusters.push_back(*load_cluster(name + ":1"));
    }
    Cluster changed = *load_cluster("h100:64");
    changed.groups[0].device.memory = Bytes(64LL << 30);
    changed.groups[0].type.nic_bandwidth = BytesPerSecond(12345678901.5);
    changed.groups[0].type.usd_per_device_hour = 2.49;
    clusters.push_back(changed);
    for (const Cluster& cluster : clusters) {
        const Json document = cluster_to_json(cluster);
        const auto again = cluster_from_json(parsed(document.dump(2)), "");
        ASSERT_TRUE(again.has_value()) << to_string(again.errors());
        EXPECT_EQ(*again, cluster) << document.dump(2);
        EXPECT_EQ(cluster_to_json(*again).dump(), document.dump());
    }
}

// A cluster that is written names shipped profiles and holds others, so that it can be sent away.
TEST(ClusterJson, HoldsAProfileOfItsOwn) {
    Cluster cluster = *load_cluster("a100:8");
    cluster.profile = "h100";
    EXPECT_EQ(cluster_to_json(cluster)["profile"], "h100");
    Json own = *parse_json(embedded_document("profiles/a100.json"), "a100");
    own["name"] = "lab";
    own["samples"] = Json::array();
    const auto path =
        std::filesystem::temp_directory_path() / ("tw_profile_" + std::to_string(::getpid()) + ".json");
    ASSERT_TRUE(write_text_file(path, own.dump()).has_value());
    cluster.profile = path.string();
    const Json document = cluster_to_json(cluster);
    std::filesystem::remove(path);
    ASSERT_TRUE(document["profile"].is_object());
    EXPECT_EQ(document["profile"]["name"], "lab");
    EXPECT_FALSE(document["profile"].contains("samples"));
    const auto again = cluster_from_json(document, "");
    ASSERT_TRUE(again.has_value()) << to_string(again.errors());
    EXPECT_EQ(cluster_to_json(*again).dump(), document.dump());
    const auto profile = load_profile(again->profile);
    ASSERT_TRUE(profile.has_value()) << to_string(profile.errors());
    EXPECT_EQ(encode_profile(*profile), document["profile"]);
    EXPECT_EQ(cluster_to_json(cluster)["profile"], path.string());  // the file is gone: its name stays
    Json broken = document;
    broken["profile"]["gemm"][0]["precision"] = "fp7";
    const auto refused = cluster_from_json(broken, "");
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().context.rfind("/profile/gemm/0", 0), 0U) << refused.error().context;
}

TEST(ClusterJson, NamesShippedNodesAndSpellsOutOthers) {
    const Json shipped = cluster_to_json(*load_cluster("h100:64"));
    EXPECT_EQ(shipped["groups"][0].dump(), R"({"node":"dgx-h100","count":8})");
    const Json part = cluster_to_json(*load_cluster("h100:4"));
    EXPECT_EQ(part["groups"][0].dump(), R"({"node":"dgx-h100","count":1,"devices_per_node":4})");
    Cluster changed = *load_cluster("h100:64");
    changed.groups[0].type.nics = 4;
    EXPECT_EQ(cluster_to_json(changed)["groups"][0]["node"]["nics"], 4);
    EXPECT_EQ(cluster_to_json(changed)["groups"][0]["node"]["device"], "h100");
}

TEST(ClusterJson, IsReadFromAFile) {
    const auto path =
        std::filesystem::temp_directory_path() / ("tw_cluster_" + std::to_string(::getpid()) + ".json");
    ASSERT_TRUE(write_text_file(path, kMixed).has_value());
    const auto cluster = load_cluster(path.string());
    ASSERT_TRUE(write_text_file(path, R"({"schema": "trainwright/cluster", "version": 1, "groups": []})"));
    const auto refused = load_cluster(path.string());
    std::filesystem::remove(path);
    ASSERT_TRUE(cluster.has_value()) << to_string(cluster.errors());
    EXPECT_EQ(cluster->devices(), 26);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().context, path.string() + ": /groups");
}

// Only between pods is the fabric narrower.
TEST(ClusterJson, OversubscriptionNeedsPods) {
    Json document = parsed(kMixed);
    EXPECT_TRUE(errors_of(document).empty());
    document.erase("nodes_per_pod");
    const Errors errors = errors_of(document);
    ASSERT_EQ(errors.size(), 1U) << to_string(errors);
    EXPECT_EQ(errors[0].context, "/oversubscription");
    EXPECT_NE(errors[0].hint.find("add nodes_per_pod"), std::string::npos);
    document["oversubscription"] = 1;
    EXPECT_TRUE(errors_of(document).empty());
}

TEST(ClusterJson, ReportsAllErrorsWithTheirPointers) {
    Json document = parsed(kMixed);
    document["groups"][0]["node"] = "dgx-h10";
    document["groups"][1]["devices_per_node"] = 9;
    document["groups"][2]["count"] = 0;
    document["groups"][2]["node"]["link"] = "pci";
    document["groups"][2]["node"]["nics"] = -1;
    document["groups"][2]["node"]["device"]["memory_bytes"] = "24 GB";
    document["groups"][2]["node"]["device"]["peak_flops_per_s"]["bf17"] = 1e12;
    document["oversubscription"] = 0.5;
    document["nodes_per_rack"] = 4;
    const Errors errors = errors_of(document);
    for (const char* pointer :
         {"/groups/0/node", "/groups/1/devices_per_node", "/groups/2/count", "/groups/2/node/link",
          "/groups/2/node/nics", "/groups/2/node/device/memory_bytes",
          "/groups/2/node/device/peak_flops_per_s/bf17", "/oversubscription", "/nodes_per_rack"}) {
        EXPECT_TRUE(has_error_at(errors, pointer)) << pointer << "\n" << to_string(errors);
    }
    for (const Error& error : errors)
        EXPECT_EQ(error.code, ErrorCode::Unreadable);
    const auto hint_at = [&](std::string_view pointer) {
        return std::find_if(errors.begin(), errors.end(),
                            [&](const Error& e) { return e.context == pointer; })
            ->hint;
    };
    EXPECT_NE(hint_at("/groups/0/node").find("did you mean 'dgx-h100'"), std::string::npos);
    EXPECT_NE(hint_at("/groups/2/node/link").find("did you mean 'pcie'"), std::string::npos);
    EXPECT_NE(hint_at("/nodes_per_rack").find("did you mean 'nodes_per_pod'"), std::string::npos);
}

TEST(ClusterJson, NodesWithoutNicsStandAlone) {
    Json document = parsed(kMixed);
    document["groups"][2]["node"]["nics"] = 0;
    const Errors errors = errors_of(document);
    EXPECT_TRUE(has_error_at(errors, "/groups/2/node")) << to_string(errors);
    Json alone = document;
    alone["groups"] = Json::array({document["groups"][2]});
    alone["groups"][0]["count"] = 1;
    EXPECT_TRUE(errors_of(alone).empty());
}

TEST(ClusterJson, RefusesWhatIsNoCluster) {
    for (const char* text :
         {"[]", "3", "null", "\"h100:8\"", "{}", R"({"schema": "trainwright/plan", "version": 1})",
          R"({"schema": "trainwright/cluster", "version": 2, "groups": []})",
          R"({"schema": "trainwright/cluster", "version": 1, "groups": []})",
          R"({"schema": "trainwright/cluster", "version": 1, "groups": {}})",
          R"({"schema": "trainwright/cluster", "version": 1, "groups": [8]})",
          R"({"schema": "trainwright/cluster", "version": 1, "groups": [{"node": 8}]})",
          R"({"schema": "trainwright/cluster", "version": 1, "groups": [{"count": 8}]})",
          R"({"schema": "trainwright/cluster", "version": 1,
                                 "groups": [{"node": "dgx-h100", "count": 1000000}]})"}) {
        const auto cluster = cluster_from_json(parsed(text), "");
        ASSERT_FALSE(cluster.has_value()) << text;
        EXPECT_EQ(cluster.error().code, ErrorCode::Unreadable);
        EXPECT_FALSE(cluster.error().context.empty()) << text;
    }
}

TEST(DeviceJson, EveryShippedFigureNamesItsSource) {
    Json document = parsed(embedded_document("hardware/devices/h100.json"));
    document["sources"].erase("*");
    const auto device = device_from_json(document, "", false);
    ASSERT_FALSE(device.has_value());
    EXPECT_TRUE(has_error_at(device.errors(), "/sources/memory_bandwidth_bytes_per_s"))
        << to_string(device.errors());
    document.erase("sources");
    EXPECT_TRUE(has_error_at(device_from_json(document, "", false).errors(), "/sources"));
    EXPECT_TRUE(device_from_json(document, "", true).has_value());
}

TEST(NodeJson, RefusesContradictions) {
    Json document = parsed(embedded_document("hardware/nodes/gb200-nvl72.json"));
    document["devices_per_tray"] = 5;
    EXPECT_TRUE(has_error_at(node_from_json(document, "", false).errors(), "/devices_per_tray"));
    document["devices_per_tray"] = 4;
    document["link"] = "none";
    EXPECT_TRUE(has_error_at(node_from_json(document, "", false).errors(), "/link"));
    document["link"] = "nvswitch";
    document["device"] = "gb2000";
    EXPECT_TRUE(has_error_at(node_from_json(document, "", false).errors(), "/device"));
    document["device"] = "gb200";
    document["name"] = "GB200 rack";
    EXPECT_TRUE(has_error_at(node_from_json(document, "", false).errors(), "/name"));
}

enum class Kind { Cluster, Device, Node };

struct Seed {
    Kind kind;
    std::string text;
};

std::vector<Seed> seeds() {
    return {{Kind::Cluster, kMixed},
            {Kind::Device, std::string(embedded_document("hardware/devices/h100.json"))},
            {Kind::Node, std::string(embedded_document("hardware/nodes/p4d.json"))}};
}

// Decoding must answer: a value, or errors that name a place.
void expect_an_answer(Kind kind, std::string_view text) {
    const auto document = parse_json(text, "mutant");
    if (!document) {
        EXPECT_EQ(document.error().code, ErrorCode::Unreadable);
        return;
    }
    const auto answer = [&](const auto& result) {
        if (result) return;
        for (const Error& error : result.errors()) {
            EXPECT_EQ(error.code, ErrorCode::Unreadable);
            EXPECT_FALSE(error.context.empty()) << error.message;
        }
    };
    if (kind == Kind::Cluster) answer(cluster_from_json(*document, ""));
    if (kind == Kind::Node) answer(node_from_json(*document, "", false));
    if (kind == Kind::Device) answer(device_from_json(*document, "", false));
}

TEST(ClusterJsonMutation, TextIsReadOrRefused) {
    const std::vector<Seed> all = seeds();
    constexpr std::string_view kBytes = "{}[]\",:0123456789.eE+-truefalsn\\/\xff\x01 ";
    Prng prng(7);
    for (int i = 0; i < scaled(2400); ++i) {
        const Seed& seed = all[static_cast<std::size_t>(i) % all.size()];
        std::string text = seed.text;
        const auto edits = prng.integer(1, 3);
        for (int edit = 0; edit < edits; ++edit) {
            const auto at =
                static_cast<std::size_t>(prng.integer(0, static_cast<std::int64_t>(text.size()) - 1));
            const auto byte = kBytes[static_cast<std::size_t>(
                prng.integer(0, static_cast<std::int64_t>(kBytes.size()) - 1))];
            switch (prng.integer(0, 3)) {
                case 0:
                    text[at] = byte;
                    break;
                case 1:
                    text.insert(at, 1, byte);
                    break;
                case 2:
                    text.erase(at, static_cast<std::size_t>(prng.integer(1, 20)));
                    break;
                default:
                    text.resize(std::max<std::size_t>(at, 1));
                    break;
            }
        }
        expect_an_answer(seed.kind, text);
    }
}

// Replaces the n-th value of a document, counted in depth-first order.
bool replace_value(Json& value, int& n, const Json& with) {
    if (n-- == 0) {
        value = with;
        return true;
    }
    for (auto& item : value) {
        if (value.is_structured() && replace_value(item, n, with)) return true;
    }
    return false;
}

TEST(ClusterJsonMutation, EveryValueOfAnotherTypeOrSizeIsReadOrRefused) {
    const std::vector<Json> values = {nullptr,
                                      true,
                                      -1,
                                      0,
                                      1e308,
                                      9223372036854775807LL,
                                      18446744073709551615ULL,
                                      0.5,
                                      "",
                                      "x",
                                      Json::array(),
                                      Json::object(),
                                      Json::array({1, "a", nullptr})};
    int mutants = 0;
    for (const Seed& seed : seeds()) {
        const Json document = parsed(seed.text);
        for (const Json& value : values) {
            for (int n = 0;; ++n, ++mutants) {
                Json mutant = document;
                int left = n;
                if (!replace_value(mutant, left, value)) break;
                expect_an_answer(seed.kind, mutant.dump());
            }
        }
    }
    EXPECT_GT(mutants, 500);
}

}  // namespace
}  // namespace tw
