#include "models/formats/pipedream_graph.hpp"

#include <gtest/gtest.h>

#include "models/families/profiled.hpp"

namespace tw {
namespace {

// A convolution, a branch around a ReLU, and a classifier, written out of order.
constexpr const char* kGraph =
    "# a comment\n"
    "node10 -- Linear(in_features=8, out_features=10, bias=True) -- forward_compute_time=0.500, "
    "backward_compute_time=1.000, activation_size=1280.000, parameter_size=360.000\n"
    "node1 -- Input -- forward_compute_time=25.0, backward_compute_time=0.000, activation_size=9216.000, "
    "parameter_size=0.000\n"
    "node2 -- Conv2d(3, 8, kernel_size=(3, 3)) -- forward_compute_time=2.000, backward_compute_time=3.000, "
    "activation_size=1024.000, parameter_size=896.000\n"
    "node3 -- ReLU(inplace) -- forward_compute_time=0.250, backward_compute_time=0.125, "
    "activation_size=1024.000, "
    "parameter_size=0.000\n"
    "node4 -- Add(inplace=False) -- forward_compute_time=0.125, backward_compute_time=0.000, "
    "activation_size=[512.000; 512.000], parameter_size=0.000 -- stage_id=1\n"
    "\tnode1 -- node2\n"
    "\tnode2 -- node3\n"
    "\tnode2 -- node4\n"
    "\tnode3 -- node4\n"
    "\tnode4 -- node10\n";

TEST(PipeDreamGraph, ReadsNodesEdgesAndTheMinibatch) {
    const auto graph = parse_pipedream_graph(kGraph, "graph.txt");
    ASSERT_TRUE(graph.has_value()) << to_string(graph.errors());
    ASSERT_EQ(graph->nodes.size(), 5U);
    const char* expected[] = {"node1", "node2", "node3", "node4", "node10"};
    for (std::size_t i = 0; i < 5; ++i)
        EXPECT_EQ(graph->nodes[i].id, expected[i]);
    EXPECT_DOUBLE_EQ(graph->nodes[1].forward_s, 2e-3);
    EXPECT_DOUBLE_EQ(graph->nodes[3].activation_bytes, 1024);
    EXPECT_EQ(graph->nodes[3].stage, 1);
    EXPECT_EQ(graph->edges.size(), 5U);
    EXPECT_EQ(graph->minibatch, 32);  // 1280 / 4 / 10
}

TEST(PipeDreamGraph, BecomesALayerGraph) {
    const auto loaded = load_pipedream_graph(kGraph, "toy");
    ASSERT_TRUE(loaded.has_value()) << to_string(loaded.errors());
    const LayerGraph& graph = loaded->graph;
    ASSERT_EQ(graph.size(), 4);  // the input is left out
    EXPECT_EQ(graph.blocks, 4);
    EXPECT_FALSE(graph.counts_tokens);
    EXPECT_FALSE(graph.measured_on.empty());
    EXPECT_EQ(loaded->warnings.size(), 4U);
    EXPECT_EQ(boost::num_edges(graph.dag), 4U);
    EXPECT_EQ(graph.layer(0).model->parameters(), 224);
    EXPECT_EQ(graph.layer(3).model->parameters(), 90);

    WorkShape shape;
    shape.microbatch = 64;  // twice the profiled 32
    const LayerWork convolution = graph.layer(0).model->work(shape);
    ASSERT_EQ(convolution.forward.size(), 1U);
    EXPECT_DOUBLE_EQ(std::get<MeasuredOp>(convolution.forward[0].body).seconds, 4e-3);
    // It reads only the input, so its backward makes no input gradient.
    ASSERT_EQ(convolution.backward.size(), 1U);
    EXPECT_EQ(convolution.backward[0].phase, Phase::BackwardWeight);
    EXPECT_DOUBLE_EQ(std::get<MeasuredOp>(convolution.backward[0].body).seconds, 6e-3);
    EXPECT_EQ(convolution.dense_parameters, 224);

    const LayerWork relu = graph.layer(1).model->work(shape);
    EXPECT_TRUE(relu.saved.empty());  // in place
    const LayerWork linear = graph.layer(3).model->work(shape);
    ASSERT_EQ(linear.backward.size(), 2U);
    EXPECT_DOUBLE_EQ(std::get<MeasuredOp>(linear.backward[0].body).seconds, 1e-3);
    EXPECT_EQ(linear.backward[0].phase, Phase::BackwardInput);
    EXPECT_EQ(linear.backward[1].phase, Phase::BackwardWeight);
    EXPECT_EQ(graph.layer(3).model->divisibility().front().value, 1);
    const auto edge = *boost::edges(graph.dag).first;
    EXPECT_DOUBLE_EQ(graph.dag[edge].elements_per_token, 1024 / 4.0 / 32);
}

TEST(PipeDreamGraph, ErrorsCarryTheLine) {
    const std::string ok =
        "n1 -- A -- forward_compute_time=1, backward_compute_time=1, activation_size=4, "
        "parameter_size=0\n";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "no node"},
        {"hello world\n", "g:1: not a node"},
        {ok + "n2 -- B -- forward_compute_time=-1, backward_compute_time=1, activation_size=4, "
              "parameter_size=0\n",
         "g:2: forward_compute_time=-1"},
        {ok + "n2 -- B -- forward_compute_time=nan, backward_compute_time=1, activation_size=4, "
              "parameter_size=0\n",
         "g:2: forward_compute_time=nan"},
        {ok + "n2 -- B -- forward_compute_time=1, backward_compute_time=1, activation_size=4\n",
         "g:2: parameter_size is missing"},
        {ok + ok, "g:2: node 'n1' is defined twice"},
        {ok + "\tn1 -- n9\n", "g:2: edge to 'n9'"},
        {ok + "\tn1 -- n1\n", "on a cycle"},
        {ok + "\tn1 n2\n", "g:2: not an edge"},
    };
    for (const auto& [text, message] : cases) {
        const auto result = parse_pipedream_graph(text, "g");
        ASSERT_FALSE(result.has_value()) << text;
        EXPECT_EQ(result.error().code, ErrorCode::Unreadable);
        EXPECT_NE(to_string(result.errors()).find(message), std::string::npos) << to_string(result.errors());
    }
}

TEST(PipeDreamGraph, IsRecognised) {
    EXPECT_TRUE(looks_like_pipedream_graph(kGraph));
    EXPECT_FALSE(looks_like_pipedream_graph("{\"a\": 1}"));
    EXPECT_FALSE(looks_like_pipedream_graph(""));
    EXPECT_FALSE(looks_like_pipedream_graph("usage -- text\n"));
}

}  // namespace
}  // namespace tw
