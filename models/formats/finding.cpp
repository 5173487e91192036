#include "models/formats/finding.hpp"

#include <algorithm>
#include <array>

#include "base/check.hpp"

namespace tw {
namespace {

constexpr std::string_view kNetworkAdvice =
    "check NCCL_IB_HCA and NCCL_SOCKET_IFNAME, that the container sees /dev/infiniband, that libibverbs is "
    "installed and "
    "memlock is unlimited";

constexpr std::array kKinds = {
    FindingKind{"above-peak", true,
                "a rate above what the link carries in both directions together, or the device computes",
                "look whether rates of several devices, bits as bytes, or sparse peaks were written"},
    FindingKind{"arrival-skew", true,
                "a rank enters collectives much later than the others, which wait for it",
                "look at that rank's host: data loading, another job, a slow device"},
    FindingKind{"average-mismatch", false, "the footer's average is not that of the rows",
                "the log is an excerpt or was edited; the rows are used"},
    FindingKind{"cpu-time", true, "the times are those of the host's calls, not of the device",
                "measure without -C 1"},
    FindingKind{"duplicate-rank", true, "two traces say that they are of the same rank",
                "give each rank a file of its own; the first is used"},
    FindingKind{"factor-mismatch", true, "busbw is not the operation's factor times algbw",
                "algbw or busbw of another tool was mixed in; the times are used"},
    FindingKind{"half-speed-nic", true,
                "network ports of one node differ in speed, or run below what they were built for",
                "look at the cable, the switch port and the PCI link of the slow one"},
    FindingKind{"hosts-unknown", false, "the file does not say on how many nodes the ranks were",
                "nccl-tests prints its devices; keep those lines in the log"},
    FindingKind{"in-place-gap", true, "in place and out of place differ although they move the same bytes",
                "another job ran at that moment: measure again with more iterations"},
    FindingKind{"memory-unit", true, "a size that is bytes where its key says GiB", "correct the file"},
    FindingKind{"no-curve", true, "the times follow no curve of latency and rate",
                "another job ran, or the table was edited; it is not used"},
    FindingKind{"no-infiniband", true, "NCCL found no InfiniBand device", kNetworkAdvice},
    FindingKind{"no-network", false, "no network port is described",
                "give a NCCL log or the node type by --device"},
    FindingKind{"numbers-missing", false, "rows or events that could not be read were left out",
                "the rest is used"},
    FindingKind{"operation-mismatch", true, "the log's words and its numbers name different operations",
                "the numbers are used"},
    FindingKind{"operation-unknown", false, "neither words nor numbers tell the operation",
                "the log is not used"},
    FindingKind{"p2p-disabled", true,
                "devices of one node exchange through host memory though they could do so directly",
                "unset NCCL_P2P_DISABLE; look at ACS in the PCI bridges (nvidia-smi topo -p2p r)"},
    FindingKind{"p2p-unavailable", false, "devices of one node cannot reach each other's memory",
                "copies go through host memory"},
    FindingKind{"ranks-ambiguous", false, "the numbers fit several counts of ranks", "the nearest is used"},
    FindingKind{"ranks-mismatch", true, "the log lists another number of ranks than its numbers are of",
                "the numbers are used"},
    FindingKind{"rate-dip", true, "a large message is slower than a smaller one",
                "another job ran at that moment: measure again with more iterations"},
    FindingKind{"rate-mismatch", true, "algbw is not size / time", "the times are used"},
    FindingKind{"rate-unit", true, "algbw is size / time in another unit",
                "rates are GB/s of 10^9 bytes; the times are used"},
    FindingKind{"shared-nic", false, "several devices share one network port",
                "their inter-node rate is that share of it"},
    FindingKind{"size-order", true, "sizes do not ascend",
                "the table was edited or two were joined; it is sorted"},
    FindingKind{"slow-link", true, "much less than the link between the devices carries",
                "look at NCCL_P2P_DISABLE, NCCL_P2P_LEVEL and ACS; or the log is of another machine"},
    FindingKind{"slow-network", true, "much less between nodes than the network ports carry", kNetworkAdvice},
    FindingKind{"socket-transport", true, "NCCL runs over TCP sockets", kNetworkAdvice},
    FindingKind{
        "source-conflict", true, "two sources contradict each other",
        "the more direct one is used: a log before a dump of NCCL's, that before nvidia-smi's matrix"},
    FindingKind{"too-few-points", false, "too few sizes to tell latency from rate",
                "measure from 8 bytes on: nccl-tests -b 8 -e 8G -f 2"},
    FindingKind{"truncated", true, "the file ends early", "what is there is used"},
    FindingKind{"two-way-rate", true, "a rate that the link carries only if both directions are counted",
                "rates are per direction: halve it"},
    FindingKind{"wrong-results", true, "the test found wrong results",
                "do not trust this machine before that is understood"},
};

}  // namespace

std::span<const FindingKind> finding_kinds() {
    return kKinds;
}

const FindingKind& finding_kind(std::string_view name) {
    const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                    [&](const FindingKind& kind) { return kind.name == name; });
    TW_CHECK_MSG(found != kKinds.end(), "a finding without its row in the table");
    return *found;
}

bool is_suspect(const Finding& finding) {
    return finding_kind(finding.name).suspect;
}

std::string to_string(const Finding& finding) {
    return finding.name + ": " + (finding.line > 0 ? "line " + std::to_string(finding.line) + ": " : "") +
           finding.message;
}

std::vector<std::string> to_strings(const std::vector<Finding>& findings) {
    std::vector<std::string> texts;
    texts.reserve(findings.size());
    for (const Finding& finding : findings)
        texts.push_back(to_string(finding));
    return texts;
}

bool has_finding(const std::vector<Finding>& findings, std::string_view name) {
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.name == name; });
}

}  // namespace tw
