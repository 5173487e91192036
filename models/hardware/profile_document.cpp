#include "models/hardware/profile_document.hpp"

#include <algorithm>

#include "models/data/embedded.hpp"
#include "models/hardware/profile_document_json.hpp"

namespace tw {

double SampleSeries::at(std::string_view name, double fallback) const {
    for (const auto& [key, number] : shape) {
        if (key == name) return number;
    }
    return fallback;
}

bool SampleSeries::same_point(const SampleSeries& other) const {
    return benchmark == other.benchmark && variant == other.variant && shape == other.shape;
}

Result<ProfileDocument> load_profile_document(std::string_view name_or_path) {
    const std::string name(name_or_path);
    const std::string_view text = embedded_document("profiles/" + name + ".json");
    const Result<Json> document = text.empty() ? read_json_file(name) : parse_json(text, name);
    if (!document) return document.errors();
    return decode_profile_document(*document, name);
}

Result<Cluster> cluster_of_document(const ProfileDocument& document, std::string_view path, int size) {
    const std::string context = "--cluster " + std::string(path);
    if (!document.cluster)
        return Error{ErrorCode::Usage,
                     "the profile '" + document.profile.name + "' says nothing of a node or a network",
                     context,
                     "measure on the machine itself, or import a topology: trainwright profile import"};
    Cluster cluster = *document.cluster;
    cluster.profile = std::string(path);
    if (size == 0) return cluster;
    if (!cluster.uniform() && size != cluster.devices())
        return Error{ErrorCode::Usage,
                     std::to_string(size) + " devices of a cluster of " +
                         std::to_string(cluster.groups.size()) + " kinds of nodes",
                     context, "leave the size out: it has " + std::to_string(cluster.devices())};
    if (size == cluster.devices()) return cluster;
    NodeGroup& group = cluster.groups.front();
    const int each = group.type.devices;
    cluster.name += ":" + std::to_string(size);
    if (size < each) {
        group.type = part_of_node(group.type, size);
        group.nodes = 1;
        return cluster;
    }
    const std::string whole = std::to_string(size / each * each);
    if (size % each != 0)
        return Error{ErrorCode::Usage,
                     std::to_string(size) + " devices are no multiple of the " + std::to_string(each) +
                         " devices of a " + group.type.name + " node",
                     context,
                     "legal sizes beside it: " + whole + " and " + std::to_string(size / each * each + each)};
    if (group.type.nics == 0)
        return Error{
            ErrorCode::Usage,
            std::to_string(size) + " devices take " + std::to_string(size / each) + " nodes of " +
                std::to_string(each) + ", and the profile measured no network between nodes",
            context,
            "at most " + std::to_string(each) + "; or measure across nodes: mpirun ... trainwright-profile"};
    group.nodes = size / each;
    return cluster;
}

}  // namespace tw
