#!/usr/bin/env python3
"""Runs every command that the documentation shows and compares what it prints.

    run_docs.py --bin build/bin [--update-golden] [FILE…]        FILE: README.md and docs/**/*.md by default

A command stands in a fenced block marked `console`, on a line that begins with "$ " (a trailing backslash continues it);
the lines below it are what it prints, standard error included:

    $ trainwright schedules
    [...]

`[...]` inside a line stands for any text, alone on a line for any number of lines. `[exit 3]` as the last line expects that
exit status instead of 0. All commands of a file run in one empty folder, in order, with docs/ beside them and without
colours, in 100 columns. --update-golden shows the difference and rewrites the file, keeping wildcards that still match.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ANYTHING = "[...]"
EXIT = re.compile(r"\[exit (\d+)\]")
TIMEOUT_S = 300
CONTEXT = 6  # characters beside a wildcard that an update must find again


@dataclass
class Command:
    line: int  # of its "$ ", from 1
    text: str
    first: int = 0  # its expected lines are [first, first + len(expected)) of the file, from 0
    expected: list = field(default_factory=list)


def find_commands(lines):
    commands, inside, number = [], False, 0
    while number < len(lines):
        line = lines[number]
        if line.startswith("```"):
            inside = line.strip() == "```console"
        elif inside and line.startswith("$ "):
            command = Command(number + 1, line[2:])
            while command.text.endswith("\\") and number + 1 < len(lines):
                number += 1
                command.text = command.text[:-1].rstrip() + " " + lines[number].lstrip("> ").strip()
            command.first = number + 1
            commands.append(command)
        elif inside and commands:
            commands[-1].expected.append(line)
        elif inside:
            raise SystemExit(f"line {number + 1}: a console block begins with a command")
        number += 1
    return commands


def matches(pattern, line):
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split(ANYTHING)), line) is not None


def status_of(lines):
    return lines[-1] if lines and re.fullmatch(r"\[exit \d+\]", lines[-1].strip()) else ""


def same(expected, actual):
    """Whether the lines match; a line ANYTHING takes any number of lines, the fewest that let the rest match."""
    if status_of(expected) != status_of(actual):
        return False  # ANYTHING takes no failure
    reachable = {0}  # numbers of actual lines that the expected ones so far can account for
    for pattern in expected:
        if pattern.strip() == ANYTHING:
            reachable = set(range(min(reachable), len(actual) + 1))
        else:
            reachable = {i + 1 for i in reachable if i < len(actual) and matches(pattern, actual[i])}
        if not reachable:
            return False
    return len(actual) in reachable


def remarked(pattern, line):
    """The line with the pattern's wildcards, put where the text around them stands; None where it does not stand there."""
    parts, marked = pattern.split(ANYTHING), ""
    for before, after in zip(parts, parts[1:]):
        start = line.find(before[-CONTEXT:])
        if start < 0:
            return None
        start += len(before[-CONTEXT:])
        end = line.find(after[:CONTEXT], start) if after else len(line)
        if end < 0:
            return None
        marked, line = marked + line[:start] + ANYTHING, line[end:]
    return marked + line


def updated(expected, actual):
    """The actual lines, with those expected ones kept that still match, and their wildcards where they do not."""
    lines, at, skip = [], 0, False
    for pattern in expected:
        if pattern.strip() == ANYTHING:
            skip = True
            continue
        found = next((i for i in range(at, len(actual)) if matches(pattern, actual[i])), None)
        if found is None and ANYTHING in pattern:
            found = next((i for i in range(at, len(actual)) if remarked(pattern, actual[i])), None)
            pattern = pattern if found is None else remarked(pattern, actual[found])
        if found is None:
            continue
        lines += [ANYTHING] if skip else actual[at:found]
        lines.append(pattern)
        at, skip = found + 1, False
    return lines + ([ANYTHING] if skip else actual[at:])


def run(command, folder, environment):
    done = subprocess.run(["sh", "-c", command.text], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
    lines = [line.rstrip() for line in done.stdout.decode("utf-8", "replace").splitlines()]
    return lines + ([f"[exit {done.returncode}]"] if done.returncode != 0 else [])


def check_file(path, binaries, update):
    lines = path.read_text(encoding="utf-8").splitlines()
    commands = find_commands(lines)
    environment = dict(os.environ, PATH=f"{binaries}{os.pathsep}{os.environ['PATH']}", NO_COLOR="1", COLUMNS="100",
                       TERM="dumb", LC_ALL="C.UTF-8")
    failures, replaced = 0, list(lines)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "docs").symlink_to(ROOT / "docs")
        results = [(command, run(command, folder, environment)) for command in commands]
    for command, actual in reversed(results):
        if same(command.expected, actual):
            continue
        failures += 1
        wanted = updated(command.expected, actual)
        print(f"{path}:{command.line}: $ {command.text}")
        print("\n".join(difflib.unified_diff(command.expected, wanted, "documented", "printed", lineterm="")))
        replaced[command.first : command.first + len(command.expected)] = wanted
    if update and failures:
        path.write_text("\n".join(replaced) + "\n", encoding="utf-8")
    return len(commands), failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--update-golden", action="store_true", help="show the difference and rewrite the files")
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()
    files = arguments.files or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    total = failed = 0
    for path in files:
        commands, failures = check_file(path, arguments.bin.resolve(), arguments.update_golden)
        total, failed = total + commands, failed + failures
    print(f"{total} commands in {len(files)} files, {failed} print something else than documented")
    return 1 if failed and not arguments.update_golden else 0


if __name__ == "__main__":
    sys.exit(main())
