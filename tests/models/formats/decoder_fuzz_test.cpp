// Every decoder on truncated and mutated documents: a value or errors of code Unreadable, never a crash.
// Seeded, so that a failure repeats.
#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "models/data/embedded.hpp"
#include "models/formats/document.hpp"
#include "models/formats/layer_list.hpp"
#include "models/formats/nccl_tests.hpp"
#include "models/formats/nccl_xml.hpp"
#include "models/formats/pipedream_graph.hpp"
#include "models/formats/topo_matrix.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

struct Decoder {
    const char* name;
    std::string sample;
    Errors (*decode)(std::string_view text);
};

template <class T>
Errors errors_of(const Result<T>& result) {
    return result.has_value() ? Errors{} : result.errors();
}

// What a document may be turned into and still be decoded must also work: shapes of every layer are asked.
Errors decode_model(const Result<LoadedModel>& model) {
    if (!model) return model.errors();
    WorkShape shape;
    for (int i = 0; i < model->graph.size(); ++i) {
        const LayerWork work = model->graph.layer(i).model->work(shape);
        EXPECT_GE(work.dense_parameters, 0);
    }
    return {};
}

std::vector<Decoder> decoders() {
    const std::string graph =
        "node1 -- Input -- forward_compute_time=5.0, backward_compute_time=0.0, activation_size=48.0, "
        "parameter_size=0.0\n"
        "node2 -- Conv2d(3, 8) -- forward_compute_time=2.0, backward_compute_time=3.0, "
        "activation_size=[64.0; 64.0], "
        "parameter_size=896.0 -- stage_id=0\n"
        "node3 -- Linear(in_features=8, out_features=2) -- forward_compute_time=1.0, "
        "backward_compute_time=1.0, "
        "activation_size=32.0, parameter_size=72.0\n\tnode1 -- node2\n\tnode2 -- node3\n";
    const std::string log =
        "# nccl-tests version 2.19.6 nccl-library=23007\n# Rank 0 Group 0 Pid 1 on host0 device 0 [0x10] "
        "NVIDIA H100\n"
        "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "1024 256 float sum -1 10.00 0.10 0.18 0 10.00 0.10 0.18 0\n"
        "1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 6281.2 170.95 299.15 0\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 149.7\n";
    const std::string matrix =
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV12\tPIX\t0-15\t0\nGPU1\tNV12\t X "
        "\tSYS\t16-31\t1\n"
        "NIC0\tPIX\tSYS\t X \t\n\nNIC Legend:\n\n  NIC0: mlx5_0\n";
    const std::string xml =
        R"(<system version="1"><cpu numaid="0" arch="x86_64"><pci busid="a" class="0x030200" link_speed="16 GT/s" link_width="16">
           <gpu dev="0" sm="80" rank="0"><nvlink target="b" count="12" tclass="0x068000"/></gpu></pci><nic>
           <net name="mlx5_0" dev="0" speed="200000" port="1" gdr="1"/></nic></cpu></system>)";
    const std::string graphs =
        R"(<graphs version="1"><graph id="0" pattern="4" nchannels="1" speedintra="12" speedinter="12" typeintra="SYS"
           typeinter="PIX"><channel><gpu dev="0"/></channel></graph></graphs>)";
    const std::string layers =
        R"({"schema": "trainwright/layer-list", "version": 1, "input": {"channels": 3, "height": 8, "width": 8}, "layers": [
           {"name": "c", "type": "conv", "out_channels": 4, "kernel": [3, 3], "padding": 1, "block": "b"},
           {"name": "n", "type": "norm", "block": "b"}, {"name": "r", "type": "activation", "kind": "relu", "block": "b"},
           {"name": "p", "type": "pool", "kernel": 2}, {"name": "a", "type": "add", "inputs": ["p", "p"]},
           {"name": "f", "type": "flatten"}, {"name": "l", "type": "linear", "out_features": 10}]})";
    return {
        {"pipedream", graph, [](std::string_view t) { return decode_model(load_pipedream_graph(t, "f")); }},
        {"nccl-tests", log, [](std::string_view t) { return errors_of(parse_nccl_tests(t, "f")); }},
        {"topo-m", matrix, [](std::string_view t) { return errors_of(parse_topo_matrix(t, "f")); }},
        {"topology", xml, [](std::string_view t) { return errors_of(parse_nccl_topology(t, "f")); }},
        {"graphs", graphs, [](std::string_view t) { return errors_of(parse_nccl_graphs(t, "f")); }},
        {"layer-list", layers, [](std::string_view t) { return decode_model(load_layer_list(t, "f")); }},
        {"inspect", layers, [](std::string_view t) { return errors_of(inspect_text(t, "f")); }},
        {"inspect graph", graph, [](std::string_view t) { return errors_of(inspect_text(t, "f")); }}};
}

void expect_unreadable(const Decoder& decoder, std::string_view text) {
    for (const Error& error : decoder.decode(text)) {
        EXPECT_EQ(error.code, ErrorCode::Unreadable) << decoder.name << ": " << to_string(error);
        EXPECT_FALSE(error.message.empty()) << decoder.name;
        for (const char c : error.message)
            EXPECT_TRUE(c >= ' ' || c < 0) << decoder.name << ": " << error.message;
    }
}

TEST(DecoderFuzz, SamplesAreRead) {
    for (const Decoder& decoder : decoders()) {
        EXPECT_TRUE(decoder.decode(decoder.sample).empty())
            << decoder.name << ": " << to_string(decoder.decode(decoder.sample));
    }
}

TEST(DecoderFuzz, EveryTruncation) {
    for (const Decoder& decoder : decoders()) {
        for (std::size_t length = 0; length < decoder.sample.size(); ++length) {
            expect_unreadable(decoder, std::string_view(decoder.sample).substr(0, length));
        }
    }
}

TEST(DecoderFuzz, SeededMutations) {
    // Bytes and words that break decoders: signs, huge numbers, non-numbers, structure, NUL, invalid UTF-8.
    const std::vector<std::string> pieces = {"-",        "9",    "99999999999999999999",
                                             "1e308",    "nan",  "inf",
                                             "0",        "\t",   "\n",
                                             "\"",       "{",    "[",
                                             "]",        "<",    ">",
                                             "--",       ": ",   std::string(1, '\0'),
                                             "\xff\xfe", " -- ", "GPU0",
                                             "-1",       "0.5"};
    for (const Decoder& decoder : decoders()) {
        Prng random(20261129);
        const auto below = [&](std::size_t n) {
            return static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(n) - 1));
        };
        for (int round = 0; round < scaled(3000); ++round) {
            std::string text = decoder.sample;
            const auto edits = 1 + below(4);
            for (std::size_t edit = 0; edit < edits && !text.empty(); ++edit) {
                const auto at = below(text.size());
                const std::string& piece = pieces[below(pieces.size())];
                switch (below(4)) {
                    case 0:
                        text.insert(at, piece);
                        break;
                    case 1:
                        text.replace(at, std::min(piece.size(), text.size() - at), piece);
                        break;
                    case 2:
                        text.erase(at, 1 + below(12));
                        break;
                    default:
                        text.insert(at, text.substr(below(text.size()), 40));
                        break;
                }
            }
            expect_unreadable(decoder, text);
        }
    }
}

}  // namespace
}  // namespace tw
