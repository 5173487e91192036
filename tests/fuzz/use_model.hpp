// A model that was accepted must also work: every kind of layer says what it does.
#pragma once

#include <algorithm>

#include "models/load_model.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace tw::fuzz {

inline void use_model(const LoadedModel& model) {
    require(model.graph.size() > 0, "a model without layers");
    require(model.graph.parameters() >= 0, "a negative number of parameters");
    WorkShape whole, split;
    split.tp = 2;
    split.sequence_parallel = true;
    const int step = std::max(1, model.graph.size() / 16);
    for (int i = 0; i < model.graph.size(); i += step) {
        for (const WorkShape& shape : {whole, split}) {
            const LayerWork work = model.graph.layer(i).model->work(shape);
            require(work.dense_parameters >= 0, "negative parameters");
        }
    }
}

}  // namespace tw::fuzz
