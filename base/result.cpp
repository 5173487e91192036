#include "base/result.hpp"

namespace tw {

std::string to_string(const Error& error) {
    std::string text;
    if (!error.context.empty()) text += error.context + ": ";
    text += error.message;
    if (!error.hint.empty()) text += " (hint: " + error.hint + ")";
    return text;
}

std::string to_string(const Errors& errors) {
    std::string text;
    for (const Error& error : errors) {
        if (!text.empty()) text += '\n';
        text += to_string(error);
    }
    return text;
}

int exit_code(ErrorCode code) {
    switch (code) {
        case ErrorCode::Failure:
            return 1;
        case ErrorCode::Usage:
            return 2;
        case ErrorCode::Infeasible:
            return 3;
        case ErrorCode::Tolerance:
            return 4;
        case ErrorCode::Unreadable:
            return 5;
        case ErrorCode::Interrupted:
            return 130;
    }
    return 1;
}

int exit_code(const Errors& errors) {
    return errors.empty() ? 1 : exit_code(errors.front().code);
}

}  // namespace tw
