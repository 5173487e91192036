#include "cli/commands.hpp"
#include "cli/common/shells.hpp"

namespace tw::cli {
namespace {

int complete(const std::string& shell, Console& console) {
    const Commands commands = make_commands();
    const std::string script = shell == "bash"  ? bash_completion(commands)
                               : shell == "zsh" ? zsh_completion(commands)
                                                : fish_completion(commands);
    if (console.json) {
        Json json = document("completion");
        json["shell"] = shell;
        json["script"] = script;
        console.out_json(json);
    } else {
        console.out(script);
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
