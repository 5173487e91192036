// One table of a foreign configuration (JSON, YAML or TOML, all as Json) while it is read: which keys were
// asked for, values that cannot be read as errors, unknown keys as warnings with the nearest known one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "plan/frameworks/import/import_config.hpp"

namespace tw {

// Values that say nothing yet: null, and DeepSpeed's "auto", which the trainer fills in.
bool unsaid(const Json& value);

class ForeignTable {
  public:
    // `value` must outlive it. `path`: how the table is called, "zero_optimization"; "" at the top.
    ForeignTable(const Json& value, std::string path, std::string_view file, Errors& errors,
                 std::vector<std::string>& warnings);

    [[nodiscard]] std::string key(std::string_view name) const;   // "zero_optimization.stage"
    [[nodiscard]] const Json* find(std::string_view name) const;  // null where absent or unsaid
    [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
    // Numbers may stand in quotes, and whole ones be written as 5e8. Nothing where absent, or after an error.
    [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name, std::int64_t low,
                                                      std::int64_t high) const;
    [[nodiscard]] std::optional<int> degree(std::string_view name) const;  // 1 to 2^20
    [[nodiscard]] std::optional<double> number(std::string_view name, double low, double high) const;
    [[nodiscard]] std::optional<bool> boolean(std::string_view name) const;
    [[nodiscard]] std::optional<std::string> word(std::string_view name) const;
    // An empty table where it is absent; an error where it is something else.
    [[nodiscard]] ForeignTable table(std::string_view name) const;

    void error(std::string_view name, std::string message, std::string hint = {}) const;
    // Names, one blank between two, that say nothing of a plan.
    void ignore(std::string_view names) const;
    // Warns of every key that was neither asked for nor ignored.
    void finish() const;

  private:
    const Json* value_;
    std::string path_;
    std::string file_;
    Errors* errors_;
    std::vector<std::string>* warnings_;
    mutable std::vector<std::string> known_;
};

// Writes what was read into the plan's fields, and lists it.
class Statement {
  public:
    explicit Statement(ImportedConfig& config) : config_(config) {}
    [[nodiscard]] StatedPlan& plan() { return config_.stated; }

    template <class Field, class Value>
    void set(std::optional<Field>& field, const std::optional<Value>& value, std::string_view what,
             std::string key) {
        if (!value) return;
        field = static_cast<Field>(*value);
        say(what, shown(*value), std::move(key));
    }
    void say(std::string_view what, std::string value, std::string key) {
        config_.settings.push_back({std::string(what), std::move(value), std::move(key)});
    }

  private:
    static std::string shown(bool value) { return value ? "yes" : "no"; }
    static std::string shown(int value) { return std::to_string(value); }
    static std::string shown(std::int64_t value) { return std::to_string(value); }
    static std::string shown(double value);
    static std::string shown(const std::string& value) { return value; }
    static std::string shown(RecomputeMode value) { return std::string(to_string(value)); }
    static std::string shown(Precision value) { return std::string(to_string(value)); }
    static std::string shown(OptimizerKind value) { return std::string(to_string(value)); }
    static std::string shown(WorkShape::Cp value) { return std::string(to_string(value)); }
    static std::string shown(AttentionKernel value) { return std::string(to_string(value)); }

    ImportedConfig& config_;
};

// " did you mean 'x'?" where a known name is near enough to be meant, else "".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

// Documents as Json. Errors (Unreadable) carry the file and the line.
Result<Json> parse_yaml(std::string_view text, std::string_view path);  // yaml_document.cpp
Result<Json> parse_toml(std::string_view text, std::string_view path);  // toml_document.cpp

// What a framework's `Reader(top, config).all()` makes of a document: `config`, filled in, or all that cannot
// be read in it.
template <class Reader>
Result<ImportedConfig> read_config(const Result<Json>& document, std::string_view path,
                                   ImportedConfig config) {
    if (!document) return document.errors();
    Errors errors;
    const ForeignTable top(*document, "", path, errors, config.warnings);
    Reader(top, config).all();
    if (!errors.empty()) return errors;
    return config;
}

}  // namespace tw
