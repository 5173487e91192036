#!/usr/bin/env python3
"""Rules of the tree: who may include whom, where a dependency may appear, how long a file may be, that links lead somewhere.

    tree_rules.py includes|length|format|links [--root FOLDER]

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
    ("nlohmann json (use base/json.hpp)", r"nlohmann/.*", r"base/json\.(hpp|cpp)"),
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


RULES = {"includes": check_includes, "length": check_length, "format": check_format, "links": check_links}


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
