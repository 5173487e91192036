#include <array>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/commands.hpp"
#include "cli/common/load_plan.hpp"
#include "models/hardware/cluster_json.hpp"
#include "plan/padded_vocabulary.hpp"
#include "planner/explain/breakdown.hpp"

namespace tw::cli {
namespace {

struct DiffOptions {
    std::string first, second;
};

struct FieldDifference {
    std::string field;  // "mesh/tp"
    std::string first, second;
};

std::string shown(const Json& value) {
    if (value.is_array() || value.is_object()) return fmt::format("{} entries", value.size());
    return value.is_string() ? value.get<std::string>() : value.dump();
}

void compare(const Json& first, const Json& second, const std::string& path,
             std::vector<FieldDifference>& found) {
    if (first == second) return;
    const bool objects = first.is_object() && second.is_object();
    const bool arrays = first.is_array() && second.is_array() && first.size() == second.size();
    if (!objects && !arrays) {
        found.push_back({path, shown(first), shown(second)});
        return;
    }
    const auto below = [&](const std::string& name) { return path.empty() ? name : path + "/" + name; };
    if (arrays) {
        for (std::size_t i = 0; i < first.size(); ++i)
            compare(first[i], second[i], below(std::to_string(i)), found);
        return;
    }
    // Of an object that one of them leaves out, every member.
    static const Json kNone = Json::object();
    for (const auto& [key, value] : first.items()) {
        const auto other = second.find(key);
        if (other != second.end() || (value.is_object() && !value.empty())) {
            compare(value, other != second.end() ? *other : kNone, below(key), found);
        } else {
            found.push_back({below(key), shown(value), "-"});
        }
    }
    for (const auto& [key, value] : second.items()) {
        if (first.contains(key)) continue;
        if (value.is_object() && !value.empty()) {
            compare(kNone, value, below(key), found);
        } else {
            found.push_back({below(key), "-", shown(value)});
        }
    }
}

// Fields where both documents are objects; a PipeDream profile is a text, of which `summary` says what it is.
void compare_parts(const Json& first, const Json& second, const std::string& path,
                   const std::array<std::string, 2>& summary, std::vector<FieldDifference>& found) {
    const std::size_t before = found.size();
    if (first.is_object() && second.is_object()) compare(first, second, path, found);
    if (found.size() == before) found.push_back({path, summary[0], summary[1]});
}

std::vector<FieldDifference> field_differences(const PlanDocument& first, const PlanDocument& second) {
    std::vector<FieldDifference> found;
    if (first.model_name != second.model_name) {
        found.push_back({"model", first.model_name, second.model_name});
    } else if (first.model_document != second.model_document) {
        const auto text = [](const PlanDocument& d) {
            return fmt::format("{} ({} parameters in {} layers)", d.model_name,
                               format_short_count(static_cast<double>(d.graph.parameters())), d.graph.size());
        };
        const std::array<std::string, 2> texts = {text(first), text(second)};
        compare_parts(first.model_document, second.model_document, "model", texts, found);
    }
    if (!(first.cluster == second.cluster)) {
        const auto text = [](const Cluster& cluster) {
            return fmt::format("{} ({} devices)", cluster.name, cluster.devices());
        };
        const std::array<std::string, 2> texts = {text(first.cluster), text(second.cluster)};
        if (texts[0] != texts[1]) {
            found.push_back({"cluster", texts[0], texts[1]});
        } else {
            compare_parts(cluster_to_json(first.cluster), cluster_to_json(second.cluster), "cluster", texts,
                          found);
        }
    }
    compare(plan_to_json(first.plan), plan_to_json(second.plan), "", found);
    const std::int64_t rows = padded_vocab(first.graph, first.plan);
    const std::int64_t others = padded_vocab(second.graph, second.plan);
    if (rows != others) found.push_back({"padded vocabulary", std::to_string(rows), std::to_string(others)});
    return found;
}

struct Figure {
    std::string key, name;
    double first = 0, second = 0;
    std::string (*format)(double);
};

std::string as_duration(double value) {
    return format_duration(value);
}
std::string as_bytes(double value) {
    return format_bytes(value);
}
std::string as_share(double value) {
    return format_percent(value);
}
std::string as_token_rate(double value) {
    return format_rate(value, "tokens/s");
}
std::string as_image_rate(double value) {
    return format_rate(value, "images/s");
}

std::vector<Figure> figures(const SimulationReport& a, const SimulationReport& b) {
    return {
        {"step_time_s", "step time", a.step_time_s, b.step_time_s, as_duration},
        {"tokens_per_s", "rate", a.tokens_per_s, b.tokens_per_s,
         a.rate_unit == "images/s" ? as_image_rate : as_token_rate},
        {"mfu", "MFU", a.mfu, b.mfu, as_share},
        {"bubble_fraction", "bubble", a.bubble_fraction, b.bubble_fraction, as_share},
        {"peak_allocated_bytes", "memory allocated", a.peak_allocated_bytes, b.peak_allocated_bytes,
         as_bytes},
        {"peak_reserved_bytes", "memory reserved", a.peak_reserved_bytes, b.peak_reserved_bytes, as_bytes},
        {"peak_device_bytes", "memory of the device", a.peak_device_bytes, b.peak_device_bytes, as_bytes}};
}

Json difference_to_json(const std::vector<FieldDifference>& fields, const SimulationReport& a,
                        const SimulationReport& b) {
    Json json = document("plan-diff");
    json["fields"] = Json::array();
    for (const FieldDifference& field : fields)
        json["fields"].push_back(
            Json{{"field", field.field}, {"first", field.first}, {"second", field.second}});
    json["figures"] = Json::object();
    for (const Figure& figure : figures(a, b))
        json["figures"][figure.key] = Json{{"first", figure.first}, {"second", figure.second}};
    json["time"] = Json::array();
    const std::vector<TimePart> before = time_parts(a), after = time_parts(b);
    for (std::size_t i = 0; i < before.size(); ++i) {
        json["time"].push_back(
            Json{{"part", before[i].name}, {"first_s", before[i].seconds}, {"second_s", after[i].seconds}});
    }
    return json;
}

void print_difference(const DiffOptions& options, const std::vector<FieldDifference>& fields,
                      const SimulationReport& a, const SimulationReport& b, Console& console) {
    if (fields.empty()) {
        console.out("the plans are equal\n");
        return;
    }
    TextTable plan({"Field", options.first, options.second});
    for (const FieldDifference& field : fields)
        plan.add_row({field.field, field.first, field.second});
    for (const std::size_t column : {std::size_t{1}, std::size_t{2}})
        plan.align(column, Align::Left);
    console.out_table(plan);

    console.heading("Prediction");
    TextTable table({"", options.first, options.second, "Change"});
    for (const Figure& figure : figures(a, b)) {
        table.add_row({figure.name, figure.format(figure.first), figure.format(figure.second),
                       figure.format == as_share
                           ? fmt::format("{:+.1f} points", 100 * (figure.second - figure.first))
                           : relative_change(figure.first, figure.second)});
    }
    table.add_separator();
    const std::vector<TimePart> before = time_parts(a), after = time_parts(b);
    for (std::size_t i = 0; i < before.size(); ++i) {
        if (before[i].seconds == 0 && after[i].seconds == 0) continue;
        table.add_row({before[i].name, format_duration(before[i].seconds), format_duration(after[i].seconds),
                       relative_change(before[i].seconds, after[i].seconds)});
    }
    console.out_table(table);
    console.out("\nParts of the step are means over the pipeline ranks.\n");
}

int diff(const DiffOptions& options, Console& console) {
    const Result<LoadedPlan> first = load_plan(options.first), second = load_plan(options.second);
    Errors errors;
    for (const Result<LoadedPlan>* plan : {&first, &second}) {
        if (!*plan) errors.insert(errors.end(), plan->errors().begin(), plan->errors().end());
    }
    if (!errors.empty()) return console.fail(errors);
    const auto a = Simulator(first->environment).simulate(first->document.plan);
    if (!a) return console.fail(in_document(a.errors(), options.first));
    const auto b = Simulator(second->environment).simulate(second->document.plan);
    if (!b) return console.fail(in_document(b.errors(), options.second));
    const std::vector<FieldDifference> fields = field_differences(first->document, second->document);
    if (console.json) {
        console.out_json(difference_to_json(fields, *a, *b));
    } else {
        print_difference(options, fields, *a, *b, console);
    }
    return 0;
}

}  // namespace

void define_diff(Command& command) {
    auto& options = command.keep<DiffOptions>();
    command.positional("PLAN", options.first, "a trainwright/plan document");
    command.positional("OTHER", options.second, "another one");
    command.example("diff a.json b.json", "what differs, and what it does to time and memory");
    command.run([&options](Console& console) { return diff(options, console); });
}

}  // namespace tw::cli
