// PyTorch's schedule CSV (torch.distributed.pipelining, _dump_csv / _load_csv): one row a rank, one cell a
// step, an empty cell where the rank idles. "compute_only" files hold computes; "compute_comms" files hold
// transfers, UNSHARD, RESHARD and REDUCE_GRAD as well and have no idle cells. The format has no version: B is
// a whole backward, I and W its halves.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "plan/schedule/lower.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

std::string write_pytorch_csv(const ComputeOrder& order);
// With what PyTorch has a token for; the rest (optimizer, norm, gathers of updated parameters) its trainer
// does.
std::string write_pytorch_csv(const Schedule& schedule);

// The computes of either kind of file. Errors name row and cell; check_order says whether the order is legal.
Result<ComputeOrder> read_pytorch_csv(std::string_view text);

// Whether the file says when it sends and receives: a "compute_comms" file.
bool has_transfers(std::string_view text);

// A "compute_comms" file as it stands: transfers in the file's order on the lanes of `p2p`, computes waiting
// for what they receive, sends for what they send. check_schedule says whether it runs or deadlocks.
Result<Schedule> read_pytorch_csv_schedule(std::string_view text, LoweringOptions::P2p p2p);

}  // namespace tw
