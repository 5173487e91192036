// The files of an import, decoded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/formats/foreign_hardware.hpp"
#include "models/formats/kineto.hpp"
#include "models/formats/nccl_tests.hpp"
#include "models/formats/nccl_xml.hpp"
#include "models/formats/topo_matrix.hpp"
#include "profiler/import/import_profile.hpp"

namespace tw {

template <class T>
struct FromFile {
    std::size_t source = 0;  // index into Sources::read
    T content;
};

struct Sources {
    std::vector<ImportedSource> read;
    std::vector<FromFile<NcclTestsLog>> logs;
    std::vector<FromFile<TopoMatrix>> matrices;
    std::vector<FromFile<NcclTopology>> topologies;
    std::vector<FromFile<KinetoTrace>> traces;
    std::vector<FromFile<ForeignHardware>> foreign;

    [[nodiscard]] const std::string& file_of(std::size_t source) const { return read[source].file; }
};

Result<Sources> read_sources(const std::vector<std::filesystem::path>& files, const ImportOptions& options);

}  // namespace tw
