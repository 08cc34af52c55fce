"""Writes disentangled.txt: what transformers' disentangled attention gives, and which slot it gives a distance.

    /opt/ref/bin/python tests/vectors/make_disentangled_vectors.py

The projections of the modules are replaced by ones that hand over q, k, v, PK and PQ, so that the rest of their code is
the oracle, in float64. Inputs are numbers that the test can make itself, see number(): only answers are stored, and of
those one row in STEP and two sums of all elements with known weights, which any wrong element changes.

    rule BUCKETS FURTHEST REACH SLOT            slot of distance -REACH, then how far it rises from distance to distance
    DIGITS                                      (one character each, '/' for -1)
    case NAME SEED HEADS HEAD_DIM BUCKETS FURTHEST C2P P2C SEQUENCES LENGTH...
    tensor NAME ROWS COLS                       out dq dk dv dpk dpq; gradients of sum(out * dout)
    sums SUM SUM NORM                           weights number(seed, 20), number(seed, 21); NORM: of all elements
    row R VALUE...
"""
import pathlib

import numpy
import torch
import transformers
from transformers import DebertaConfig, DebertaV2Config
from transformers.models.deberta import modeling_deberta as v1
from transformers.models.deberta_v2 import modeling_deberta_v2 as v2

V3 = (256, 512)
RULES = [V3, (128, 256), (256, 1024), (320, 512), (33, 128), (32, 40), (8, 33), (5, 20), (2, 10), (-1, 512), (-1, 40)]
LARGE = [(16, 5), (24, 1), (256, 64)]  # more buckets than max_relative_positions needs: slots fall again far away
REACH = 1100
# name, heads, head_dim, rule, terms, lengths, class
CASES = [(f"v3_{n}", 1, 12, V3, "c2p|p2c", [n], 2) for n in (1, 2, 127, 128, 129, 255, 256, 257, 511, 512, 513, 700)]
CASES += [
    ("v3_packed", 3, 12, V3, "p2c|c2p", [1, 37, 128, 129, 2, 300], 2),
    ("v3_wide", 2, 48, V3, "c2p|p2c", [65, 130], 2),
    ("c2p_only", 2, 8, V3, "c2p", [140, 63], 2),
    ("p2c_only", 2, 18, V3, "p2c", [140, 64], 2),
    ("no_buckets", 2, 12, (-1, 40), "c2p|p2c", [100, 40, 41], 2),
    ("odd_buckets", 1, 12, (33, 128), "c2p|p2c", [33, 150], 2),
    ("skips_slots", 1, 12, (32, 40), "c2p|p2c", [90], 2),
    ("v1_512", 1, 12, (-1, 512), "c2p|p2c", [300, 5], 1),
    ("v1_beyond", 2, 12, (-1, 64), "c2p|p2c", [63, 64, 65, 170], 1),
    ("v1_c2p_only", 1, 8, (-1, 64), "c2p", [70], 1),
    ("large_table", 2, 12, (16, 5), "c2p|p2c", [40, 9, 7], 2),
]
STEP = 61


def number(seed, tensor, count):
    """count numbers in [-2, 2), exact in float32: splitmix64 of seed, tensor and index."""
    with numpy.errstate(over="ignore"):
        x = numpy.uint64(seed) << numpy.uint64(40) | numpy.uint64(tensor) << numpy.uint64(32)
        x = (x | numpy.arange(count, dtype=numpy.uint64)) + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        x = x ^ (x >> numpy.uint64(31))
    return ((x >> numpy.uint64(40)).astype(numpy.float64) / 2**24 - 0.5) * 4


def matrix(seed, tensor, rows, cols):
    return torch.tensor(number(seed, tensor, rows * cols).reshape(rows, cols), requires_grad=True)


class Give(torch.nn.Module):
    """A projection whose answer is known."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, x):
        return self.of(x)


def span(rule):
    return rule[0] if rule[0] > 0 else rule[1]


def attend_v2(heads, rule, terms, q, k, v, pk, pq):
    hidden = q.shape[1]
    config = DebertaV2Config(hidden_size=hidden, num_attention_heads=heads, relative_attention=True,
                             pos_att_type=terms, position_buckets=rule[0], max_relative_positions=rule[1],
                             share_att_key=False)
    module = v2.DisentangledSelfAttention(config).eval()
    assert module.pos_ebd_size == span(rule)
    module.query_proj, module.key_proj, module.value_proj = (Give(lambda x, t=t: t[None]) for t in (q, k, v))
    module.pos_key_proj, module.pos_query_proj = Give(lambda x: pk[None]), Give(lambda x: pq[None])
    mask = torch.ones(1, 1, len(q), len(q))
    return module(torch.zeros(1, len(q), hidden, dtype=torch.float64), mask, rel_embeddings=pk)[0][0]


def attend_v1(heads, rule, terms, q, k, v, pk, pq):
    hidden, n = q.shape[1], len(q)
    config = DebertaConfig(hidden_size=hidden, num_attention_heads=heads, relative_attention=True, pos_att_type=terms,
                           max_relative_positions=rule[1])
    module = v1.DisentangledSelfAttention(config).eval().to(q.dtype)  # its biases are zeros
    by_head = torch.cat([t.view(n, heads, -1) for t in (q, k, v)], dim=-1)
    module.in_proj = Give(lambda x: by_head.reshape(1, n, 3 * hidden))
    module.pos_proj, module.pos_q_proj = Give(lambda x: x[..., :hidden]), Give(lambda x: x[..., hidden:].clone())
    states = torch.zeros(1, n, hidden, dtype=torch.float64)
    return module(states, torch.ones(1, 1, n, n), relative_pos=v1.build_relative_position(q[None], k[None]),
                  rel_embeddings=torch.cat([pk, pq], dim=1))[0][0]


def write_case(out, seed, name, heads, head_dim, rule, terms, lengths, version):
    hidden, tokens, rows = heads * head_dim, sum(lengths), 2 * span(rule)
    q, k, v, dout = (matrix(seed, t, tokens, hidden) for t in (0, 1, 2, 3))
    pk, pq = matrix(seed, 4, rows, hidden), matrix(seed, 5, rows, hidden)
    attend, first, parts = (attend_v1 if version == 1 else attend_v2), 0, []
    for n in lengths:
        mine = slice(first, first + n)
        parts.append(attend(heads, rule, terms, q[mine], k[mine], v[mine], pk, pq))
        first += n
    result = torch.cat(parts)
    assert result.dtype == torch.float64
    (result * dout.detach()).sum().backward()
    c2p, p2c = "c2p" in terms, "p2c" in terms
    out.append(f"case {name} {seed} {heads} {head_dim} {rule[0]} {rule[1]} {int(c2p)} {int(p2c)} "
               f"{len(lengths)} {' '.join(map(str, lengths))}")
    tensors = {"out": result, "dq": q.grad, "dk": k.grad, "dv": v.grad}
    tensors |= {"dpk": pk.grad} if c2p else {}
    tensors |= {"dpq": pq.grad} if p2c else {}
    for what, tensor in tensors.items():
        x = tensor.detach().numpy()
        sums = [(x.ravel() * number(seed, t, x.size)).sum() for t in (20, 21)]
        out.append(f"tensor {what} {x.shape[0]} {x.shape[1]}")
        out.append(f"sums {sums[0]:.12g} {sums[1]:.12g} {numpy.sqrt((x * x).sum()):.12g}")
        out += [f"row {r} " + " ".join(f"{y:.9g}" for y in x[r]) for r in range(0, len(x), STEP)]


def rule_lines(rule):
    queries = torch.zeros(1, 2 * REACH + 1, 1)
    position = v2.build_relative_position(queries, queries, *rule) if rule[0] > 0 else None
    if position is None:
        position = v2.build_relative_position(queries, queries)
    rising = position[0, REACH].flip(0)  # query REACH, keys falling
    of = torch.clamp(rising + span(rule), 0, 2 * span(rule) - 1).tolist()
    return [f"rule {rule[0]} {rule[1]} {REACH} {of[0]}", "".join(chr(ord("0") + b - a) for a, b in zip(of, of[1:]))]


if __name__ == "__main__":
    lines = []
    for rule in RULES + LARGE:
        lines += rule_lines(rule)
    for seed, case in enumerate(CASES, start=1):
        write_case(lines, seed, *case)
    target = pathlib.Path(__file__).with_name("disentangled.txt")
    target.write_text("\n".join(lines) + "\nend\n")
    print(f"{target}: {len(RULES + LARGE)} rules, {len(CASES)} cases, transformers {transformers.__version__}")
