// Norms that read an fp32 copy which nobody keeps (WorkShape::norms_of_copies).
#include <gtest/gtest.h>

#include "models/load_model.hpp"

namespace tw {
namespace {

double bytes(const std::vector<Op>& ops, bool again_alone = false) {
    double sum = 0;
    for (const Op& op : ops)
        sum += again_alone && !op.unless_recomputed ? 0 : op_bytes(op);
    return sum;
}

TEST(NormsOfCopies, AddTheCopyAndTheNormOnceMore) {
    const LayerGraph graph = load_model("llama2-7b").value().graph;
    WorkShape shape;
    shape.microbatch = 2;
    const LayerWork plain = graph.layer(1).model->work(shape);
    shape.norms_of_copies = true;
    const LayerWork copies = graph.layer(1).model->work(shape);
    const double elements = 2.0 * 2048 * 4096;
    // Two norms a block. Forward: the cast's 6 bytes and 2 more read. Backward: cast and norm again (12), 4
    // more read and written beside dy, the cast back (6).
    EXPECT_DOUBLE_EQ(bytes(copies.forward) - bytes(plain.forward), 2 * 8 * elements);
    EXPECT_DOUBLE_EQ(bytes(copies.backward) - bytes(plain.backward), 2 * 22 * elements);
    EXPECT_DOUBLE_EQ(bytes(copies.backward, true), 2 * 12 * elements);
    EXPECT_EQ(bytes(plain.backward, true), 0);
}

}  // namespace
}  // namespace tw
