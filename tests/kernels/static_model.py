#!/usr/bin/env python3
"""What the compiled kernels can reach at most, read from their instructions: a model for machines without a GPU.

    python3 tests/kernels/static_model.py MODULE [--limits FILE] [--write-limits] [--markdown]

A multiprocessor has four partitions; each issues one instruction a cycle, and every kind of instruction occupies a pipe of
its partition for some cycles a warp (THROUGHPUT, from the arithmetic throughput table of the CUDA C++ Programming Guide and the
chips' data sheets; shared memory gives 128 bytes a cycle to the four). Of one turn of a kernel's hot loop the busiest pipe is
the bound, if enough warps are there to hide every latency: real kernels come in below, none above.

Kernels on tensor cores: cycles of HMMA over the bound = the largest part of the tensor peak that the loop can have. The turn
is a typical one: the next tile is fetched, no bound is masked, nothing is rescaled; with and without dropout.
Kernels bound by memory (those that choose a formula at run time are left out): bytes that the loop moves a cycle, and bytes that its warps have in flight, each over what the chip's
memory needs (bandwidth; bandwidth x latency). 1 or more means that instructions or occupancy are not what limits them.

Limits (static_model.json) are instructions of a turn: more than they say fails, and so does a kernel that is not there.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter

# SMs, GHz, registers and warps a multiprocessor, shared memory, cycles a warp of HMMA.16816 with fp32 sums, memory in bytes/s and
# its latency in cycles (about). mma.sync has 62% of the tensor peak on Hopper (shared/reference, and Luo et al. 2024).
CHIPS = {
    "sm_80": dict(name="A100", sms=108, ghz=1.41, warps=64, shared=164, hmma=8, fp32=2, bandwidth=2.039e12, latency=600),
    "sm_89": dict(name="RTX 4090", sms=128, ghz=2.52, warps=48, shared=100, hmma=32, fp32=1, bandwidth=1.008e12, latency=600),
    "sm_90a": dict(name="H200", sms=132, ghz=1.83, warps=64, shared=228, hmma=4 / 0.62, fp32=1, bandwidth=4.8e12, latency=700),
}
FP32 = {"FFMA", "FMUL", "FADD"}
INTEGER_FMA = {"IMAD"}
ALU = {"LOP3", "IADD3", "VIADD", "ISETP", "FSETP", "FSEL", "SEL", "FMNMX", "SHF", "LEA", "PRMT", "F2FP", "PLOP3", "MOV", "IABS", "FCHK",
       "VIMNMX", "IMNMX", "SGXT", "BMSK", "HADD2", "HMUL2", "HFMA2", "I2FP", "P2R", "R2P"}
SPECIAL = {"MUFU", "I2F", "F2I", "POPC", "FLO", "F2F"}

# name: pattern of the mangled name, bytes of dynamic shared memory a block (of head size d), threads a block
TENSOR = {
    "attention_forward": (r"attention_forwardI13__nv_bfloat16Li(\d+)E", lambda d: (64 + 4 * (32 if d == 64 else 64)) * (d + 8) * 2,
                          lambda d: 64 if d <= 64 else 128),
    "attention_backward, queries": (r"attention_backwardI13__nv_bfloat16Li(\d+)ELb0", lambda d: (128 + 128) * (d + 8) * 2 + 512, lambda d: 128),
    "attention_backward, keys": (r"attention_backwardI13__nv_bfloat16Li(\d+)ELb1", lambda d: (128 + 128) * (d + 8) * 2 + 512, lambda d: 128),
    # chunks of 16 rows: two tables of four and two groups of steps, and keys and values of these. A turn counts the first chunk's
    # product of a strip too, which the first turn alone has.
    "disentangled_forward": (r"disentangled_forwardI13__nv_bfloat16Li(\d+)E", lambda d: (8 + (8 if d == 128 else 16)) * 16 * (d + 8) * 2,
                             lambda d: 128),
}
HALF = "I13__nv_bfloat16Lb1E"
MEMORY = {
    "layernorm_forward": "layernorm_forward_kernel" + HALF,
    "layernorm_backward": "layernorm_backward_body" + HALF,
    "layernorm_means": "layernorm_means_kernel" + HALF,
    "embedding_forward": "embedding_forward_body" + HALF,
    "adamw": "adamw_kernel" + HALF,
    "gradient_squares": "gradient_squares_kernelILb1E",
}
PHILOX = re.compile(r"0x2da92e6d|0xd256d193")  # its multiplier: what dropout of scores costs


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def read_module(path):
    """{(arch, mangled name): [(address, instruction)]} and {(arch, name): registers}"""
    code, registers, arch, name = {}, {}, None, None
    for line in output("cuobjdump", "-sass", path).splitlines():
        if line.startswith("arch = "):
            arch = line.split()[2]
        elif match := re.search(r"Function : (\S+)", line):
            name = match.group(1)
            code[arch, name] = []
        elif name and (match := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line)):
            code[arch, name].append((int(match.group(1), 16), match.group(2)))
    for line in output("cuobjdump", "-res-usage", path).splitlines():
        if match := re.search(r"arch = (\S+)|(sm_\w+)\.cubin", line):
            arch = match.group(1) or match.group(2)
        if match := re.search(r"Function (\S+):", line):
            name = match.group(1)
        if match := re.search(r"REG:(\d+)", line):
            registers[arch, name] = int(match.group(1))
    return code, registers


def opcode(text):
    return re.sub(r"^@!?U?P\w+\s+", "", text).split()[0]


def base(text):
    return opcode(text).split(".")[0]


def jump(text):
    match = re.search(r"\bBRA(?:\.\S+)?\s+(?:[^,]+,\s*)?(0x[0-9a-f]+)", text)
    return int(match.group(1), 16) if match else None


def turn(code, low, high, liked, disliked):
    """Instructions of one way round the loop [low, high]: with most of `liked`, then least of `disliked`, then fewest."""
    body = [(a, t) for a, t in code if low <= a <= high]
    place = {a: i for i, (a, _) in enumerate(body)}
    best, follow = [None] * len(body) + [(0, 0, 0)], [None] * len(body)
    for i in range(len(body) - 1, -1, -1):
        text = body[i][1]
        ways, to, maybe = [], jump(text), text.startswith("@")
        if base(text) == "BRA":
            if to == low:
                ways.append(len(body))
            elif to in place and to > body[i][0]:
                ways.append(place[to])
            if maybe and i + 1 < len(body):
                ways.append(i + 1)
        elif base(text) == "EXIT" and not maybe:
            continue
        elif i + 1 < len(body):
            ways.append(i + 1)
        ways = [w for w in ways if best[w] is not None]
        if ways:
            way = min(ways, key=lambda w: best[w])
            cost = best[way]
            best[i] = (cost[0] - bool(liked(text)), cost[1] + bool(disliked(text)), cost[2] + 1)
            follow[i] = way
    if best[0] is None:
        return None
    texts, i = [], 0
    while i < len(body):
        texts.append(body[i][1])
        i = follow[i]
    return texts


def loops(code):
    return [(jump(t), a) for a, t in code if jump(t) is not None and jump(t) < a]


def width(text):
    """Bytes a lane."""
    match = re.search(r"\.(32|64|128)\b", opcode(text))
    return int(match.group(1)) // 8 if match else 4


def cycles(texts, chip):
    """Of every pipe of a partition, for one warp."""
    pipes = Counter(issue=len(texts))
    for text in texts:
        kind = base(text)
        if kind == "HMMA":
            pipes["tensor"] += chip["hmma"]
        elif kind in FP32:
            pipes["fma"] += chip["fp32"]
        elif kind in INTEGER_FMA:
            pipes["fma"] += 2
        elif kind in ALU:
            pipes["alu"] += 2
        elif kind in SPECIAL:
            pipes["special"] += 8
        elif kind == "LDSM":
            pipes["shared"] += 4 * int(re.search(r"\.(1|2|4)$", opcode(text)).group(1)) if re.search(r"\.(1|2|4)$", opcode(text)) else 16
        elif kind in ("LDS", "STS", "LDG", "STG", "LDGSTS"):
            pipes["shared"] += width(text)
        elif kind == "SHFL":
            pipes["shared"] += 4
    return pipes


def warps_resident(chip, registers, shared, threads):
    """Of a multiprocessor: limited by its 65,536 registers (given out by 256 a warp), its shared memory and its warps."""
    of_block = threads // 32
    of_warp = -(-registers * 32 // 256) * 256
    blocks = min(65536 // (of_warp * of_block), chip["warps"] // of_block)
    if shared:
        blocks = min(blocks, chip["shared"] * 1024 // (shared + 1024))
    return blocks * of_block


def tensor_rows(code, registers):
    for (arch, name), body in sorted(code.items()):
        chip = CHIPS.get(arch)
        for title, (pattern, shared, threads) in TENSOR.items():
            match = re.search(pattern, name)
            if not chip or not match:
                continue
            d = int(match.group(1))
            hot = [l for l in loops(body) if any(base(t) == "HMMA" for a, t in body if l[0] <= a <= l[1])]
            assert len(hot) == 1, f"{name} has {len(hot)} loops with products"
            row = {"arch": arch, "kernel": title, "head_dim": d,
                   "warps": warps_resident(chip, registers[arch, name], shared(d), threads(d))}
            for dropout in (False, True):
                liked = lambda t: base(t) in ("HMMA", "LDGSTS") or (dropout and PHILOX.search(t))  # noqa: E731
                texts = turn(body, *hot[0], liked, lambda t: PHILOX.search(t))
                pipes = cycles(texts, chip)
                bound = max(pipes, key=pipes.get)
                key = "dropout" if dropout else "plain"
                row[key] = {"instructions": len(texts), "products": sum(base(t) == "HMMA" for t in texts),
                            "part": pipes["tensor"] / pipes[bound], "bound": bound}
            yield row


def memory_rows(code, registers):
    for (arch, name), body in sorted(code.items()):
        chip = CHIPS.get(arch)
        for title, pattern in MEMORY.items():
            if not chip or pattern not in name:
                continue
            moves = lambda texts: sum(width(t) * 32 for t in texts if base(t) in ("LDG", "STG"))  # noqa: E731
            spans = [[t for a, t in body if low <= a <= high] for low, high in loops(body)] + [[t for _, t in body]]
            # the loop that moves most; a kernel without one goes over its rows once
            span = max(spans, key=lambda texts: (moves(texts) / len(texts)) if moves(texts) else 0)
            per_cycle = 4 * moves(span) / max(cycles(span, chip).values())
            flying = sum(width(t) * 32 for t in span if base(t) == "LDG")
            warps = warps_resident(chip, registers[arch, name], 0, 256)
            need = chip["bandwidth"] / chip["sms"] / (chip["ghz"] * 1e9)
            yield {"arch": arch, "kernel": title, "instructions": len(span), "bytes": moves(span), "warps": warps,
                   "rate": per_cycle / need, "flying": warps * flying / (need * chip["latency"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("--limits", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "static_model.json"))
    parser.add_argument("--write-limits", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    code, registers = read_module(options.module)
    tensor, memory = list(tensor_rows(code, registers)), list(memory_rows(code, registers))
    seen = {}
    for row in tensor:
        for key in ("plain", "dropout"):
            seen[f"{row['arch']} {row['kernel']} {row['head_dim']} {key}"] = row[key]["instructions"]
    for row in memory:
        seen[f"{row['arch']} {row['kernel']}"] = row["instructions"]

    if options.markdown:
        print("| chip | kernel | head size | warps | instructions, HMMA | part of the tensor peak at most | with dropout |")
        print("|---|---|---|---|---|---|---|")
    for row in tensor:
        p, w = row["plain"], row["dropout"]
        cells = [f"{row['arch']} ({CHIPS[row['arch']]['name']})", row["kernel"], row["head_dim"], row["warps"],
                 f"{p['instructions']}, {p['products']}", f"{p['part']:.0%} ({p['bound']})",
                 f"{w['instructions']}: {w['part']:.0%} ({w['bound']})"]
        print(("| " + " | ".join(map(str, cells)) + " |") if options.markdown else "  ".join(f"{c}" for c in cells))
    if options.markdown:
        print("\n| chip | kernel | warps | instructions, bytes a warp | rate / bandwidth | in flight / needed |\n|---|---|---|---|---|---|")
    for row in memory:
        cells = [f"{row['arch']} ({CHIPS[row['arch']]['name']})", row["kernel"], row["warps"], f"{row['instructions']}, {row['bytes']}",
                 f"{row['rate']:.1f}", f"{row['flying']:.1f}"]
        print(("| " + " | ".join(map(str, cells)) + " |") if options.markdown else "  ".join(f"{c}" for c in cells))

    if options.write_limits:
        with open(options.limits, "w", encoding="utf-8") as f:
            json.dump(seen, f, indent=1, sort_keys=True)
            f.write("\n")
        return 0
    with open(options.limits, encoding="utf-8") as f:
        limits = json.load(f)
    archs = {arch for arch, _ in code}
    bad = 0
    for key, limit in limits.items():
        if key.split()[0] not in archs:
            continue
        if key not in seen:
            print(f"static_model: there is no kernel any more of: {key}", file=sys.stderr)
            bad = 1
        elif seen[key] > limit * 1.03:  # other releases of nvcc differ by some
            print(f"static_model: {key}: {seen[key]} instructions a turn, {limit} were promised", file=sys.stderr)
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
