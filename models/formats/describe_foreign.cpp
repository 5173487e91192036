// Chakra's execution traces; the other foreign kinds describe themselves (foreign_hardware.cpp,
// other_tools.cpp).
#include "base/si_format.hpp"
#include "models/formats/chakra.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/text_lines.hpp"

namespace tw::documents {

bool is_chakra(std::string_view text, std::string_view) {
    return looks_like_chakra(text);
}

Result<DocumentSummary> describe_chakra(std::string_view text, std::string_view filename) {
    const auto trace = parse_chakra(text, filename);
    if (!trace) return trace.errors();
    DocumentSummary summary{.kind = "", .title = "", .facts = {}, .warnings = {}};
    summary.title = format_count(trace->nodes) + " nodes, version " + trace->version;
    summary.facts.emplace_back("nodes", format_count(trace->nodes));
    if (trace->compute > 0) summary.facts.emplace_back("compute", format_count(trace->compute));
    if (trace->send + trace->receive > 0)
        summary.facts.emplace_back("sends and receives",
                                   format_count(trace->send) + " and " + format_count(trace->receive));
    if (trace->collective > 0) {
        summary.facts.emplace_back("collectives",
                                   format_count(trace->collective) + ", together " +
                                       format_bytes(static_cast<double>(trace->collective_bytes)));
    }
    if (!trace->first_name.empty()) summary.facts.emplace_back("first node", trace->first_name);
    if (trace->sizes_of_wrong_type) {
        summary.warnings.push_back("comm_size is uint64: ASTRA-sim reads int64 and takes 0 (astra-sim#158)");
    }
    if (trace->compute > 0 && trace->timed == 0) {
        summary.warnings.emplace_back(
            "no compute node has a duration or operations: a simulator takes 0 cycles for all of them");
    }
    return summary;
}

}  // namespace tw::documents
