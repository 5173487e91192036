// Result<T>: a value, or every error that was found (never none). No exception crosses a folder's boundary.
//
// An Error names the rule, the numbers, the place (a JSON pointer, a flag, "rank 3, 2F0") and, where there is
// one, a legal neighbour as a hint.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.hpp"

namespace tw {

// What went wrong; decides the process's exit code (exit_code below).
enum class ErrorCode {
    Failure,      // exit 1
    Usage,        // exit 2: a flag, an unknown name, a contradiction on the command line
    Infeasible,   // exit 3: nothing fits
    Tolerance,    // exit 4: a prediction outside the tolerance asked for
    Unreadable,   // exit 5: a document that cannot be read, or that is not legal
    Interrupted,  // exit 130
};

struct Error {
    ErrorCode code = ErrorCode::Failure;
    std::string message;  // the rule and the numbers
    std::string context;  // where: JSON pointer, flag, file, or rank and instruction
    std::string hint;     // what to do instead; may be empty

    friend bool operator==(const Error&, const Error&) = default;
};

using Errors = std::vector<Error>;

// "context: message (hint: ...)", one line.
std::string to_string(const Error& error);
std::string to_string(const Errors& errors);  // one error a line
int exit_code(ErrorCode code);
int exit_code(const Errors& errors);  // that of the first error

struct Unit {};

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value)
        : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
    Result(Error error) : state_(std::in_place_index<1>, Errors{std::move(error)}) {}  // NOLINT
    Result(Errors errors) : state_(std::in_place_index<1>, std::move(errors)) {        // NOLINT
        TW_CHECK_MSG(!std::get<1>(state_).empty(), "a failed Result carries at least one error");
    }

    [[nodiscard]] bool has_value() const { return state_.index() == 0; }
    explicit operator bool() const { return has_value(); }

    [[nodiscard]] const T& value() const& {
        TW_CHECK_MSG(has_value(), has_value() ? "" : to_string(errors()).c_str());
        return std::get<0>(state_);
    }
    [[nodiscard]] T& value() & {
        TW_CHECK_MSG(has_value(), has_value() ? "" : to_string(errors()).c_str());
        return std::get<0>(state_);
    }
    [[nodiscard]] T&& value() && {
        TW_CHECK_MSG(has_value(), has_value() ? "" : to_string(errors()).c_str());
        return std::get<0>(std::move(state_));
    }
    const T& operator*() const& { return value(); }
    T& operator*() & { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    const T* operator->() const { return &value(); }
    T* operator->() { return &value(); }

    [[nodiscard]] const Errors& errors() const {
        TW_CHECK(!has_value());
        return std::get<1>(state_);
    }
    [[nodiscard]] const Error& error() const { return errors().front(); }

  private:
    std::variant<T, Errors> state_;
};

using Status = Result<Unit>;
inline Status ok() {
    return Unit{};
}

}  // namespace tw
