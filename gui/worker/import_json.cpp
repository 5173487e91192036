#include "gui/worker/import_json.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "models/formats/finding.hpp"

namespace tw::gui {
namespace {

void read_findings(const Json& list, const std::string& file, Errors& errors,
                   std::vector<ImportFinding>& findings) {
    for (const Json& one : list) {
        const JsonObject object(one, "import/findings", errors);
        const std::string name = object.string("name");
        ImportFinding finding;
        finding.file = file;
        finding.message = name + ": " + object.string("message");
        finding.suspect = object.boolean_or("suspect", false);
        if (const Json* line = object.find("line");
            !file.empty() && line != nullptr && line->is_number_unsigned())
            finding.file += ":" + std::to_string(line->get<std::uint64_t>());
        const auto known =
            std::ranges::find_if(finding_kinds(), [&](const auto& k) { return k.name == name; });
        if (known != finding_kinds().end()) finding.instead = known->advice;
        findings.push_back(std::move(finding));
    }
}

std::vector<std::string> texts(const JsonObject& object, std::string_view key) {
    std::vector<std::string> list;
    for (const Json& text : object.array(key))
        if (text.is_string()) list.push_back(text.get<std::string>());
    return list;
}

}  // namespace

Result<ImportAnswer> import_answer(std::string_view text) {
    const auto json = parse_json(text, "import");
    if (!json) return json.errors();
    Errors errors;
    const JsonObject object(*json, "import", errors);
    ImportAnswer answer;
    answer.name = object.string("name");
    for (const Json& one : object.array("sources")) {
        const JsonObject source(one, "import/sources", errors);
        read_findings(source.array("findings"), source.string("file"), errors, answer.findings);
    }
    read_findings(object.array("findings"), "", errors, answer.findings);
    answer.taken = texts(object, "taken");
    answer.assumed = texts(object, "assumed");
    answer.absent = texts(object, "absent");
    if (!errors.empty()) return errors;
    return answer;
}

}  // namespace tw::gui
