"""Writes order.txt: what torch.randperm gives for a generator seeded as the Hugging Face Trainer seeds an epoch.

    /opt/ref/bin/python tests/vectors/make_order_vectors.py

One case a line: seed epoch n, then the permutation itself or, for long ones, "sha256" and the hash of it as little-endian
int32.
"""
import hashlib
import pathlib

import torch

CASES = [
    (42, 0, 1), (42, 0, 2), (42, 1, 2), (42, 0, 3), (0, 0, 10), (42, 0, 10), (42, 1, 10), (42, 2, 10), (1234567, 3, 17),
    (2**32 - 1, 1, 12),      # seed + epoch leaves 32 bits: the generator keeps the low ones
    (2**63 - 2, 1, 12),
    (42, 0, 100), (42, 0, 623), (42, 0, 626),  # the last around the first refill of the generator
    (42, 0, 1000), (7, 5, 5452), (42, 0, 70000), (3, 2, 200000),
]
SHORT = 100


def line(seed, epoch, n):
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)
    order = torch.randperm(n, generator=generator)
    if n <= SHORT:
        return f"{seed} {epoch} {n} " + " ".join(map(str, order.tolist()))
    digest = hashlib.sha256(order.to(torch.int32).numpy().astype("<i4").tobytes()).hexdigest()
    return f"{seed} {epoch} {n} sha256 {digest}"


if __name__ == "__main__":
    target = pathlib.Path(__file__).with_name("order.txt")
    target.write_text("".join(line(*case) + "\n" for case in CASES))
    print(f"{target}: {len(CASES)} cases, torch {torch.__version__}")
