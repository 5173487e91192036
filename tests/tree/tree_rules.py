#!/usr/bin/env python3
"""Rules of the tree: who may include whom, where a dependency may appear, how long a file may be, that links lead somewhere.

    tree_rules.py includes|precompiled|length|format|links [--root FOLDER]

Prints every violation as FILE:LINE: what is wrong (and what is allowed), and exits 1 where there is one. docs/adr/0005 says
why; tests/tree/tree_rules_test.py proves that each rule finds what it forbids.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

# Folder -> the folders whose headers it may include, itself among them.
ALLOWED = {
    "base": {"base"},
    "models": {"base", "models"},
    "plan": {"base", "models", "plan"},
    "sim": {"base", "models", "plan", "sim"},
    "planner": {"base", "models", "plan", "sim", "planner"},
    "real_exec": {"base", "models", "plan", "real_exec"},
    "profiler": {"base", "models", "plan", "real_exec", "profiler"},
    "gui": {"base", "models", "plan", "sim", "planner", "gui"},
    "cli": {"base", "models", "plan", "sim", "planner", "real_exec", "profiler", "gui", "cli"},
}

# (what, pattern of the included header, pattern of the files that may include it)
DEPENDENCIES = [
    ("CLI11", r"CLI/.*", r"(tests/)?cli/.*"),
    ("nlohmann json (use base/json.hpp)", r"nlohmann/.*", r"base/json\.(hpp|cpp)|cmake/precompiled\.hpp"),
    ("pugixml", r"pugixml.*", r"(tests/)?models/formats/.*"),
    ("Qt", r"Q[A-Z]\w*|Qt\w+/.*|qcustomplot\.h", r"(tests/)?gui/(?!view/).*"),
    ("CUDA", r"cuda.*|cublas.*|cudnn.*|cub/.*", r"(tests/)?real_exec/(backend|comm)/.*"),
    ("NCCL", r"nccl\.h|nccl_net\.h", r"(tests/)?real_exec/(backend|comm)/.*"),
    ("MPI", r"mpi\.h|mpi/.*", r"(tests/)?real_exec/(backend|comm)/.*"),
]

# Reading a JSON document means JsonObject; it stays at the edge, so that the inside only sees checked values.
DECODER = re.compile(r"\bJsonObject\b")
MAY_DECODE = re.compile(r"base/json\.(hpp|cpp)|.*_json\.(hpp|cpp)|(.*/)?(formats|frameworks)/.*|tests/.*")

LONGEST_FILE = 500
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
CPP = {".cpp", ".hpp", ".cu", ".cuh", ".h"}
COUNTED = CPP | {".py", ".sh", ".cmake"}


def tracked(root, suffixes):
    names = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z"], check=True, capture_output=True).stdout.decode()
    paths = [Path(name) for name in names.split("\0") if name]
    return [p for p in paths if p.suffix in suffixes and (root / p).is_file()]


def lines_of(root, path):
    return (root / path).read_text(encoding="utf-8", errors="replace").splitlines()


def folder_of(path):
    """The folder whose rules hold for a file: tests/plan/... follow what they test, tests/property/... see all."""
    parts = path.parts
    if parts[0] == "tests":
        return None
    return parts[0] if parts[0] in ALLOWED else None


def check_includes(root):
    found = []
    for path in tracked(root, CPP):
        name = path.as_posix()
        folder = folder_of(path)
        for number, line in enumerate(lines_of(root, path), 1):
            if folder and DECODER.search(line) and not MAY_DECODE.fullmatch(name):
                found.append(f"{name}:{number}: decodes JSON; only *_json.cpp, formats/, frameworks/ and base/json do")
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match.group(2)
            target = header.split("/")[0]
            if folder and target in ALLOWED and target not in ALLOWED[folder]:
                allowed = ", ".join(sorted(ALLOWED[folder]))
                found.append(f"{name}:{number}: {folder} may not include {header} (it may include {allowed})")
            if match.group(1) == '"' and "/" in header and target in ALLOWED and not (root / header).is_file():
                found.append(f"{name}:{number}: {header} does not exist")
            if match.group(1) == '"' and header.startswith("."):
                found.append(f"{name}:{number}: {header} is relative; write the path from the root of the tree")
            for what, headers, files in DEPENDENCIES:
                if re.fullmatch(headers, header) and not re.fullmatch(files, name):
                    found.append(f"{name}:{number}: {what} may not be included here ({header}; allowed: {files})")
    return found


# What comes precompiled is there for every source of a build by g++, included or not; elsewhere it is missing. Header ->
# names of it, less those that other headers of libstdc++ bring along.
PRECOMPILED = {
    "algorithm": r"std::(?:ranges::)?(?:(?:stable_|nth_|partial_)?sort|(?:upper|lower)_bound|equal_range|find(?:_if\w*)?|count(?:_if)?"
                 r"|(?:any|all|none)_of|(?:min|max|minmax)_element|clamp|reverse|rotate|unique|remove(?:_if)?|copy(?:_\w+)?|transform"
                 r"|fill(?:_n)?|is_sorted|(?:next|prev)_permutation|mismatch|binary_search|for_each|shuffle|merge|nth_element)\b",
    "array": r"std::array\b",
    "charconv": r"std::(?:from|to)_chars\b",
    "cmath": r"std::(?:sqrt|pow|exp2?|log(?:2|10|1p)?|expm1|floor|ceil|trunc|l{0,2}round|is(?:finite|nan|inf)|fabs|sin|cos|tanh?|hypot"
             r"|fmod|ldexp|frexp|erf|cbrt|lgamma|nextafter|copysign)\b",
    "cstdint": r"std::u?int(?:8|16|32|64)_t\b",
    "filesystem": r"std::filesystem\b",
    "fstream": r"std::[io]?fstream\b",
    "functional": r"std::(?:function|invoke|reference_wrapper)\b",
    "limits": r"std::numeric_limits\b",
    "map": r"std::(?:multi)?map\b",
    "memory": r"std::(?:(?:unique|shared|weak)_ptr|make_(?:unique|shared))\b",
    "numeric": r"std::(?:accumulate|iota|inner_product|partial_sum|gcd|lcm|midpoint|(?:in|ex)clusive_scan)\b",
    "optional": r"std::(?:optional|nullopt)\b",
    "set": r"std::(?:multi)?set\b",
    "span": r"std::(?:span|as_bytes)\b",
    "sstream": r"std::[io]?stringstream\b",
    "string": r"std::(?:string|to_string|getline)\b",
    "string_view": r"std::string_view\b",
    "tuple": r"std::(?:tuple|tie|make_tuple)\b",
    "vector": r"std::vector\b",
    "boost/graph/adjacency_list.hpp": r"boost::adjacency_list\b",
    "fmt/format.h": r"\bfmt::\w",
}
# By the standard, or in every library that there is.
BRINGS = {"string": {"string_view"}, "sstream": {"string", "string_view"}, "map": {"tuple"}, "memory": {"tuple"},
          "functional": {"tuple", "array"}, "fmt/ranges.h": {"fmt/format.h"}}
SPOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def check_precompiled(root):
    texts = {p.as_posix(): (root / p).read_text(encoding="utf-8", errors="replace") for p in tracked(root, CPP)}
    included = {name: [m.group(2) for m in map(INCLUDE.match, text.splitlines()) if m] for name, text in texts.items()}
    found = []
    for name, text in texts.items():
        reached, todo, headers = {name}, [name], set()
        while todo:
            for header in included[todo.pop()]:
                if header not in texts:
                    headers |= {header} | BRINGS.get(header, set())
                elif header not in reached:
                    reached.add(header)
                    todo.append(header)
        code = SPOKEN.sub(lambda m: "\n" * m.group().count("\n"), text)
        for header, names in PRECOMPILED.items():
            match = None if header in headers else re.search(names, code)
            if match:
                line = code.count("\n", 0, match.start()) + 1
                found.append(f"{name}:{line}: {match.group()} needs <{header}>, which neither it nor what it includes of ours includes")
    return found


def check_length(root):
    found = []
    for path in tracked(root, COUNTED):
        count = len(lines_of(root, path))
        if count > LONGEST_FILE:
            found.append(f"{path.as_posix()}:{count}: {count} lines, at most {LONGEST_FILE}: one concept a file")
    return found


def check_format(root):
    tool = shutil.which("clang-format-14")
    if tool is None:
        print("SKIPPED: clang-format-14 is not here (scripts/install_deps installs it): formatting was NOT checked")
        return []
    files = [p.as_posix() for p in tracked(root, {".cpp", ".hpp"})]
    found = []
    for start in range(0, len(files), 64):
        run = subprocess.run([tool, "--dry-run", *files[start : start + 64]], cwd=root, capture_output=True, text=True)
        found += re.findall(r"^(\S+:\d+):\d+: warning: code should be clang-formatted", run.stderr, re.MULTILINE)
        if run.returncode != 0:
            found.append(run.stderr.strip())
    by_file = {}
    for place in found:
        by_file.setdefault(place.rsplit(":", 1)[0], []).append(place.rsplit(":", 1)[1])
    return [f"{name}:{places[0]}: {len(places)} places are not formatted; run scripts/format" for name, places in by_file.items()]


LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def check_links(root):
    found = []
    for path in tracked(root, {".md"}):
        for number, line in enumerate(lines_of(root, path), 1):
            for target in LINK.findall(line):
                if "://" not in target and not (root / path.parent / target).exists():
                    found.append(f"{path.as_posix()}:{number}: {target} does not exist")
    return found


RULES = {"includes": check_includes, "precompiled": check_precompiled, "length": check_length, "format": check_format, "links": check_links}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rule", choices=sorted(RULES))
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    found = RULES[arguments.rule](arguments.root)
    for violation in found:
        print(violation)
    print(f"{arguments.rule}: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
