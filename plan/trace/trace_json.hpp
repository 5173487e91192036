// The trace document: schema "trainwright/trace", version 1. Times are integer picoseconds (keys end in _ps),
// so that a trace reads back exactly. Fields of an instruction that have their default value are left out.
#pragma once

#include <iosfwd>
#include <string_view>

#include "base/json.hpp"
#include "base/result.hpp"
#include "plan/trace/trace.hpp"

namespace tw {

// One event a line, written as it goes; deterministic.
void write_trace(const Trace& trace, std::ostream& out);
// All errors at once, with JSON pointers: unknown keys, names and values out of range, events that end before
// they start or start before they arrive, ranks that occur twice, memory samples out of order or of another
// length than the categories.
Result<Trace> trace_from_json(const Json& json);
Result<Trace> read_trace(std::string_view path);

}  // namespace tw
