// What a dropped file is, read as far as can be done without a window. Runs in the background.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gui/worker/plan_entry.hpp"
#include "models/formats/document.hpp"

namespace tw {
struct ProfileDocument;
struct Trace;
class TraceModel;
}  // namespace tw

namespace tw::gui {

enum class OpenedKind : unsigned char { Unknown, Plan, Trace, Session, Model, Cluster, Profile, Import };

struct Opened {
    OpenedKind kind = OpenedKind::Unknown;
    std::string text;               // of all but plans and traces
    std::optional<PlanEntry> plan;  // Plan
    std::shared_ptr<const TraceModel> trace_model;
    std::shared_ptr<const Trace> trace;  // our own documents
    std::shared_ptr<const ProfileDocument> profile;
    DocumentSummary summary;  // Import: topologies, logs, other documents that are understood
    Errors errors;            // of the document; then nothing else is filled in but the kind
};

// `progress` gets the share that is done and returns false to give up.
Opened open_file(const std::string& path, const std::function<bool(double share)>& progress);
// The traces of several ranks of one job, as one.
Opened open_traces(const std::vector<std::string>& paths, const std::function<bool(double share)>& progress);
// Which of several files are opened as one: PyTorch traces of jobs of equal size and of different ranks, each
// rank once; all others alone. In the order of their first.
std::vector<std::vector<std::string>> opened_together(const std::vector<std::string>& paths);
// A document's text by itself, as a session holds it; never a plan or a trace.
Opened open_text(std::string text, const std::string& path);

}  // namespace tw::gui
