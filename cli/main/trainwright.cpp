#include "cli/run_cli.hpp"

int main(int argc, char** argv) {
    return tw::cli::run_cli({argv + 1, argv + argc});
}
