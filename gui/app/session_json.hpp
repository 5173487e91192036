// The session document: schema "trainwright/session", version 2. Self-contained: models and clusters are
// embedded once each, measured traces of ours, profiles, logs and topologies too; traces of other tools as
// they are, packed (worker/packed_file.hpp). Files that were still being read, and traces too large to pack,
// are named by path.
//
// {"schema": "trainwright/session", "version": 2,
//  "setup": {"model": "gpt3-175b", "cluster": "a100:1024", "global_batch": 1536, "fix": "tp=8", ...},
//  "studies": [{"model": {...}, "cluster": {...}, "headroom_percent": 0}],
//  "plans": [{"study": 0, "origin": "found", "name": "", "plan": {...}, "tied": false,
//             "near_identical": 3, "front": true}],
//  "selected": 0, "edited": {...} or absent, "pins": [0, 3], "measured": [{"path": "run.trace.json", "trace":
//  {...}}, {"path": "rank0.json", "content": ["AAAB...", ...]}], "files": [{"path": "h100.profile.json",
//  "text": "..."}], "window": {"layout": "<base64>", "theme": "dark", "timeline": {..., "source":
//  "rank0.json"}}}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/worker/plan_entry.hpp"

namespace tw {
struct Trace;
}

namespace tw::gui {

struct SessionTrace {
    std::string path;
    std::shared_ptr<const Trace> trace;     // null: of another tool, or only its path is known
    std::vector<std::string> content = {};  // the packed file of another tool
    std::string stored = {};                // where that file lies, if not at its path; not in the document
};

struct SessionFile {
    std::string path;
    std::string text;  // empty: only its path is known
};

struct Session {
    Setup setup;
    std::vector<PlanEntry> plans;  // with their studies; ids as positions + 1
    int selected = 0;              // ids; 0: none
    std::optional<ParallelPlan> edited;
    int pins[2] = {0, 0};
    std::vector<SessionTrace> measured;
    std::vector<SessionFile> files;              // profiles, then those that were imported
    std::string layout_base64, theme, timeline;  // timeline: JSON text, "" where there is none
};

std::string session_to_text(const Session& session);
// The same in at most `most` bytes, where naming our own measured traces, instead of holding them, is enough:
// the paths of those that had to be.
std::string session_to_text(Session& session, std::size_t most, std::vector<std::string>& named);
// All errors at once, with JSON pointers after `name`.
Result<Session> session_from_text(std::string_view text, std::string_view name);

}  // namespace tw::gui
