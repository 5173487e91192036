#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/common/wrap.hpp"
#include "cli/layers_answer.hpp"
#include "plan/stage_program/stage_program.hpp"

namespace tw::cli {
namespace {

std::string flop_text(double flops) {
    return flops > 0 ? format_rate(flops, "FLOP") : "-";
}
std::string bytes_text(double bytes) {
    return bytes > 0 ? format_bytes(bytes) : "-";
}

double kept(const LayerSheet& sheet, RecomputeMode mode) {
    return saved_bytes(sheet.work, recomputes(sheet.role) ? mode : RecomputeMode::None);
}

// The sums over the model, each layer as often as it stands in it.
struct Totals {
    std::int64_t layers = 0, parameters = 0, rank_parameters = 0;
    PassSheet forward, input_gradient, weight_gradient;
    double none = 0, selective = 0, full = 0;

    explicit Totals(const std::vector<LayerSheet>& sheets) {
        for (const LayerSheet& sheet : sheets) {
            for (int i = 0; i < sheet.count(); ++i) {
                forward += sheet.forward;
                input_gradient += sheet.input_gradient;
                weight_gradient += sheet.weight_gradient;
            }
            layers += sheet.count();
            parameters += sheet.parameters * sheet.count();
            rank_parameters += (sheet.work.dense_parameters + sheet.work.expert_parameters) * sheet.count();
            none += kept(sheet, RecomputeMode::None) * sheet.count();
            selective += kept(sheet, RecomputeMode::Selective) * sheet.count();
            full += kept(sheet, RecomputeMode::Full) * sheet.count();
        }
    }
};

std::vector<TableCell> work_cells(const PassSheet& forward, const PassSheet& input, const PassSheet& weight) {
    return {flop_text(forward.product_flops), flop_text(input.product_flops), flop_text(weight.product_flops),
            bytes_text(forward.bytes + input.bytes + weight.bytes),
            bytes_text(forward.all_collective_bytes() + input.all_collective_bytes() +
                       weight.all_collective_bytes())};
}

void print_summary(const LayersAnswer& answer, Console& console) {
    TextTable work({"Layer", "Count", "Parameters", "of a rank", "Forward", "Input gradient",
                    "Weight gradient", "Moved", "Sent"});
    TextTable activations({"Layer", "kept", "selective", "full", "at work forward", "backward"});
    for (const LayerSheet& s : answer.sheets) {
        std::vector<TableCell> row{TableCell(s.name, TextStyle::Bold), std::to_string(s.count()),
                                   format_count(s.parameters),
                                   format_count(s.work.dense_parameters + s.work.expert_parameters)};
        for (TableCell& cell : work_cells(s.forward, s.input_gradient, s.weight_gradient))
            row.push_back(std::move(cell));
        work.add_row(std::move(row));
        activations.add_row(
            {TableCell(s.name, TextStyle::Bold), bytes_text(kept(s, RecomputeMode::None)),
             bytes_text(kept(s, RecomputeMode::Selective)), bytes_text(kept(s, RecomputeMode::Full)),
             bytes_text(s.work.transient_forward_bytes), bytes_text(s.work.transient_backward_bytes)});
    }
    const Totals sum(answer.sheets);
    std::vector<TableCell> row{"all", std::to_string(sum.layers), format_count(sum.parameters),
                               format_count(sum.rank_parameters)};
    for (TableCell& cell : work_cells(sum.forward, sum.input_gradient, sum.weight_gradient))
        row.push_back(std::move(cell));
    work.add_separator();
    work.add_row(std::move(row));
    activations.add_separator();
    activations.add_row(
        {"all", bytes_text(sum.none), bytes_text(sum.selective), bytes_text(sum.full), "-", "-"});
    console.out_table(work);
    if (answer.graph.tied_embeddings) {
        console.out(fmt::format("The head shares {} of these with the embedding: the model has {}.\n",
                                format_count(answer.graph.tied_parameters),
                                format_count(answer.graph.parameters())));
    }
    console.heading("Activations of a microbatch, without and with recomputation");
    console.out_table(activations);
}

struct ShapeText {
    std::string operator()(const Gemm& g) const {
        std::string text = fmt::format("{} x {} x {}", g.m, g.n, g.k);
        if (g.batch > 1) text += fmt::format(", {} times", g.batch);
        if (g.groups > 1) text += fmt::format(", {} groups", g.groups);
        return text;
    }
    std::string operator()(const Attention& a) const {
        return fmt::format("{} x {} of {}/{} heads, {}/{}", a.batch * a.seq_q, a.seq_kv, a.heads, a.kv_heads,
                           a.head_dim_qk, a.head_dim_v);
    }
    std::string operator()(const Convolution& c) const {
        return fmt::format("{} x {} x {} x {}, {} of {} x {}", c.batch, c.out_channels, c.out_height,
                           c.out_width, c.in_channels, c.kernel_h, c.kernel_w);
    }
    template <class Other>
    std::string operator()(const Other&) const {
        return {};
    }
};

bool is_product(const Op& op) {
    return std::holds_alternative<Gemm>(op.body) || std::holds_alternative<Attention>(op.body) ||
           std::holds_alternative<Convolution>(op.body);
}

const char* pass_text(Phase phase) {
    switch (phase) {
        case Phase::Forward:
            return "forward";
        case Phase::BackwardInput:
            return "input gradient";
        default:
            return "weight gradient";
    }
}

template <class Visit>
void each_op(const LayerWork& work, const Visit& visit) {
    for (const std::vector<Op>* ops : {&work.forward, &work.backward}) {
        for (const Op& op : *ops)
            visit(op);
    }
}

void print_products(const LayerSheet& sheet, Console& console) {
    TextTable table({"Product", "Pass", "m x n x k", "", "FLOP", "Moved", "FLOP/B"});
    // A product's passes together, in the order of the forward.
    std::vector<const Op*> products;
    each_op(sheet.work, [&](const Op& op) {
        if (is_product(op)) products.push_back(&op);
    });
    std::vector<std::string> names;
    for (const Op* op : products) {
        if (std::find(names.begin(), names.end(), op->name) == names.end()) names.push_back(op->name);
    }
    for (const std::string& name : names) {
        bool first = true;
        for (const Op* op : products) {
            if (op->name != name) continue;
            const double flops = op_flops(*op).value, bytes = op_bytes(*op);
            const auto* gemm = std::get_if<Gemm>(&op->body);
            const auto* core = std::get_if<Attention>(&op->body);
            const std::string kind = gemm != nullptr   ? std::string(to_string(gemm->precision))
                                     : core != nullptr ? std::string(to_string(core->kernel))
                                                       : std::string("convolution");
            table.add_row({first ? name : std::string(), pass_text(op->phase),
                           std::visit(ShapeText{}, op->body), kind, flop_text(flops), bytes_text(bytes),
                           bytes > 0 ? fmt::format("{:.0f}", flops / bytes) : "-"});
            first = false;
        }
    }
    if (table.rows() == 0) return;
    table.align(2, Align::Left);
    console.out_table(table);
}

// Kernels that memory bounds, those of one name together.
void print_kernels(const LayerSheet& sheet, Console& console) {
    struct Row {
        std::string name;
        double forward = 0, backward = 0;
    };
    std::vector<Row> rows;
    each_op(sheet.work, [&](const Op& op) {
        if (!std::holds_alternative<MemoryOp>(op.body)) return;
        auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == op.name; });
        if (row == rows.end()) row = rows.insert(rows.end(), Row{.name = op.name});
        (op.phase == Phase::Forward ? row->forward : row->backward) += op_bytes(op);
    });
    if (rows.empty()) return;
    TextTable table({"Other kernels", "Moved forward", "backward"});
    for (const Row& row : rows)
        table.add_row({row.name, bytes_text(row.forward), bytes_text(row.backward)});
    console.out("\n");
    console.out_table(table);
}

void print_collectives(const LayerSheet& sheet, Console& console) {
    TextTable table({"Collective", "Pass", "Kind", "Axis", "Size", ""});
    each_op(sheet.work, [&](const Op& op) {
        const auto* call = std::get_if<CollectiveOp>(&op.body);
        if (call == nullptr || call->bytes <= 0) return;
        table.add_row({op.name, pass_text(op.phase), to_string(call->kind), to_string(call->axis),
                       format_bytes(call->bytes), call->overlaps ? "beside compute" : ""});
    });
    if (table.rows() == 0) return;
    console.out("\n");
    console.out_table(table);
}

void print_activations(const LayerSheet& sheet, Console& console) {
    if (sheet.work.saved.empty()) return;
    TextTable table({"Activation", "Size", "Recomputation"});
    for (const SavedTensor& tensor : sheet.work.saved) {
        const char* words = "";
        switch (tensor.keep) {
            case SavedTensor::Keep::Boundary:
                words = "kept by all";
                break;
            case SavedTensor::Keep::Full:
                words = recomputes(sheet.role) ? "dropped by full" : "kept by all";
                break;
            case SavedTensor::Keep::Selective:
                words = "dropped by selective and full";
                break;
            case SavedTensor::Keep::Restart:
                words = "kept by full alone";
                break;
        }
        table.add_row({tensor.name, format_bytes(tensor.bytes), words});
    }
    console.out("\n");
    console.out_table(table);
}

void print_blocks(const LayersAnswer& answer, Console& console) {
    console.heading("Measured blocks");
    TextTable table({"Block", "Count", "Tensor", "Planned", ""});
    for (const BlockMatch& match : answer.blocks) {
        std::string words = match.known() ? "as planned" : "no activation of the plan";
        if (!match.unsplit.empty()) words = match.unsplit + " did not split it";
        table.add_row({format_bytes(match.block.bytes), format_count(match.block.count),
                       match.known() ? match.layer + " " + match.tensor : "-",
                       match.known() ? format_bytes(match.planned_bytes) : "-",
                       TableCell(words, match.unsplit.empty() ? TextStyle::Plain : TextStyle::Red)});
    }
    console.out_table(table);
}

}  // namespace

std::string shape_text(const LayersAnswer& answer) {
    const WorkShape& s = answer.shape;
    std::string text = fmt::format("tp{}", s.tp);
    if (s.sequence_parallel) text += " sp";
    if (s.cp > 1) text += fmt::format(" cp{} {}", s.cp, to_string(s.cp_kind));
    if (s.ep > 1) text += fmt::format(" ep{}", s.ep);
    if (s.ep > 1 && s.etp != 1) text += fmt::format(" etp{}", s.etp);
    text += fmt::format(" mbs{}", s.microbatch);
    if (answer.graph.counts_tokens) text += fmt::format(", {} tokens", format_count(s.seq_len));
    text += fmt::format(", {}", to_string(s.precision));
    if (s.autocast) text += " autocast";
    if (answer.graph.heads > 0) text += fmt::format(", {} attention", to_string(s.attention));
    if (s.dropout) text += ", dropout";
    return text;
}

void print_layers(const LayersAnswer& answer, Console& console) {
    console.out(fmt::format("{} on one rank: {}\n\n",
                            styled(answer.model, TextStyle::Bold, console.out_colour()), shape_text(answer)));
    print_summary(answer, console);
    for (const LayerSheet& sheet : answer.sheets) {
        console.heading(sheet.count() > 1 ? fmt::format("{} ({} alike)", sheet.name, sheet.count())
                                          : sheet.name);
        print_products(sheet, console);
        print_kernels(sheet, console);
        print_collectives(sheet, console);
        print_activations(sheet, console);
    }
    console.heading("Formulas");
    for (const WorkFormula& f : work_formulas(answer.graph, answer.shape))
        console.out(fmt::format("  {}  {}\n", pad_right(f.what, 17),
                                wrap(fmt::format("{} ({})", f.formula, f.source), 79, 21)));
    if (!answer.blocks.empty()) print_blocks(answer, console);
}

}  // namespace tw::cli
