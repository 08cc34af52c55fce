#!/usr/bin/env python3
"""The arrows of the house point down: every folder of base, kernels, engine, hpo and library is a room, and layers.txt beside this file says which rooms
each may include. An include that is not allowed fails, and so do a room that is not listed, a permission that nobody uses, and a circle. Nobody
above kernels/ asks which back end it runs on: planning is the same code. And every folder with sources has a README of a screen, and no more
sources than one looks through."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FLOORS = ("base", "kernels", "engine", "hpo", "library")
PROGRAM = "ftengine.c"
TASKS = "engine/tasks/"  # which may ask for a task
BESIDE = ("benchmarks", "tests", "tools")
SCREEN, SOURCES = 60, 30  # lines of a README; sources of a folder, which should be about 25
FORBIDDEN = [  # what, pattern, where not
    ("a branch on the back end", r"FT_BACKEND_|(\.|->)backend\b", ("engine", "hpo", PROGRAM)),
    ("a branch on the device's name", r"strn?cmp\([^)]*device->name", ("engine", "hpo", PROGRAM)),
    ("a switch on the task outside engine/tasks", r"\bFT_TASK_(SINGLE|MULTI|REGRESSION)", ("engine", "hpo", PROGRAM)),
    ("an include of tests/ outside tests/", r'#\s*include "tests/', FLOORS + (PROGRAM, "benchmarks")),
    ("an include of benchmarks/ outside benchmarks/", r'#\s*include "benchmarks/', FLOORS + (PROGRAM, "tests")),
]


def sources(root):
    """Path and text of every source file, relative to root."""
    paths = [os.path.join(root, PROGRAM)]
    for floor in FLOORS + BESIDE:
        paths += [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(root, floor)) for name in names]
    for path in paths:
        if re.search(r"\.(c|h|cu|def|inc)$", path):
            with open(path, encoding="utf-8") as f:
                yield os.path.relpath(path, root), f.read()


def room_of(path):
    return os.path.dirname(path) or PROGRAM


def includes(files):
    """{(room, other room): a line that includes it}"""
    edges = {}
    for path, text in files.items():
        for line in re.findall(r'^\s*#\s*include "([^"]+)"', text, re.M):
            target = line if line in files else os.path.normpath(os.path.join(os.path.dirname(path), line))
            if target in files and room_of(target) != room_of(path):
                edges.setdefault((room_of(path), room_of(target)), f'{path} includes "{line}"')
    return edges


def allowed(text):
    """{room: the rooms that it may include} of layers.txt: lines ROOM: ROOM..., # begins a comment."""
    table = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.split("#")[0].strip()
        if line:
            room, _, rooms = line.partition(":")
            if room in table:
                sys.exit(f"layers.txt:{number}: {room} is there twice")
            table[room] = rooms.split()
    return table


def circles(table):
    """Rooms that reach themselves."""
    found = set()
    for start in table:
        seen, ahead = set(), list(table[start])
        while ahead:
            room = ahead.pop()
            if room not in seen:
                seen.add(room)
                ahead += table.get(room, [])
        if start in seen:
            found.add(start)
    return found


def folders(root):
    """{folder with sources: (how many, lines of its README or 0)}"""
    found = {}
    for floor in FLOORS + BESIDE:
        for folder, _, names in os.walk(os.path.join(root, floor)):
            count = sum(name.endswith((".c", ".cu", ".cpp", ".py", ".sh")) for name in names)
            if count or any(name.endswith(".h") for name in names):
                lines = 0
                if "README.md" in names:
                    with open(os.path.join(folder, "README.md"), encoding="utf-8") as f:
                        lines = len(f.readlines())
                found[os.path.relpath(folder, root)] = (count, lines)
    return found


def untidy(found):
    said = [f"{folder} has no README.md" for folder, (_, lines) in sorted(found.items()) if lines == 0]
    said += [f"{folder}/README.md has {n} lines, a screen has {SCREEN}" for folder, (_, n) in sorted(found.items()) if n > SCREEN]
    said += [f"{folder} has {n} sources, more than {SOURCES}" for folder, (n, _) in sorted(found.items()) if n > SOURCES]
    return said


def faults(files, table):
    said = []
    everything = files
    files = {path: text for path, text in everything.items() if not path.startswith(tuple(folder + "/" for folder in BESIDE))}
    rooms = {room_of(path) for path in files}
    said += [f"{room} is no line of layers.txt" for room in sorted(rooms - set(table))]
    said += [f"layers.txt: there is no {room}" for room in sorted(set(table) - rooms)]
    edges = includes(files)
    said += [f"{a} must not know {b}: {line}" for (a, b), line in sorted(edges.items()) if b not in table.get(a, [])]
    said += [f"layers.txt: {a} does not include {b}" for a in table for b in table[a] if (a, b) not in edges]
    ring = circles(table)
    if ring:
        said.append("layers.txt has a circle: " + ", ".join(sorted(ring)))
    for what, pattern, where in FORBIDDEN:
        for path, text in everything.items():
            if path.startswith(tuple(w if w == PROGRAM else w + "/" for w in where)) and not (path.startswith(TASKS) and "task" in what):
                said += [f"{what}: {path}: {m.group(0)}" for m in re.finditer(pattern, text)]
    return said


def planted(files, table):
    """What must be found, and is not."""
    missed = []
    for name, text in [
        ("kernels/tensor.h", '#include "engine/config/config.h"\n'),  # an arrow up
        ("engine/plan/plan.c", '#include "kernels/cuda/gemm.h"\n'),  # a back end's own header
        ("engine/train/loop.c", '#include "tests/fixtures/tiny_run.h"\n'),
        ("benchmarks/speed/bench_step.c", '#include "tests/fixtures/tiny_run.h"\n'),
        ("tests/train/test_oom.c", '#include "benchmarks/fma_peak.h"\n'),
        ("hpo/study/loop.c", "if (device->backend == FT_BACKEND_CPU)\n"),
        ("engine/train/evaluation.c", "case FT_TASK_REGRESSION:\n"),
        ("engine/new_room/a.c", ""),
    ]:
        if not set(faults({**files, name: files.get(name, "") + text}, table)) - set(faults(files, table)):
            missed.append(f"{text or name} is not found")
    for room, more in [("base", ["engine/config"]), ("engine/plan", ["kernels/cuda"])]:  # a circle, and a permission that nobody uses
        if not set(faults(files, {**table, room: table[room] + more})) - set(faults(files, table)):
            missed.append(f"{room}: {more} in layers.txt is not found")
    found = [untidy({"engine": folder}) for folder in ((SOURCES, SCREEN), (SOURCES + 1, 1), (1, 0), (1, SCREEN + 1))]
    if [len(said) for said in found] != [0, 1, 1, 1]:
        missed.append(f"of folders that are too full or without a README: {found}")
    return missed


def main():
    root = os.environ["SOURCE_DIR"]
    files, found = dict(sources(root)), folders(root)
    with open(os.path.join(HERE, "layers.txt"), encoding="utf-8") as f:
        table = allowed(f.read())
    said = faults(files, table) + planted(files, table) + untidy(found)
    for line in said:
        print("FAILED:", line)
    print(f"{len(table)} rooms, {sum(map(len, table.values()))} allowed directions, {len(files)} files in {len(found)} folders")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
