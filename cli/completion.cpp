#include "cli/commands.hpp"
#include "cli/common/shells.hpp"

namespace tw::cli {
namespace {

int complete(const std::string& shell, Console& console) {
    const Commands commands = make_commands();
    if (shell == "bash") {
        console.out(bash_completion(commands));
    } else if (shell == "zsh") {
        console.out(zsh_completion(commands));
    } else {
        console.out(fish_completion(commands));
    }
    return 0;
}

}  // namespace

void define_completion(Command& command) {
    struct Options {
        std::string shell;
    };
    auto& options = command.keep<Options>();
    command.choice("SHELL", options.shell, {"bash", "zsh", "fish"}, "bash, zsh or fish");
    command.example("completion bash", "for this session: source <(trainwright completion bash)");
    command.example("completion zsh", "kept in a file of zsh's fpath");
    command.run([&options](Console& console) { return complete(options.shell, console); });
}

}  // namespace tw::cli
