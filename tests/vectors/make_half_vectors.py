"""Writes half.txt: how far PyTorch's own ops in bf16 and fp16 are off.

    /opt/ref/bin/python tests/vectors/make_half_vectors.py

Every op runs as an eager model in that type would run it, forward and backward, on a CPU; the right answer is the same code
in float64. Inputs are numbers that the test can make itself, number() rounded to the type: only the errors are stored, each
the norm of the difference over the norm of the right answer.

    case OP DTYPE ROWS COLS SEED ERROR...
    layernorm   y = LN(x + bias + residual) gamma + beta: y dx dgamma dbeta dbias; tensors 0.. x bias residual gamma beta dy
    ACTIVATION  y = act(x + bias): y dx dbias; tensors 0.. x bias dy
    embedding   out = word + position: out dword; tensors 0.. word[VOCABULARY] position[rows] dout; ids from tensor 3
    column_sum  sum over rows: sum; tensor 0 x
    linear      y = x W' + b, inner size INNER: y dx dW; tensors 0.. x W b dy
"""
import pathlib

import torch
from make_disentangled_vectors import number
from torch.nn import functional

VOCABULARY, INNER, EPSILON = 19, 48, 1e-12
SHAPES = [(40, 64), (9, 768), (130, 33)]
ACTIVATIONS = {
    "gelu": functional.gelu,
    "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "tanh": torch.tanh,
    "silu": functional.silu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "mish": functional.mish,
}


def matrix(seed, tensor, dtype, *shape):
    count = 1
    for size in shape:
        count *= size
    return torch.tensor(number(seed, tensor, count)).reshape(shape).to(dtype)


def ids_of(seed, rows):
    return torch.tensor((number(seed, 3, rows) + 2) / 4 * VOCABULARY).long()


def layernorm(x, bias, residual, gamma, beta):
    return functional.layer_norm(x + bias + residual, x.shape[-1:], gamma, beta, EPSILON)


def run(op, inputs, dout):
    inputs = [x.clone().requires_grad_() for x in inputs]
    out = op(*inputs)
    out.backward(dout)
    return [out.detach()] + [x.grad for x in inputs]


def errors(op, inputs, dout, wanted):
    got = run(op, inputs, dout)
    right = run(op, [x.double() for x in inputs], dout.double())
    return [float((got[i].double() - right[i]).norm() / right[i].norm()) for i in wanted]


def cases(dtype, rows, cols, seed):
    x, vector = (rows, cols), (cols,)
    inputs = [matrix(seed, t, dtype, *shape) for t, shape in enumerate([x, vector, x, vector, vector])]
    yield "layernorm", errors(layernorm, inputs, matrix(seed, 5, dtype, *x), [0, 1, 4, 5, 2])
    inputs = [matrix(seed, 0, dtype, *x), matrix(seed, 1, dtype, *vector)]
    for name, act in ACTIVATIONS.items():
        yield name, errors(lambda x, bias: act(x + bias), inputs, matrix(seed, 2, dtype, *x), [0, 1, 2])
    inputs = [matrix(seed, 0, dtype, VOCABULARY, cols), matrix(seed, 1, dtype, *x)]
    ids = ids_of(seed, rows)
    yield "embedding", errors(lambda word, position: functional.embedding(ids, word) + position, inputs, matrix(seed, 2, dtype, *x), [0, 1])
    yield "column_sum", errors(lambda x: x.sum(0), [matrix(seed, 0, dtype, *x)], matrix(seed, 1, dtype, *vector), [0])
    inputs = [matrix(seed, 0, dtype, rows, INNER), matrix(seed, 1, dtype, cols, INNER), matrix(seed, 2, dtype, cols)]
    yield "linear", errors(functional.linear, inputs, matrix(seed, 3, dtype, *x), [0, 1, 2])


def main():
    torch.set_num_threads(1)
    lines = []
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "fp16")):
        for seed, (rows, cols) in enumerate(SHAPES, 1):
            for op, off in cases(dtype, rows, cols, seed):
                lines.append(f"case {op} {name} {rows} {cols} {seed} " + " ".join(f"{e:.3e}" for e in off))
    pathlib.Path(__file__).with_name("half.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
