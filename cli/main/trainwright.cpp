#include <malloc.h>

#include "cli/run_cli.hpp"

int main(int argc, char** argv) {
    // A search allocates and frees schedules of a few hundred kilobytes thousands of times: by default glibc
    // maps and unmaps each, and page faults cost half of the time.
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    return tw::cli::run_cli({argv + 1, argv + argc});
}
