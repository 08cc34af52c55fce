"""What the ops of a training step take on chips that are not there, from what is counted; predict_steps.py says how, and writes it down."""

import json
import math
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import gpu_counts  # noqa: E402
import gpu_steps  # noqa: E402
import gpu_texts  # noqa: E402
from common import RESULTS, ROOT  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "kernels", "cuda"))
import static_model  # noqa: E402

ASSUMED = {
    "copy": (0.90, "of the data sheet's bandwidth: a copy on an H200 reached 4.3 of 4.8 TB/s (2026-10-28 and 2026-11-04), memory-bound kernels on an "
             "H100 3.0 of 3.35 (Guo, Zadouri, Dao 2025, 'Getting memory-bound kernels to speed-of-light', as others report it)"),
    "products, best": (0.82, "of the tensor peak in a full wave of tiles: 8192^3 in bf16 ran at 769 to 798 TFLOP/s of 989 on an H200 (2026-11-04)"),
    "products, expected": (0.68, "the same at an encoder's shapes, whose inner dimension is short: about 650 TFLOP/s, an estimate on paper"),
    "attention, expected": (0.50, "of the compiled loop's bound: FlashAttention-2 has 282 TFLOP/s forward at 512 tokens and heads of 64 on an H100 (Shah et al. "
                            "2024, as transcribed from the chart), 48% of what our loop could have without dropout"),
    "warpgroups forward, expected": (0.35, "of the compiled loop's bound: FlashAttention-3 has 333 TFLOP/s forward at 512 tokens and heads of 64 on an H100 (charts of Shah et al. "
                                           "2024, as transcribed by others), 35% of the 959 that our loop could have without dropout"),
    "warpgroups backward, expected": (0.38, "the same: it has 272 TFLOP/s backward, 38% of the 706 that our two passes could have, 5/7 of what they multiply"),
    "moving, expected": (0.90, "of what the compiled loop could have of a copy's rate"),
    "gap": (0.9e-6, "seconds between kernels of a stream; with graphs 0.5e-6 (Gray 2019, 'Getting started with CUDA graphs': 3.8 and 3.4 us apart "
            "for a kernel of 2.9; cited from memory)"),
    "gap, graphs": (0.5e-6, "the same source"),
    "shortest": (2e-6, "seconds of a kernel with next to no work. No source: it matters to short batches alone"),
    "host": (4e-6, "seconds of the host for a launch: 4 to 6 us were seen on an RTX 5070 Ti (susun-blog.com, pegainfer 3); gpu_check.sh graphs measures ours"),
}
# Useful operations a second forward and backward, H100, 512 tokens, heads of 64, no dropout: charts of Shah et al. 2024 as others have transcribed
# them, not seen in the paper; of two for the forward pass the faster one, taken for that without a causal mask.
FLASH_2 = (282e12, 198e12)
FLASH_3 = (333e12, 272e12)  # the same, on wgmma
NOTE_FLOORS = {"deberta-v3-base": 0.61e6, "deberta-v3-large": 0.20e6}  # tokens/s, issue 11
EAGER_SCORE_BYTES = {"all in 16 bits": 5, "softmax in fp32, as autocast has it": 7}  # Korthikanti et al. 2022: 34 h + 5 a s a token and layer
PEAKS = {"sm_80": "A100-SXM4-80GB", "sm_89": "GeForce RTX 4090", "sm_90a": "H200"}
LONG_MODEL, LONG_BATCH, LONG_TOKENS = "answerdotai/ModernBERT-base", 8, 8192  # whole documents, in windows and globally in turns
CARDS = {"sm_80": "A100 80GB", "sm_89": "4090", "sm_90a": "H200"}
# In products of 16 x 8 x 16 for 16 x 8 pairs, a sixteenth of the head's size: what the loops in static_model.md do; rows and columns that
# a warp takes at once, and how many columns more it goes over than there are (disentangled: the band's end).
SWEEPS = {
    "attention_forward": [("attention_forward", 2, 32, 32, 0)],
    "attention_backward": [("attention_backward, queries", 3, 16, 32, 0), ("attention_backward, keys", 4, 16, 32, 0)],
    "disentangled_attention_forward": [("disentangled_forward", 5, 16, 32, 16)],
    "disentangled_attention_backward": [("disentangled_backward, queries", 8, 16, 16, 16), ("disentangled_backward, keys", 9, 16, 16, 16)],
}
# What a 9.0 takes instead where its check finds it right (kernels/devices/self_check.h): heads of 64 and 128, without a bias; with a window what is BANDED.
# Rows of a warpgroup, columns of a tile (forward at heads of 128: 64). Disentangled, heads of 64:
# forward three products are a strip's own, the other two the warpgroup's, one of them for 64 columns more, the first chunks; backward four, and
# the others the warpgroup's, two of them for 64 columns more, the last bands.
WARPGROUPS = {
    "attention_forward": [("attention_warpgroup", 2, 64, 128, 0)],
    "attention_backward": [("attention_warpgroup_backward, queries", 3, 64, 64, 0), ("attention_warpgroup_backward, keys", 4, 64, 64, 0)],
    "disentangled_attention_forward": [("disentangled_warpgroup_forward", 3, 16, 32, 0), ("disentangled_warpgroup_forward", 2, 64, 32, 32)],
    "disentangled_attention_backward": [(f"disentangled_warpgroup_backward, {side}", units, rows, 32, more) for side, of_group in (("queries", 4), ("keys", 5))
                                        for units, rows, more in ((4, 16, 0), (of_group, 64, 128 // of_group))],
}
WARPGROUP_HEADS = {"attention_forward": (64, 128), "attention_backward": (64, 128), "disentangled_attention_forward": (64,), "disentangled_attention_backward": (64,)}
PARTS = {
    "products": ("gemm", "product_activation", "product_slope", "product_norm"),
    "attention": tuple(SWEEPS),
    "norms": ("layernorm_forward", "layernorm_backward"),
    "activations": ("activation_forward", "activation_backward", "gated_forward", "gated_backward"),
    "optimizer": ("adamw", "gradient_norm", "decay"),
    "embedding": ("embedding_forward", "embedding_backward"),
}  # else: rest
LEAST = {  # bytes an element by kernels/devices/cost.h in the case that counts.txt has
    "layernorm_forward.bf16": 14, "layernorm_backward.bf16": 12, "layernorm_forward_16bit.bf16": 8, "layernorm_backward_16bit.bf16": 8, "activation_forward.bf16": 6, "activation_backward.bf16": 8,
    "column_sum.bf16": 2, "dropout.bf16": 4, "dropout.fp32": 8, "gather_rows.bf16": 4, "gather_rows.fp32": 8, "scatter_rows_add.bf16": 10,
    "scatter_rows_add.fp32": 12, "cast.fp32_to_bf16": 6, "cast.bf16_to_fp32": 6, "adamw.bf16": 28,
}
DELTA_BYTES = 4  # a number of attention's output: D of the backward pass reads it and its gradient


# ---- what is counted -------------------------------------------------------------------------------------------------------


def percent(cell):
    """Of a cell such as `594: 70.4% (issue)`: a part in a thousand, so that a loop's gain of a hundredth is seen."""
    return round(float(re.search(r"(\d+(?:\.\d+)?)%", cell).group(1)) / 100, 5)


def read_static(path):
    """Of static_model.md, by (chip, kernel, head size or None): the part of the peak or bandwidth, with dropout; what binds it; of
    products its number a turn."""
    rows = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            arch = cells[0].split(" ")[0]
            if arch not in static_model.CHIPS or len(cells) not in (7, 10):
                continue
            bound = re.search(r"\((\w[\w ]*)\)", cells[-1])
            row = {"part": percent(cells[-1]), "bound": bound.group(1) if bound else "bandwidth"}
            if len(cells) == 7:
                row |= {"plain": percent(cells[5]), "products": int(cells[4].split(",")[1])}
                rows[arch, cells[1], int(cells[2])] = row
            else:
                rows[arch, cells[1], None] = row
    return rows


def kernel_of(op):
    """By the name that it is counted under: norms whose rows add up in 16 bits (train.residual=16bit) are other instances."""
    narrow = op["op"].startswith("layernorm") and op["out"] == op["type"] != "fp32"
    return op["op"] + ("_16bit" if narrow else "")


class Counted:
    """What the compiled kernels do, of every chip."""

    def __init__(self, static, counts):
        self.static, self.counts = read_static(static), static_model.read_counts(counts)

    def launches(self, op, head_dim):
        if op == "product_slope":
            return 2  # the second adds sums of columns
        name = op.replace("_attention", "") if op.startswith("disentangled") else op
        keys = [f"{name}.bf16.{head_dim}", f"{name}.bf16", f"{name}.fp32_to_bf16", name]
        found = [int(k.split("/")[1]) for key in keys for k in self.counts if k.split("/")[0] == key]
        return max(found, default=1)

    def moved(self, key):
        """Bytes an element, of all launches."""
        rows = [c for k, c in self.counts.items() if k.split("/")[0] == key]
        return sum(c["read_bytes"] + c["written_bytes"] for c in rows) / rows[0]["elements"]

    def over_least(self, op):
        key = f"{kernel_of(op)}.{op['type']}" if op["op"] != "cast" else f"cast.{op['type']}_to_{op['out']}"
        return self.moved(key) / LEAST[key] if key in LEAST else 1.0

    def part(self, arch, kernel, head_dim=None):
        kernels = {"gradient_norm": ("gradient_squares",), "cast": ("cast to bf16", "cast to fp32")}.get(kernel, (kernel,))
        rows = [self.static[arch, k, head_dim] for k in kernels if (arch, k, head_dim) in self.static]
        return min(rows, key=lambda r: r["part"]) if rows else {"part": 1.0, "bound": "bandwidth"}


# ---- times -----------------------------------------------------------------------------------------------------------------


class Chip:
    def __init__(self, arch, counted, column, warpgroups=True):
        self.arch, self.counted, self.column, self.warpgroups = arch, counted, column, warpgroups
        self.facts = static_model.CHIPS[arch]
        self.peak = gpu_counts.PEAKS[PEAKS[arch]]
        self.copy = self.facts["bandwidth"] * ASSUMED["copy"][0]
        self.hertz = self.facts["ghz"] * 1e9

    def share(self, what):
        key = f"{what}, {self.column}"
        return ASSUMED[key][0] if key in ASSUMED else 1.0

    def product(self, m, n, k, least_bytes):
        """Seconds and what binds. The best of tiles up to 128 x 256 and of splits of the inner dimension, whose parts are written and
        read once more. On sm_90 two neighbours share the larger side of what they read (a cluster's multicast)."""
        sms, best = self.facts["sms"], (math.inf, "")
        a_cycle = self.peak / (sms * self.hertz)
        for tm, tn in ((64, 64), (64, 128), (128, 64), (128, 128), (64, 256), (256, 64), (128, 256), (256, 128)):
            sides = (min(tm, tn) + max(tm, tn) / 2) if self.arch == "sm_90a" else tm + tn
            for split in (1, 2, 4, 8, 16):
                if split > 1 and k / split < 256:
                    break
                waves = math.ceil(math.ceil(m / tm) * math.ceil(n / tn) * split / sms)
                cycles = {"tensor": 2 * tm * tn * k / split / a_cycle / self.share("products")}
                if self.facts["l2"]:
                    cycles["L2"] = 2 * sides * k / split * sms / self.facts["l2"]
                bound = max(cycles, key=cycles.get)
                seconds = waves * cycles[bound] / self.hertz + (8 * m * n * split / self.copy if split > 1 else 0)
                best = min(best, (seconds, bound))
        moving = least_bytes / self.copy
        return max(best, (moving, "memory"))

    def sweep(self, kernel, units, pairs, head_dim, plain=False):
        """Seconds of one of attention's loops over so many pairs of every head."""
        row, share = self.counted.static[self.arch, kernel, head_dim], "attention"
        rate = row["plain" if plain else "part"] * 4096 / self.facts["hmma"] * 4 * self.facts["sms"] * self.hertz
        if "warpgroup" in kernel:
            rate = row["plain" if plain else "part"] * self.peak
            if "disentangled" not in kernel:  # (whose scores, and what skews them, are the other path's, in as many warps and blocks)
                share = "warpgroups " + ("backward" if "backward" in kernel else "forward")
        return pairs * units * 2 * head_dim / rate / self.share(share), row["bound"]

    def sweeps(self, op):
        """The loops of the path that the op takes on this chip when nobody names one."""
        if self.arch != "sm_90a" or not self.warpgroups or op["op"] not in WARPGROUPS or op["head_dim"] not in WARPGROUP_HEADS[op["op"]]:
            return SWEEPS[op["op"]]
        banded = "attention_warpgroup_banded" if op.get("window") else "attention_warpgroup"
        return [(kernel.replace("attention_warpgroup", banded), units, rows, 64 if op["head_dim"] == 128 else cols, more)
                for kernel, units, rows, cols, more in WARPGROUPS[op["op"]]]

    def attention(self, op, lengths):
        seconds, bounds, d = 0.0, set(), op["head_dim"]
        pooled = op["shape"][0] == len(lengths)
        for kernel, units, rows, cols, more in self.sweeps(op):
            whole = lambda x, tile: -(-x // tile) * tile  # noqa: E731
            queries = [1 if pooled else n for n in lengths]
            pairs = zip(lengths, queries) if kernel.endswith("keys") else zip(queries, lengths)
            seen = lambda n: min(n, 2 * op["window"] + rows) if op.get("window") else n  # noqa: E731  a tile of rows and its window
            number = op["heads"] * sum(whole(i, rows) * (whole(seen(j), cols) + more) for i, j in pairs)
            of_kernel, bound = self.sweep(kernel, units, number, d, not op["dropout"])
            seconds, bounds = seconds + of_kernel, bounds | {bound}
        if op["op"].endswith("backward"):
            seconds += self.moving(DELTA_BYTES * op["shape"][0] * op["heads"] * d)
        if op["op"] == "disentangled_attention_backward":  # partial sums of both tables, one after the other
            seconds += self.moving(4 * op["scratch"])
        return seconds, ", ".join(sorted(bounds))

    def moving(self, size, part=1.0):
        return size / (self.copy * part * self.share("moving"))

    def other(self, op):
        size = op["bytes"] * self.counted.over_least(op)
        rows, cols, table = op["shape"]
        if op["op"] == "embedding_forward":
            size = rows * cols * self.counted.moved("embedding_forward.bf16")
        if op["op"] == "embedding_backward":  # the rows that some token reads are read and written, words drawn evenly
            size = rows * cols * (4 if op["type"] == "fp32" else 2) + 8 * cols * table * (1 - math.exp(-rows / table))
        row = self.counted.part(self.arch, kernel_of(op))
        return self.moving(size, row["part"]), row["bound"]

    def seconds(self, op, lengths):
        if op["op"] in PARTS["products"]:
            seconds, bound = self.product(*op["shape"], op["bytes"])
            if op["op"] == "product_slope":  # sums of columns, a row of them for each of the three warps that share 128 rows: written beside, then read
                seconds += self.moving(4 * 3 * math.ceil(op["shape"][0] / 128) * op["shape"][1])
            return seconds, bound
        return self.attention(op, lengths) if op["op"] in SWEEPS else self.other(op)


# By what a product is, transposed: passes behind it, what the two are in one, and the writings or readings of a number of 16 bits that are gone.
BEHIND = {(0, 1): (("activation_forward", "product_activation", 1), ("layernorm_forward", "product_norm", 1)), (0, 0): (("activation_backward", "product_slope", 2),)}


def in_one(ops):
    """The same ops where products with an activation, its slope or a norm behind them are one kernel of our own (kernels/cuda/products): the product's, and the
    pass is gone. What the pass moves beside what is the product's - it has read that, and written it once more on the way back - goes with the product.
    Sums of bias gradients are a kernel still. Of a norm the product has the sum: it reads what it adds to, and writes the sum in its own place, of that type;
    the norm, a kernel still, reads the sum alone."""
    found = []
    for op in ops:
        passes = BEHIND.get(tuple(op["transposed"]), ()) if op["op"] == "gemm" and not op["accumulates"] else ()
        behind = [(o, *p) for p in passes for o in ops if o["op"] == p[0] and o.get("behind") == op["shape"][2] and o["shape"][:2] == op["shape"][:2]]
        number = sum(o["number"] for o, *_ in behind)
        assert number <= op["number"], f"{number} passes behind {op['number']} products"
        if number < op["number"] and not op.get("behind"):
            found.append(op | {"number": op["number"] - number})
        for o, of_pass, of_both, gone in behind:
            numbers, adds = op["shape"][0] * op["shape"][1], 4 if o["out"] == "fp32" else 2
            if of_pass == "layernorm_forward":
                found.append(o | {"bytes": o["bytes"] - (2 + adds) * numbers, "behind": 0})
                found.append(op | {"op": of_both, "number": o["number"], "bytes": op["bytes"] + (2 * adds - 2) * numbers})
            else:
                found.append(op | {"op": of_both, "number": o["number"], "bytes": op["bytes"] + o["bytes"] - 2 * gone * numbers})
    passes, made = (sum(o["number"] for o in some) for some in ([o for o in ops if o.get("behind")], [o for o in found if o["op"].startswith("product_")]))
    assert passes == made, f"{passes} passes behind products, {made} of them in one"
    return found


def with_own(chip, ops, lengths, flops=None):
    """Of a column: what it is with our own products, where there are some; flops, of a step, if they are known."""
    if not any(op.get("behind") for op in ops):
        return {}
    own = predict(chip, in_one(ops), lengths)
    parts = {part: own["parts"][part] for part in ("activations", "norms", "products")}
    told = {"seconds": own["seconds"], "graph_seconds": own["graph_seconds"], **parts, "launches": own["launches"]}
    return {"in_one": told | ({"mfu": flops / own["seconds"] / chip.peak} if flops else {})}


def part_of(op):
    return next((part for part, ops in PARTS.items() if op in ops), "rest")


def predict(chip, ops, lengths):
    """Of one step: seconds in all, with and without graphs, of the host, and by part; the dearest kinds of op."""
    parts, kinds, launches, idle = dict.fromkeys((*PARTS, "rest"), 0.0), [], 0, 0.0
    for op in ops:
        seconds, bound = chip.seconds(op, lengths)
        number = op["number"] * chip.counted.launches(op["op"], op["head_dim"])
        launches += number
        shortest = ASSUMED["shortest"][0] * number / op["number"]
        idle += op["number"] * max(0.0, shortest - seconds)
        parts[part_of(op["op"])] += op["number"] * seconds
        kinds.append({"op": op["op"], "shape": op["shape"], "number": op["number"], "seconds": op["number"] * max(seconds, shortest), "bound": bound,
                      "flops": op["number"] * op["flops"], "bytes": op["number"] * op["bytes"]})
    found = {"launches": launches, "host_seconds": launches * ASSUMED["host"][0], "parts": parts}
    device = sum(parts.values()) + idle
    found["parts"]["short kernels"] = idle
    found["graph_seconds"] = device + launches * ASSUMED["gap, graphs"][0]
    found["seconds"] = max(device + launches * ASSUMED["gap"][0], found["host_seconds"])
    found["parts"]["gaps"] = found["seconds"] - device
    return found | {"kinds": sorted(kinds, key=lambda k: -k["seconds"])}


def products_of(chip, ops):
    """As `ftengine tune-gemm` would list them."""
    return [{"m": m, "n": n, "k": k, "transposed": op["transposed"], "microseconds": 1e6 * chip.product(m, n, k, op["bytes"])[0]}
            for op in ops if op["op"] == "gemm" for m, n, k in [op["shape"]]]


def flash_rate(rates=FLASH_2):
    """Of the forward and the backward pass together."""
    forward, backward = rates
    return 3.5 / (1 / forward + 2.5 / backward)


# ---- steps -----------------------------------------------------------------------------------------------------------------


def ask(program, arch, *settings):
    command = [program, CARDS[arch], *settings, "device.name=cuda", "train.precision=bf16", "eval.strategy=no", "memory.active_vocabulary=off"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SystemExit(f"predict_steps.py: {' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def config_of(model):
    with open(os.path.join(ROOT, "configs", "models", gpu_steps.MODELS[model] + ".json"), encoding="utf-8") as f:
        return {k: v for k, v in json.load(f).items() if not k.startswith("_")}


def batches_of(kind, batch, half, number):
    """So many of a case's batches, from short to long ones evenly."""
    lengths = gpu_texts.draw_lengths(kind, 2 * batch * half, 512, 42)
    batches = sorted((lengths[i : i + batch] for i in range(0, len(lengths), batch)), key=sum)
    return [batches[(2 * i + 1) * len(batches) // (2 * number)] for i in range(number)]


def dense(program, counted, model, arch, residual="fp32"):
    batch = gpu_steps.CASES["dense-512"][1]
    config, lengths = config_of(model), [512] * batch
    told = ask(program, arch, f"model.path={gpu_steps.MODELS[model]}", f"train.batch_size={batch}", "data.max_length=512", f"train.residual={residual}")
    case = {"model": model, "case": "dense-512" + ("" if residual == "fp32" else ", " + residual), "residual": residual, "arch": arch, "chip": PEAKS[arch], "batch": batch, "tokens": sum(lengths), "fits": told["fits"],
            "planned_bytes": told["planned_bytes"], "flops": gpu_counts.step_flops(config, lengths, True, True)}
    for column in ("best", "expected"):
        chip = Chip(arch, counted, column)
        found = predict(chip, told["ops"], lengths)
        floor = gpu_counts.floor(config, lengths, products_of(chip, told["ops"]), chip.copy, flash_rate() if arch == "sm_90a" else None, residual)
        case[column] = found | {"floor": floor, "mfu": case["flops"] / found["seconds"] / chip.peak}
        case[column] |= with_own(chip, told["ops"], lengths, case["flops"])
    return case


def mixed(program, counted, model, name, arch, number=5):
    kind, batch, half = gpu_steps.CASES[name]
    config, found = config_of(model), []
    with tempfile.TemporaryDirectory() as directory:
        gpu_texts.write_model(config, directory)
        for lengths in batches_of(kind, batch, half, number):
            gpu_texts.write_texts(os.path.join(directory, "texts.tsv"), lengths, config["vocab_size"], 42)
            told = ask(program, arch, f"model.path={directory}", "model.init=random", f"data.train={directory}/texts.tsv", "data.cache_dir=none",
                       f"train.batch_size={batch}", "data.max_length=512")
            assert told["tokens"] == sum(lengths), f"{told['tokens']} tokens planned, {sum(lengths)} written"
            found.append((lengths, told["ops"]))
    case = {"model": model, "case": name, "arch": arch, "chip": PEAKS[arch], "batch": batch, "tokens": sum(map(sum, (l for l, _ in found))) / number}
    for column in ("best", "expected"):
        steps = [predict(Chip(arch, counted, column), ops, lengths) for lengths, ops in found]
        mean = {key: sum(s[key] for s in steps) / number for key in ("seconds", "graph_seconds", "host_seconds", "launches")}
        case[column] = mean | {"parts": {p: sum(s["parts"][p] for s in steps) / number for p in steps[0]["parts"]}}
    return case


def of_attention(op):
    return op["op"] in ("attention_forward", "attention_backward")


def pairs_seen(op, lengths):
    """Pairs of tokens that a head looks at: of a window of w to each side 2 w + 1 keys, but at the ends of a text."""
    w = op["window"]
    return sum(n * n if not w or w >= n else n * (2 * w + 1) - w * (w + 1) for n in lengths)


def documents(program, counted, arch):
    """A step of a model whose layers look globally or through windows. Its floor: products at the same assumed rate, attention of the pairs that are
    seen at FlashAttention-2's published one, every other op's operands moved once at a copy's."""
    lengths = [LONG_TOKENS] * LONG_BATCH
    told = ask(program, arch, f"model.path={LONG_MODEL}", f"train.batch_size={LONG_BATCH}", f"data.max_length={LONG_TOKENS}")
    case = {"model": LONG_MODEL.split("/")[1], "case": f"dense-{LONG_TOKENS}", "arch": arch, "chip": PEAKS[arch], "batch": LONG_BATCH, "tokens": sum(lengths),
            "fits": told["fits"], "planned_bytes": told["planned_bytes"]}
    for column in ("best", "expected"):
        chip = Chip(arch, counted, column)
        found, floor, layers = predict(chip, told["ops"], lengths), {"products": 0.0, "attention": 0.0, "moving": 0.0}, {}
        for op in told["ops"]:
            if op["op"] == "gemm":
                floor["products"] += op["number"] * chip.product(*op["shape"], op["bytes"])[0]
            elif of_attention(op):
                rate = FLASH_2[op["op"].endswith("backward")]
                useful = (10 if op["op"].endswith("backward") else 4) * pairs_seen(op, lengths) * op["heads"] * op["head_dim"]
                floor["attention"] += op["number"] * useful / rate
                kind = "local" if op["window"] else "global"
                layers[kind] = layers.get(kind, 0.0) + chip.attention(op, lengths)[0]
            else:
                floor["moving"] += op["number"] * op["bytes"] / chip.copy
        case[column] = found | {"floor": floor | {"sum": sum(floor.values())}, "attention_of_a_layer": layers} | with_own(chip, told["ops"], lengths)
    return case


def eager_bytes(model, score_bytes):
    """What PyTorch's eager attention keeps of 32 x 512 tokens and of its parameters, by the formula; 18: weights, gradients, two moments, a
    copy in 16 bits."""
    c, tokens = config_of(model), 32 * 512
    d, heads, layers = c["hidden_size"], c["num_attention_heads"], c["num_hidden_layers"]
    return tokens * layers * (34 * d + score_bytes * heads * 512) + 18 * gpu_counts.parameters(c, c["vocab_size"])


def measured_peaks():
    """Of the same shape and precision on the CPU, with all rows of the word table, beside PyTorch's eager: in words."""
    with open(os.path.join(RESULTS, "peak_memory.json"), encoding="utf-8") as f:
        cells = [c for c in json.load(f)["cells"] if (c["batch"], c["length"], c["precision"], c["recompute"], c["vocabulary"]) == (32, 512, "bf16", "none", "off")]
    found = ", ".join(f"{c['ratio']:.2f} for {c['model'].split('/')[-1]}" for c in cells if c.get("ratio"))
    return f"measured on the CPU (peak_memory.md): {found or 'nothing'}"


def attention_rates(counted):
    """Useful TFLOP/s of 32 texts of 512 tokens, heads of 64, with dropout: forward, backward, both; best and expected."""
    rows = {}
    for column in ("best", "expected"):
        op = {"op": "attention_forward", "head_dim": 64, "heads": 16, "shape": [16384, 16384, 512], "dropout": 1, "scratch": 0}
        useful, rows[column] = 4 * 32 * 16 * 512 * 512 * 64, {}
        for path in ("warpgroups", "mma"):
            chip = Chip("sm_90a", counted, column, path == "warpgroups")
            forward, backward = (chip.attention(op | {"op": way}, [512] * 32)[0] for way in ("attention_forward", "attention_backward"))
            rows[column][path] = {"forward": useful / forward, "backward": 2.5 * useful / backward, "both": 3.5 * useful / (forward + backward)}
    return rows
