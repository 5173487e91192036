// Documents of measured rows: which shape each row has.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "sim/validate/row_fields_json.hpp"
#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_shapes_json.hpp"

namespace tw {
namespace {

// Python's json writes numbers that JSON has not; in a table they say nothing. Strings stay as they are.
std::string without_python_numbers(std::string_view text) {
    static constexpr std::array<std::string_view, 3> kNames = {"-Infinity", "Infinity", "NaN"};
    std::string result;
    result.reserve(text.size());
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string && c == '\\' && i + 1 < text.size()) {
            result += c;
            result += text[++i];
            continue;
        }
        if (c == '"') in_string = !in_string;
        const auto is_here = [&](std::string_view name) { return begins(text.substr(i), name); };
        const auto* name = in_string ? kNames.end() : std::find_if(kNames.begin(), kNames.end(), is_here);
        if (name == kNames.end()) {
            result += c;
        } else {
            result += "null";
            i += name->size() - 1;
        }
    }
    return result;
}

Result<Json> parse_rows(std::string_view text, const std::string& path) {
    auto json = parse_json(text, path);
    if (!json) {
        auto other = parse_json(without_python_numbers(text), path);
        if (!other) return json.errors();
        json = std::move(other);
    }
    if (json->is_object() && json->contains("rows")) {
        Json rows = std::move((*json)["rows"]);
        *json = std::move(rows);
    }
    if (!json->is_array())
        return Error{ErrorCode::Unreadable, "expected an array of measured rows", path, ""};
    return json;
}

// A key counts where it is null: "hardware": null is a row that states no hardware.
std::optional<TruthShape> shape_of(const Json& item) {
    if (!item.is_object()) return std::nullopt;
    if (item.contains("test") && (item.contains("args") || item.contains("golden")))
        return TruthShape::Functional;
    if (item.contains("step_s")) return TruthShape::SingleDevice;
    const int parts = (item.contains("id") ? 1 : 0) + (item.contains("model") ? 1 : 0) +
                      (item.contains("hardware") ? 1 : 0);
    return parts >= 2 ? std::optional(TruthShape::Main) : std::nullopt;
}

TruthRow row_of(const Json& item, TruthShape shape, const std::string& pointer, std::size_t index) {
    Errors errors;
    const JsonObject object(item, pointer, errors);
    TruthRow row = shape == TruthShape::Functional     ? functional_row(object, errors)
                   : shape == TruthShape::SingleDevice ? single_row(object, errors, index)
                                                       : main_row(object, errors, index);
    row.errors = std::move(errors);
    return row;
}

TruthRow unknown_row(const std::string& pointer, std::size_t index) {
    TruthRow row;
    row.id = "#" + std::to_string(index);
    row.errors = {Error{ErrorCode::Unreadable, "no shape of measured row that is known", pointer,
                        "id and hardware; test and args; or step_s"}};
    return row;
}

}  // namespace

TruthStatus status_of(const JsonObject& object) {
    const std::string text = lower(words_of(object, "status"));
    const std::string key = key_of(text);
    if (text.empty() || key == "ok" || key == "success" || key == "measured") return TruthStatus::Ok;
    if (key == "oom" || says(key, "outofmemory")) return TruthStatus::OutOfMemory;
    if (key != "notcomparable") object.error("status", "unknown status '" + text + "'");
    return TruthStatus::NotComparable;
}

Result<std::vector<TruthRow>> read_truth_text(std::string_view text, const std::string& path) {
    const auto json = parse_rows(text, path);
    if (!json) return json.errors();
    const std::string file = std::filesystem::path(path).stem().string();
    std::vector<TruthRow> rows;
    bool any = json->empty();
    for (std::size_t i = 0; i < json->size(); ++i) {
        const std::string pointer = path + "#/" + std::to_string(i);
        const auto shape = shape_of((*json)[i]);
        any |= shape.has_value();
        TruthRow row = shape ? row_of((*json)[i], *shape, pointer, i) : unknown_row(pointer, i);
        row.file = file;
        rows.push_back(std::move(row));
    }
    if (!any) return rows.front().errors;
    return rows;
}

Result<std::vector<TruthRow>> read_truth(const std::string& path) {
    auto text = read_text_file(path);
    if (!text) return text.errors();
    return read_truth_text(*text, path);
}

}  // namespace tw
