"""Writes int8_product.txt: products of 8 bits as kernels/ops/int8_product.h defines them, by numpy.

    PYTHON tests/vectors/int8/make_int8_vectors.py      (numpy)

A case is a line "rows k outputs", then a line each in hexadecimal: the codes of the rows (uint8), their zeros (int32), the codes of the weights
(int8), the sums (int32) and y (fp32). x, w and the bias are made of splitmix64 as test_int8_product.c has it. The codes are computed twice,
in fp32 as the contract says and in float64 from quotients: the same integers, or the script ends."""
import pathlib

import numpy as np

f4 = np.float32


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & (1 << 64) - 1
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    x = (x ^ x >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return x ^ x >> 31


def numbers(first, count):
    return np.array([((splitmix64(k) >> 40) / 2**23 - 1) * 2.0 ** -(k // 48 % 6) for k in range(first, first + count)], dtype=f4)


def codes_of(x):
    low, high = min(x.min(), f4(0)), max(x.max(), f4(0))
    step = f4(high - low) / f4(255)
    inverse, zero = f4(1) / step, np.rint(-low / step)
    q = np.clip(np.rint(x * inverse) + zero, 0, 255)
    # and in float64
    step64 = (np.float64(high) - np.float64(low)) / 255
    zero64 = np.rint(-np.float64(low) / step64)
    assert zero64 == zero and (np.clip(np.rint(x.astype(np.float64) / step64) + zero64, 0, 255) == q).all()
    return q.astype(np.uint8), step, np.int32(zero)


def weights_of(w):
    most = np.abs(w).max()
    q = np.rint(w * (f4(1) / most * f4(127)))
    assert (np.rint(w.astype(np.float64) / (np.float64(most) / 127)) == q).all()
    return q.astype(np.int8), most * (f4(1) / f4(127))


out = []
for rows, k, outputs in [(1, 1, 1), (3, 7, 5), (2, 64, 16), (9, 130, 33), (4, 200, 20)]:
    x, w, bias = numbers(0, rows * k).reshape(rows, k), numbers(100000, outputs * k).reshape(outputs, k), numbers(200000, outputs)
    coded, kept = [codes_of(row) for row in x], [weights_of(row) for row in w]
    a, c = np.array([q for q, _, _ in coded]), np.array([q for q, _ in kept])
    steps, zeros, scales = np.array([s for _, s, _ in coded], dtype=f4), np.array([z for _, _, z in coded]), np.array([s for _, s in kept], dtype=f4)
    sums = (a.astype(np.int64) - zeros.astype(np.int64)[:, None]) @ c.astype(np.int64).T
    y = (sums.astype(f4) * steps[:, None]) * scales[None] + bias[None]
    assert y.dtype == f4 and np.abs(sums).max() < 2**31
    out += [f"{rows} {k} {outputs}"] + [t.tobytes().hex() for t in (a, zeros.astype(np.int32), c, sums.astype(np.int32), y)]
pathlib.Path(__file__).with_name("int8_product.txt").write_text("\n".join(out) + "\n")
