#!/usr/bin/env python3
"""What attention on tensor memory (kernels/cuda/attention/tensor_memory.cu) can reach at most on a B200, counted from its compiled loop.

    python3 tests/kernels/cuda/tensor_memory_model.py MODULE [--markdown]     a module, fatbin or cubin with code for sm_100f or sm_100a

As static_model.py counts, whose pipes and throughputs these are; a tile of 128 queries and KEYS keys is a turn. Of a turn
    tensor    both products at 8,192 operations a cycle and multiprocessor, the data sheet's dense peak
    special, issue, alu, fma   the loop of one row warp, of which a block has one in each partition; two blocks take turns in it
    shared    128 bytes a cycle: what tcgen05.mma reads of both operands for each 16 terms (assumed: nothing is kept from one to the next), what the
              copy engine writes of keys and values, and the loop's stores of probabilities
The busiest is the bound, if two blocks hide every latency; no tile is masked, no sum is made anew. The warps that copy and that ask for products
are left out: some 60 instructions a turn in one partition each.
mma.sync beside it: what the loop of sm_90a has of its pipes (static_model.json), on as many multiprocessors at the B200's clock. Assumed: a multiprocessor
of 10.0 multiplies with mma.sync as fast as one of 9.0; there is no source for it.
"""

import argparse
import re
import sys

import machine_code
import static_model

B200 = dict(static_model.CHIPS["sm_90a"], name="B200", sms=148, ghz=1.855)  # 148 x 8,192 x 1.855e9 = 2.25e15, dense bf16
TENSOR_OPERATIONS, BYTES, ROWS, LINE = 8192, 128, 128, 16  # a cycle; a cycle; of a product; terms of one product
ALSO_ALU = {"FMNMX3", "LOP3", "ISETP", "PLOP3"}
# mma.sync forward on sm_90a at most, TFLOP/s without and with dropout (benchmarks/results/static_model.md), at 132 multiprocessors and 1.83 GHz
MMA = {64: (592, 438), 128: (353, 353)}
INSTRUCTIONS = {64: (597, 1540), 128: (318, 788)}  # of a turn, without and with dropout; 3% more fail, as other releases of nvcc differ by some


def keys_of(d):
    return 128 if d == 64 else 64


def shared_cycles(d):
    """Of products and copies; the loop's own stores are in its instructions."""
    keys = keys_of(d)
    products = d // LINE * (ROWS + keys) * LINE * 2 + keys // LINE * (ROWS + d) * LINE * 2
    return (products + 2 * keys * d * 2) / BYTES


def rows(code):
    for (arch, name), body in sorted(code.items()):
        match = re.search(r"attention_tensor_memoryI13__nv_bfloat16Li(\d+)E", name)
        if not match or arch not in ("sm_100a", "sm_100f"):
            continue
        d = int(match.group(1))
        keys, conditions = keys_of(d), {a for a, t in body if machine_code.conditional(t)}
        hot = [l for l in machine_code.loops(body) if l[1] in conditions and {"MUFU", "LDTM", "STS"} <= static_model.kinds(body, l)]
        assert len(hot) == 1, f"{name} has {len(hot)} loops of a softmax"
        row = {"arch": arch, "head_dim": d}
        for key in ("plain", "dropout"):
            drops = lambda t: key == "dropout" and static_model.PHILOX.search(t)  # noqa: E731
            texts = [t for _, t in machine_code.turn(body, *hot[0], drops, lambda t: static_model.PHILOX.search(t) or machine_code.base(t) == "STTM")]
            exponentials = sum(machine_code.opcode(t) == "MUFU.EX2" for t in texts)
            assert keys <= exponentials <= keys + 2, f"{name}: {exponentials} exponentials a turn, of {keys} keys"
            pipes = static_model.cycles(texts, B200)
            pipes["alu"] += 2 * sum(machine_code.base(t) in ALSO_ALU - static_model.ALU for t in texts)
            pipes["shared"] += shared_cycles(d)
            operations = 2 * 2 * ROWS * keys * d
            pipes["tensor"] = operations / TENSOR_OPERATIONS
            bound = max(pipes, key=pipes.get)
            rate = operations / pipes[bound] * B200["sms"] * B200["ghz"] / 1e3
            row[key] = {"instructions": len(texts), "pipes": dict(pipes), "bound": bound, "part": pipes["tensor"] / pipes[bound], "tflops": rate,
                        "beside": MMA[d][key == "dropout"] * B200["sms"] / 132 * B200["ghz"] / 1.83}
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    code, _ = machine_code.read_module(options.module, None)
    found = list(rows(code))
    if not found:
        sys.exit(f"tensor_memory_model: {options.module} has no attention on tensor memory for sm_100a or sm_100f")
    if options.markdown:
        print("| chip | head size | dropout | instructions | cycles a turn of 128 queries: tensor, special, issue, alu, fma, shared | bound | part of the peak | TFLOP/s at most | mma.sync's | times |")
        print("|---|---|---|---|---|---|---|---|---|---|")
    for row in found:
        for key in ("plain", "dropout"):
            r = row[key]
            pipes = ", ".join(f"{r['pipes'].get(p, 0):.0f}" for p in ("tensor", "special", "issue", "alu", "fma", "shared"))
            cells = [f"{row['arch']} (B200)", row["head_dim"], key == "dropout", r["instructions"], pipes, r["bound"], f"{r['part']:.1%}", f"{r['tflops']:.0f}",
                     f"{r['beside']:.0f}", f"{r['tflops'] / r['beside']:.1f}"]
            print(("| " + " | ".join(map(str, cells)) + " |") if options.markdown else "  ".join(map(str, cells)))
    worse = [(row, key, most) for row in found for key, most in zip(("plain", "dropout"), INSTRUCTIONS[row["head_dim"]]) if row[key]["instructions"] > 1.03 * most]
    for row, key, most in worse:
        print(f"tensor_memory_model: {row['arch']}, heads of {row['head_dim']}, {key}: {row[key]['instructions']} instructions a turn, {most} were promised", file=sys.stderr)
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
