// Files in the safetensors format (https://github.com/huggingface/safetensors#format): eight bytes of header
// length, little endian; a JSON object of {name: {"dtype", "shape", "data_offsets"}} and "__metadata__" with
// texts; then the tensors' bytes, row-major, without holes.
//
// Files are mapped. A header is untrusted: every length, offset and product is checked before it is used, and
// what is wrong is named. Only writing converts or copies anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "real_exec/backend/tensor.hpp"
#include "real_exec/checkpoint/mapped_file.hpp"
#include "real_exec/checkpoint/tensor_region.hpp"

namespace tw {

// A header longer than this is refused (the format's reference implementation has the same limit).
inline constexpr std::int64_t kMaxSafetensorsHeader = 100'000'000;
// Beside the tensors in the header: a name that no tensor may have.
inline constexpr const char* kMetadataName = "__metadata__";

struct SafetensorsEntry {
    std::string name;
    std::string dtype;  // the format's word: "F32", "BF16", "I64", ...
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0, end = 0;  // bytes after the header
};

// The format's word for one of ours, and back (empty: one that we do not compute with).
std::string_view safetensors_word(DType dtype);
std::optional<DType> dtype_of_safetensors(std::string_view word);

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> entries;        // ascending in `begin`, then name
    std::map<std::string, std::string> metadata;  // "__metadata__"
    std::int64_t data_begin = 0;                  // of the file: 8 + the header's length
};

// The header of a file of `file_bytes` bytes that starts with `head` (at least 8 + the header's length, or
// the whole file). Errors: too short, a header longer than the file or the limit, bad JSON, duplicate names,
// unknown types, negative or overflowing sizes, offsets out of range, overlapping, with holes, or of another
// length than the shape.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> head, std::int64_t file_bytes,
                                                   std::string_view name);

class SafetensorsFile {
  public:
    static Result<SafetensorsFile> open(const std::filesystem::path& path);

    [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
    [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;
    // The mapped bytes of an entry of this file.
    [[nodiscard]] std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
    std::shared_ptr<MappedFile> file_;
    SafetensorsHeader header_;
};

// One tensor of a file to be written.
struct SafetensorsSource {
    std::string name;
    DType dtype = DType::F32;
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;  // of the whole tensor
};

// The header's text, padded with spaces to a multiple of 8, and the eight bytes before it.
std::string safetensors_head(std::span<const SafetensorsSource> tensors,
                             const std::map<std::string, std::string>& metadata);

// Writes beside and renames. Tensors lie in the order given. Errors: a tensor named kMetadataName, a full
// disk.
Status write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsSource> tensors,
                         const std::map<std::string, std::string>& metadata = {});

// The files that a model.safetensors.index.json names, ascending.
Result<std::vector<std::string>> weight_index_files(const std::filesystem::path& index);

// Weights as Hugging Face lays them out: one file, or a folder with model.safetensors or
// model.safetensors.index.json and its shards.
class WeightFiles {
  public:
    static Result<WeightFiles> open(const std::filesystem::path& path);

    [[nodiscard]] std::vector<std::string> names() const;  // ascending
    [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;
    // Reads a region into host memory of region.elements() elements, converting F32, BF16 and F16; padding is
    // zeroed. Errors: a name that is not there (with the nearest), another shape, a type that is no floating
    // point.
    Status read(std::string_view name, const TensorRegion& region, DType dtype, void* into) const;

  private:
    std::vector<SafetensorsFile> files_;
    std::map<std::string, std::pair<std::size_t, std::size_t>, std::less<>> at_;  // file, entry
};

}  // namespace tw
