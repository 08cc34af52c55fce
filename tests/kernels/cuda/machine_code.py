"""The machine code of a module as cuobjdump tells it, and one way round a loop of it: what static_model.py and tensor_memory_model.py count."""

import os
import re
import shutil
import subprocess
import sys


def told(what, path, told_before):
    """What cuobjdump says of a module: now, or, as that takes half a minute, in a file of `told_before`."""
    if told_before:
        with open(os.path.join(told_before, what), encoding="utf-8") as f:
            return f.read()
    found = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../third_party/cuda-disassembler/nvidia/cu13/bin")
    places = os.pathsep.join([os.environ["PATH"], found, "/usr/local/cuda/bin"])
    tool = shutil.which("cuobjdump", path=places)
    if not tool:
        sys.exit("machine_code: no cuobjdump: run tools/cuda_disassembler.sh")
    return subprocess.run([tool, f"-{what}", path], check=True, capture_output=True, text=True, env=os.environ | {"PATH": places}).stdout


def read_module(path, told_before):
    """{(arch, mangled name): [(address, instruction)]} and {(arch, name): (registers, bytes of static shared memory)}"""
    code, registers, arch, name = {}, {}, None, None
    for line in told("sass", path, told_before).splitlines():
        if line.startswith("arch = "):
            arch = line.split()[2]
        elif match := re.search(r"Function : (\S+)", line):
            name = match.group(1)
            code[arch, name] = []
        elif name and (match := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line)):
            code[arch, name].append((int(match.group(1), 16), match.group(2)))
    for line in told("res-usage", path, told_before).splitlines():
        if match := re.search(r"arch = (\S+)|(sm_\w+)\.cubin", line):
            arch = match.group(1) or match.group(2)
        if match := re.search(r"Function (\S+):", line):
            name = match.group(1)
        if match := re.search(r"REG:(\d+)", line):
            registers[arch, name] = int(match.group(1)), int(re.search(r"SHARED:(\d+)", line).group(1))
    return code, registers


def lend(code, registers, before, arch):
    """A chip for which nothing was compiled runs what was compiled for the one before it."""
    if not any(a == arch for a, _ in code):
        for of in (code, registers):
            of |= {(arch, name): what for (a, name), what in of.items() if a == before}


def opcode(text):
    return re.sub(r"^@!?U?P\w+\s+", "", text).split()[0]


def base(text):
    return opcode(text).split(".")[0]


def jump(text):
    match = re.search(r"\bBRA(?:\.\S+)?\s+(?:[^,]+,\s*)?(0x[0-9a-f]+)", text)
    return int(match.group(1), 16) if match else None


def conditional(text):
    """Whether it may be left out: a predicate stands in front of it, or, of a jump, in front of where that goes to, `BRA.U !UP0, 0x10` (all
    lanes of a warp alike) or `BRA.DIV UR4, 0x10` (where they have parted)."""
    return text.startswith("@") or (jump(text) is not None and "," in text)


def turn(code, low, high, liked, disliked=lambda t: False, products=None, closed=(), longest=False):
    """One way round the loop [low, high], or from the beginning to the end where these are None: [(address, instruction)]. It has so
    many `products` if that is given, then most of `liked`, then least of `disliked`, then fewest instructions (or most). Nothing between
    the addresses of `closed` is on it."""
    whole = low is None
    body = [(a, t) for a, t in code if whole or low <= a <= high]
    place = {a: i for i, (a, _) in enumerate(body)}
    best = [{} for _ in body] + [{0: ((0, 0, 0), None, 0)}]  # of every number of products: cost, the next instruction and its number
    for i in range(len(body) - 1, -1, -1):
        address, text = body[i]
        if any(first <= address <= last for first, last in closed):
            continue
        ways, to, maybe = [], jump(text), conditional(text)
        if base(text) == "BRA":
            if to == low and not whole:
                ways.append(len(body))
            elif to in place and to > address:
                ways.append(place[to])
            if maybe and i + 1 < len(body):
                ways.append(i + 1)
        elif base(text) == "EXIT" and not maybe:
            if not whole:
                continue
            ways.append(len(body))
        elif i + 1 < len(body):
            ways.append(i + 1)
        counts = products is not None and base(text) == "HMMA"
        for way in ways:
            for number, (cost, _, _) in best[way].items():
                new = (cost[0] - bool(liked(text)), cost[1] + bool(disliked(text)), cost[2] + (-1 if longest else 1))
                mine = number + counts
                if (products is None or mine <= products) and (mine not in best[i] or new < best[i][mine][0]):
                    best[i][mine] = (new, way, number)
    number, i, found = products or 0, 0, []
    if number not in best[0]:
        return None
    while i < len(body):
        found.append(body[i])
        _, i, number = best[i][number]
    return found


def loops(code):
    return [(jump(t), a) for a, t in code if jump(t) is not None and jump(t) < a]


def width(text):
    """Bytes a lane."""
    match = re.search(r"\.[US]?(8|16|32|64|128)\b", opcode(text))
    return int(match.group(1)) // 8 if match else 4


def columns_of(text):
    """Of a product of a warpgroup, 64 x columns x 16."""
    return int(re.search(r"\.64x(\d+)x16", opcode(text)).group(1))
