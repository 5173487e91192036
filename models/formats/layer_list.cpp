#include "models/formats/layer_list.hpp"

#include <map>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "base/si_format.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr std::int64_t kMaxSize = 1'000'000;  // of any kernel, stride, channel or pixel count
constexpr std::size_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxParameters = 1'000'000'000'000'000;

const std::vector<std::string> kTypes = {"conv", "linear", "pool",    "norm",   "activation",
                                         "add",  "concat", "dropout", "flatten"};

class LayerReader {
  public:
    LayerReader(const Json& layer, std::size_t index, Errors& errors)
        : object_(layer, "/layers/" + std::to_string(index), errors) {}

    CnnLayerSpec read(const std::map<std::string, int>& earlier) {
        spec_.name = object_.string("name");
        spec_.block = object_.string_or("block", "");
        const std::string type = object_.string("type");
        if (type == "conv") {
            read_convolution();
        } else if (type == "linear") {
            spec_.kind = CnnKind::Linear;
            spec_.out_channels = object_.integer("out_features", 1, kMaxSize);
            spec_.bias = object_.boolean_or("bias", true);
        } else if (type == "pool") {
            read_pool();
        } else if (type == "norm") {
            spec_.kind = CnnKind::BatchNorm;
            choose("batch", {"batch"});
        } else if (type == "activation") {
            const std::string kind = choose("relu", {"relu", "sigmoid", "tanh", "gelu", "silu"});
            spec_.kind =
                kind == "gelu" || kind == "silu" ? CnnKind::ActivationOfInput : CnnKind::ActivationOfOutput;
        } else if (type == "add") {
            spec_.kind = CnnKind::Add;
        } else if (type == "concat") {
            spec_.kind = CnnKind::Concat;
        } else if (type == "dropout") {
            spec_.kind = CnnKind::Dropout;
            object_.number_or("p", 0.5, 0.0, 1.0);
        } else if (type == "flatten") {
            spec_.kind = CnnKind::Flatten;
        } else if (!type.empty()) {
            object_.error("type", "no layer type " + quote(type), unknown_name_hint(type, kTypes));
        }
        read_inputs(earlier);
        object_.finish();
        return spec_;
    }

  private:
    std::string choose(const std::string& fallback, const std::vector<std::string>& known) {
        const std::string kind = object_.string_or("kind", fallback);
        for (const std::string& name : known) {
            if (name == kind) return kind;
        }
        object_.error("kind", "unknown kind " + quote(kind), unknown_name_hint(kind, known));
        return fallback;
    }

    // An integer, or [height, width].
    void read_pair(std::string_view key, std::int64_t low, std::int64_t& h, std::int64_t& w) {
        const Json* value = object_.find(key);
        if (value != nullptr && value->is_array()) {
            const auto legal = [&](const Json& v) {
                return v.is_number_integer() && v.get<double>() >= static_cast<double>(low) &&
                       v.get<double>() <= static_cast<double>(kMaxSize);
            };
            if (value->size() == 2 && legal((*value)[0]) && legal((*value)[1])) {
                h = (*value)[0].get<std::int64_t>();
                w = (*value)[1].get<std::int64_t>();
            } else {
                object_.error(key, "expected an integer or two, [height, width], in [" + std::to_string(low) +
                                       ", " + std::to_string(kMaxSize) + "]");
            }
            return;
        }
        h = w = object_.integer_or(key, h, low, kMaxSize);
    }

    void read_convolution() {
        spec_.kind = CnnKind::Convolution;
        spec_.out_channels = object_.integer("out_channels", 1, kMaxSize);
        if (!object_.has("kernel")) object_.error("kernel", "required key is missing");
        read_pair("kernel", 1, spec_.kernel_h, spec_.kernel_w);
        spec_.stride = object_.integer_or("stride", 1, 1, kMaxSize);
        read_pair("padding", 0, spec_.padding_h, spec_.padding_w);
        spec_.groups = object_.integer_or("groups", 1, 1, kMaxSize);
        spec_.bias = object_.boolean_or("bias", true);
    }

    void read_pool() {
        const std::string kind = choose("max", {"max", "average", "global-average"});
        spec_.kind = kind == "max" ? CnnKind::MaxPool : CnnKind::AveragePool;
        spec_.global = kind == "global-average";
        if (spec_.global) return;
        if (!object_.has("kernel")) object_.error("kernel", "required key is missing");
        read_pair("kernel", 1, spec_.kernel_h, spec_.kernel_w);
        spec_.stride = object_.integer_or("stride", spec_.kernel_h, 1, kMaxSize);
        read_pair("padding", 0, spec_.padding_h, spec_.padding_w);
    }

    void read_inputs(const std::map<std::string, int>& earlier) {
        if (!object_.has("inputs")) {
            spec_.inputs = {static_cast<int>(earlier.size()) - 2};  // `earlier` counts the images as -1
            return;
        }
        for (const Json& input : object_.array("inputs")) {
            const std::string name = input.is_string() ? input.get<std::string>() : "";
            const auto found = earlier.find(name);
            if (found != earlier.end()) {
                spec_.inputs.push_back(found->second);
                continue;
            }
            if (++unknown_ > kMostUnknown) continue;
            std::vector<std::string> names;
            for (const auto& [known, index] : earlier)
                names.push_back(known);
            object_.error(
                "inputs", quote(name) + " is no earlier layer",
                names.size() <= 12 ? unknown_name_hint(name, names) : "did you mean " + nearest(name, names));
        }
        if (spec_.inputs.empty()) {
            object_.error("inputs", "names no layer");
            spec_.inputs = {-1};
        }
    }

    static constexpr int kMostUnknown = 10;  // of which a layer's inputs are told

    JsonObject object_;
    CnnLayerSpec spec_;
    int unknown_ = 0;
};

struct Document {
    CnnNetwork network;
    std::int64_t published_parameters = 0;  // 0: not given
};

Result<Document> read_document(const Json& json, std::string_view name) {
    Errors errors;
    const JsonObject object(json, "", errors);
    read_schema(object, "layer-list", 1);
    Document document;
    CnnNetwork& network = document.network;
    network.name = object.string_or("name", std::string(name));
    object.string_or("source", "");
    document.published_parameters = object.integer_or("parameters", 0, 1, kMaxParameters);
    if (const Json* input = object.find("input")) {
        const JsonObject image(*input, "/input", errors);
        network.input.channels = image.integer("channels", 1, kMaxSize);
        network.input.height = image.integer("height", 1, kMaxSize);
        network.input.width = image.integer("width", 1, kMaxSize);
        image.finish();
    } else {
        object.error("input", "required key is missing",
                     "\"input\": {\"channels\": 3, \"height\": 224, \"width\": 224}");
    }
    const Json& layers = object.array("layers");
    if (layers.size() > kMaxLayers) {
        object.error("layers",
                     std::to_string(layers.size()) + " layers are more than " + std::to_string(kMaxLayers));
        return errors;
    }
    std::map<std::string, int> earlier = {{"input", -1}};
    for (std::size_t i = 0; i < layers.size(); ++i) {
        network.layers.push_back(LayerReader(layers[i], i, errors).read(earlier));
        const std::string& layer = network.layers.back().name;
        if (!earlier.emplace(layer, static_cast<int>(i)).second) {
            errors.push_back({ErrorCode::Unreadable, "a layer named " + quote(layer) + " exists already",
                              "/layers/" + std::to_string(i) + "/name", ""});
        }
        if (errors.size() >= 50) break;  // not worth reading on
    }
    object.finish();
    if (!errors.empty()) return errors;
    return document;
}

}  // namespace

Result<CnnNetwork> parse_layer_list(std::string_view text, std::string_view name) {
    const auto json = parse_json(text, name);
    if (!json) return json.errors();
    auto document = read_document(*json, name);
    if (!document) return document.errors();
    return std::move(document->network);
}

Result<LoadedModel> load_layer_list(std::string_view text, std::string_view name) {
    const auto json = parse_json(text, name);
    if (!json) return json.errors();
    return layer_list_from_json(*json, name);
}

Result<LoadedModel> layer_list_from_json(const Json& json, std::string_view name) {
    const auto document = read_document(json, name);
    if (!document) return document.errors();
    auto graph = build_cnn(document->network);
    if (!graph) return graph.errors();
    const std::int64_t published = document->published_parameters;
    if (published != 0 && published != graph->parameters()) {
        return Error{ErrorCode::Unreadable,
                     "the layers have " + format_count(graph->parameters()) +
                         " parameters, the document says " + format_count(published),
                     "/parameters", ""};
    }
    return LoadedModel{.graph = std::move(*graph), .warnings = {}};
}

}  // namespace tw
