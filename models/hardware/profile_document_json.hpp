// trainwright/profile documents, version 2: curves (profile_json.hpp) with samples, environment and cluster.
//
// {"schema": "trainwright/profile", "version": 2, "name": ..., curves ..., "environment": {...},
//  "samples": [{"benchmark": "gemm", "variant": "fp32 forward", "shape": {"m": 1024, ...}, "unit": "s",
//  "calls": 3, "values": [...]}], "cluster": {a trainwright/cluster document}}. The last three may be absent.
//  Version 1 had
// curves alone.
#pragma once

#include <string_view>

#include "base/json.hpp"
#include "models/hardware/profile_document.hpp"

namespace tw {

// Strict: every error of the document at once, with JSON pointers after `name`.
Result<ProfileDocument> decode_profile_document(const Json& document, std::string_view name);
// Environment and samples alone: what an interrupted measurement goes on with, also where it was interrupted
// before anything could be fitted and the document is no profile yet.
Result<ProfileDocument> decode_measured_samples(const Json& document, std::string_view name);
Json encode_profile_document(const ProfileDocument& document);

// Indented, but one line for an array of numbers; newline at the end.
std::string profile_document_text(const ProfileDocument& document);

}  // namespace tw
