"""Writes attention.txt: how far PyTorch's own attention in bf16 and fp16 is off.

    /opt/ref/bin/python tests/vectors/make_attention_vectors.py

The op is scaled_dot_product_attention as PyTorch picks it for a CPU, streaming in 16 bits, forward and backward; the right
answer is the same formula in float64. Inputs are numbers that the test can make itself, number() rounded to the type: only
the errors are stored, each the norm of the difference over the norm of the right answer.

    case DTYPE HEAD_DIM LENGTH SEED OUT DQ DK DV    two heads; tensors 0..3 of the seed are q, k, v and dout
"""
import math
import pathlib

import torch
from make_disentangled_vectors import number

HEADS = 2
CASES = [(32, 100), (64, 70), (96, 40), (128, 130), (32, 17)]


def run(inputs, dout, attention):
    inputs = [x.clone().requires_grad_() for x in inputs]
    out = attention(*inputs)
    out.backward(dout)
    return [out.detach()] + [x.grad for x in inputs]


def plain(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v


def main():
    torch.set_num_threads(1)
    lines = []
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "fp16")):
        for seed, (head_dim, length) in enumerate(CASES, 1):
            tensors = [torch.tensor(number(seed, t, length * HEADS * head_dim)) for t in range(4)]
            tensors = [x.reshape(1, length, HEADS, head_dim).transpose(1, 2).to(dtype) for x in tensors]
            got = run(tensors[:3], tensors[3], torch.nn.functional.scaled_dot_product_attention)
            right = run([x.double() for x in tensors[:3]], tensors[3].double(), plain)
            errors = [float((a.double() - b).norm() / b.norm()) for a, b in zip(got, right)]
            lines.append(f"case {name} {head_dim} {length} {seed} " + " ".join(f"{e:.3e}" for e in errors))
    pathlib.Path(__file__).with_name("attention.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
