// What `trainwright layers` says: the work of every kind of layer on one rank.
#pragma once

#include <string>
#include <vector>

#include "cli/common/console.hpp"
#include "plan/stage_program/layer_sheet.hpp"
#include "plan/stage_program/measured_blocks.hpp"

namespace tw::cli {

struct LayersAnswer {
    std::string model;
    LayerGraph graph;
    WorkShape shape;
    std::vector<LayerSheet> sheets;
    std::vector<BlockMatch> blocks;  // empty: none were given
    bool own_executor = false;
};

// "tp8 sp cp2 mbs1, 8,192 tokens, bf16, flash2": what of a plan decides the work of its layers.
std::string shape_text(const LayersAnswer& answer);

Json layers_to_json(const LayersAnswer& answer);
void print_layers(const LayersAnswer& answer, Console& console);

}  // namespace tw::cli
