"""predict_steps.py's tables: every target beside what is predicted, and the predicted steps by part."""

import gpu_counts
from step_times import (ASSUMED, EAGER_SCORE_BYTES, FLASH_2, FLASH_3, LEAST, LONG_BATCH, LONG_MODEL, LONG_TOKENS, NOTE_FLOORS, PARTS, PEAKS,
                        eager_bytes, flash_rate, measured_peaks, part_of, static_model)


def over_floor(case, column):
    """Parts of a step by how far they are above theirs in the floor, the furthest first: what would help most."""
    found, p = case[column], case[column]["parts"]
    moving = sum(p[name] for name in ("norms", "activations", "optimizer", "embedding", "rest"))
    above = {"attention": p["attention"] - found["floor"]["attention"], "ops that move data": moving - found["floor"]["moving"],
             "products": p["products"] - found["floor"]["products"], "gaps and short kernels": p["gaps"] + p["short kernels"]}
    return [f"{name} {1e3 * s:+.1f} ms" for name, s in sorted(above.items(), key=lambda a: -a[1]) if s > 1e-4]


def needs(case, seconds):
    """What a step of so many seconds asks of attention; or, where that is not enough, what is to be had, the largest first."""
    best, expected = case["best"], case["expected"]
    left = seconds - (expected["seconds"] - expected["parts"]["attention"])
    if left >= best["parts"]["attention"]:
        return f"met where attention is at {best['parts']['attention'] / left:.0%} of its bound, the rest as expected"
    moving = ("norms", "activations", "optimizer", "embedding", "rest")
    gains = {"attention at its bound": ("attention",), "products as at 8192^3": ("products",), "moving at a copy's rate": moving}
    gains = {name: sum(expected["parts"][p] - best["parts"][p] for p in parts) for name, parts in gains.items()}
    gains["graphs"] = expected["seconds"] - expected["graph_seconds"]
    listed = ", ".join(f"{name} {-1e3 * s:.1f}" for name, s in sorted(gains.items(), key=lambda g: -g[1]))
    missing = expected["seconds"] - sum(gains.values()) - seconds
    more = f"; {1e3 * missing:.1f} ms more have to come from fewer bytes or another attention than these bounds" if missing > 0 else ""
    return f"{1e3 * seconds:.1f} ms a step, {1e3 * (expected['seconds'] - seconds):.1f} less than expected: {listed}{more}"


def at_best(case, column):
    """Seconds of a step; at the bounds with graphs."""
    return case["best"]["graph_seconds"] if column == "best" else case["expected"]["seconds"]


def verdict(best, expected):
    return "yes" if expected else "only at the bounds" if best else "no"


def largest(case):
    parts = case["expected"]["parts"]
    first = sorted(parts, key=lambda p: -parts[p])[:3]
    return ", ".join(f"{p} {parts[p] / case['expected']['seconds']:.0%}" for p in first)


def gains_of(case):
    """Of every op of a dense step: expected, at the bound of what is compiled, and the least (every operand moved once at a copy's rate,
    standard attention at FlashAttention-2's rate, products and disentangled attention at their bounds); what could be had most first."""
    chip_copy = static_model.CHIPS[case["arch"]]["bandwidth"] * ASSUMED["copy"][0]
    found = {}
    for column in ("expected", "best"):
        for k in case[column]["kinds"]:
            row = found.setdefault(k["op"], dict.fromkeys(("expected", "best", "least"), 0.0))
            row[column] += k["seconds"]
            if column == "best" and k["op"] in ("attention_forward", "attention_backward"):
                row["least"] += k["flops"] / FLASH_2[k["op"].endswith("backward")]
            elif column == "best" and part_of(k["op"]) in ("products", "attention"):
                row["least"] += k["seconds"]
            elif column == "best":
                row["least"] += min(k["seconds"], k["bytes"] / chip_copy)
    return sorted(({"op": op} | row for op, row in found.items()), key=lambda r: r["least"] - r["expected"])


def rows_of(cases, rates, counted):
    """(target, predicted best to expected, what binds, met, what would help)"""
    at = {(c["model"], c["case"], c["arch"]): c for c in cases}
    rows, both = [], ("best", "expected")
    for model in ("bert-large", "bert-base"):
        c = at[model, "dense-512", "sm_90a"]
        took = {k: at_best(c, k) for k in both}
        ratio = [took[k] / c[k]["floor"]["sum"] for k in both]
        mfu = [c["flops"] / took[k] / gpu_counts.PEAKS["H200"] for k in both]
        limit = 1.15 * c["expected"]["floor"]["sum"]
        rows.append((f"{model}, dense S512: step at most 1.15 times its floor", f"{ratio[0]:.2f} to {ratio[1]:.2f} ({1e3 * took['best']:.1f} to "
                     f"{1e3 * took['expected']:.1f} ms)", largest(c), verdict(*(r <= 1.15 for r in ratio)),
                     "; ".join(over_floor(c, "expected")) + "; " + needs(c, limit)))
        at_floor = c["flops"] / c["best"]["floor"]["sum"] / gpu_counts.PEAKS["H200"]
        for target in (0.50, 0.55):
            seconds = c["flops"] / target / gpu_counts.PEAKS["H200"]
            rows.append((f"{model}, dense S512: MFU {target:.0%}", f"{mfu[0]:.1%} to {mfu[1]:.1%}", largest(c),
                         verdict(*(m >= target for m in mfu)), f"{needs(c, seconds)}. A step at the floor has {at_floor:.0%}"))
    c, target = at["bert-large", "dense-512", "sm_90a"], 0.060
    rows.append((f"bert-large, dense S512: {1e3 * target:.0f} ms a step", f"{1e3 * at_best(c, 'best'):.1f} to {1e3 * at_best(c, 'expected'):.1f} ms", largest(c),
                 verdict(*(at_best(c, k) <= target for k in both)), needs(c, target)))
    for arch in ("sm_80", "sm_89"):
        c = at["bert-large", "dense-512", arch]
        mfu = [c["flops"] / at_best(c, k) / gpu_counts.PEAKS[PEAKS[arch]] for k in both]
        rows.append((f"bert-large, dense S512, {static_model.CHIPS[arch]['name']}: MFU 55%", f"{mfu[0]:.1%} to {mfu[1]:.1%}", largest(c), verdict(*(m >= 0.55 for m in mfu)),
                     needs(c, c["flops"] / 0.55 / gpu_counts.PEAKS[PEAKS[arch]])))
    c = at[LONG_MODEL.split("/")[1], f"dense-{LONG_TOKENS}", "sm_90a"]
    ratio = [at_best(c, k) / c[k]["floor"]["sum"] for k in both]
    rows.append((f"{c['model']}, {LONG_BATCH} texts of {LONG_TOKENS}: step at most 1.2 times its floor", f"{ratio[0]:.2f} to {ratio[1]:.2f} "
                 f"({1e3 * at_best(c, 'best'):.0f} to {1e3 * at_best(c, 'expected'):.0f} ms)", largest(c), verdict(*(r <= 1.2 for r in ratio)), "; ".join(over_floor(c, "expected"))))
    share = [c[k]["attention_of_a_layer"]["local"] / c[k]["attention_of_a_layer"]["global"] for k in both]
    rows.append((f"{c['model']}, texts of {LONG_TOKENS}: attention of a local layer at most 1/8 of a global one's", f"1/{1 / share[0]:.0f} to 1/{1 / share[1]:.0f}", "tiles of the window",
                 verdict(*(x <= 1 / 8 for x in share)), ""))
    for model, floor in NOTE_FLOORS.items():
        c = at[model, "dense-512", "sm_90a"]
        share = [c["tokens"] / at_best(c, k) / floor for k in both]
        for target in (0.60, 0.80, 0.85):
            rows.append((f"{model}, dense S512: {target:.0%} of {floor / 1e6:.2f}M tokens/s", f"{share[0]:.0%} to {share[1]:.0%}", largest(c),
                         verdict(*(s >= target for s in share)), "" if share[1] >= target else needs(c, c["tokens"] / (target * floor))))
    flash, of = flash_rate(), {k: rates[k]["warpgroups"] for k in both}
    bound = {side: counted.static["sm_90a", f"attention_warpgroup{side}", 64]["bound"] for side in ("", "_backward, queries", "_backward, keys")}
    rows.append((f"attention forward and backward: 90% of FlashAttention-2's {flash / 1e12:.0f} TFLOP/s (published, H100, no dropout; not scaled)",
                 f"{of['best']['both'] / 1e12:.0f} to {of['expected']['both'] / 1e12:.0f} TFLOP/s with dropout", f"forward {bound['']}, backward {bound['_backward, queries']}, {bound['_backward, keys']}",
                 verdict(*(of[k]["both"] >= 0.9 * flash for k in both)),
                 f"met from {0.9 * flash / of['best']['both']:.0%} of the bound on; FlashAttention-3's {flash_rate(FLASH_3) / 1e12:.0f} (published, no dropout) from "
                 f"{flash_rate(FLASH_3) / of['best']['both']:.0%} on; mma.sync: {rates['best']['mma']['both'] / 1e12:.0f} to {rates['expected']['mma']['both'] / 1e12:.0f}"))
    moving = {k[1]: r["part"] for k, r in counted.static.items() if k[0] == "sm_90a" and k[2] is None}
    worst = min(moving, key=moving.get)
    rows.append(("memory-bound ops: 85% of a copy's rate", f"{moving[worst]:.0%} ({worst}) to 100% at the bounds", counted.part("sm_90a", worst)["bound"],
                 verdict(moving[worst] >= 0.85, moving[worst] * ASSUMED["moving, expected"][0] >= 0.85),
                 "by the dearest way through its formulas; " + ", ".join(f"{op} moves {counted.moved(op + '.bf16') / LEAST[op + '.bf16']:.2f} times the least"
                                                                            for op in ("layernorm_backward", "layernorm_forward"))))
    for model, name in [(c["model"], c["case"]) for c in cases if not c["case"].startswith("dense")]:
        c = at[model, name, "sm_90a"]
        ms = [1e3 * at_best(c, k) for k in both]
        if (model, name) == ("bert-base", "sst2-16"):
            target, asks = "6 times eager, 2.5 times torch.compile", f"met where eager takes {6 * ms[1]:.1f} ms a step or more and torch.compile {2.5 * ms[1]:.1f}"
        else:
            target, asks = "1.3 times the best", f"met where the best rival takes {1.3 * ms[1]:.1f} ms a step or more"
        rows.append((f"{model}, {name}: {target}", f"{ms[0]:.2f} to {ms[1]:.2f} ms, {c['tokens'] / ms[0] / 1e3:.3f}M to {c['tokens'] / ms[1] / 1e3:.3f}M tokens/s",
                     largest(c), "rivals are not predicted", asks))
    for key in (("bert-large", "dense-512"), ("bert-base", "sst2-16")):
        c = at[(*key, "sm_90a")]["expected"]
        share = c["host_seconds"] / c["seconds"]
        rows.append((f"{key[0]}, {key[1]}: host at most 5% of a step", f"{share:.0%} without graphs", f"{c['launches']:.0f} launches",
                     verdict(share <= 0.05, share <= 0.05), "" if share <= 0.05 else "device.graphs=on: two launches a step"))
    for model in ("bert-base", "bert-large"):
        planned = at[model, "dense-512", "sm_90a"]["planned_bytes"]
        shares = {what: planned / eager_bytes(model, size) for what, size in EAGER_SCORE_BYTES.items()}
        rows.append((f"{model}, B32 S512: peak at most 0.35 of eager's", f"{planned / 2**30:.2f} GiB planned, without the driver's own; " + ", ".join(f"{s:.2f} ({what})" for what, s in shares.items()),
                     "activations; eager's by a formula (Korthikanti et al. 2022)", "by the formula " + " / ".join("yes" if s <= 0.35 else "no" for s in shares.values()),
                     f"met where eager's peak is {planned / 0.35 / 2**30:.1f} GiB or more; {measured_peaks()}"))
    return rows


def milliseconds(seconds):
    return f"{1e3 * seconds:.2f}"


def residual_lines(cases):
    """Dense steps of one model whose rows add up from layer to layer in fp32, and in 16 bits."""
    lines = ["", "## With train.residual = 16bit", "", "BERT-large's dense step again, with rows and their gradients between layers in bf16, beside the one above; milliseconds. A norm moves 14 bytes a number",
             "forward and 12 backward, and 8 and 8 in 16 bits; products that add to a gradient of rows move 4 where they move 8. The two ops: of all tokens.", "",
             "| chip | column | layernorm_forward | layernorm_backward | norms | products | rest | step | with graphs | MFU | planned GiB |", "|---" * 11 + "|"]
    for narrow in (c for c in cases if c.get("residual") == "16bit"):
        usual = next(c for c in cases if (c["model"], c["arch"], c.get("residual")) == (narrow["model"], narrow["arch"], "fp32"))
        for column in ("best", "expected"):
            of = [c[column] for c in (usual, narrow)]
            ops = [[1e3 * sum(k["seconds"] for k in f["kinds"] if k["op"] == op) for f in of] for op in ("layernorm_forward", "layernorm_backward")]
            parts = [[1e3 * f["parts"][p] for f in of] for p in ("norms", "products", "rest")]
            whole = [[1e3 * f[k] for f in of] for k in ("seconds", "graph_seconds")]
            cells = [f"{a:.2f} to {b:.2f}" for a, b in ops + parts + whole] + [f"{of[0]['mfu']:.1%} to {of[1]['mfu']:.1%}"]
            planned = [c["planned_bytes"] / 2**30 for c in (usual, narrow)]
            lines.append("| " + " | ".join([static_model.CHIPS[narrow["arch"]]["name"], column, *cells, f"{planned[0]:.2f} to {planned[1]:.2f}"]) + " |")
    return lines


def in_one_lines(cases):
    """Dense steps whose products with an activation, its slope or a norm behind them are one kernel of our own."""
    lines = ["", "## Where our own products with an activation, its slope or a norm are as fast as cuBLASLt's", "", "Not in the figures above: no card has measured them, and a run takes one only where it has (device.gemm_tuning). Dense steps, H200, milliseconds. The product is "
             "held to the rate that", "is assumed of cuBLASLt's, with what the pass moves beside the product's own - y forward, h and y again backward - among the bytes that it moves; the pass is gone. A norm behind a product is a kernel still, "
             "but", "reads the sum that the product has made, and nothing else; with rows in fp32 behind norms (BERT, DeBERTa) there is no such kernel, with `train.residual = 16bit` there is. What the "
             "compiled kernels can have at most: static_model.md.", "", "| model | column | activations | norms | products | launches | step | with graphs | MFU |", "|---" * 9 + "|"]
    for c in (c for c in cases if c["case"].startswith("dense-") and "in_one" in c["best"]):
        for column in ("best", "expected"):
            f, own = c[column], c[column]["in_one"]
            cells = [f"{1e3 * a:.2f} to {1e3 * b:.2f}" for a, b in ((f["parts"][part], own[part]) for part in ("activations", "norms", "products"))]
            cells.append(f"{f['launches']:.0f} to {own['launches']:.0f}")
            cells += [f"{1e3 * f[k]:.2f} to {1e3 * own[k]:.2f}" for k in ("seconds", "graph_seconds")]
            lines.append("| " + " | ".join([c["model"] + c["case"].removeprefix("dense-512").replace("dense-", ", "), column, *cells, f"{f['mfu']:.1%} to {own['mfu']:.1%}" if "mfu" in own else ""]) + " |")
    return lines


def markdown(document):
    names = [*PARTS, "rest", "short kernels", "gaps"]
    lines = ["# Predicted training steps: nothing here was measured", "", f"{document['date']}, commit {document['commit']}, no GPU", "", "    " + document["command"], "",
             "Every figure is computed from what was counted: ops and shapes of the program's own step, instructions of the compiled kernels",
             "([static_model.md](static_model.md)), bytes counted by the emulator. From the column `best`, every kernel at its bound, to `expected`, with the",
             "assumptions below. Where a GPU has measured a step, gpu_check.sh's report puts it beside these. bf16, dropout as the models have it, all rows of",
             "the word table trained, without graphs unless said.", "", "## Targets", "", "Of the H200 where no other chip is named.", "",
             "| target | predicted, best (with graphs) to expected | largest, or what binds | met | what would help |", "|---|---|---|---|---|"]
    lines += ["| " + " | ".join(row.values()) + " |" for row in document["targets"]]
    lines += ["", "## Dense steps, 32 texts of 512 tokens, by part", "", "Milliseconds. The floor: products at the same assumed rate, attention at FlashAttention-2's published one, "
              "other bytes at a copy's (gpu_counts.py); it is", "of the H200 only. MFU is of executed operations. What is assumed of products and attention was seen on Hopper; the other chips are held to the same.", "",
              "| chip | model | column | " + " | ".join(names) + " | step | with graphs | floor | step by floor | MFU | tokens/s |", "|---" * (len(names) + 9) + "|"]
    for c in document["cases"]:
        for column in ("best", "expected") if c["case"] == "dense-512" else ():
            f, floor = c[column], c[column]["floor"]["sum"]
            cells = [static_model.CHIPS[c["arch"]]["name"], c["model"] + ("" if c["fits"] else " (does not fit)"), column, *(milliseconds(f["parts"][p]) for p in names),
                     milliseconds(f["seconds"]), milliseconds(f["graph_seconds"]), "" if floor is None else milliseconds(floor),
                     "" if floor is None else f"{f['seconds'] / floor:.2f}", f"{f['mfu']:.1%}", f"{c['tokens'] / f['seconds']:.0f}"]
            lines.append("| " + " | ".join(cells) + " |")
    lines += residual_lines(document["cases"])
    lines += in_one_lines(document["cases"])
    lines += ["", f"## {LONG_BATCH} texts of {LONG_TOKENS} tokens, H200", "", "Milliseconds. The floor: products at the same assumed rate, attention of the pairs of tokens that a layer sees at "
              "FlashAttention-2's published rate (of 512 tokens:", "of longer texts it has more), other operands moved once at a copy's.", "", "| model | column | " + " | ".join(names) + " | step | with graphs | floor | step by floor | tokens/s |",
              "|---" * (len(names) + 7) + "|"]
    for c in document["cases"]:
        for column in ("best", "expected") if c["case"] == f"dense-{LONG_TOKENS}" else ():
            f, floor = c[column], c[column]["floor"]["sum"]
            cells = [c["model"], column, *(milliseconds(f["parts"][p]) for p in names), *(milliseconds(x) for x in (f["seconds"], f["graph_seconds"], floor)),
                     f"{f['seconds'] / floor:.2f}", f"{c['tokens'] / f['seconds']:.0f}"]
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## Mixed lengths, H200", "", "Means of five batches of a case, from short to long; milliseconds. The plan fills no micro-batch up.", "",
              "| model | case | tokens a step | column | " + " | ".join(names) + " | step | with graphs | host |", "|---" * (len(names) + 7) + "|"]
    for c in document["cases"]:
        for column in () if c["case"].startswith("dense") else ("best", "expected"):
            f = c[column]
            cells = [c["model"], c["case"], f"{c['tokens']:.0f}", column, *(milliseconds(f["parts"][p]) for p in names), *(milliseconds(f[k]) for k in ("seconds", "graph_seconds", "host_seconds"))]
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## Attention, H200", "", "TFLOP/s of useful work (5 products backward for 2 forward), 512 tokens, heads of 64, with dropout. FlashAttention-2 on an H100 without "
              f"dropout, published (charts of Shah et al. 2024, as transcribed by others): {FLASH_2[0] / 1e12:.0f}", f"forward, {FLASH_2[1] / 1e12:.0f} backward, {flash_rate() / 1e12:.0f} both. Not scaled: the H200 has the same multiprocessors.", "",
              "| column | path | forward | backward | both |", "|---|---|---|---|---|"]
    for column, of in document["attention"].items():
        lines += [f"| {column} | {path} | " + " | ".join(f"{r[k] / 1e12:.0f}" for k in ("forward", "backward", "both")) + " |" for path, r in of.items()]
    lines += ["", f"FlashAttention-3, on wgmma too, from the same charts: {FLASH_3[0] / 1e12:.0f} forward, {FLASH_3[1] / 1e12:.0f} backward, {flash_rate(FLASH_3) / 1e12:.0f} both. `warpgroups` is what a 9.0 takes where its check finds it right."]
    lines += ["", "## What each op could still give, H200, dense steps", "", "Milliseconds of a step, the largest difference first. Least: every operand moved once at a copy's rate, "
              "standard attention at FlashAttention-2's published rate,", "products and disentangled attention at their bounds. Between expected and best stands what a measurement may "
              "confirm; between best and least, what another kernel would bring.", "", "| model | op | expected | best | least |", "|---|---|---|---|---|"]
    for model in ("bert-large", "deberta-v3-large"):
        lines += [f"| {model} | {r['op']} | " + " | ".join(milliseconds(r[k]) for k in ("expected", "best", "least")) + " |"
                  for r in document["gains"][model] if r["expected"] - r["least"] > 1e-4]
    lines += ["", "## The dearest ops of BERT-large's dense step on the H200, expected", "", "| op | shape | calls | ms | bound |", "|---|---|---|---|---|"]
    large = next(c for c in document["cases"] if (c["model"], c["case"], c["arch"]) == ("bert-large", "dense-512", "sm_90a"))
    lines += [f"| {k['op']} | {' x '.join(map(str, k['shape']))} | {k['number']} | {milliseconds(k['seconds'])} | {k['bound']} |" for k in large["expected"]["kinds"]]
    lines += ["", "## Assumed", ""] + [f"- {name}: {value:g} {why}" for name, (value, why) in ASSUMED.items()]
    lines += ["- Caches carry nothing from one kernel to the next, and no two kernels overlap. Activations take the dearest way through their formulas.",
              "- The host's batches and their copies are not counted, nor is a chip's clock under load."]
    return "\n".join(lines) + "\n"
