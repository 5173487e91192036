// Documents of measured rows: which shape each row has.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "sim/validate/row_fields.hpp"
#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_shapes.hpp"

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
bool has_all(const Json& item, std::initializer_list<const char*> keys) {
    return std::all_of(keys.begin(), keys.end(), [&](const char* key) { return item.contains(key); });
}

TruthRow read_row(const Json& item, const std::string& pointer, std::size_t index, bool& known) {
    Errors errors;
    const JsonObject object(item, pointer, errors);
    TruthRow row;
    known = true;
    if (!item.is_object()) {
        known = false;
    } else if (has_all(item, {"test", "args"}) || has_all(item, {"test", "golden"})) {
        row = functional_row(object, errors);
    } else if (has_all(item, {"step_s"})) {
        row = single_row(object, errors, index);
    } else if (has_all(item, {"hardware", "id"}) || has_all(item, {"hardware", "model"}) ||
               has_all(item, {"id", "model"})) {
        row = main_row(object, errors, index);
    } else {
        known = false;
    }
    if (!known) {
        row.id = "#" + std::to_string(index);
        errors = {Error{ErrorCode::Unreadable, "no shape of measured row that is known", pointer,
                        "id and hardware; test and args; or step_s"}};
    }
    row.errors = std::move(errors);
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
        bool known = false;
        TruthRow row = read_row((*json)[i], path + "#/" + std::to_string(i), i, known);
        any |= known;
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
