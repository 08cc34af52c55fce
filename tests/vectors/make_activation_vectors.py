"""Writes activations.txt: value and slope of every activation of transformers that ftengine knows, under all of its names, in float64.

    /opt/ref/bin/python tests/vectors/make_activation_vectors.py

    name NAME
    X Y SLOPE                    SLOPE of y = act(x) by autograd; bends are left out
"""
import pathlib

import torch
import transformers
from transformers.activations import ACT2FN

NAMES = ["linear", "gelu", "gelu_python", "gelu_10", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate",
         "relu", "relu6", "leaky_relu", "tanh", "sigmoid", "silu", "swish", "hardswish", "quick_gelu", "mish", "laplace", "sqrtsoftplus"]
POINTS = [-40.0, -12.5, -10.25, -6.5, -4.75, -3.125, -2.875, -1.5, -0.75, -0.25, -0.0625, 0.0625, 0.25, 0.625, 0.75, 1.0, 1.75, 2.875,
          3.125, 5.875, 6.125, 9.75, 10.25, 12.5, 40.0]

if __name__ == "__main__":
    lines = [f"# transformers {transformers.__version__}, torch {torch.__version__}"]
    for name in NAMES:
        x = torch.tensor(POINTS, dtype=torch.float64, requires_grad=True)
        y = ACT2FN[name](x)
        assert y.dtype == torch.float64
        y.sum().backward()
        lines.append(f"name {name}")
        lines += [f"{a:g} {b:.9g} {c:.9g}" for a, b, c in zip(x.tolist(), y.tolist(), x.grad.tolist())]
    (pathlib.Path(__file__).parent / "activations.txt").write_text("\n".join(lines) + "\n")
