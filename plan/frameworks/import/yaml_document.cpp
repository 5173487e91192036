#include "plan/frameworks/import/foreign_table.hpp"

#ifdef TW_WITH_YAML

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

// A value in quotes is a text; else YAML's core schema, with the yes and no of version 1.1 left to readers.
Json scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() == "!") return text;
    if (text == "true" || text == "True" || text == "TRUE") return true;
    if (text == "false" || text == "False" || text == "FALSE") return false;
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
    if (const auto integer = parse_integer(text)) return *integer;
    if (const auto number = parse_number(text)) return *number;
    return text;
}

class Converter {
  public:
    explicit Converter(std::string_view path) : path_(path) {}

    Errors errors;

    // Aliases make a graph, which may be much larger than its text, or endless.
    Json convert(const YAML::Node& node, std::size_t depth) {
        if (depth > kMaxJsonDepth || ++values_ > kMost) {
            refuse(node, depth > kMaxJsonDepth ? "nested too deeply" : "too many values");
            return nullptr;
        }
        switch (node.Type()) {
            case YAML::NodeType::Undefined:
            case YAML::NodeType::Null:
                return nullptr;
            case YAML::NodeType::Scalar:
                return scalar(node);
            case YAML::NodeType::Sequence:
                return sequence(node, depth);
            case YAML::NodeType::Map:
                return map(node, depth);
        }
        return nullptr;
    }

  private:
    static constexpr std::size_t kMost = std::size_t{1} << 18;

    void refuse(const YAML::Node& node, std::string message) {
        if (!errors.empty()) return;
        errors.push_back({ErrorCode::Unreadable, std::move(message),
                          fmt::format("{}:{}", path_, node.Mark().line + 1), ""});
    }
    Json sequence(const YAML::Node& node, std::size_t depth) {
        Json list = Json::array();
        for (const YAML::Node& item : node) {
            list.push_back(convert(item, depth + 1));
            if (!errors.empty()) break;
        }
        return list;
    }
    Json map(const YAML::Node& node, std::size_t depth) {
        Json table = Json::object();
        for (const auto& item : node) {
            if (!item.first.IsScalar()) {
                refuse(item.first, "a key that is no word");
                break;
            }
            const std::string& key = item.first.Scalar();
            Json value = convert(item.second, depth + 1);
            if (!errors.empty()) break;
            if (key == "<<" && value.is_object()) {  // YAML 1.1's merge: what is there wins
                for (const auto& other : value.items()) {
                    if (!table.contains(other.key())) table[other.key()] = other.value();
                }
            } else {
                table[key] = std::move(value);
            }
        }
        return table;
    }

    std::string path_;
    std::size_t values_ = 0;
};

}  // namespace

Result<Json> parse_yaml(std::string_view text, std::string_view path) {
    try {
        const YAML::Node root = YAML::Load(std::string(without_byte_order_mark(text)));
        Converter converter(path);
        Json json = converter.convert(root, 0);
        if (!converter.errors.empty()) return converter.errors;
        return json;
    } catch (const YAML::Exception& error) {
        return Error{ErrorCode::Unreadable, error.msg,
                     fmt::format("{}:{}", path, error.mark.is_null() ? 1 : error.mark.line + 1), ""};
    }
}

}  // namespace tw

#else

namespace tw {

Result<Json> parse_yaml(std::string_view, std::string_view path) {
    return Error{ErrorCode::Unreadable, "YAML is not read: this build has no yaml-cpp", std::string(path),
                 "install libyaml-cpp-dev and build again"};
}

}  // namespace tw

#endif
