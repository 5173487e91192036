// A preset's graph, for tests of what its layers do.
#pragma once

#include "models/load_model.hpp"

namespace tw::test {

inline LayerGraph graph_of(const char* name) {
    auto model = load_model(name);
    TW_CHECK(model.has_value());
    return std::move(model->graph);
}

}  // namespace tw::test
