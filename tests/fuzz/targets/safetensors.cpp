// Files of weights: read, or refused as unreadable; tensors that were accepted lie within the file, without
// holes, and are read whole.
#include "real_exec/checkpoint/safetensors.hpp"

#include <filesystem>
#include <vector>

#include "base/json.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

void read_whole(const tw::WeightFiles& weights, const tw::SafetensorsEntry& entry) {
    constexpr std::int64_t kMost = 1 << 16;
    if (entry.shape.size() > 4) return;
    tw::Shape shape;
    for (const std::int64_t size : entry.shape)
        shape.dims[static_cast<std::size_t>(shape.rank++)] = size;
    const tw::TensorRegion region = tw::whole_region(shape);
    if (!tw::check_region(region, entry.name) || region.elements() > kMost) return;
    for (const tw::DType dtype : {tw::DType::F32, tw::DType::BF16, tw::DType::I32}) {
        std::vector<std::byte> memory(static_cast<std::size_t>(region.elements()) * tw::bytes_of(dtype));
        const tw::Status read = weights.read(entry.name, region, dtype, memory.data());
        if (!read) tw::fuzz::require_refusal(read.errors());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const tw::TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "model.safetensors";
    if (!tw::write_text_file(path, tw::fuzz::text_of(data, size))) return 0;
    const auto file = tw::SafetensorsFile::open(path);
    tw::fuzz::require_value_or_refusal(file);
    const auto weights = tw::WeightFiles::open(path);
    tw::fuzz::require(weights.has_value() == file.has_value(), "one reader accepts what the other refuses");
    if (!file) return 0;
    std::int64_t at = 0;
    for (const tw::SafetensorsEntry& entry : file->header().entries) {
        tw::fuzz::require(entry.begin == at && entry.end >= at, "a hole between tensors", entry.name);
        at = entry.end;
        tw::fuzz::require(weights->find(entry.name) != nullptr, "a tensor is not found", entry.name);
        read_whole(*weights, entry);
    }
    tw::fuzz::require(file->header().data_begin + at == static_cast<std::int64_t>(size),
                      "tensors that end elsewhere than the file");
    return 0;
}
