"""Writes quantised.txt: matrices as bitsandbytes 0.50 stores them in 4 and 8 bits, and what it makes of them again.

    PYTHON tests/vectors/make_quantised_vectors.py      (torch, bitsandbytes)

Number k of a matrix is splitmix64(k) as test_dequantise.c has it, so that it need not stand here. A case is a line "FORMAT rows cols",
then in hexadecimal, a line each: codes, scales, with nf4_double also the scales of groups, the map and the mean, and last the
dequantised numbers in fp32 (of a large matrix the last 256). bitsandbytes has several kernels for one thing, which differ in ties; taken are those of its
"default" back end, whose rule is that of its CUDA kernels."""
import pathlib

import numpy as np
import torch
from bitsandbytes import functional


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & (1 << 64) - 1
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    x = (x ^ x >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return x ^ x >> 31


def matrix(rows, cols):
    """Between -1 and 1 times a power of two that changes every 48 numbers; zeros from 100 to 200."""
    x = np.array([((splitmix64(k) >> 40) / 2**23 - 1) * 2.0 ** -(k // 48 % 6) for k in range(rows * cols)], dtype=np.float32)
    x[100:200] = 0
    return torch.from_numpy(x).reshape(rows, cols)


def hexed(t):
    return t.contiguous().numpy().tobytes().hex()


def blockwise(x, code, size):
    """quantize_blockwise of the "default" back end."""
    absmax, q = [], []
    bounds = (code[:-1] + code[1:]) / 2
    for block in x.split(size):
        most = block.abs().max()
        by = most.clamp(min=1e-38)
        scaled = block * (1.0 / by) if len(block) == size else block / by
        absmax.append(most if len(block) == size else by)
        q.append(torch.bucketize(scaled.clamp(-1, 1), bounds).to(torch.uint8))
    return torch.cat(q), torch.stack(absmax)


out = []
for rows, cols in [(16, 64), (3, 129), (160, 200)]:
    w = matrix(rows, cols)
    codes, state = functional.quantize_4bit(w, quant_type="nf4", compress_statistics=False)
    back = functional.dequantize_4bit(codes, state)
    out += [f"nf4 {rows} {cols}", hexed(codes), hexed(state.absmax), hexed(back.reshape(-1)[-256:])]

    offset = state.absmax.mean()
    code = functional.create_dynamic_map()
    scales, groups = blockwise(state.absmax - offset, code, 256)
    restored = code[scales.long()] * groups.repeat_interleave(256)[: len(scales)] + offset
    nested = functional.QuantState(absmax=restored, shape=w.shape, dtype=torch.float32, blocksize=64, code=state.code, quant_type="nf4")
    out += [f"nf4_double {rows} {cols}", hexed(codes), hexed(scales), hexed(groups), hexed(code), hexed(offset.reshape(1)),
            hexed(functional.dequantize_4bit(codes, nested).reshape(-1)[-256:])]

    codes, scales, _ = functional.int8_vectorwise_quant(w.clone())
    back = torch.ops.bitsandbytes.int8_vectorwise_dequant(codes, scales)
    out += [f"int8 {rows} {cols}", hexed(codes), hexed(scales), hexed(back.reshape(-1)[-256:])]
pathlib.Path(__file__).with_name("quantised.txt").write_text("\n".join(out) + "\n")
