"""The targets of a training step on a GPU, each with what was measured of it and whether it is met. gpu_report.py prints them. Standard
library only. A target whose figure is missing is not measured, never met."""

TITLES = {True: "met", False: "NOT MET", None: "not measured"}
MIXED = ("sst2-16", "long-16", "trec-16", "sst2-256", "long-64", "trec-256")
DENSE = 32  # texts of a dense batch: what memory is stated of
# Tokens/s on an H200 of what cannot be done faster with mma.sync, by an independent count (test_gpu_steps.py repeats it).
DEBERTA_FLOORS = {"deberta-v3-base": 0.61e6, "deberta-v3-large": 0.20e6}


def own(case, key):
    """Of ftengine's sides that were measured: (side, figure)."""
    sides = case["sides"].items() if case else ()
    return [(name, s[key]) for name, s in sides if name.startswith("ftengine") and s["status"] == "measured" and s.get(key) is not None]


def ratio_of(case, rivals):
    """By how much the faster of our sides beats the best of these rivals, and the rivals that were not measured. (None, ...): none was."""
    best = None
    for _, ratios in own(case, "ratios"):
        there = [ratios[name][0] for name in rivals if name in ratios]
        if there:
            best = max(best or 0, min(there))
    absent = [name for name in rivals if not any(name in ratios for _, ratios in own(case, "ratios"))]
    return best, absent


def row(target, wanted, value, text, met, note=""):
    """A figure beside what is wanted of it; met is asked only where there is a figure."""
    return {"target": target, "wanted": wanted, "measured": None if value is None else text.format(value) + note, "met": None if value is None else met(value)}


def at_least(target, least, value, text, note=""):
    return row(target, "at least " + text.format(least), value, text, lambda x: x >= least, note)


def at_most(target, most, value, text, note=""):
    return row(target, "at most " + text.format(most), value, text, lambda x: x <= most, note)


def faster(title, least, case, rivals):
    """Than the best of these. With one of them missing the target can be missed, but not met: that one may be the best."""
    value, absent = ratio_of(case, rivals)
    found = at_least(title, least, value, "{:.2f}x", f" (without {', '.join(absent)})" if absent else "")
    return found | {"met": None} if found["met"] and absent else found


def moving_ops(speed, ceilings):
    """The memory-bound op that comes least near to a copy: (share, which and how many miss the target)."""
    copy = (ceilings or {}).get("copy_bytes_per_second")
    timed = [c for c in (speed or {}).get("cases", []) if c["microseconds"] > 0 and c["right"] and c["tflop_per_second"] <= 0]
    if not copy or not timed:
        return None, ""
    shares = sorted((c["gb_per_second"] * 1e9 / copy, f"{c['op']} {c['type']} {c['rows']}x{c['cols']}") for c in timed)
    return shares[0][0], f" ({shares[0][1]}; {sum(share < 0.85 for share, _ in shares)} of {len(shares)} below)"


def memory_apart(case):
    """How far plan and what was measured outside of the allocator after the first step are from the driver's peak: (share, which)."""
    found = []
    for name, side in case["sides"].items():
        parts = [side.get(key) for key in ("planned_bytes", "outside_bytes", "peak_bytes")]
        if name.startswith("ftengine") and side["status"] == "measured" and all(parts):
            found.append((abs(parts[0] + parts[1] - parts[2]) / parts[2], f"{case['model']} {case['case']} {name}"))
    return max(found, default=None)


def targets(cases, floors, speed, ceilings, attention, slug):
    """cases: of steps.json; floors and attention: as gpu_report.py has them. Absolute rates are of an H200 alone."""
    by_name = {(c["model"], c["case"]): c for c in cases}
    large = by_name.get(("bert-large", "dense-512"))
    floor = next((f for f in floors if (f["model"], f["case"]) == ("bert-large", "dense-512")), None)
    whole = floor["seconds"]["sum"] if floor else None
    steps = [seconds / whole for seconds in floor["step_seconds"].values()] if whole else []
    mfu = max((x for _, x in own(large, "mfu")), default=None)
    rows = [at_most("bert-large dense-512, step by its floor", 1.15, min(steps, default=None), "{:.2f}x")]
    rows += [at_least("bert-large dense-512, MFU" + word, least, mfu, "{:.1%}") for word, least in ((", first", 0.5), (", then", 0.55))]
    share, which = moving_ops(speed, ceilings)
    rows += [at_least("memory-bound ops by a copy's rate, the slowest", 0.85, share, "{:.0%}", which)]
    theirs = attention[1]["flash_attention_2"] if attention else None
    rows += [at_least("attention with dropout by FlashAttention-2's rate", 0.9, attention[0] / theirs if theirs else None, "{:.0%}")]
    for model in ("bert-base", "bert-large"):
        for name in MIXED:
            rows.append(faster(f"{model} {name}, faster than the best of SDPA, torch.compile, FlashAttention-2", 1.3, by_name.get((model, name)), ("sdpa", "compile", "fa2")))
    small = by_name.get(("bert-base", "sst2-16"))
    rows += [faster(f"bert-base sst2-16, faster than {name}", least, small, (name,)) for name, least in (("eager", 6), ("compile", 2.5))]
    for model, floor_rate in DEBERTA_FLOORS.items():
        dense = by_name.get((model, "dense-512"))
        rows.append(faster(f"{model} dense-512, faster than eager", 4, dense, ("eager",)))
        rows.append(faster(f"{model} dense-512, faster than the best rival", 1.3, dense, ("disentangled-flash", "flashdeberta", "eager", "compile")))
        rate = max((x for _, x in own(dense, "tokens_per_second")), default=None) if slug.startswith("h200") else None
        for word, least in (("first", 0.6), ("then", 0.8)):
            rows.append(at_least(f"{model} dense-512, of {floor_rate / 1e6:.2f}M tokens/s, {word}", least, rate and rate / floor_rate, "{:.0%}"))
    for model in ("bert-base", "bert-large", "deberta-v3-base", "deberta-v3-large"):
        dense = by_name.get((model, "dense-512"))
        eager = dense["sides"].get("eager", {}).get("peak_bytes") if dense and dense["batch"] == DENSE else None
        peak = max((x for _, x in own(dense, "peak_bytes")), default=None)
        rows.append(at_most(f"{model} dense-512, driver's peak memory by eager's", 0.35, peak / eager if peak is not None and eager else None, "{:.2f}x"))
    apart = sorted((memory_apart(c) for c in cases if memory_apart(c)), reverse=True)
    rows.append(at_most("planned memory and what is outside the allocator, from the driver's peak, the furthest", 0.01, apart[0][0] if apart else None, "{:.2%}", f" ({apart[0][1]})" if apart else ""))
    shares = sorted(((x, f"{c['model']} {c['case']}") for c in cases for name, x in own(c, "host_share") if name == "ftengine-graphs"), reverse=True)
    rows.append(at_most("host time by that of a step, with graphs, the largest", 0.05, shares[0][0] if shares else None, "{:.1%}", f" ({shares[0][1]})" if shares else ""))
    return rows


def table(rows):
    lines = ["## Targets", "", "They are stated of an H200. What lacks a rival that may be the best is not measured.", ""]
    lines += ["| target | wanted | measured | |", "|---|---|---|---|"]
    return lines + [f"| {r['target']} | {r['wanted']} | {r['measured'] or '-'} | {TITLES[r['met']]} |" for r in rows] + [""]
