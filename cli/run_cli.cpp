#include "cli/run_cli.hpp"

#include <exception>
#include <new>

#include "base/version.hpp"
#include "cli/commands.hpp"
#include "cli/common/help.hpp"
#include "cli/common/parse.hpp"
#include "cli/common/writable_output.hpp"

namespace tw::cli {
namespace {

int run_invocation(const Commands& commands, Invocation& invocation) {
    Console& console = invocation.console;
    if (invocation.help) {
        console.out(invocation.command != nullptr ? command_help(*invocation.command, console.out_colour())
                                                  : program_help(commands, console.out_colour()));
        return 0;
    }
    if (!invocation.errors.empty()) return console.fail(invocation.errors);
    if (invocation.version) {
        if (console.json) {
            Json json = document("version");
            json["trainwright"] = kVersion;
            console.out_json(json);
        } else {
            console.out(std::string("trainwright ") + kVersion + "\n");
        }
        return 0;
    }
    if (invocation.command == nullptr) {
        console.note(program_help(commands, console.err_colour()));
        return exit_code(ErrorCode::Usage);
    }
    if (const Errors lost = unwritable_outputs(*invocation.command); !lost.empty()) return console.fail(lost);
    return invocation.command->execute(console);
}

}  // namespace

int run_cli(const std::vector<std::string>& words) {
    Console fallback;
    try {
        const Commands commands = make_commands();
        Invocation invocation = parse_command_line(commands, words);
        const int code = run_invocation(commands, invocation);
        if (invocation.console.flush()) return code;
        return invocation.console.fail(
            {Error{ErrorCode::Failure, "what was written to stdout got lost", "", ""}});
    } catch (const std::bad_alloc&) {
        return fallback.fail({Error{ErrorCode::Failure, "out of memory", "", ""}});
    } catch (const std::exception& exception) {
        return fallback.fail({Error{ErrorCode::Failure, exception.what(), "internal error",
                                    "please report it with the command line that caused it"}});
    }
}

}  // namespace tw::cli
