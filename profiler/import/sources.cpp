#include "profiler/import/sources.hpp"

#include "models/formats/document.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/text_lines.hpp"
#include "models/formats/topology_nics.hpp"

namespace tw {
namespace {

std::string names_of(const NcclTestsLog& log) {
    std::string names;
    for (const CollectiveKind kind : log.operations)
        names += (names.empty() ? "" : " or ") + std::string(to_string(kind));
    return (names.empty() ? std::string("unknown operation") : names) + " of " + std::to_string(log.ranks) +
           (log.hosts > 1 ? " on " + std::to_string(log.hosts) + " nodes" : "") + ", " +
           counted(log.rows.size(), "size");
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

class Reader {
  public:
    explicit Reader(const ImportOptions& options) : options_(options) {}

    void read(const std::filesystem::path& path) {
        source_ = {.file = path.string(), .kind = "", .read = "", .points = 0, .findings = {}};
        index_ = sources.read.size();
        if (is_trace_file(path)) {
            read_trace(path);
        } else {
            const auto text = read_document_text(path);
            if (!text) return fail(text.errors());
            read_text(*text);
        }
        if (!source_.kind.empty()) sources.read.push_back(std::move(source_));
    }

    Sources sources;
    Errors errors;

  private:
    void fail(const Errors& more) { append(errors, more); }

    void read_trace(const std::filesystem::path& path) {
        TraceReadOptions options;
        if (options_.progress) {
            options.progress = [&](std::int64_t read, std::int64_t size) {
                return options_.progress(source_.file, read, size);
            };
        }
        auto trace = read_kineto(path, options);
        if (!trace) return fail(trace.errors());
        source_.kind = documents::kKinetoKind;
        source_.read = counted(static_cast<std::size_t>(trace->device_events), "device event") + ", " +
                       counted(trace->collectives.size(), "collective") +
                       (trace->rank >= 0 ? " of rank " + std::to_string(trace->rank) : "");
        append(source_.findings, trace->findings);
        sources.traces.push_back({index_, std::move(*trace)});
    }

    void read_text(const std::string& text) {
        const std::string& name = source_.file;
        if (looks_like_nccl_tests_json(text)) return read_logs(text, "nccl-tests report");
        if (const ForeignHardwareKind* kind = foreign_hardware_kind(text)) {
            auto hardware = kind->read(text, name);
            if (!hardware) return fail(hardware.errors());
            source_.kind = kind->name;
            source_.read = hardware->title;
            append(source_.findings, hardware->findings);
            sources.foreign.push_back({index_, std::move(*hardware)});
            return;
        }
        if (looks_like_nccl_topology(text)) {
            auto topology = parse_nccl_topology(text, name);
            if (!topology) return fail(topology.errors());
            source_.kind = "NCCL topology";
            source_.read =
                counted(topology->gpus.size(), "GPU") + ", " + counted(topology->nets.size(), "network port");
            append(source_.findings, check_topology(*topology));
            sources.topologies.push_back({index_, std::move(*topology)});
            return;
        }
        if (looks_like_topo_matrix(text)) {
            auto matrix = parse_topo_matrix(text, name);
            if (!matrix) return fail(matrix.errors());
            source_.kind = "nvidia-smi topology matrix";
            source_.read =
                counted(static_cast<std::size_t>(matrix->gpus()), "GPU") + ", " +
                counted(matrix->devices.size() - static_cast<std::size_t>(matrix->gpus()), "network card");
            append(source_.findings, check_topology(*matrix));
            sources.matrices.push_back({index_, std::move(*matrix)});
            return;
        }
        if (looks_like_nccl_tests(text)) return read_logs(text, "nccl-tests log");
        // Known or not, it says nothing of a machine.
        const auto summary = inspect_text(text, name);
        if (!summary) return fail(summary.errors());
        errors.push_back({ErrorCode::Unreadable,
                          "is a " + summary->kind + ", which holds no figures of a machine to import", name,
                          "trainwright inspect " + excerpt(name, 100) + " shows what it says"});
    }

    void read_logs(const std::string& text, const char* kind) {
        auto logs = parse_nccl_tests_all(text, source_.file);
        if (!logs) return fail(logs.errors());
        source_.kind = kind;
        for (NcclTestsLog& log : *logs) {
            source_.read += (source_.read.empty() ? "" : "; ") + names_of(log);
            append(source_.findings, log.warnings);
            sources.logs.push_back({index_, std::move(log)});
        }
    }

    const ImportOptions& options_;
    ImportedSource source_;
    std::size_t index_ = 0;
};

}  // namespace

Result<Sources> read_sources(const std::vector<std::filesystem::path>& files, const ImportOptions& options) {
    Reader reader(options);
    for (const std::filesystem::path& file : files) {
        reader.read(file);
        if (!reader.errors.empty() && reader.errors.back().code == ErrorCode::Interrupted)
            return reader.errors;
    }
    if (!reader.errors.empty()) return reader.errors;
    return std::move(reader.sources);
}

}  // namespace tw
