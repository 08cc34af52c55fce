#!/usr/bin/env python3
"""What the compiled kernels can reach at most, read from their instructions: a model for machines without a GPU.

    python3 tests/kernels/cuda/static_model.py MODULE [--limits FILE] [--write] [--markdown]

A multiprocessor has four partitions; each issues one instruction a cycle, and every kind of instruction occupies a pipe of
its partition for some cycles a warp (THROUGHPUT, from the arithmetic throughput table of the CUDA C++ Programming Guide and the
chips' data sheets; shared memory gives 128 bytes a cycle to the four). Of one turn of a kernel's hot loop the busiest pipe is
the bound, if enough warps are there to hide every latency: real kernels come in below, none above.

Kernels on tensor cores: cycles of HMMA over the bound = the largest part of the tensor peak that the loop can have. The turn
is a typical one: the next tile is fetched, no bound is masked, nothing is rescaled; with and without dropout. Loops inside it
count as often as they run; of a visit of disentangled_backward to its slab the part of a step counts (VISITED).
Products of warpgroups (HGMMA; sm_90a) have the whole tensor peak, mma.sync on that chip 62% of it: their rate in TFLOP/s stands beside
that of the kernel that does the same with mma.sync. Their right operand comes from shared memory once for four warps, the left one too
where it is in no register, and the copy engine writes what they read there once for all warpgroups of a block. A kernel with both (HYBRID)
has the part of wgmma's peak that all of its products come to.
Products of our own (kernels/cuda/products): a tile of 128 x 256 numbers and PRODUCT_TERMS terms. Tensor cores and shared memory (both operands, what the
copy engine writes, the way of the sums to the epilogue) go on beside each other; while two warpgroups put their sums there, tensor cores stand still. The
epilogue's three warps, which work beside the products, take its cycles as well; where those are more, they bind.
Kernels bound by memory (the formula of an activation is chosen at run time: of all of them the dearest way counts): bytes an
element come from tests/emulator/pieces/counts.txt, where the emulator counted them, L2's share with every sector that is written.
The part of the memory's bandwidth that is left is the smallest of
    instructions   bytes that the loop moves in the cycles of its busiest pipe
    in flight      Little's law: bytes that the resident warps wait for at once (loads before the first use of one of them),
                   over the latency, where the reads' share of the bandwidth is needed
    L2             bytes that cross between L1 and L2, where the chip's makers say how many a cycle can
Targets, checked with every run: memory-bound kernels 85% of the bandwidth, attention what TARGETS says; a miss has its reason in MISSES.
Without code for sm_89 the module's for sm_80 is what runs there; its rows are called sm_89/sm_80.

Limits (static_model.json) are what every row had: more instructions of a turn, a smaller part, fewer resident warps, or a kernel that is not
there any more, fails. --write renews those of the chips that the module has code for, and keeps the others.
"""

import argparse
import json
import math
import os
import re
import sys
from collections import Counter

from machine_code import base, columns_of, conditional, jump, lend, loops, opcode, read_module, turn, width

# SMs, GHz, warps a multiprocessor, shared memory, cycles a warp of HMMA.16816 with fp32 sums, memory in bytes/s (data sheets) and
# its latency in cycles: measured on idle chips are 466 (A100), 542 (RTX 4090) and 479 (H100) by Luo et al. 2024 ("Benchmarking and
# Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking"); a quarter more is for memory that is busy. mma.sync has 62% of the
# tensor peak on Hopper (the same). fp64, wide: cycles a warp of an operation of doubles and of a conversion to or from one (32, 2 and 64, and 16, 2
# and 16 a cycle and multiprocessor). l2: bytes a cycle, of NVIDIA's white papers on A100 and H100; for the 4090 there is no figure.
CHIPS = {
    "sm_80": dict(name="A100", sms=108, ghz=1.41, warps=64, shared=164, hmma=8, fp32=2, bandwidth=2.039e12, latency=600, l2=5120, fp64=4, wide=8),
    "sm_89": dict(name="RTX 4090", sms=128, ghz=2.52, warps=48, shared=100, hmma=32, fp32=1, bandwidth=1.008e12, latency=700, l2=None, fp64=64, wide=64),
    "sm_90a": dict(name="H200", sms=132, ghz=1.83, warps=64, shared=228, hmma=4 / 0.62, fp32=1, bandwidth=4.8e12, latency=700, l2=5120, fp64=2, wide=8),
}
FP32 = {"FFMA", "FMUL", "FADD"}
FP64 = {"DFMA", "DMUL", "DADD", "DSETP"}
INTEGER_FMA = {"IMAD"}
ALU = {"LOP3", "IADD3", "VIADD", "ISETP", "FSETP", "FSEL", "SEL", "FMNMX", "SHF", "LEA", "PRMT", "F2FP", "PLOP3", "MOV", "IABS", "FCHK",
       "VIMNMX", "IMNMX", "SGXT", "BMSK", "HADD2", "HMUL2", "HFMA2", "I2FP", "P2R", "R2P"}
SPECIAL = {"MUFU", "I2F", "F2I", "POPC", "FLO", "F2F"}

# Of disentangled_backward: bands of a strip in shared memory; chunks of the slab, half of their columns, that a warp takes at a visit: two pairs of
# warps share those of twice as many steps.
BANDS = {"queries": {32: 8, 64: 16, 96: 6, 128: 6}, "keys": {32: 8, 64: 8, 96: 6, 128: 6}}
VISITED = {"queries": {32: 2, 64: 4, 96: 1, 128: 1}, "keys": {32: 2, 64: 2, 96: 1, 128: 1}}
# name: pattern of the mangled name, bytes of dynamic shared memory a block (of head size d), threads a block
TENSOR = {
    "attention_forward": (r"attention_forwardI13__nv_bfloat16Li(\d+)E", lambda d: (64 + 4 * (32 if d == 64 else 64)) * (d + 8) * 2,
                          lambda d: 64 if d <= 64 else 128),
    "attention_backward, queries": (r"attention_backwardI13__nv_bfloat16Li(\d+)ELb0", lambda d: (128 + 128) * (d + 8) * 2 + 512, lambda d: 128),
    "attention_backward, keys": (r"attention_backwardI13__nv_bfloat16Li(\d+)ELb1", lambda d: (128 + 128) * (d + 8) * 2 + 512, lambda d: 128),
    # 128 keys and values, two tiles of queries and dout and of dS, lse and D; a tile has 2048 / d queries
    "attention_owner": (r"attention_ownerI13__nv_bfloat16Li(\d+)E",
                        lambda d: (2 * 128 + 4 * 2048 // d) * (d + 8) * 2 + 2 * 128 * (2048 // d + 8) * 2 + 16 * 2048 // d, lambda d: 256),
    # chunks of 16 rows: two tables of four and two groups of steps, and keys and values of these
    "disentangled_forward": (r"disentangled_forwardI13__nv_bfloat16Li(\d+)E", lambda d: (8 + (8 if d == 128 else 16)) * 16 * (d + 8) * 2,
                             lambda d: 128),
    # two tables of five chunks and one on its way, two steps of two matrices, own rows; bands (BANDS), lse and D
    "disentangled_backward, queries": (r"disentangled_backwardI13__nv_bfloat16Li(\d+)ELb0",
                                       lambda d: (2 * 6 + 4 + 4) * 16 * (d + 8) * 2 + 4 * BANDS["queries"][d] * 256 * 2 + 256, lambda d: 128),
    "disentangled_backward, keys": (r"disentangled_backwardI13__nv_bfloat16Li(\d+)ELb1",
                                    lambda d: (2 * 6 + 4 + 4) * 16 * (d + 8) * 2 + 4 * BANDS["keys"][d] * 256 * 2 + 256, lambda d: 128),
}
# name: pattern, the kernel that does the same with mma.sync, bytes of shared memory that the copy engine fills for one turn of one of
# the warpgroups, bytes of dynamic shared memory a block, threads a block
# Forward: queries of two warpgroups, three tiles of keys and three of values; of 128 keys, in bands at heads of 128 of 64
FORWARD_WARPGROUP = {name: (rf"{name}I13__nv_bfloat16Li(\d+)E", "attention_forward", lambda d, keys=keys: 2 * keys[d] * d * 2 // 2,
                            lambda d, keys=keys: 128 * d * 2 + 6 * keys[d] * d * 2 + 128, lambda d: 384)
                     for name, keys in (("attention_warpgroup", {64: 128, 128: 128}), ("attention_warpgroup_banded", {64: 128, 128: 64}))}
WARPGROUP = {
    # own pairs of two warpgroups, three pairs of others, lse and D
    **{f"attention_warpgroup_backward, {side}": (rf"attention_warpgroup_backwardI13__nv_bfloat16Li(\d+)ELb{of_keys}", f"attention_backward, {side}",
                                                 lambda d: 2 * 64 * d * 2 // 2, lambda d: (2 + 3) * 2 * 64 * d * 2 + 3 * 512 + 128, lambda d: 384)
       for of_keys, side in enumerate(("queries", "keys"))},
}
# The same where not every query sees every key; of a turn all of whose scores are seen, beside that of mma.sync without a window
WARPGROUP = FORWARD_WARPGROUP | WARPGROUP | {name.replace("warpgroup", "warpgroup_banded"): (of[0].replace("warpgroup", "warpgroup_banded"), *of[1:]) for name, of in WARPGROUP.items()}
# Products of warpgroups beside mma.sync's, heads of 64; of every two turns one multiplies the bands of a group of chunks and visits the slab.
HYBRID = {f"disentangled_warpgroup_backward, {side}": (rf"disentangled_warpgroup_backwardI13__nv_bfloat16Lb{of_keys}", f"disentangled_backward, {side}")
          for of_keys, side in enumerate(("queries", "keys"))}
# others, own rows, three groups of the own table and of bands, eight chunks of the other table, lse and D
HYBRID_SHARED, HYBRID_THREADS = 4 * 32 * 128 + 7 * 64 * 128 + 8 * 16 * 72 * 2 + 4 * 32 * 4, 128
# The same forward, whose turn is one of two steps; three tiles of values, four of own tables, four chunks of keys, eight of the other table
HYBRID["disentangled_warpgroup_forward"] = (r"disentangled_warpgroup_forwardI13__nv_bfloat16", "disentangled_forward")
FORWARD_SHARED = 7 * 32 * 128 + 12 * 16 * 72 * 2
# Products of our own: name, pattern, warps of the epilogue; tiles, threads and bytes of shared memory as in kernels/cuda/products/tiles.h
PRODUCTS = {"product_activation": (r"product_activationI13__nv_bfloat16E", 3), "product_slope": (r"product_slopeI13__nv_bfloat16E", 3),
            "product_norm": (r"product_normI13__nv_bfloat16S", 3), "product_norm, fp32 sum": (r"product_normI13__nv_bfloat16fE", 3)}
PRODUCT_TERMS, PRODUCT_ROWS, PRODUCT_COLUMNS, PRODUCT_STAGE, PRODUCT_THREADS, PRODUCT_SHARED = 1024, 128, 256, 49152, 384, 3 * 49152 + 65536 + 2048 + 80
ONLY = {"attention_owner": "sm_89"}  # what is made for one chip is judged on it
NESTED_TURNS = 4  # of loops inside a turn of disentangled_backward with head size 128: 8 times 16 columns, two at a time
HALF = "I13__nv_bfloat16Lb1E"
# name: pattern of the mangled name, launch in counts.txt, threads a block, bytes of dynamic shared memory (at 768 columns)
MEMORY = {
    "layernorm_forward": ("layernorm_forward_kernel" + HALF + "fE", "layernorm_forward.bf16/1", 128, 4 * 3136),
    # with train.residual=16bit: dy is kept in 16 bits too
    "layernorm_forward_16bit": ("layernorm_forward_kernel" + HALF + "S", "layernorm_forward_16bit.bf16/1", 128, 4 * 3136),
    "layernorm_backward_16bit": (r"layernorm_backward_kernelI13__nv_bfloat16Lb1ELi1ES", "layernorm_backward_16bit.bf16/1", 256,
                                 8 * (2 * 768 * 4 + 16 + 96)),
    # two buffers of eight rows of dy and s, their numbers and what they drop
    "layernorm_backward": (r"layernorm_backward_kernelI13__nv_bfloat16Lb1ELi1EfE", "layernorm_backward.bf16/1", 256,
                           8 * (2 * (768 * 6 + 64) + 16 + 96)),
    "activation_forward": ("activation_forward_body" + HALF, "activation_forward.bf16/1", 256, 0),
    "activation_backward": ("activation_backward_body" + HALF, "activation_backward.bf16/1", 256, 0),
    "column_sum": ("column_sum_body" + HALF, "column_sum.bf16/1", 256, 0),
    "embedding_forward": ("embedding_forward_body" + HALF, "embedding_forward.bf16/1", 256, 0),
    "embedding_backward": ("embedding_runs_kernel" + HALF, "embedding_backward.bf16/1", 96, 0),
    "dropout": ("dropout_body" + HALF, "dropout.bf16/1", 256, 0),
    "gather_rows": ("gather_rows_body" + HALF, "gather_rows.bf16/1", 256, 0),
    "scatter_rows_add": ("scatter_rows_add_bodyI13__nv_bfloat16fLb1E", "scatter_rows_add.bf16/1", 256, 0),
    "cast to bf16": ("cast_bodyIf13__nv_bfloat16Lb1E", "cast.fp32_to_bf16/1", 256, 0),
    "cast to fp32": ("cast_bodyI13__nv_bfloat16fLb1E", "cast.bf16_to_fp32/1", 256, 0),
    "adamw": ("adamw_kernel" + HALF, "adamw.bf16/1", 256, 0),
    "gradient_squares": ("gradient_squares_kernelILb1E", "gradient_norm/1", 256, 0),
    "decay": ("decay_bodyILb1E", "decay/1", 256, 0),
}
# Turns of the loops inside a kernel's loop, in their order, of a mean warp (at 768 columns): copies of dy and of s, units of a row, eight rows
# of a quad, which six of the eight warps have. Copies are asked for a turn before their use.
NESTED = {"layernorm_backward": (6, 3, 3, 6), "layernorm_backward_16bit": (3, 3, 6)} # of 16 bits dy and s are copied in one
# Least parts of the memory's bandwidth, and of the tensor peak with dropout. Attention: 90% of what FlashAttention-2 reached of it (Dao
# 2023: 73% forward and 63% backward on A100; Shah et al. 2024: 35% of wgmma's peak on H100, that is 56% of mma.sync's; both for head
# sizes 64 and 128, 32 and 96 are held to the same); disentangled attention: 60% of the floor.
MEMORY_TARGET = 0.85
PART_TOLERANCE = 0.01  # by which a part may fall below the committed one
TARGETS = {
    ("sm_80", "attention_forward"): 0.66, ("sm_80", "attention_backward"): 0.57,
    ("sm_89", "attention_forward"): 0.66, ("sm_89", "attention_backward"): 0.57, ("sm_89", "attention_owner"): 0.57,
    ("sm_90a", "attention_forward"): 0.51, ("sm_90a", "attention_backward"): 0.51,
    **{(arch, f"disentangled_{way}"): 0.6 for arch in CHIPS for way in ("forward", "backward")},
}
SHARED = "ldmatrix takes every cycle of shared memory, and at this head size no registers are left to keep the chunk of positions behind"
FEW = "softmax, positions and dropout cost a pair of tokens as many instructions as at other head sizes, beside the fewest products"
SMALL = "shared memory is read most a product at this head size"
MISSES = {  # "chip kernel [head size]": the least part that is let pass, and why
    **{f"sm_90a disentangled_backward, {side} {d}": (least, SHARED)
       for side, d, least in (("queries", 96, 0.54), ("keys", 96, 0.47), ("queries", 128, 0.49), ("keys", 128, 0.47))},
    "sm_80 disentangled_backward, keys 128": (0.58, SHARED),
    "sm_80 attention_forward 32": (0.53, FEW), "sm_90a attention_forward 32": (0.43, FEW),
    "sm_80 disentangled_forward 32": (0.42, FEW), "sm_90a disentangled_forward 32": (0.33, FEW), "sm_90a disentangled_forward 96": (0.52, SHARED),
    "sm_90a attention_backward, keys 32": (0.47, SMALL),
    **{f"{arch} disentangled_backward, {side} 32": (least, FEW)
       for arch, side, least in (("sm_80", "queries", 0.51), ("sm_80", "keys", 0.53), ("sm_90a", "queries", 0.40), ("sm_90a", "keys", 0.42))},
}
PHILOX = re.compile(r"0x2da92e6d|0xd256d193")  # its multiplier: what dropout of scores costs
ROW_PHILOX = re.compile(r"0x2daee0ad|0xd2511f53|0x326172a9|0xcd9e8d57")  # those of dropout of rows


def cycles(texts, chip):
    """Of every pipe of a partition, for one warp."""
    pipes = Counter(issue=len(texts))
    for text in texts:
        kind = base(text)
        if kind == "HMMA":
            pipes["tensor"] += chip["hmma"]
        elif kind == "HGMMA":
            columns = columns_of(text)
            pipes["tensor"] += columns / 2
            pipes["shared"] += columns / 4 + (16 if re.search(r"HGMMA\S*\s+R\d+, gdesc", text) else 0)  # the left operand too, if no register has it
        elif kind in FP32:
            pipes["fma"] += chip["fp32"]
        elif kind in FP64:
            pipes["fp64"] += chip["fp64"]
        elif kind in SPECIAL and "F64" in text:
            pipes["fp64"] += chip["wide"]
        elif kind in INTEGER_FMA:
            pipes["fma"] += 2
        elif kind in ALU:
            pipes["alu"] += 2
        elif kind in SPECIAL:
            pipes["special"] += 8
        elif kind == "LDSM":
            pipes["shared"] += 4 * int(re.search(r"\.(1|2|4)$", opcode(text)).group(1)) if re.search(r"\.(1|2|4)$", opcode(text)) else 16
        elif kind in ("LDS", "STS", "LDG", "STG", "LDGSTS"):
            pipes["shared"] += max(width(text), 4)
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


def steps_of_turn(d):
    """Of disentangled_forward: AT_ONCE there."""
    return 1 if d == 128 else 2


def products_of(title, d):
    """HMMA of a typical turn and of a visit to the slab; None: all there are."""
    if title == "disentangled_forward":
        return 10 * d // 16 * steps_of_turn(d), None
    if title.startswith("disentangled_backward"):
        keys = title.endswith("keys")
        return (16 if keys else 14) * d // 16 - (10 * (d // 16 - 2) if keys and d == 128 else 0), d // 4 * VISITED["keys" if keys else "queries"][d]
    return None, None


def inside(loop, around):
    return around[0] < loop[0] and loop[1] < around[1]


def kinds(body, loop):
    return {base(t) for a, t in body if loop[0] <= a <= loop[1]}


def hot_turn(body, title, d, dropout, chip):
    """(instructions, products, cycles of every pipe) of a turn."""
    liked = lambda t: base(t) in ("HMMA", "LDGSTS") or (dropout and PHILOX.search(t))  # noqa: E731
    disliked = lambda t: PHILOX.search(t)  # noqa: E731
    products, of_flush = products_of(title, d)
    hot = [l for l in loops(body) if "HMMA" in kinds(body, l)]
    if of_flush is None:
        hot = [l for l in hot if not any(inside(m, l) for m in hot)]
        # a loop of its own, if the compiler makes one, for models without one of the terms has fewer products
        ways = [way for l in hot if (way := turn(body, *l, liked, disliked, products))]
        assert len(ways) == 1, f"{title} {d} has {len(ways)} loops with {products or 'its'} products"
        texts = [t for _, t in ways[0]]
        if title == "disentangled_forward":  # its copies are a loop inside the turn, round for each step of it
            for loop in loops(body):
                if "HMMA" not in kinds(body, loop) and "LDGSTS" in kinds(body, loop) and {loop[0], loop[1]} <= {a for a, _ in ways[0]}:
                    texts += [t for a, t in ways[0] if loop[0] <= a <= loop[1]] * (steps_of_turn(d) - 1)
        return len(texts), sum(base(t) == "HMMA" for t in texts), cycles(texts, chip)
    steps = min((l for l in hot if {"LDGSTS", "MUFU"} <= kinds(body, l)), key=lambda l: l[1] - l[0])
    flush = max((l for l in hot if inside(l, steps) and "STG" in kinds(body, l)), key=lambda l: l[1] - l[0])
    path = turn(body, *steps, liked, disliked, products, closed=[flush])
    assert path, f"{title} {d}: no way round with {products} products"
    texts = [t for _, t in path]
    for loop in hot:
        if inside(loop, steps) and not inside(loop, flush) and {loop[0], loop[1]} <= {a for a, _ in path}:
            texts += [t for a, t in path if loop[0] <= a <= loop[1]] * (NESTED_TURNS - 1)
    visit = [t for _, t in turn(body, *flush, liked, disliked, of_flush)]
    pipes, of_visit = cycles(texts, chip), cycles(visit, chip)
    visits = 0.5 / VISITED[title.split(", ")[1]][d]  # a step
    for pipe, number in of_visit.items():
        pipes[pipe] += visits * number
    return (round(len(texts) + visits * len(visit)),
            round(sum(base(t) == "HMMA" for t in texts) + visits * sum(base(t) == "HMMA" for t in visit)), pipes)


def tensor_rows(code, registers):
    for (arch, name), body in sorted(code.items()):
        chip = CHIPS.get(arch)
        for title, (pattern, shared, threads) in TENSOR.items():
            match = re.search(pattern, name)
            if not chip or not match or ONLY.get(title, arch) != arch:
                continue
            d = int(match.group(1))
            row = {"arch": arch, "kernel": title, "head_dim": d,
                   "warps": warps_resident(chip, registers[arch, name][0], shared(d), threads(d))}
            for dropout in (False, True):
                instructions, products, pipes = hot_turn(body, title, d, dropout, chip)
                bound = max(pipes, key=pipes.get)
                row["dropout" if dropout else "plain"] = {"instructions": instructions, "products": products,
                                                          "part": pipes["tensor"] / pipes[bound], "bound": bound,
                                                          "tflops": tflops(chip, products * 16 * 8 * 16 * 2, pipes[bound])}
            yield row


def tflops(chip, flop, turn_cycles):
    """Of the chip, where a warp makes so many operations in so many cycles of its partition."""
    return flop / turn_cycles * 4 * chip["sms"] * chip["ghz"] / 1e3


def warpgroup_rows(code, registers, tensor):
    for (arch, name), body in sorted(code.items()):
        for title, (pattern, beside, copied, shared, threads) in WARPGROUP.items():
            match = re.search(pattern, name)
            if not match or arch != "sm_90a":
                continue
            # a jump back without a condition comes from where a thread waited longer for a barrier
            conditions = {a for a, t in body if conditional(t)}
            hot = [l for l in loops(body) if l[1] in conditions and {"HGMMA", "MUFU"} <= kinds(body, l)]
            assert len(hot) == 1, f"{title} has {len(hot)} loops with products of warpgroups"
            d, chip = int(match.group(1)), CHIPS[arch]
            other = next(r for r in tensor if (r["arch"], r["kernel"], r["head_dim"]) == (arch, beside, d))
            row = {"arch": arch, "kernel": title, "head_dim": d, "warps": warps_resident(chip, registers[arch, name][0], shared(d), threads(d))}
            for key in ("plain", "dropout"):
                # (forward with the two barriers of a group's turn, which a launch may leave out)
                liked = lambda t: base(t) in ("HGMMA",) + (("SYNCS",) if "backward" not in title else ()) or (key == "dropout" and PHILOX.search(t))  # noqa: E731
                texts = [t for _, t in turn(body, *hot[0], liked, lambda t: PHILOX.search(t))]
                pipes = cycles(texts, chip)
                pipes["shared"] += copied(d) / 128
                bound = max(pipes, key=pipes.get)
                products = [columns_of(t) for t in texts if base(t) == "HGMMA"]
                row[key] = {"instructions": len(texts), "products": len(products), "part": pipes["tensor"] / pipes[bound], "bound": bound,
                            "tflops": tflops(chip, 16 * sum(products) * 16 * 2, pipes[bound]), "beside": other[key]["tflops"]}
            yield row
        for title, (pattern, beside) in HYBRID.items():
            if not re.search(pattern, name) or arch != "sm_90a":
                continue
            conditions = {a for a, t in body if conditional(t)}
            hot = min((l for l in loops(body) if l[1] in conditions and {"HGMMA", "MUFU"} <= kinds(body, l)), key=lambda l: l[1] - l[0])
            chip, other = CHIPS[arch], next(r for r in tensor if (r["arch"], r["kernel"], r["head_dim"]) == (arch, beside, 64))
            forward = title.endswith("forward")
            row = {"arch": arch, "kernel": title, "head_dim": 64,
                   "warps": warps_resident(chip, registers[arch, name][0], FORWARD_SHARED if forward else HYBRID_SHARED, HYBRID_THREADS)}
            of_tiles = lambda t: base(t) == "HGMMA" and "gdesc" in t.split(",")[1]  # noqa: E731  both operands in shared memory: bands
            for key in ("plain", "dropout"):
                drops = lambda t: key == "dropout" and PHILOX.search(t)  # noqa: E731
                visits = [t for _, t in turn(body, *hot, lambda t: base(t) in ("HMMA", "HGMMA", "LDGSTS", "STG") or drops(t), lambda t: PHILOX.search(t))]
                others = [t for _, t in turn(body, *hot, lambda t: base(t) in ("HMMA", "LDGSTS") or drops(t),
                                             lambda t: PHILOX.search(t) or base(t) == "STG" or of_tiles(t))]
                assert forward or any(map(of_tiles, visits)) and not any(map(of_tiles, others)), f"{title}: turns with bands and without are not told apart"
                pipes = cycles(visits, chip)
                pipes.update(cycles(others, chip))
                bound = max(pipes, key=pipes.get)
                flop = sum(16 * columns_of(t) * 16 * 2 if base(t) == "HGMMA" else 16 * 8 * 16 * 2 if base(t) == "HMMA" else 0 for t in visits + others)
                rate = tflops(chip, flop, pipes[bound])
                row[key] = {"instructions": round(len(visits + others) / 2), "products": sum(base(t) == "HGMMA" for t in visits + others) // 2,
                            "part": rate / tflops(chip, 16 * 8 * 16 * 2, 4), "bound": bound, "tflops": rate, "beside": other[key]["tflops"]}
            yield row


def product_rows(code, registers):
    for (arch, name), body in sorted(code.items()):
        for title, (pattern, warps) in PRODUCTS.items():
            if arch != "sm_90a" or not re.search(pattern, name):
                continue
            chip, conditions = CHIPS[arch], {a for a, t in body if conditional(t)}
            around = [l for l in loops(body) if l[1] in conditions]
            main = min((l for l in around if "HGMMA" in kinds(body, l)), key=lambda l: l[1] - l[0])
            texts = [t for _, t in turn(body, *main, lambda t: base(t) == "HGMMA")]
            terms = 16 * sum(base(t) == "HGMMA" for t in texts)
            turns, pipes = PRODUCT_TERMS // terms, cycles(texts, chip)
            # two warps of a partition multiply; the sums go out behind their loop, as far as the last store of them
            out = [i for i, (a, t) in enumerate(body) if a > main[1] and base(t) == "STS"]
            way = [t for a, t in body[next(i for i, (a, _) in enumerate(body) if a > main[1]) : out[PRODUCT_COLUMNS // 4 - 1] + 1]]
            # a unit of eight numbers of a row a lane, or several of them in a turn (which reads as many staged ones), by the dearest formula that has an
            # exponential, a reciprocal and no branch: erf's GELU; in front of a norm, with dropout and the next rows asked for
            drops = title.startswith("product_norm")
            liked = lambda t: base(t) in ("STG", "LDS") or (drops and (base(t) == "LDG" or ROW_PHILOX.search(t)))  # noqa: E731
            rows = [[t for _, t in turn(body, *l, liked)] for l in around if {"STG", "LDS"} <= kinds(body, l)
                    and not any(inside(m, l) for m in around) and "HGMMA" not in kinds(body, l)]
            number = lambda texts, kind: sum(base(t) == kind for t in texts)  # noqa: E731
            assert not drops or all(sum(bool(ROW_PHILOX.search(t)) for t in texts) >= 10 * number(texts, "LDS") for texts in rows), f"{title}: rows without dropout"
            unit = max((texts for texts in rows if drops or number(texts, "MUFU") == 16 * number(texts, "LDS")), key=lambda t: number(t, "FFMA"))
            units = number(unit, "LDS")
            staged = 2 * PRODUCT_ROWS * PRODUCT_COLUMNS * 2 / 128
            tile = {"tensor": 2 * turns * pipes["tensor"], "shared": turns * (2 * pipes["shared"] + PRODUCT_STAGE / 128) + staged, "issue": 2 * turns * pipes["issue"]}
            of_epilogue = math.ceil(PRODUCT_ROWS / warps) * max(cycles(unit, chip).values()) / units
            tile = {pipe: n + 2 * max(cycles(way, chip).values()) for pipe, n in tile.items()} | {"epilogue": of_epilogue}
            bound = max(tile, key=tile.get)
            part = 2 * turns * pipes["tensor"] / tile[bound]
            yield {"arch": arch, "kernel": title, "instructions": len(texts), "out": len(way), "unit": round(len(unit) / units), "epilogue": of_epilogue, "tile": tile[bound], "bound": bound,
                   "part": part, "warps": warps_resident(chip, registers[arch, name][0], PRODUCT_SHARED, PRODUCT_THREADS), "registers": registers[arch, name][0],
                   "tflops": tflops(chip, PRODUCT_ROWS * PRODUCT_COLUMNS * PRODUCT_TERMS * 2, tile[bound]) / 4}


def most_awaited(texts):
    """Bytes of a lane that are on their way at most: loads that were begun before one of them, or an earlier one, is used. Narrow
    ones are not of whole units: one thread's at the end of its rows, or numbers that all share."""
    awaited, most = [], 0  # (registers, bytes), oldest first
    for text in texts:
        operands = text.split(None, 2)[-1] if text.startswith("@") else text.split(None, 1)[-1]
        kind = base(text)
        parts = operands.split(",")
        used = {int(r) for r in re.findall(r"\bR(\d+)\b", operands if kind in ("STG", "STS") else ",".join(parts[1:]))}
        if kind in ("STG", "STS") and (match := re.match(r"\s*R(\d+)", parts[-1])):
            used |= {int(match.group(1)) + i for i in range(max(width(text) // 4, 1))}
        for i in range(len(awaited) - 1, -1, -1):
            if awaited[i][0] & used:
                del awaited[: i + 1]
                break
        if kind == "LDG" and width(text) >= 8 and (match := re.match(r"\s*R(\d+)", parts[0])):
            first = int(match.group(1))
            awaited.append(({first + i for i in range(width(text) // 4)}, width(text)))
            most = max(most, sum(b for _, b in awaited))
    return most


def read_counts(path):
    """{launch: numbers}, as tests/emulator/pieces/test_counts.c writes them."""
    names = ["read", "read_ideal", "read_bytes", "written", "written_ideal", "written_bytes", "elements"]
    with open(path, encoding="utf-8") as f:
        rows = [line.split("#")[0].split() for line in f if line.strip() and not line.startswith("#")]
    return {row[0]: dict(zip(names, map(int, row[9:]))) for row in rows}


def moved(texts):
    return sum(width(t) * 32 for t in texts if base(t) in ("LDG", "STG", "LDGSTS"))


def nested_turn(body, title, liked):
    """Instructions of a turn in which the loops inside it are gone round as often as NESTED says."""
    steps = min((l for l in loops(body) if {"LDGSTS", "BAR", "STG"} <= kinds(body, l)), key=lambda l: l[1] - l[0])
    inner = sorted(l for l in loops(body) if inside(l, steps))
    assert len(inner) == len(NESTED[title]), f"{title} has {len(inner)} loops in a loop, not {len(NESTED[title])}"
    path = turn(body, *steps, liked)
    return [t for a, t in path for _ in range(next((n for l, n in zip(inner, NESTED[title]) if l[0] <= a <= l[1]), 1))]


def memory_rows(code, registers, counts):
    wide = lambda t: (base(t) in ("LDG", "STG", "LDGSTS") and width(t) >= 8) or PHILOX.search(t)  # noqa: E731
    for (arch, name), body in sorted(code.items()):
        chip = CHIPS.get(arch)
        for title, (pattern, launch, threads, shared) in MEMORY.items():
            if not chip or not re.search(pattern, name):
                continue
            if title in NESTED:
                span = nested_turn(body, title, wide)
                awaited = sum(width(t) for t in span if base(t) == "LDGSTS")
            else:
                ways = [turn(body, low, high, wide, longest="activation" in title) for low, high in [(None, None)] + sorted(loops(body))]
                spans = [[t for _, t in way] for way in ways if way]
                # the loop that moves most an instruction, beside the one of doubles for numbers that floats have no room for; a kernel without one
                # goes over its rows once
                usual = [texts for texts in spans if not any(base(t) in FP64 for t in texts)] or spans
                span = max(usual, key=lambda texts: moved(texts) / len(texts))
                awaited = max(map(most_awaited, spans))
            c, (use, static) = counts[launch], registers[arch, name]
            memory = c["read_bytes"] + c["written_bytes"]
            warps = warps_resident(chip, use, shared + static, threads)
            need = chip["bandwidth"] / chip["sms"] / (chip["ghz"] * 1e9)  # bytes a cycle
            limits = {
                "instructions": 4 * moved(span) * memory / (32 * (c["read_ideal"] + c["written_ideal"]))
                / max(cycles(span, chip).values()) / need,
                "in flight": warps * 32 * awaited * min(1, c["read_bytes"] / (32 * c["read_ideal"]))
                / (need * c["read_bytes"] / memory * chip["latency"]),
            }
            if chip["l2"]:
                limits["L2"] = chip["l2"] * chip["ghz"] * 1e9 / (chip["bandwidth"] * (c["read_bytes"] + 32 * c["written"]) / memory)
            bound = min(limits, key=limits.get)
            yield {"arch": arch, "kernel": title, "instructions": len(span), "warps": warps, "limits": limits, "bound": bound,
                   "registers": use, "bytes": memory / c["elements"], "read": c["read"] / c["read_ideal"],
                   "written": c["written"] / max(c["written_ideal"], 1), "part": min(1, limits[bound])}


def misses(tensor, memory):
    """What falls short of its target without a reason, or further than its reason explains; and reasons for what does not."""
    parts = [(f"{r['arch']} {r['kernel']}", r["part"], MEMORY_TARGET, f"of the bandwidth at most ({r['bound']})") for r in memory]
    for r in tensor:
        target, best = TARGETS[r["arch"], r["kernel"].split(",")[0]], r["dropout"]
        parts.append((f"{r['arch']} {r['kernel']} {r['head_dim']}", best["part"], target, f"of the tensor peak at most ({best['bound']})"))
    for key, part, target, words in parts:
        least = MISSES.get(key, (target,))[0]
        if part < least:
            yield f"{key}: {part:.0%} {words}, the target is {target:.0%}" + (f", let pass is {least:.0%}" if key in MISSES else "")
        elif part >= target and key in MISSES:
            yield f"{key}: {part:.0%} {words} meets the target of {target:.0%}; MISSES need not name it"


def limits_of(tensor, groups, products, memory, labels):
    """{row: what is held against the next module's}; labels: what a chip's rows are called."""
    def numbers(row, of):
        return {"instructions": of["instructions"], "part": round(of["part"], 3), "warps": row["warps"]}

    found = {f"{labels[r['arch']]} {r['kernel']} {r['head_dim']} {key}": numbers(r, r[key]) for r in tensor + groups for key in ("plain", "dropout")}
    return found | {f"{labels[r['arch']]} {r['kernel']}": numbers(r, r) for r in products + memory}


def drops(seen, limits):
    """What is worse than the limits of the same chips."""
    chips = {key.split()[0] for key in seen}
    for key, limit in limits.items():
        if key.split()[0] not in chips:
            continue
        if key not in seen:
            yield f"there is no kernel any more of: {key}"
            continue
        now = seen[key]
        if now["instructions"] > limit["instructions"] * 1.03:  # other releases of nvcc differ by some
            yield f"{key}: {now['instructions']} instructions a turn, {limit['instructions']} were promised"
        if now["part"] < limit["part"] - PART_TOLERANCE:
            yield f"{key}: {now['part']:.1%} of the peak or bandwidth at most, {limit['part']:.1%} was promised"
        if now["warps"] < limit["warps"]:
            yield f"{key}: {now['warps']} warps a multiprocessor, {limit['warps']} were promised"
    for key in seen.keys() - limits.keys():
        yield f"{key}: no limit says what it had; --write adds one"


def write_limits(path, seen):
    """One row a line, so that a change shows what it changed."""
    limits = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            limits = json.load(f)
    chips = {key.split()[0] for key in seen}
    limits = {key: limit for key, limit in limits.items() if key.split()[0] not in chips} | seen
    with open(path, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(f" {json.dumps(key)}: {json.dumps(limits[key])}" for key in sorted(limits)) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("module")
    parser.add_argument("--told", metavar="DIR", help="read cuobjdump's -sass and -res-usage of the module from its files sass and res-usage")
    parser.add_argument("--limits", default=os.path.join(here, "static_model.json"))
    parser.add_argument("--counts", default=os.path.join(here, "..", "..", "emulator", "pieces", "counts.txt"))
    parser.add_argument("--write", action="store_true", help="write the limits instead of checking them")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    code, registers = read_module(options.module, options.told)
    compiled_for = {arch for arch, _ in code}
    lend(code, registers, "sm_80", "sm_89")
    tensor, memory = list(tensor_rows(code, registers)), list(memory_rows(code, registers, read_counts(options.counts)))
    groups = list(warpgroup_rows(code, registers, tensor))
    products = list(product_rows(code, registers))
    labels = {arch: arch if arch in compiled_for else f"{arch}/sm_80" for arch in CHIPS}
    seen = limits_of(tensor, groups, products, memory, labels)

    if options.markdown:
        print("| chip | kernel | head size | warps | instructions, HMMA | part of the tensor peak at most | with dropout |")
        print("|---|---|---|---|---|---|---|")
    for row in tensor:
        p, w = row["plain"], row["dropout"]
        cells = [f"{row['arch']} ({CHIPS[row['arch']]['name']})", row["kernel"], row["head_dim"], row["warps"],
                 f"{p['instructions']}, {p['products']}", f"{p['part']:.1%} ({p['bound']})",
                 f"{w['instructions']}: {w['part']:.1%} ({w['bound']})"]
        print(("| " + " | ".join(map(str, cells)) + " |") if options.markdown else "  ".join(f"{c}" for c in cells))
    if options.markdown:
        print("\n| chip | kernel | head size | warps | instructions, HGMMA | part of wgmma's peak, TFLOP/s at most (mma.sync's) | with dropout |")
        print("|---|---|---|---|---|---|---|")
    for row in groups:
        cells = [f"{row['arch']} ({CHIPS[row['arch']]['name']})", row["kernel"], row["head_dim"], row["warps"],
                 f"{row['plain']['instructions']}, {row['plain']['products']}"]
        for key in ("plain", "dropout"):
            r = row[key]
            cells.append(("" if key == "plain" else f"{r['instructions']}: ") +
                         f"{r['part']:.1%} ({r['bound']}), {r['tflops']:.0f} ({r['beside']:.0f})")
        print(("| " + " | ".join(map(str, cells)) + " |") if options.markdown else "  ".join(f"{c}" for c in cells))
    if options.markdown:
        print(f"\n| chip | kernel of our own, {PRODUCT_TERMS} terms | registers, warps | instructions a turn of 64 terms, sums out | epilogue: instructions of eight numbers a lane, cycles a tile "
              "| cycles a tile | part of wgmma's peak at most | TFLOP/s |")
        print("|---|---|---|---|---|---|---|---|")
    for row in products:
        cells = [f"{row['arch']} ({CHIPS[row['arch']]['name']})", row["kernel"], f"{row['registers']}, {row['warps']}", f"{row['instructions']}, {row['out']}",
                 f"{row['unit']}, {row['epilogue']:.0f}", f"{row['tile']:.0f}", f"{row['part']:.1%} ({row['bound']})", f"{row['tflops']:.0f}"]
        print(("| " + " | ".join(map(str, cells)) + " |") if options.markdown else "  ".join(f"{c}" for c in cells))
    if options.markdown:
        print("\n| chip | kernel | registers, warps | instructions | bytes an element | sectors asked for / needed, read and written "
              "| instructions / needed | in flight / needed | L2 / needed | part of the bandwidth at most |")
        print("|---|---|---|---|---|---|---|---|---|---|")
    for row in memory:
        limits = row["limits"]
        cells = [f"{row['arch']} ({CHIPS[row['arch']]['name']})", row["kernel"], f"{row['registers']}, {row['warps']}", row["instructions"],
                 f"{row['bytes']:.1f}", f"{row['read']:.2f}, {row['written']:.2f}", f"{limits['instructions']:.1f}", f"{limits['in flight']:.1f}",
                 f"{limits['L2']:.1f}" if "L2" in limits else "?", f"{row['part']:.1%}" + ("" if row["part"] == 1 else f" ({row['bound']})")]
        print(("| " + " | ".join(map(str, cells)) + " |") if options.markdown else "  ".join(f"{c}" for c in cells))

    if options.write:
        write_limits(options.limits, seen)
        return 0
    with open(options.limits, encoding="utf-8") as f:
        limits = json.load(f)
    worse = [*misses(tensor, memory), *drops(seen, limits)]
    for line in worse:
        print(f"static_model: {line}", file=sys.stderr)
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
