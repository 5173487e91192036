#include "real_exec/checkpoint/safetensors.hpp"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "real_exec/backend/copy_bytes.hpp"
#include "real_exec/checkpoint/disk_file.hpp"
#include "real_exec/checkpoint/float_convert.hpp"

namespace tw {
namespace {

std::string text_of(std::span<const std::int64_t> shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<std::int64_t> dims_of(const Shape& shape) {
    return {shape.dims.begin(), shape.dims.begin() + shape.rank};
}

// Thousands of names are no help: the nearest alone.
std::string nearest_name(std::string_view name, const std::vector<std::string>& names) {
    const std::string near = nearest(name, names);
    return near.empty() ? "" : fmt::format("did you mean '{}'?", near);
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
    auto mapped = MappedFile::open(path);
    if (!mapped) return mapped.errors();
    SafetensorsFile file;
    file.path_ = path;
    file.file_ = *mapped;
    const std::span<const std::byte> bytes = file.file_->bytes();
    auto header = parse_safetensors_header(bytes, static_cast<std::int64_t>(bytes.size()), path.string());
    if (!header) return header.errors();
    file.header_ = std::move(*header);
    return file;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
    for (const SafetensorsEntry& entry : header_.entries)
        if (entry.name == name) return &entry;
    return nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
    return file_->bytes().subspan(static_cast<std::size_t>(header_.data_begin + entry.begin),
                                  static_cast<std::size_t>(entry.end - entry.begin));
}

Status write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsSource> tensors,
                         const std::map<std::string, std::string>& metadata) {
    for (const SafetensorsSource& tensor : tensors)
        if (tensor.name == kMetadataName)
            return Error{ErrorCode::Failure, "is a name that the format keeps for itself", tensor.name, ""};
    return write_output(path, [&](DiskFile& file) {
        Status written = file.append(safetensors_head(tensors, metadata));
        for (const SafetensorsSource& tensor : tensors)
            if (written) written = file.append(tensor.bytes);
        return written;
    });
}

Result<WeightFiles> WeightFiles::open(const std::filesystem::path& path) {
    std::error_code error;
    std::vector<std::filesystem::path> paths = {path};
    if (std::filesystem::is_directory(path, error)) {
        const std::filesystem::path index = path / "model.safetensors.index.json";
        paths = {path / "model.safetensors"};
        if (!std::filesystem::exists(paths.front(), error) && std::filesystem::exists(index, error)) {
            const auto names = weight_index_files(index);
            if (!names) return names.errors();
            paths.clear();
            for (const std::string& name : *names)
                paths.push_back(path / name);
        }
    }
    WeightFiles weights;
    Errors errors;
    for (const std::filesystem::path& part : paths) {
        auto file = SafetensorsFile::open(part);
        if (!file) {
            errors.insert(errors.end(), file.errors().begin(), file.errors().end());
            continue;
        }
        const std::vector<SafetensorsEntry>& entries = file->header().entries;
        for (std::size_t e = 0; e < entries.size(); ++e) {
            const bool is_new = weights.at_.try_emplace(entries[e].name, weights.files_.size(), e).second;
            if (!is_new) {
                errors.push_back({ErrorCode::Unreadable,
                                  fmt::format("'{}' is in another file too", entries[e].name), part.string(),
                                  ""});
            }
        }
        weights.files_.push_back(std::move(*file));
    }
    if (!errors.empty()) return errors;
    return weights;
}

std::vector<std::string> WeightFiles::names() const {
    std::vector<std::string> names;
    for (const auto& [name, at] : at_)
        names.push_back(name);
    return names;
}

const SafetensorsEntry* WeightFiles::find(std::string_view name) const {
    const auto at = at_.find(name);
    return at == at_.end() ? nullptr : &files_[at->second.first].header().entries[at->second.second];
}

Status WeightFiles::read(std::string_view name, const TensorRegion& region, DType dtype, void* into) const {
    const auto fail = [&](std::string message, std::string hint = {}) {
        return Error{ErrorCode::Unreadable, std::move(message), std::string(name), std::move(hint)};
    };
    const auto at = at_.find(name);
    if (at == at_.end()) return fail("is not among the weights", nearest_name(name, names()));
    const SafetensorsFile& file = files_[at->second.first];
    const SafetensorsEntry& entry = file.header().entries[at->second.second];
    if (const Status legal = check_region(region, name); !legal) return legal;
    const auto type = dtype_of_safetensors(entry.dtype);
    if (!type || (*type == DType::I32) != (dtype == DType::I32))
        return fail(fmt::format("is stored as {}, not as a floating-point type", entry.dtype));
    const Shape wanted = region.stored_shape();
    const std::vector<std::int64_t> dims = dims_of(wanted);
    // An embedding may come with padding rows of its own.
    const bool padded = region.padded_from >= 0 && entry.shape.size() == dims.size() && !dims.empty() &&
                        entry.shape[0] > dims[0] &&
                        std::equal(dims.begin() + 1, dims.end(), entry.shape.begin() + 1);
    if (entry.shape != dims && !padded)
        return fail(fmt::format("has shape {}, the model needs {}", text_of(entry.shape), text_of(dims)));
    const std::byte* const stored = file.bytes(entry).data();
    auto* const target = static_cast<std::byte*>(into);
    clear_bytes(target, static_cast<std::size_t>(region.elements()) * bytes_of(dtype));
    const std::vector<ElementRun> runs = runs_of(region);
    for (const ElementRun& run : runs) {
        convert_elements(stored + static_cast<std::size_t>(run.at) * bytes_of(*type), *type,
                         target + static_cast<std::size_t>(run.local) * bytes_of(dtype), dtype, run.length);
    }
    return ok();
}

}  // namespace tw
