// The timeline's promises: first paint, frames while panning and zooming, memory a task, opening a Chrome
// trace of a gigabyte. Offscreen, 1600 x 900; every frame is a real paint event into the window's backing
// store. BM_OpenChrome writes its file into the temporary folder and deletes it; TW_CHROME_MB sets its size
// (1000).
#include <QApplication>
#include <QThreadPool>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include "base/prng.hpp"
#include "gui/view/flow.hpp"
#include "gui/view/load_trace.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/timeline_view.hpp"

namespace tw::gui {
namespace {

constexpr int kRanks = 64;

// Forwards, backwards and transfers on 64 ranks of 8 nodes, with gaps: what a pipeline looks like. Every even
// rank sends to the odd one after it, which receives at the same time.
std::shared_ptr<const Trace> synthetic(std::int64_t tasks) {
    auto trace = std::make_shared<Trace>();
    trace->title = "synthetic";
    trace->origin = "simulated";
    const auto per_rank = tasks / kRanks;
    for (int r = 0; r < kRanks; ++r) {
        Prng prng(1, static_cast<std::uint64_t>(r / 2));
        RankTrace rank;
        rank.rank = r;
        rank.name = "PP" + std::to_string(r);
        rank.node = "node" + std::to_string(r / 8);
        rank.events.resize(static_cast<std::size_t>(per_rank));
        SimTime now = 0;
        for (std::int64_t n = 0; n < per_rank; ++n) {
            TraceEvent& e = rank.events[static_cast<std::size_t>(n)];
            Instruction& i = e.instruction;
            const bool compute = n % 2 == 0;
            const Opcode transfer = r % 2 == 0 ? Opcode::SendActivation : Opcode::RecvActivation;
            i.opcode = compute ? (n % 4 == 0 ? Opcode::Forward : Opcode::Backward) : transfer;
            i.stream = compute ? Stream::Compute : Stream::P2p;
            i.stage = static_cast<std::uint16_t>(r);
            i.microbatch = static_cast<std::int32_t>(n / 4 % 512);
            i.peer = static_cast<std::uint16_t>(r % 2 == 0 ? r + 1 : r - 1);
            e.index = static_cast<std::uint32_t>(n);
            const SimTime length = prng.integer(5'000'000, compute ? 40'000'000 : 10'000'000);
            if (prng.uniform() < 0.1) now += prng.integer(0, 80'000'000);
            e.arrival = e.start = now;
            e.end = now + length;
            if (compute) now = e.end;
        }
        trace->ranks.push_back(std::move(rank));
    }
    return trace;
}

const std::shared_ptr<const Trace>& report(std::int64_t tasks) {
    static std::map<std::int64_t, std::shared_ptr<const Trace>> kept;
    auto& trace = kept[tasks];
    if (trace == nullptr) {
        kept.clear();
        kept[tasks] = synthetic(tasks);
    }
    return kept[tasks];
}

void show(TimelineView& view) {
    view.resize(1600, 900);
    view.show();
    QApplication::processEvents();
}

// From the report to the first picture on the window.
void BM_FirstPaint(benchmark::State& state) {
    const auto trace = report(state.range(0));
    // The worker that derives flows runs beside it; it is waited for outside the measured time.
    for (auto _ : state) {
        state.PauseTiming();
        auto view = std::make_unique<TimelineView>();
        show(*view);
        state.ResumeTiming();
        view->set_trace(make_trace_model(trace));
        view->viewport()->repaint();
        state.PauseTiming();
        view.reset();
        QThreadPool::globalInstance()->waitForDone();
        state.ResumeTiming();
    }
}

// A window on a trace, made once: the library calls a benchmark several times.
struct Window {
    std::shared_ptr<const TraceModel> model;
    TimelineView view;
    double bytes_a_task = 0;
};
std::map<std::int64_t, std::unique_ptr<Window>>& windows() {
    static std::map<std::int64_t, std::unique_ptr<Window>> kept;
    return kept;
}
Window& window(std::int64_t tasks) {
    auto& kept = windows();
    std::unique_ptr<Window>& made = kept[tasks];
    if (made != nullptr) return *made;
    kept.clear();
    auto fresh = std::make_unique<Window>();
    show(fresh->view);
    fresh->model = make_trace_model(report(tasks));
    fresh->view.set_trace(fresh->model);
    while (!fresh->view.derived_ready())
        QApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 50);
    fresh->view.perform("timeline.flows");  // arrows are an overlay of their own
    const std::size_t bytes = fresh->model->bytes() + FlowIndex(*fresh->model).bytes();
    fresh->bytes_a_task = static_cast<double>(bytes) / static_cast<double>(fresh->model->size());
    return *(kept[tasks] = std::move(fresh));
}

// One frame, at a zoom of 10^range(1) and at every place in turn; the view draws everything anew.
template <bool kZoom>
void frames(benchmark::State& state) {
    Window& shown = window(state.range(0));
    TimelineView& view = shown.view;
    const SimTime end = shown.model->end();
    SimTime span = end;
    for (std::int64_t n = 0; n < state.range(1); ++n)
        span /= 10;
    SimTime at = 0;
    int n = 0;
    for (auto _ : state) {
        ++n;
        if (kZoom) {
            view.set_visible(at, at + span - span / 200 * (n % 100));
        } else {
            at += span / 97 + 1;
            if (at + span > end) at = n % 7;
            view.set_visible(at, at + span);
        }
        view.viewport()->repaint();
    }
    state.counters["bytes_a_task"] = shown.bytes_a_task;
}
void BM_Pan(benchmark::State& state) {
    frames<false>(state);
}
void BM_Zoom(benchmark::State& state) {
    frames<true>(state);
}

// The cursor moves: overlays alone are painted.
void BM_Hover(benchmark::State& state) {
    Window& shown = window(state.range(0));
    TimelineView& view = shown.view;
    view.set_visible(shown.model->end() / 2, shown.model->end() / 2 + shown.model->end() / 1000);
    SimTime time = view.visible_begin();
    for (auto _ : state) {
        time += (view.visible_end() - view.visible_begin()) / 1000;
        if (time > view.visible_end()) time = view.visible_begin();
        view.set_cursor_time(time);
        view.viewport()->repaint();
    }
}

std::filesystem::path chrome_file(std::int64_t megabytes, std::int64_t& events) {
    const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                       ("trainwright-bench-" + std::to_string(::getpid()) + ".json");
    std::FILE* const out = std::fopen(path.c_str(), "wb");
    std::fputs("{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":0},\"traceEvents\":[\n", out);
    Prng prng(2);
    std::int64_t written = 0;
    double now = 1661203462598738.25;
    static constexpr const char* kNames[] = {
        "aten::mm", "aten::add_", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>"};
    while (written < megabytes * 1'000'000) {
        const auto kind = prng.integer(0, 4);
        const bool device = kind >= 2;
        now += static_cast<double>(prng.integer(1, 40)) / 4;
        written += std::fprintf(
            out,
            "%s{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
            "\"args\":{\"External id\":%lld,\"correlation\":%lld,\"stream\":7}}",
            events > 0 ? ",\n" : "", device ? "kernel" : "cpu_op", kNames[kind], device ? 0 : 4711,
            device ? static_cast<int>(7 + kind) : static_cast<int>(4711 + prng.integer(0, 3)), now,
            static_cast<double>(prng.integer(4, 80)) / 8, static_cast<long long>(events),
            static_cast<long long>(events));
        ++events;
    }
    std::fputs("\n]}\n", out);
    std::fclose(out);
    return path;
}

// With a window that is alive beside it: the longest time between two of its turns is reported.
void BM_OpenChrome(benchmark::State& state) {
    const char* const wanted = std::getenv("TW_CHROME_MB");
    const std::int64_t megabytes = wanted != nullptr ? std::atoll(wanted) : 1000;
    std::int64_t events = 0;
    const std::vector<std::filesystem::path> files = {chrome_file(megabytes, events)};
    double longest_progress_gap = 0;
    std::size_t bytes = 0;
    for (auto _ : state) {
        auto last = std::chrono::steady_clock::now();
        const auto model = load_trace_model(files, [&](double) {
            const auto now = std::chrono::steady_clock::now();
            longest_progress_gap =
                std::max(longest_progress_gap, std::chrono::duration<double>(now - last).count());
            last = now;
            return true;
        });
        if (!model) {
            state.SkipWithError(to_string(model.errors()).c_str());
            break;
        }
        bytes = (*model)->bytes() / (*model)->size();
    }
    std::filesystem::remove(files.front());
    state.counters["events"] = static_cast<double>(events);
    state.counters["bytes_a_task"] = static_cast<double>(bytes);
    state.counters["longest_step_s"] = longest_progress_gap;
}

double least(const std::vector<double>& values) {
    return *std::min_element(values.begin(), values.end());
}
// The best of five: other work on the machine only ever adds.
void best_of_five(benchmark::internal::Benchmark* b) {
    b->Unit(benchmark::kMillisecond)
        ->Repetitions(5)
        ->ComputeStatistics("min", least)
        ->MeasureProcessCPUTime();
}

constexpr std::int64_t kMillion = 1'000'000;
BENCHMARK(BM_FirstPaint)->Arg(kMillion)->Arg(10 * kMillion)->Apply(best_of_five)->Iterations(1);
BENCHMARK(BM_Pan)->ArgsProduct({{kMillion}, {0, 1, 2, 3, 4}})->Apply(best_of_five);
BENCHMARK(BM_Zoom)->ArgsProduct({{kMillion}, {0, 2}})->Apply(best_of_five);
BENCHMARK(BM_Hover)->Arg(kMillion)->Apply(best_of_five);
BENCHMARK(BM_Pan)->ArgsProduct({{10 * kMillion}, {0, 1, 2, 3, 4}})->Apply(best_of_five);
BENCHMARK(BM_Zoom)->ArgsProduct({{10 * kMillion}, {0, 2}})->Apply(best_of_five);
BENCHMARK(BM_OpenChrome)->Unit(benchmark::kSecond)->Iterations(1)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace tw::gui

int main(int argc, char** argv) {
    qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication application(argc, argv);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    tw::gui::windows().clear();  // widgets end before their application
    return 0;
}
