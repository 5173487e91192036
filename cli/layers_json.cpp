#include "cli/layers_answer.hpp"
#include "plan/stage_program/stage_program.hpp"

namespace tw::cli {
namespace {

const char* pass_name(Phase phase) {
    switch (phase) {
        case Phase::Forward:
            return "forward";
        case Phase::BackwardInput:
            return "input_gradient";
        default:
            return "weight_gradient";
    }
}

const char* keep_name(SavedTensor::Keep keep) {
    switch (keep) {
        case SavedTensor::Keep::Boundary:
            return "boundary";
        case SavedTensor::Keep::Full:
            return "full";
        case SavedTensor::Keep::Selective:
            return "selective";
        default:
            return "restart";
    }
}

struct OpMembers {
    Json& json;
    void operator()(const Gemm& g) const {
        json["kind"] = "gemm";
        json["m"] = g.m;
        json["n"] = g.n;
        json["k"] = g.k;
        json["batch"] = g.batch;
        json["groups"] = g.groups;
        json["precision"] = to_string(g.precision);
        json["accumulate"] = g.accumulate;
    }
    void operator()(const Attention& a) const {
        json["kind"] = "attention";
        json["kernel"] = to_string(a.kernel);
        json["batch"] = a.batch;
        json["seq_q"] = a.seq_q;
        json["seq_kv"] = a.seq_kv;
        json["heads"] = a.heads;
        json["kv_heads"] = a.kv_heads;
        json["head_dim_qk"] = a.head_dim_qk;
        json["head_dim_v"] = a.head_dim_v;
        json["causal"] = a.causal;
        json["window"] = a.window;
        json["precision"] = to_string(a.precision);
    }
    void operator()(const Convolution& c) const {
        json["kind"] = "convolution";
        json["batch"] = c.batch;
        json["in_channels"] = c.in_channels;
        json["out_channels"] = c.out_channels;
        json["out_height"] = c.out_height;
        json["out_width"] = c.out_width;
        json["kernel_height"] = c.kernel_h;
        json["kernel_width"] = c.kernel_w;
        json["stride"] = c.stride;
        json["groups"] = c.groups;
        json["precision"] = to_string(c.precision);
    }
    void operator()(const MemoryOp&) const { json["kind"] = "memory"; }
    void operator()(const MeasuredOp& m) const {
        json["kind"] = "measured";
        json["seconds"] = m.seconds;
    }
    void operator()(const CollectiveOp& c) const {
        json["kind"] = to_string(c.kind);
        json["axis"] = to_string(c.axis);
        json["bytes"] = c.bytes;
        json["overlaps"] = c.overlaps;
    }
};

Json op_to_json(const Op& op) {
    Json json{{"name", op.name}, {"pass", pass_name(op.phase)}};
    std::visit(OpMembers{json}, op.body);
    if (!std::holds_alternative<CollectiveOp>(op.body)) {
        json["flops"] = op_flops(op).value;
        json["bytes"] = op_bytes(op);
    }
    return json;
}

Json pass_to_json(const PassSheet& pass) {
    Json collectives = Json::object();
    for (std::size_t a = 0; a < pass.collective_bytes.size(); ++a) {
        if (pass.collective_bytes[a] > 0)
            collectives[std::string(to_string(static_cast<Axis>(a)))] = pass.collective_bytes[a];
    }
    return Json{{"product_flops", pass.product_flops},
                {"other_flops", pass.other_flops},
                {"bytes", pass.bytes},
                {"collective_bytes", std::move(collectives)}};
}

Json saved_to_json(const LayerSheet& sheet) {
    Json json = Json::object();
    for (const RecomputeMode mode :
         {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full, RecomputeMode::SelectiveOps}) {
        const bool again = recomputes(sheet.role);
        json[std::string(to_string(mode))] = saved_bytes(sheet.work, again ? mode : RecomputeMode::None);
    }
    return json;
}

Json sheet_to_json(const LayerSheet& sheet) {
    Json json{{"name", sheet.name},
              {"count", sheet.count()},
              {"layers", sheet.layers},
              {"parameters", sheet.parameters},
              {"active_parameters", sheet.active_parameters},
              {"rank_dense_parameters", sheet.work.dense_parameters},
              {"rank_expert_parameters", sheet.work.expert_parameters},
              {"model_forward_flops", sheet.model_flops.value},
              {"forward", pass_to_json(sheet.forward)},
              {"input_gradient", pass_to_json(sheet.input_gradient)},
              {"weight_gradient", pass_to_json(sheet.weight_gradient)},
              {"saved_bytes", saved_to_json(sheet)},
              {"transient_forward_bytes", sheet.work.transient_forward_bytes},
              {"transient_backward_bytes", sheet.work.transient_backward_bytes}};
    json["operations"] = Json::array();
    for (const std::vector<Op>* ops : {&sheet.work.forward, &sheet.work.backward}) {
        for (const Op& op : *ops)
            json["operations"].push_back(op_to_json(op));
    }
    json["activations"] = Json::array();
    for (const SavedTensor& tensor : sheet.work.saved)
        json["activations"].push_back(
            Json{{"name", tensor.name}, {"bytes", tensor.bytes}, {"keep", keep_name(tensor.keep)}});
    return json;
}

Json shape_to_json(const WorkShape& s) {
    return Json{{"microbatch", s.microbatch},
                {"seq_len", s.seq_len},
                {"tp", s.tp},
                {"sp", s.sequence_parallel},
                {"cp", s.cp},
                {"cp_kind", to_string(s.cp_kind)},
                {"ep", s.ep},
                {"etp", s.etp},
                {"precision", to_string(s.precision)},
                {"attention", to_string(s.attention)},
                {"dropout", s.dropout},
                {"autocast", s.autocast},
                {"padded_vocab", s.padded_vocab}};
}

Json block_to_json(const BlockMatch& match) {
    return Json{{"bytes", match.block.bytes},
                {"count", match.block.count},
                {"layer", match.known() ? Json(match.layer) : Json(nullptr)},
                {"tensor", match.known() ? Json(match.tensor) : Json(nullptr)},
                {"planned_bytes", match.known() ? Json(match.planned_bytes) : Json(nullptr)},
                {"unsplit", match.unsplit.empty() ? Json(nullptr) : Json(match.unsplit)}};
}

}  // namespace

Json layers_to_json(const LayersAnswer& answer) {
    Json json = document("layers");
    json["model"] = answer.model;
    json["shape"] = shape_to_json(answer.shape);
    json["own_executor"] = answer.own_executor;
    json["parameters"] = answer.graph.parameters();
    json["tied_parameters"] = answer.graph.tied_embeddings ? answer.graph.tied_parameters : 0;
    json["model_forward_flops"] =
        answer.graph.model_flops(answer.shape.microbatch, answer.shape.seq_len, answer.graph.causal).value;
    json["layers"] = Json::array();
    for (const LayerSheet& sheet : answer.sheets)
        json["layers"].push_back(sheet_to_json(sheet));
    json["formulas"] = Json::array();
    for (const WorkFormula& f : work_formulas(answer.graph, answer.shape))
        json["formulas"].push_back(Json{{"what", f.what}, {"formula", f.formula}, {"source", f.source}});
    if (!answer.blocks.empty()) {
        json["blocks"] = Json::array();
        for (const BlockMatch& match : answer.blocks)
            json["blocks"].push_back(block_to_json(match));
    }
    return json;
}

}  // namespace tw::cli
