"""Writes losses.txt: PyTorch's losses and gradients in float64 of float32 logits.

    /opt/ref/bin/python tests/vectors/make_loss_vectors.py

A case is a line "NAME rows cols smoothing gamma weighted", a line of `cols` weights if weighted, then for every row: the
logits, the label (of "mixed" two, and the share of the first) or the targets, the loss, the gradient of the row's loss.
"""
import pathlib

import torch
from torch.nn import functional as F


def cross_entropy(x, y, w, smoothing, gamma):
    if gamma:
        log_p = F.log_softmax(x, 1).gather(1, y[:, None])[:, 0]
        return (1 if w is None else w[y]) * (1 - log_p.exp()) ** gamma * -log_p
    # reduction="none" is (1 - s) w_y nll + s / C sum of w nll: what its mean divides by the sum of w_y
    return F.cross_entropy(x, y, weight=w, label_smoothing=smoothing, reduction="none")


def binary(x, t, v, smoothing, gamma):
    each = F.binary_cross_entropy_with_logits(x, t, reduction="none", pos_weight=v)
    if gamma:  # torchvision.ops.sigmoid_focal_loss for targets 0 and 1, its alpha being pos_weight here
        p = torch.sigmoid(x)
        each = each * (1 - (p * t + (1 - p) * (1 - t))) ** gamma
    return each.mean(1)


def squares(x, t, w, smoothing, gamma):
    return F.mse_loss(x, t, reduction="none").mean(1)


def mixed_case(rows, cols, smoothing=0.0, weighted=False):
    """Two labels as PyTorch has them: probabilities of classes."""
    x = (torch.randn(rows, cols) * 2).float().double().requires_grad_()
    w = (torch.rand(cols) * 3 + 0.1).float().double() if weighted else None
    y, other = torch.randint(0, cols, (rows,)), torch.randint(0, cols, (rows,))
    share = torch.rand(rows).float().double()
    share[0], share[1], other[2] = 1, 0, y[2]
    soft = share[:, None] * F.one_hot(y, cols) + (1 - share)[:, None] * F.one_hot(other, cols)
    loss = F.cross_entropy(x, soft, weight=w, label_smoothing=smoothing, reduction="none")
    loss.sum().backward()
    numbers = lambda values: " ".join(repr(float(v)) for v in values)
    lines = [f"mixed {rows} {cols} {smoothing!r} 0.0 {int(weighted)}"] + ([numbers(w)] if weighted else [])
    for i in range(rows):
        lines += [numbers(x[i].detach()), f"{int(y[i])} {int(other[i])} {float(share[i])!r}", repr(float(loss[i].detach())), numbers(x.grad[i])]
    return "\n".join(lines) + "\n"


def case(name, f, rows, cols, smoothing=0.0, gamma=0.0, weighted=False, scale=2.0):
    x = (torch.randn(rows, cols) * scale).float().double().requires_grad_()
    w = (torch.rand(cols) * 3 + 0.1).float().double() if weighted else None
    if f is cross_entropy:
        truth = torch.randint(0, cols, (rows,))
    else:
        truth = (torch.rand(rows, cols) < 0.4).double() if f is binary else torch.randn(rows, cols).float().double()
    loss = f(x, truth, w, smoothing, gamma)
    loss.sum().backward()
    lines = [f"{name} {rows} {cols} {smoothing!r} {gamma!r} {int(weighted)}"]
    numbers = lambda values: " ".join(repr(float(v)) for v in values)
    if weighted:
        lines.append(numbers(w))
    for i in range(rows):
        given = [truth[i]] if f is cross_entropy else truth[i]
        lines += [numbers(x[i].detach()), " ".join(str(int(v)) for v in given) if f is cross_entropy else numbers(given),
                  repr(float(loss[i].detach())), numbers(x.grad[i])]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    torch.manual_seed(5)
    # Sizes that are exact in binary, or float32 arguments would differ from these.
    cases = [case("cross_entropy", cross_entropy, 7, 3)]
    for smoothing in (0.0, 0.125):
        for weighted in (False, True):
            cases.append(case("cross_entropy", cross_entropy, 9, 5, smoothing=smoothing, weighted=weighted))
    for gamma in (0.5, 1.0, 2.0, 3.5):
        cases.append(case("cross_entropy", cross_entropy, 6, 4, gamma=gamma, weighted=gamma == 2.0))
        cases.append(case("binary", binary, 6, 4, gamma=gamma, weighted=gamma == 1.0))
    cases += [
        case("cross_entropy", cross_entropy, 3, 20, smoothing=0.5, scale=8.0),
        case("binary", binary, 8, 1),
        case("binary", binary, 5, 6, weighted=True),
        case("binary", binary, 5, 3, scale=20.0),
        case("squares", squares, 6, 1),
        case("squares", squares, 5, 3),
    ]
    cases += [mixed_case(7, 3), mixed_case(8, 102 % 32, weighted=True), mixed_case(5, 4, smoothing=0.125), mixed_case(6, 5, smoothing=0.25, weighted=True),
              mixed_case(4, 2)]
    target = pathlib.Path(__file__).with_name("losses.txt")
    target.write_text("".join(cases))
    print(f"{target}: {len(cases)} cases, torch {torch.__version__}")
