// The JSON documents of devices, node types and clusters. Keys carry SI units; every shipped figure names its
// source.
//
// A cluster: {"schema": "trainwright/cluster", "version": 1, "name": "mixed", "groups": [{"node": "dgx-h100",
// "count": 2},
// {"node": {... a node type ...}, "count": 1, "devices_per_node": 4}], "oversubscription": 2,
// "nodes_per_pod": 32, "profile": "h100"}, the profile a name, a path or a document. A node type names its
// device or holds one. "devices_per_node" uses a part of each node's devices.
//
// `sources` of a device or node type is a text, or an object {figure key: text} whose "*" stands for all
// other figures.
#pragma once

#include <string>
#include <string_view>

#include "base/json.hpp"
#include "models/hardware/cluster.hpp"

namespace tw {

// Decode one document (or an inline definition: `schema` and `version` are optional there). All errors are
// collected, Unreadable, with JSON pointers that start with `pointer`.
Result<Device> device_from_json(const Json& document, const std::string& pointer, bool inline_definition);
struct NodeDefinition {
    NodeType type;
    Device device;
};
Result<NodeDefinition> node_from_json(const Json& document, const std::string& pointer,
                                      bool inline_definition);
Result<Cluster> cluster_from_json(const Json& document, const std::string& pointer);

Json device_to_json(const Device& device);
Json node_to_json(const NodeType& type, const Device& device);
// Names a group's node type where it equals a shipped one and spells it out otherwise, and holds a profile
// that is not shipped; cluster_from_json reads it back to an equal Cluster, the profile's path for its
// document.
Json cluster_to_json(const Cluster& cluster);

// What devices, nodes, clusters and profiles may be called: of a-z, 0-9, '-', '_' and '.'.
bool is_hardware_name(std::string_view name);

// The shipped documents, each decoded once and checked; sorted by name.
const std::vector<Device>& shipped_devices();
const std::vector<NodeType>& shipped_node_types();

}  // namespace tw
