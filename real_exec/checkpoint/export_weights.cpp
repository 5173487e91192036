#include "real_exec/checkpoint/export_weights.hpp"

#include "real_exec/checkpoint/safetensors.hpp"

namespace tw {

Status export_weights(const Checkpoint& checkpoint, const std::filesystem::path& path, DType dtype) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<SafetensorsSource> sources;
    for (const Checkpoint::Entry& entry : checkpoint.entries()) {
        if (entry.kind != "weight") continue;
        auto& bytes = memory.emplace_back(static_cast<std::size_t>(entry.shape.elements()) * bytes_of(dtype));
        if (const Status read =
                checkpoint.read(entry.kind, entry.name, whole_region(entry.shape), dtype, bytes.data());
            !read)
            return read;
        sources.push_back({entry.name,
                           dtype,
                           {entry.shape.dims.begin(), entry.shape.dims.begin() + entry.shape.rank},
                           bytes});
    }
    if (sources.empty())
        return Error{ErrorCode::Unreadable, "holds no weights", checkpoint.path().string(), ""};
    // "pt" is what transformers asks for (modeling_utils.py, load_state_dict).
    return write_safetensors(path, sources, {{"format", "pt"}});
}

}  // namespace tw
