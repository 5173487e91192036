#include "profiler/import/import_profile.hpp"

#include <algorithm>

#include "models/hardware/gemm_form.hpp"
#include "models/hardware/scale_profile.hpp"
#include "profiler/import/collective_import.hpp"
#include "profiler/import/collective_instances.hpp"
#include "profiler/import/cross_check.hpp"
#include "profiler/import/node_import.hpp"
#include "profiler/import/operation_import.hpp"
#include "profiler/import/product_import.hpp"
#include "profiler/import/sources.hpp"

namespace tw {
namespace {

// The base device's curves are not this machine's: each entry says where it is from.
void mark(FitRecord& fit, const std::string& base) {
    if (fit.scaled_from.empty()) fit.scaled_from = base;
}

void mark_all(HardwareProfile& profile, const std::string& base) {
    for (auto& entry : profile.gemm)
        mark(entry.fit, base);
    for (auto& entry : profile.gemm_forms)
        mark(entry.fit, base);
    if (profile.sustained.slowdown > 1) mark(profile.sustained.fit, base);
    for (auto& entry : profile.attention)
        mark(entry.fit, base);
    mark(profile.memory_fit, base);
    for (auto& entry : profile.memory_ops)
        mark(entry.fit, base);
    for (auto& entry : profile.convolution)
        mark(entry.fit, base);
    for (auto& entry : profile.host)
        mark(entry.fit, base);
    for (auto& entry : profile.collectives)
        mark(entry.fit, base);
    for (auto& entry : profile.interference)
        mark(entry.fit, base);
}

bool same_group(const CollectiveEntry& a, const CollectiveEntry& b) {
    return a.kind == b.kind && a.group_size == b.group_size && a.nodes == b.nodes;
}

// Imported curves, then those of the base for groups that nobody measured, where its devices are joined as
// these are.
void set_collectives(std::vector<CollectiveEntry> imported, bool keep_base, HardwareProfile& profile,
                     ImportResult& result) {
    std::vector<CollectiveEntry> kept;
    for (const CollectiveEntry& entry : profile.collectives) {
        const bool replaced = std::any_of(imported.begin(), imported.end(),
                                          [&](const auto& i) { return same_group(i, entry); });
        if (keep_base && !replaced) kept.push_back(entry);
    }
    if (!kept.empty())
        result.assumed.push_back(std::to_string(kept.size()) +
                                 " curves of collectives inside a node that no source has");
    profile.collectives = std::move(imported);
    profile.collectives.insert(profile.collectives.end(), kept.begin(), kept.end());
}

void list_absent(const HardwareProfile& profile, const NodeImport& node, ImportResult& result) {
    const auto measured = [&](bool across) {
        return std::any_of(profile.collectives.begin(), profile.collectives.end(),
                           [&](const CollectiveEntry& entry) {
                               return (entry.nodes > 1) == across && entry.fit.scaled_from.empty();
                           });
    };
    if (!measured(false)) result.absent.push_back("collectives inside a node");
    if (!measured(true) && node.type.nics > 0)
        result.absent.push_back("collectives between nodes: costed by NCCL's model over the ports' rate");
    if (!node.nics_known && !node.nic_rate_known) result.absent.push_back("the node's network ports");
    if (node.type.nearest_nics.empty() && node.type.nics > 0)
        result.absent.push_back("which port is next to which device");
}

// Each source's warnings are its own; a file with several tests may repeat them.
void drop_repeats(std::vector<Finding>& findings) {
    std::vector<Finding> once;
    for (Finding& finding : findings) {
        if (std::find(once.begin(), once.end(), finding) == once.end()) once.push_back(std::move(finding));
    }
    findings = std::move(once);
}

}  // namespace

Result<ImportResult> import_profile(const std::vector<std::filesystem::path>& files,
                                    const ImportOptions& options) {
    auto sources = read_sources(files, options);
    if (!sources) return sources.errors();
    auto node = import_node(*sources, options);
    if (!node) return node.errors();
    auto profile = profile_for(node->device);
    if (!profile) return profile.errors();

    ImportResult result;
    const std::string base = profile_origin(node->device) == "measured"
                                 ? node->device.name
                                 : profile->gemm.front().fit.scaled_from;
    mark_all(*profile, base);
    profile->name = options.name.empty() ? "imported-" + node->device.name : options.name;
    profile->description = "imported from " + std::to_string(files.size()) +
                           (files.size() == 1 ? " file" : " files") + ", on top of " + base;

    CollectiveImport collectives = import_collectives(*sources, *node);
    result.taken = node->taken;
    result.taken.insert(result.taken.end(), collectives.taken.begin(), collectives.taken.end());
    result.assumed.push_back("kernels: shipped profile of " + base);
    result.assumed.insert(result.assumed.end(), node->assumed.begin(), node->assumed.end());
    std::vector<Precision> fitted;
    for (GemmEntry& entry : profile->gemm) {
        if (entry.precision != Precision::Bf16) continue;
        if (auto products = import_products(*sources, entry, node->device)) {
            entry = std::move(products->entry);
            fitted.push_back(entry.precision);
            for (const GemmFormEntry& form : products->forms)
                set_gemm_form(*profile, form, entry.precision);
            result.taken.push_back(products->taken);
        }
    }
    OperationImport operations = import_operations(*sources, fitted, *profile);
    result.taken.insert(result.taken.end(), operations.taken.begin(), operations.taken.end());
    result.absent = std::move(operations.absent);
    const auto usual = load_node_type(node->device.default_node);
    const bool same_links = usual && usual->link == node->type.link && usual->devices == node->type.devices &&
                            usual->link_bandwidth.value == node->type.link_bandwidth.value;
    set_collectives(std::move(collectives.entries), same_links, *profile, result);
    list_absent(*profile, *node, result);

    result.findings = node->findings;
    const auto add = [&](std::vector<Finding> more) {
        result.findings.insert(result.findings.end(), more.begin(), more.end());
    };
    add(std::move(collectives.findings));
    add(cross_check(*sources, *node));
    add(check_arrivals(*sources, match_collectives(*sources, node->type.devices)));
    drop_repeats(result.findings);

    std::string list;
    for (ImportedSource& source : sources->read) {
        drop_repeats(source.findings);
        list += (list.empty() ? "" : ", ") + source.file;
    }
    node->type.source = "imported: " + list;
    MeasuredEnvironment environment;
    environment.tool = "trainwright profile import";
    environment.missing = result.absent;
    result.document.environment = environment;
    result.document.profile = std::move(*profile);
    Cluster cluster;
    cluster.name = node->type.name;
    cluster.groups = {{node->type, node->device, node->type.nics > 0 ? node->nodes : 1}};
    result.document.cluster = std::move(cluster);
    result.sources = std::move(sources->read);
    return result;
}

}  // namespace tw
