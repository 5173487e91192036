// What a user asks for: a model, a cluster, a batch and the limits of a search, as typed.
#pragma once

#include <cstdint>
#include <string>

#include "planner/request.hpp"

namespace tw::gui {

struct Setup {
    std::string model;         // a preset, or the name of the document below
    std::string model_text;    // a document that was dropped or comes from a session; empty: a preset or path
    std::string cluster;       // "h100:64", or the name of the document below
    std::string cluster_text;  // trainwright/cluster; empty: a preset or path
    std::int64_t global_batch = 256;
    std::int64_t seq_len = 0;  // 0: the model's own
    std::string fix;           // --fix
    std::string precision;     // "": what the model and the devices suggest
    std::string optimizer = "adam";
    std::string objective = "time";
    std::string framework = "trainwright";  // --for: only what it can run is searched
    double headroom_percent = kDefaultHeadroomPercent;
    int top = 24;
    friend bool operator==(const Setup&, const Setup&) = default;
};

}  // namespace tw::gui
