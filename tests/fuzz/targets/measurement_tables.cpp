// Published microbenchmark tables: the first byte says which of them the rest is taken for.
#include <array>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "profiler/fit/measurements.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

using tw::Folder;

struct Table {
    const char* file;
    void (*read)(const Folder& hw);
};

template <class T>
void answer(const tw::Result<T>& result) {
    tw::fuzz::require_value_or_refusal(result);
}

constexpr std::array kTables = {
    Table{"aiconfigurator/gemm_x.csv.gz", [](const Folder& hw) { answer(tw::read_gemm_table(hw, "x")); }},
    Table{"aiconfigurator/attn_context_x.csv.gz",
          [](const Folder& hw) { answer(tw::read_attention_table(hw, "x")); }},
    Table{"aiconfigurator/nccl_all.csv.gz", [](const Folder& hw) { answer(tw::read_nccl_table(hw, "x")); }},
    Table{"deepbench/train_DeepBench_NV_V100__Results_FP32.csv",
          [](const Folder& hw) {
              answer(tw::read_deepbench_gemm(hw, tw::Precision::Fp32));
              answer(tw::read_deepbench_convolution(hw, tw::Precision::Fp32));
          }},
    Table{"vidur_network/data__profiling__network__x__send_recv.csv.gz",
          [](const Folder& hw) { answer(tw::read_vidur_send_recv(hw, "x")); }},
    Table{"vidur_compute/data__profiling__compute__x__1.csv.gz",
          [](const Folder& hw) { answer(tw::read_vidur_kernels(hw, "x")); }},
    Table{"h200_torch/micro_rows.jsonl", [](const Folder& hw) { answer(tw::read_torch_rows(hw)); }},
    Table{"gpu_benches.json",
          [](const Folder& hw) {
              answer(tw::read_small_kernels(hw, "a100_80_graph"));
              answer(tw::read_stream_rate(hw, "v100", "triad"));
          }},
};

struct Scratch {
    Folder path = std::filesystem::temp_directory_path() / ("trainwright-fuzz-" + std::to_string(getpid()));
    Scratch() {
        for (const Table& table : kTables)
            std::filesystem::create_directories((path / table.file).parent_path());
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Scratch scratch;
    if (size == 0) return 0;
    const Table& table = kTables[data[0] % kTables.size()];
    std::ofstream(scratch.path / table.file, std::ios::binary) << tw::fuzz::text_of(data + 1, size - 1);
    table.read(scratch.path);
    return 0;
}
