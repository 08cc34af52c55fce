"""make_report_studies.py NAME TRIALS KIND: a study as JSON lines, for tests of its report.

KIND: plain; two: objectives; odd: names that are markup, values that are not finite or far off, a trial that is running;
same: all trials are alike. Everything follows from the name's length and the numbers: no two runs differ.
"""
import json
import math
import random
import sys

name, count, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
random.seed(7)
ODD = '<script>document.title="owned"</script> & \'q\''
MODELS = ["bert-base", "roberta-large", f"{ODD} \u05e9\u05dc\u05d5\u05dd \u202e, which is a very long name" if kind == "odd" else "MiniLM"]
objectives = {"two": ["eval.accuracy", "seconds.total"], "odd": [f"eval.{ODD}"]}.get(kind, ["eval.accuracy"])


def number(kind, low, high, step=None, log=False):
    return {"name": f"{kind}Distribution", "attributes": {"step": step, "low": low, "high": high, "log": log}}


def choice(choices):
    return {"name": "CategoricalDistribution", "attributes": {"choices": choices}}


def stamp(seconds):
    day, seconds = divmod(seconds, 86400)
    return "2026-01-%02d %02d:%02d:%09.6f" % (2 + day, seconds // 3600, seconds // 60 % 60, seconds % 60)


print(json.dumps({"format_version": 1, "study": name, "directions": ["maximize", "minimize"][:len(objectives)],
                  "user_attributes": {}, "system_attributes": {"study:metric_names": objectives}}))
free = [0.0] * 4
for i in range(count):
    model, rate = random.choice(MODELS), 10 ** random.uniform(-6, -3)
    length, decay, batch = random.randrange(128, 513, 32), random.uniform(0, 0.1), random.choice([8, 16, 32])
    drawn = random.random()
    params = {"train.learning_rate": (number("Float", 1e-6, 1e-3, log=True), rate), "model.path": (choice(MODELS), model),
              "data.max_length": (number("Int", 128, 512, 32), length), "train.weight_decay": (number("Float", 0, 0.1), decay),
              "train.batch_size": (choice([8, 16, 32]), batch)}
    if model == MODELS[0]: # a parameter that only some trials have
        params[f"head {ODD}" if kind == "odd" else "model.head.hidden"] = (number("Int", 64, 1024, 1, True), int(2 ** random.uniform(6, 10)))
    value = 0.92 - 0.05 * abs(math.log10(rate) + 4.3) ** 1.5 - 0.3 * decay + (length - 128) * 3e-5 + random.gauss(0, 0.01) + 0.02 * (model == MODELS[1])
    state = "FAIL" if drawn < 0.04 else "PRUNED" if drawn < 0.4 else "COMPLETE"
    if kind == "same":
        params, value, state = {k: (d, MODELS[0] if k == "model.path" else d["attributes"].get("low", 8)) for k, (d, _) in params.items()}, 0.5, "COMPLETE"
    if kind == "odd" and i == count - 1:
        state = "RUNNING"
    slot = min(range(4), key=free.__getitem__)
    start, seconds = free[slot] + 0.3, random.uniform(20, 90) * (0.4 if state == "PRUNED" else 1)
    free[slot] = start + seconds
    reports = {str(35 * k): value - 0.3 * math.exp(-k / 2) for k in range(1, 11 if state == "COMPLETE" else random.randrange(2, 6))}
    if kind == "odd":
        reports.update({step: random.choice(["NaN", "Infinity", "-Infinity"]) for step in reports if random.random() < 0.05})
    values = [value, seconds] if kind == "two" else [{3: "-Infinity", 5: -1e9, 7: 1e-300}.get(i, value) if kind == "odd" else value]
    planned = int(300 + length * batch / 16 + 900 * (model == MODELS[1])) << 20
    attributes = {"peak_memory_bytes": planned - (i % 2 << 21), "planned.peak_reserved_bytes": planned, "device": f"cuda:{slot // 2}"}
    if state == "PRUNED" and drawn > 0.37:
        attributes, reports = {"oom": True, "memory.needed_bytes": planned, "error": f"needs {ODD}", "device": "cuda:1"}, {}
    if state == "FAIL":
        attributes["error"] = f"worker was killed by signal 9 {ODD}"
    if kind == "two":
        reports = {}
    print(json.dumps({
        "number": i, "state": state, "datetime_start": stamp(start), "datetime_complete": None if state == "RUNNING" else stamp(start + seconds),
        "values": values if state == "COMPLETE" else list(reports.values())[-1:] if state == "PRUNED" else [],
        "params": {k: v for k, (_, v) in params.items()}, "distributions": {k: d for k, (d, _) in params.items()},
        "intermediate_values": reports, "user_attributes": {} if state == "RUNNING" else attributes,
        "system_attributes": {"constraints": [0.5 if i % 17 == 4 else -0.5]} if kind != "same" else {}}))
