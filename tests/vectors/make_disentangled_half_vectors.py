"""Writes disentangled_half.txt: how far transformers' own disentangled attention in bf16 and fp16 is off.

    /opt/ref/bin/python tests/vectors/make_disentangled_half_vectors.py

As make_attention_vectors.py, with the modules of make_disentangled_vectors.py: run in 16 bits and in float64 on the same
numbers, number() rounded to the type. Each error is the norm of the difference over the norm of the right answer.

    case DTYPE VERSION HEAD_DIM LENGTH SEED OUT DQ DK DV DPK DPQ
                                        two heads, both terms, of buckets 256 and 512 positions (v2), 512 positions (v1);
                                        tensors 0..5 of the seed are q, k, v, dout, PK and PQ
"""
import pathlib

import torch
from make_disentangled_vectors import V3, attend_v1, attend_v2, matrix, span

HEADS = 2
CASES = [(2, 32, 100), (2, 64, 70), (2, 96, 40), (2, 128, 130), (1, 64, 150), (2, 32, 17)]


def run(inputs, dout, version):
    inputs = [x.clone().requires_grad_() for x in inputs]
    q, k, v, pk, pq = inputs
    rule = V3 if version == 2 else (-1, V3[1])
    out = (attend_v1 if version == 1 else attend_v2)(HEADS, rule, "c2p|p2c", q, k, v, pk, pq)
    out.backward(dout)
    return [out.detach()] + [x.grad for x in inputs]


def main():
    torch.set_num_threads(1)
    lines = []
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "fp16")):
        for seed, (version, head_dim, length) in enumerate(CASES, 101):
            rows = 2 * (span(V3) if version == 2 else V3[1])
            shapes = [length] * 4 + [rows] * 2
            tensors = [matrix(seed, t, n, HEADS * head_dim).detach().to(dtype) for t, n in enumerate(shapes)]
            dout = tensors.pop(3)
            got = run(tensors, dout, version)
            right = run([x.double() for x in tensors], dout.double(), version)
            assert got[0].dtype == dtype and right[0].dtype == torch.float64
            errors = [float((a.double() - b).norm() / b.norm()) for a, b in zip(got, right)]
            lines.append(f"case {name} {version} {head_dim} {length} {seed} " + " ".join(f"{e:.3e}" for e in errors))
    pathlib.Path(__file__).with_name("disentangled_half.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
