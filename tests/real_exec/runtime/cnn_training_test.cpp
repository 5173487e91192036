// A VGG-like network as `run` trains it: on synthetic labelled images, in every layout the same losses, and
// under PipeDream's plans.
#include <cmath>

#include "models/formats/layer_list.hpp"
#include "tests/real_exec/runtime/train_harness.hpp"

namespace tw {
namespace {

using testing::options_of;
using testing::run_threads;

const char* const kNetwork =
    R"({"schema": "trainwright/layer-list", "version": 1, "name": "vgg-tiny", "source": "test",
  "input": {"channels": 3, "height": 16, "width": 16},
  "layers": [
    {"name": "conv1", "type": "conv", "out_channels": 8, "kernel": 3, "padding": 1},
    {"name": "relu1", "type": "activation", "kind": "relu"},
    {"name": "pool1", "type": "pool", "kind": "max", "kernel": 2},
    {"name": "conv2", "type": "conv", "out_channels": 12, "kernel": 3, "padding": 1},
    {"name": "relu2", "type": "activation", "kind": "relu"},
    {"name": "pool2", "type": "pool", "kind": "average", "kernel": 2},
    {"name": "flatten", "type": "flatten"},
    {"name": "fc1", "type": "linear", "out_features": 32},
    {"name": "relu3", "type": "activation", "kind": "relu"},
    {"name": "fc2", "type": "linear", "out_features": 6}]})";

PlanDocument network_document(const DeviceMesh& mesh, const std::string& schedule, int zero = 0) {
    PlanDocument d;
    auto model = load_layer_list(kNetwork, "vgg-tiny");
    EXPECT_TRUE(model) << (model ? "" : to_string(model.errors()));
    d.graph = model->graph;
    d.model_name = d.graph.name;
    d.cluster = *load_cluster("cpu:" + std::to_string((mesh.devices() + 1) / 2 * 2));
    ParallelPlan& plan = d.plan;
    plan.mesh = mesh;
    plan.schedule = schedule;
    plan.stages = uniform_partition(d.graph, mesh.pp, RecomputeMode::None);
    plan.microbatch = 4;
    plan.global_batch = 16 * mesh.dp;
    plan.microbatches = 4;
    plan.seq_len = 1;
    plan.zero_stage = zero;
    plan.precision.compute = plan.precision.parameters = Precision::Fp32;
    plan.semantics = (*find_schedule(schedule))->info().semantics;
    return d;
}

TrainOptions image_options(std::int64_t steps) {
    TrainOptions options = options_of(steps);
    options.optimizer.rate.peak = 3e-3;
    return options;
}

TEST(CnnTraining, ItLearnsTheClasses) {
    const TrainResult result = run_threads(network_document({}, "1f1b"), image_options(60));
    EXPECT_NEAR(result.steps.front().loss, std::log(6.0), 0.3);
    EXPECT_LT(result.steps.back().loss, 0.75 * result.steps.front().loss);
    EXPECT_GT(result.steps.back().tokens_per_s, 0);  // images
}

TEST(CnnTraining, LayoutsGiveTheSameLosses) {
    PlanDocument one = network_document({}, "1f1b");
    one.plan.global_batch = 32;
    one.plan.microbatches = 8;
    const TrainResult alone = run_threads(one, image_options(8));
    for (const auto& [mesh, schedule, zero] : {std::tuple{DeviceMesh{.dp = 2}, "1f1b", 0},
                                               {DeviceMesh{.dp = 2}, "gpipe", 3},
                                               {DeviceMesh{.dp = 2, .pp = 2}, "zb-h1", 1}}) {
        const TrainResult many = run_threads(network_document(mesh, schedule, zero), image_options(8));
        EXPECT_NEAR(many.steps[0].loss / alone.steps[0].loss, 1, 1e-6) << schedule;
        for (std::size_t i = 0; i < alone.steps.size(); ++i)
            EXPECT_NEAR(many.steps[i].loss / alone.steps[i].loss, 1, 1e-4) << schedule << ", step " << i;
    }
}

// PipeDream's own kind of plan for VGG: the convolutions on several workers, the fully connected layers on
// one.
TEST(CnnTraining, PipeDreamReplicatesTheConvolutions) {
    PlanDocument document = network_document({.pp = 2}, "pipedream");
    document.cluster = *load_cluster("cpu:4");
    document.plan.stages[0].replicas = 3;
    document.plan.global_batch = 24;
    document.plan.microbatches = 6;
    const Errors errors = unsupported_by_executor(document.graph, document.plan);
    ASSERT_TRUE(errors.empty()) << to_string(errors);
    TrainOptions options = image_options(25);
    options.optimizer.rate.peak = 1e-3;
    const TrainResult result = run_threads(document, options);
    ASSERT_EQ(result.ranks.size(), 4U);
    EXPECT_LT(result.steps.back().loss, 0.92 * result.steps.front().loss);
}

}  // namespace
}  // namespace tw
