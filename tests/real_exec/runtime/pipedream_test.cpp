// Schedules that never flush, against a replay of their weight versions in one process: every version of
// every stage is an array of its own, and which one a microbatch computes with is the papers' closed form,
// not what the instructions say. Nothing of the executor takes part but the layers and the first values.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "base/json.hpp"
#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/checkpoint/checkpoint_json.hpp"
#include "real_exec/checkpoint/crc32c.hpp"
#include "real_exec/data/dataset.hpp"
#include "real_exec/runtime/initialise.hpp"
#include "tests/real_exec/runtime/train_harness.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw {
namespace {

using testing::document_of;
using testing::Family;
using testing::options_of;
using testing::run_threads;
using testing::RunSetup;

// Which version of its weights (updates made so far) a stage computes microbatch b with, forward and
// backward.
using VersionOf = std::function<std::int64_t(int stage, std::int64_t microbatch)>;
// The microbatches whose mean gradient makes one update of a stage.
using GroupOf = std::function<std::int64_t(int stage)>;

class Replay {
  public:
    Replay(const PlanDocument& document, const TrainOptions& options)
        : document_(document), plan_(document.plan), options_(options), transports_(local_transports(1)) {
        DataOptions data;
        data.seed = options.seed;
        data.seq_len = plan_.seq_len;
        data.vocabulary = document.graph.vocab;
        dataset_ = std::move(*Dataset::open(data));
        const std::vector<int> alone = {0};
        group_ = std::move(*transports_[0]->create("alone", alone));
        for (int s = 0; s < plan_.stage_count(); ++s) {
            ModuleContext context;
            context.backend = backend_.get();
            context.tp = context.ep = group_.get();
            context.seed = options.seed;
            auto module = make_stage_module(document.graph, plan_, s, context);
            EXPECT_TRUE(module);
            Stage& stage = stages_.emplace_back();
            stage.module = std::move(*module);
            for (const Parameter& p : stage.module->parameters()) {
                const std::vector<float> first = initial_values(p, options.seed, 0, p.shape.elements());
                stage.versions.resize(1);
                stage.versions[0].push_back({first.begin(), first.end()});
            }
            for (const auto& values : stage.versions[0]) {
                stage.gradient.emplace_back(values.size());
                stage.first.emplace_back(values.size());
                stage.second.emplace_back(values.size());
            }
        }
    }

    // Losses of all steps.
    std::vector<double> run(const VersionOf& version_of, const GroupOf& group_of) {
        std::vector<double> losses(static_cast<std::size_t>(options_.steps));
        const std::int64_t total = options_.steps * plan_.microbatches;
        for (std::int64_t b = 0; b < total; ++b) {
            double loss = 0;
            for (int dp = 0; dp < plan_.mesh.dp; ++dp)
                loss += microbatch(b, dp, version_of, group_of);
            losses[static_cast<std::size_t>(b / plan_.microbatches)] +=
                loss / static_cast<double>(plan_.global_batch * plan_.seq_len);
            for (int s = 0; s < plan_.stage_count(); ++s) {
                if ((b + 1) % group_of(s) == 0) update(stages_[static_cast<std::size_t>(s)]);
            }
        }
        return losses;
    }

  private:
    using Values = std::vector<std::vector<double>>;  // of each parameter
    struct Stage {
        std::unique_ptr<StageModule> module;
        std::vector<Values> versions;
        Values gradient, first, second;
    };

    double microbatch(std::int64_t b, int dp, const VersionOf& version_of, const GroupOf& group_of) {
        std::vector<std::vector<Buffer>> memory;  // parameters and gradients of every stage
        for (int s = 0; s < plan_.stage_count(); ++s)
            memory.push_back(bind(s, version_of(s, b)));
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(plan_.microbatch * plan_.seq_len));
        std::vector<std::int32_t> targets(tokens.size());
        SampleRows rows;
        rows.tokens = tokens.data();
        rows.targets = targets.data();
        Batch batch;
        batch.step = b / plan_.microbatches;
        batch.first_sample = (b % plan_.microbatches * plan_.mesh.dp + dp) * plan_.microbatch;
        EXPECT_TRUE(dataset_->fill(batch.step, batch.first_sample, plan_.microbatch, rows));
        batch.tokens = {tokens.data(), DType::I32, {plan_.microbatch, plan_.seq_len}};
        batch.targets = {targets.data(), DType::I32, {plan_.microbatch, plan_.seq_len}};
        LossResult loss;
        Buffer input;
        for (Stage& stage : stages_) {
            StageModule& m = *stage.module;
            const bool last = &stage == &stages_.back();
            Buffer output;
            if (!last) output = backend_->allocate(DType::F32, m.output_shape(), MemoryUse::Activations);
            m.forward(0, batch, std::move(input), last ? Tensor{} : output.view(DType::F32, m.output_shape()),
                      last ? &loss : nullptr);
            input = std::move(output);
        }
        Buffer gradient;
        for (int s = plan_.stage_count(); s-- > 0;) {
            StageModule& m = *stages_[static_cast<std::size_t>(s)].module;
            Buffer next;
            if (s > 0) next = backend_->allocate(DType::F32, m.input_shape(), MemoryUse::Activations);
            const StageSpec& spec = plan_.stages[static_cast<std::size_t>(s)];
            m.backward(0, gradient ? gradient.view(DType::F32, m.output_shape()) : Tensor{},
                       next ? next.view(DType::F32, m.input_shape()) : Tensor{}, 1, 0,
                       spec.last_layer - spec.first_layer);
            gradient = std::move(next);
            // The mean over the targets that one update of this stage sees.
            const double targets_seen =
                static_cast<double>(group_of(s) * plan_.mesh.dp * plan_.microbatch * plan_.seq_len);
            const std::span<Parameter> parameters = m.parameters();
            for (std::size_t p = 0; p < parameters.size(); ++p) {
                std::vector<double>& sum = stages_[static_cast<std::size_t>(s)].gradient[p];
                for (std::size_t i = 0; i < sum.size(); ++i)
                    sum[i] += static_cast<double>(parameters[p].grad.as<float>()[i]) / targets_seen;
            }
        }
        return loss.sum;
    }

    std::vector<Buffer> bind(int s, std::int64_t version) {
        Stage& stage = stages_[static_cast<std::size_t>(s)];
        std::vector<Buffer> memory;
        const std::span<Parameter> parameters = stage.module->parameters();
        for (std::size_t p = 0; p < parameters.size(); ++p) {
            const std::vector<double>& values = stage.versions.at(static_cast<std::size_t>(version))[p];
            const Shape shape = parameters[p].shape;
            memory.push_back(backend_->allocate(DType::F32, shape, MemoryUse::Parameters));
            parameters[p].value = memory.back().view(DType::F32, shape);
            std::copy(values.begin(), values.end(), parameters[p].value.as<float>());
            memory.push_back(backend_->allocate(DType::F32, shape, MemoryUse::Gradients));
            parameters[p].grad = memory.back().view(DType::F32, shape);
            backend_->fill(parameters[p].grad, 0);
        }
        return memory;
    }

    // AdamW (Loshchilov and Hutter 2019, algorithm 2), or SGD with momentum, in fp64.
    void update(Stage& stage) {
        const OptimizerOptions& o = options_.optimizer;
        const auto t = static_cast<double>(stage.versions.size());
        Values next = stage.versions.back();
        for (std::size_t p = 0; p < next.size(); ++p) {
            const double decay = stage.module->parameters()[p].decay ? o.weight_decay : 0;
            for (std::size_t i = 0; i < next[p].size(); ++i) {
                double& w = next[p][i];
                double& g = stage.gradient[p][i];
                double& m = stage.first[p][i];
                double& v = stage.second[p][i];
                if (plan_.optimizer == OptimizerKind::Adam) {
                    m = o.beta1 * m + (1 - o.beta1) * g;
                    v = o.beta2 * v + (1 - o.beta2) * g * g;
                    const double step = m / (1 - std::pow(o.beta1, t)) /
                                        (std::sqrt(v / (1 - std::pow(o.beta2, t))) + o.epsilon);
                    w -= o.rate.peak * (step + decay * w);
                } else {
                    m = o.momentum * m + g + decay * w;
                    w -= o.rate.peak * m;
                }
                g = 0;
            }
        }
        stage.versions.push_back(std::move(next));
    }

    const PlanDocument& document_;
    const ParallelPlan& plan_;
    const TrainOptions& options_;
    std::unique_ptr<Backend> backend_ = make_cpu_backend();
    std::vector<std::unique_ptr<Transport>> transports_;
    std::unique_ptr<Communicator> group_;
    std::unique_ptr<Dataset> dataset_;
    std::vector<Stage> stages_;
};

double largest_difference(const std::vector<double>& expected, const TrainResult& got) {
    EXPECT_EQ(expected.size(), got.steps.size());
    double worst = 0;
    for (std::size_t i = 0; i < expected.size() && i < got.steps.size(); ++i)
        worst = std::max(worst, std::abs(got.steps[i].loss / expected[i] - 1));
    return worst;
}

// Narayanan et al. 2019, sections 3.2 and 3.3: stage s, on R_s workers in turn, keeps
// ceil((workers from s on) / R_s) microbatches in flight on each; the j-th of a worker meets the weights that
// all but the ones in flight have updated.
VersionOf pipedream_versions(const ParallelPlan& plan, std::int64_t further_back = 0) {
    return [&plan, further_back](int stage, std::int64_t b) {
        std::int64_t workers = 0;
        for (int s = stage; s < plan.stage_count(); ++s)
            workers += plan.stages[static_cast<std::size_t>(s)].replicas;
        const std::int64_t own = plan.stages[static_cast<std::size_t>(stage)].replicas;
        const std::int64_t in_flight = (workers + own - 1) / own;
        return std::max<std::int64_t>(0, b / own - (in_flight - 1) - further_back);
    };
}

// The same where the pipeline drains before microbatch `cut` and fills anew.
VersionOf drained_versions(const ParallelPlan& plan, std::int64_t cut) {
    return [&plan, cut](int stage, std::int64_t b) {
        const VersionOf undisturbed = pipedream_versions(plan);
        if (b < cut) return undisturbed(stage, b);
        const std::int64_t own = plan.stages[static_cast<std::size_t>(stage)].replicas;
        return cut / own + undisturbed(stage, b - cut);
    };
}

// Microbatches for an update of each stage: one on each of its replicas.
GroupOf one_on_each_replica(const ParallelPlan& plan) {
    return [&plan](int s) { return std::int64_t{plan.stages[static_cast<std::size_t>(s)].replicas}; };
}

RunSetup pipedream(int stages, int dp, OptimizerKind optimizer) {
    RunSetup setup;
    setup.family = Family::Llama;
    setup.tied = false;
    setup.mesh = {.dp = dp, .pp = stages};
    setup.schedule = "pipedream";
    setup.global_batch = 4 * dp;
    setup.optimizer = optimizer;
    return setup;
}

TEST(PipeDream, EqualsTheReplayOfItsWeightVersions) {
    for (const OptimizerKind optimizer : {OptimizerKind::SgdMomentum, OptimizerKind::Adam}) {
        for (const auto& [stages, dp] : {std::pair{2, 1}, {4, 1}, {2, 2}}) {
            const PlanDocument document = document_of(pipedream(stages, dp, optimizer));
            TrainOptions options = options_of(6);
            options.optimizer.rate.peak = optimizer == OptimizerKind::Adam ? 3e-3 : 0.05;
            const TrainResult run = run_threads(document, options);
            const GroupOf one = [](int) { return 1; };
            const ParallelPlan& plan = document.plan;
            const double difference =
                largest_difference(Replay(document, options).run(pipedream_versions(plan), one), run);
            EXPECT_LT(difference, 2e-5) << stages << " stages, dp " << dp;
            // The measure sees a version that is one update older.
            const double wrong =
                largest_difference(Replay(document, options).run(pipedream_versions(plan, 1), one), run);
            EXPECT_GT(wrong, 20 * difference) << stages << " stages, dp " << dp;
        }
    }
}

// Two stages on so many workers each, six microbatches a step.
PlanDocument replicated(int first, int second) {
    RunSetup setup = pipedream(2, 1, OptimizerKind::Adam);
    setup.global_batch = 6;
    PlanDocument document = document_of(setup);
    document.plan.stages[0].replicas = first;
    document.plan.stages[1].replicas = second;
    document.cluster = *load_cluster("cpu:4");
    return document;
}

TEST(PipeDream, ReplicatedStagesEqualTheReplay) {
    for (const auto& [first, second] : {std::pair{2, 1}, {1, 2}, {3, 1}}) {
        const PlanDocument document = replicated(first, second);
        const TrainOptions options = options_of(6);
        const TrainResult run = run_threads(document, options);
        const ParallelPlan& plan = document.plan;
        const GroupOf replicas = one_on_each_replica(plan);
        const double difference =
            largest_difference(Replay(document, options).run(pipedream_versions(plan), replicas), run);
        EXPECT_LT(difference, 2e-5) << first << "-" << second;
        const double wrong =
            largest_difference(Replay(document, options).run(pipedream_versions(plan, 1), replicas), run);
        EXPECT_GT(wrong, 20 * difference) << first << "-" << second;
    }
}

// Each stage goes on with its own number of updates.
TEST(PipeDream, ReplicatedStagesGoOnFromACheckpoint) {
    for (const auto& [first, second] : {std::pair{2, 1}, {1, 2}, {3, 1}}) {
        const TemporaryFolder folder;
        const PlanDocument document = replicated(first, second);
        const ParallelPlan& plan = document.plan;
        TrainOptions options = options_of(2);
        options.checkpoint_folder = folder.path().string();
        TrainResult run = run_threads(document, options);
        options.steps = 6;
        options.resume_folder = options.checkpoint_folder;
        const TrainResult rest = run_threads(document, options);
        run.steps.insert(run.steps.end(), rest.steps.begin(), rest.steps.end());
        const VersionOf versions = drained_versions(plan, 2 * plan.microbatches);
        EXPECT_LT(largest_difference(Replay(document, options).run(versions, one_on_each_replica(plan)), run),
                  2e-5)
            << first << "-" << second;
        const auto checkpoint = open_checkpoint(folder.path(), 6);
        ASSERT_TRUE(checkpoint) << to_string(checkpoint.errors());
        std::map<int, std::int64_t> expected;
        for (const StageSpec& stage : plan.stages) {
            for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
                expected[layer] = 36 / stage.replicas;
        }
        EXPECT_EQ(checkpoint->state().layer_updates, expected);
    }
}

// Rewrites a checkpoint's indexes as those of version 1, which have no counts by layer.
void forget_layer_updates(const std::filesystem::path& folder) {
    const auto text = [&](const std::string& name) { return *read_text_file(folder / name); };
    const auto put = [&](const std::string& name, const std::string& content) {
        std::ofstream(folder / name, std::ios::binary) << content;
    };
    const auto crc_of = [](const std::string& of) {
        return crc32c(std::as_bytes(std::span(of.data(), of.size())));
    };
    CheckpointManifest manifest = *manifest_from_text(text("manifest.json"), "manifest");
    for (std::size_t rank = 0; rank < manifest.parts.size(); ++rank) {
        const std::string name = part_file(static_cast<int>(rank), ".json");
        Json json = *parse_json(text(name), name);
        json.erase("crc32c");
        json.erase("layer_updates");
        json["version"] = 1;
        const std::uint32_t seal = crc_of(json.dump());
        json["crc32c"] = seal;
        const std::string index = json.dump(1) + "\n";
        put(name, index);
        manifest.parts[rank].index_bytes = static_cast<std::int64_t>(index.size());
        manifest.parts[rank].index_crc32c = crc_of(index);
    }
    put("manifest.json", manifest_text(manifest));
}

// A layout whose stages are others takes the counts by layer; where they are equal, one for all says the
// same.
TEST(PipeDream, CheckpointsKnowTheUpdatesOfLayersWhateverTheLayout) {
    for (const bool old : {false, true}) {
        const TemporaryFolder folder;
        const PlanDocument document = replicated(old ? 1 : 2, 1);
        TrainOptions options = options_of(2);
        options.checkpoint_folder = folder.path().string();
        (void)run_threads(document, options);
        const std::map<int, std::int64_t> written = open_checkpoint(folder.path(), 2)->state().layer_updates;
        EXPECT_EQ(written.size(), static_cast<std::size_t>(document.graph.size()));
        if (old) forget_layer_updates(folder.path() / "step-00000002");
        EXPECT_EQ(open_checkpoint(folder.path(), 2)->state().layer_updates.empty(), old);
        RunSetup whole = pipedream(1, 1, OptimizerKind::Adam);
        whole.schedule = "1f1b";
        whole.global_batch = 6;
        options.steps = 5;
        options.resume_folder = options.checkpoint_folder;
        const TrainResult run = run_threads(document_of(whole), options);
        EXPECT_EQ(run.steps.size(), 3U);
        std::map<int, std::int64_t> expected = written;
        for (auto& [layer, updates] : expected)
            updates += 3;
        EXPECT_EQ(open_checkpoint(folder.path(), 5)->state().layer_updates, expected);
    }
}

// Narayanan et al. 2021, section 3.1: W(t+1) = W(t) - rate * gradient of batch t at W(t-1).
TEST(PipeDream, DoubleBufferedWeightsAreOneUpdateOld) {
    for (const OptimizerKind optimizer : {OptimizerKind::SgdMomentum, OptimizerKind::Adam}) {
        for (const auto& [stages, dp] : {std::pair{2, 1}, {4, 1}, {2, 2}}) {
            RunSetup setup = pipedream(stages, dp, optimizer);
            setup.schedule = "pipedream-2bw";
            const PlanDocument document = document_of(setup);
            TrainOptions options = options_of(8);
            options.optimizer.rate.peak = optimizer == OptimizerKind::Adam ? 3e-3 : 0.05;
            const TrainResult run = run_threads(document, options);
            const std::int64_t batch = document.plan.microbatches;
            const auto delayed = [batch](std::int64_t by) -> VersionOf {
                return [batch, by](int, std::int64_t b) { return std::max<std::int64_t>(0, b / batch - by); };
            };
            const GroupOf whole = [batch](int) { return batch; };
            const double difference =
                largest_difference(Replay(document, options).run(delayed(1), whole), run);
            EXPECT_LT(difference, 2e-5) << stages << " stages, dp " << dp;
            for (const std::int64_t by : {0, 2}) {
                EXPECT_GT(largest_difference(Replay(document, options).run(delayed(by), whole), run),
                          20 * difference)
                    << stages << " stages, dp " << dp << ", delay " << by;
            }
        }
    }
}

TEST(PipeDream, LossesFallAsTheyDoWithAFlush) {
    const TrainResult run = run_threads(document_of(pipedream(2, 1, OptimizerKind::Adam)), options_of(30));
    ASSERT_EQ(run.steps.size(), 30U);
    EXPECT_LT(run.steps.back().loss, run.steps.front().loss - 1.0);
}

}  // namespace
}  // namespace tw
