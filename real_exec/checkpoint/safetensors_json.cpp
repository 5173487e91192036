#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/json.hpp"
#include "real_exec/checkpoint/safetensors.hpp"

namespace tw {
namespace {

struct TypeWord {
    std::string_view word;
    std::int64_t bytes;
};
// The words of the format's own table (safetensors/src/tensor.rs, enum Dtype).
constexpr std::array kTypes = {
    TypeWord{"BOOL", 1},    TypeWord{"U8", 1},  TypeWord{"I8", 1},  TypeWord{"F8_E5M2", 1},
    TypeWord{"F8_E4M3", 1}, TypeWord{"I16", 2}, TypeWord{"U16", 2}, TypeWord{"F16", 2},
    TypeWord{"BF16", 2},    TypeWord{"I32", 4}, TypeWord{"U32", 4}, TypeWord{"F32", 4},
    TypeWord{"F64", 8},     TypeWord{"I64", 8}, TypeWord{"U64", 8},
};

std::int64_t bytes_of_word(std::string_view word) {
    for (const TypeWord& type : kTypes)
        if (type.word == word) return type.bytes;
    return 0;
}

// The product of a shape times the bytes of its type; -1 where it overflows.
std::int64_t bytes_of_shape(const std::vector<std::int64_t>& shape, std::int64_t element) {
    std::int64_t bytes = element;
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    for (const std::int64_t size : shape) {
        if (bytes > std::numeric_limits<std::int64_t>::max() / size) return -1;
        bytes *= size;
    }
    return bytes;
}

class HeaderReader {
  public:
    HeaderReader(std::int64_t data_bytes, std::string_view file) : data_bytes_(data_bytes), file_(file) {}

    void read(const Json& json, SafetensorsHeader& header) {
        if (!json.is_object()) {
            error("", "the header is not an object");
            return;
        }
        for (const auto& [name, value] : json.items()) {
            if (name == kMetadataName) {
                metadata(value, header);
            } else {
                entry(name, value, header);
            }
        }
        std::stable_sort(header.entries.begin(), header.entries.end(),
                         [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                             return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
                         });
        if (errors.empty()) coverage(header);
    }

    Errors errors;

  private:
    void error(std::string_view name, std::string message) {
        errors.push_back({ErrorCode::Unreadable, std::move(message),
                          name.empty() ? std::string(file_) : fmt::format("{}: {}", file_, name), ""});
    }

    void metadata(const Json& value, SafetensorsHeader& header) {
        if (!value.is_object()) {
            error(kMetadataName, "is not an object of texts");
            return;
        }
        for (const auto& [key, text] : value.items()) {
            if (text.is_string()) {
                header.metadata[key] = text.get<std::string>();
            } else {
                error(kMetadataName, fmt::format("'{}' is not a text", key));
            }
        }
    }

    void entry(const std::string& name, const Json& value, SafetensorsHeader& header) {
        const std::size_t before = errors.size();
        const JsonObject object(value, fmt::format("{}: /{}", file_, name), errors);
        SafetensorsEntry entry;
        entry.name = name;
        entry.dtype = object.string("dtype");
        for (const std::int64_t size : integers(object, "shape"))
            entry.shape.push_back(size);
        const std::vector<std::int64_t> offsets = integers(object, "data_offsets");
        object.finish();
        if (errors.size() != before) return;
        const std::int64_t element = bytes_of_word(entry.dtype);
        if (element == 0) {
            error(name, fmt::format("unknown type '{}'", entry.dtype));
            return;
        }
        if (offsets.size() != 2) {
            error(name, fmt::format("data_offsets has {} numbers, not 2", offsets.size()));
            return;
        }
        entry.begin = offsets[0];
        entry.end = offsets[1];
        const std::int64_t bytes = bytes_of_shape(entry.shape, element);
        if (bytes < 0) {
            error(name, "the shape has more elements than 63 bits count");
        } else if (entry.end < entry.begin || entry.end > data_bytes_) {
            error(name, fmt::format("bytes {} to {} are out of range: the file has {} bytes of data",
                                    entry.begin, entry.end, data_bytes_));
        } else if (entry.end - entry.begin != bytes) {
            error(name,
                  fmt::format("has {} bytes, its type and shape need {}", entry.end - entry.begin, bytes));
        } else {
            header.entries.push_back(std::move(entry));
        }
    }

    // An array of integers from 0 on.
    std::vector<std::int64_t> integers(const JsonObject& object, std::string_view key) {
        std::vector<std::int64_t> out;
        for (const Json& element : object.array(key)) {
            const bool fits = element.is_number_unsigned()
                                  ? element.get<std::uint64_t>() <=
                                        static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                                  : element.is_number_integer() && element.get<std::int64_t>() >= 0;
            if (!fits) {
                object.error(key, "holds something else than integers from 0 on");
                return {};
            }
            out.push_back(element.get<std::int64_t>());
        }
        return out;
    }

    // Tensors lie one after another from the first byte to the last.
    void coverage(const SafetensorsHeader& header) {
        std::int64_t at = 0;
        const SafetensorsEntry* before = nullptr;
        for (const SafetensorsEntry& entry : header.entries) {
            if (entry.begin < at && before != nullptr) {
                error(entry.name, fmt::format("bytes {} to {} overlap '{}', which ends at {}", entry.begin,
                                              entry.end, before->name, at));
                return;
            }
            if (entry.begin > at) {
                error(entry.name, fmt::format("bytes {} to {} belong to no tensor", at, entry.begin));
                return;
            }
            at = entry.end;
            before = &entry;
        }
        if (at != data_bytes_)
            error("", fmt::format("the tensors end at byte {} of {} bytes of data", at, data_bytes_));
    }

    std::int64_t data_bytes_;
    std::string_view file_;
};

}  // namespace

std::string_view safetensors_word(DType dtype) {
    switch (dtype) {
        case DType::F32:
            return "F32";
        case DType::BF16:
            return "BF16";
        case DType::F16:
            return "F16";
        case DType::I32:
            return "I32";
    }
    return "";
}

std::optional<DType> dtype_of_safetensors(std::string_view word) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16, DType::I32})
        if (safetensors_word(dtype) == word) return dtype;
    return std::nullopt;
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> head, std::int64_t file_bytes,
                                                   std::string_view name) {
    const auto fail = [&](std::string message) {
        return Error{ErrorCode::Unreadable, std::move(message), std::string(name), ""};
    };
    if (file_bytes < 8 || head.size() < 8)
        return fail(fmt::format("is truncated: {} bytes, a safetensors file begins with 8 bytes of length",
                                file_bytes));
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;)
        length = (length << 8U) | std::to_integer<std::uint64_t>(head[i]);
    if (length > static_cast<std::uint64_t>(kMaxSafetensorsHeader))
        return fail(fmt::format("its header of {} bytes is longer than the format's {}", length,
                                kMaxSafetensorsHeader));
    if (length > static_cast<std::uint64_t>(file_bytes - 8) || length > head.size() - 8)
        return fail(fmt::format("is truncated: a header of {} bytes in a file of {}", length, file_bytes));
    std::string text(length, '\0');
    if (length > 0) std::memcpy(text.data(), head.data() + 8, length);
    const auto json = parse_json(text, name);
    if (!json) return json.errors();
    SafetensorsHeader header;
    header.data_begin = 8 + static_cast<std::int64_t>(length);
    HeaderReader reader(file_bytes - header.data_begin, name);
    reader.read(*json, header);
    if (!reader.errors.empty()) return reader.errors;
    return header;
}

std::string safetensors_head(std::span<const SafetensorsSource> tensors,
                             const std::map<std::string, std::string>& metadata) {
    Json json = Json::object();
    if (!metadata.empty()) json[kMetadataName] = metadata;
    std::int64_t at = 0;
    for (const SafetensorsSource& tensor : tensors) {
        const auto end = at + static_cast<std::int64_t>(tensor.bytes.size());
        json[tensor.name] = Json{{"dtype", std::string(safetensors_word(tensor.dtype))},
                                 {"shape", tensor.shape},
                                 {"data_offsets", {at, end}}};
        at = end;
    }
    std::string text = json.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned in memory
    std::string head;
    for (unsigned shift = 0; shift < 64; shift += 8)
        head += static_cast<char>(static_cast<unsigned char>((text.size() >> shift) & 0xffU));
    return head + text;
}

Result<std::vector<std::string>> weight_index_files(const std::filesystem::path& index) {
    const auto json = read_json_file(index);
    if (!json) return json.errors();
    Errors errors;
    const JsonObject object(*json, index.string(), errors);
    std::vector<std::string> files;
    if (const Json* const map = object.find("weight_map"); map == nullptr || !map->is_object()) {
        object.error("weight_map", "is no object of tensor names and files");
    } else {
        for (const auto& [tensor, file] : map->items()) {
            const bool plain = file.is_string() && !file.get_ref<const std::string&>().empty() &&
                               file.get_ref<const std::string&>().find('/') == std::string::npos;
            if (plain) {
                files.push_back(file.get<std::string>());
            } else {
                object.error("weight_map", fmt::format("'{}' names no file of the same folder", tensor));
            }
        }
    }
    if (!errors.empty()) return errors;
    std::sort(files.begin(), files.end());
    files.erase(std::unique(files.begin(), files.end()), files.end());
    return files;
}

}  // namespace tw
