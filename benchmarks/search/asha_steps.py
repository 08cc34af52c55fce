"""How many steps of training ASHA saves: with it, a study is to reach the best value of 200 trials that nobody prunes with at most
40% of their steps.

    python3 benchmarks/search/asha_steps.py record         trains 80 trials of configs/tune.ini to their ends, evenly over its space, with
                                                    ten evaluations each; killed, it goes on where it was. About an hour on 2
                                                    quiet cores. Writes benchmarks/search/curves_reviews.jsonl.gz
    python3 benchmarks/search/asha_steps.py luck           trains some of their settings again with other seeds, some half an hour:
                                                    benchmarks/search/luck_reviews.jsonl.gz
    python3 benchmarks/search/asha_steps.py replay         20 seeds on those curves, in seconds: results/asha_steps.md
    python3 benchmarks/search/asha_steps.py freeze-thaw    the same curves and seeds, trials paused and gone on with as hpo/search/curves chooses:
                                                    results/freeze_thaw_steps.md; 2 to 10 s of a core a seed
    python3 benchmarks/search/asha_steps.py real           2 seeds of real studies, hours: results/asha_steps_real.md
    python3 benchmarks/search/asha_steps.py real --layers 2
                                                    the same with the model's first two layers, in a third of the time: some 2
                                                    hours on 2 quiet cores, going by the processor time of the first steps
                                                    (one layer alone is no stand-in: 80 of its trials were recorded, and
                                                    after 14 and 42 steps all but two are at chance, so that no pruner
                                                    sees anything)
    python3 benchmarks/search/asha_steps.py real --layers 2 --until 0.7
                                                    the same, and a study with ASHA that has not reached the value within
                                                    70% of the steps is given up: what it was to show is decided at 40%
    python3 benchmarks/search/asha_steps.py save           keeps what `record` and `real` have trained so far in this directory, in
                                                    benchmarks/asha_partial: there they go on from it in any other clone,
                                                    on any machine

Killed or stopped, `record` and `real` go on where they were. What one leaves of a study, the next call must be given the same
settings for. `replay` needs the target bench_asha, whose head says how a curve is made of recorded ones. The settings of ASHA are fixed before
any result: the first rung is the first evaluation, one of three goes on (14, 42 and 126 of 140 steps).
"""
import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import common  # noqa: E402

ASHA = ["study.pruner=halving", "study.pruner_min_resource=14", "study.pruner_reduction_factor=3"]
EVALUATIONS = ["eval.steps=14"]
PARTIAL = os.path.join(common.ROOT, "benchmarks", "search", "asha_partial")
FINISHED = ("COMPLETE", "PRUNED", "FAIL")
CURVES = os.path.join(common.ROOT, "benchmarks", "search", "curves_reviews.jsonl.gz")
TARGET = 0.4
SEEDS = (43, 44, 45)  # of settings trained again


def run(*command):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {result.returncode}\n{result.stderr[-2000:]}")
    return result.stdout


def lines_of(arguments, study):
    return [json.loads(line) for line in run(arguments.program, "study", "export", study, "--format", "jsonl").splitlines()]


def tune(arguments, study, trials, *settings):
    """Runs or continues a study in the working directory, with its messages on standard error."""
    take_up(arguments, study)
    note_machine(study)
    command = [arguments.program, "tune", arguments.config, "--study", study, "--trials", str(trials), "study.keep=none",
               "output.save_steps=0", *EVALUATIONS, *settings, *shortened(arguments), *arguments.settings]
    code = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
    if code in (130, 143):
        sys.exit("stopped; the same command goes on, and `asha_steps.py save` first lets it do so elsewhere")
    if code not in (0, 1):
        sys.exit(f"{' '.join(command)} failed")


def shortened(arguments):
    """The model's first layers alone, beside the studies: its files, with another number in config.json."""
    if arguments.layers == 0:
        return []
    model = os.path.join("studies", f"asha-model-{arguments.layers}")
    os.makedirs(model, exist_ok=True)
    for name in os.listdir(arguments.model):
        source, copy = os.path.join(arguments.model, name), os.path.join(model, name)
        if name == "config.json" or not os.path.isfile(source) or os.path.exists(copy):
            continue
        shutil.copyfile(source, copy + ".part")  # a copy that is broken off is none
        os.replace(copy + ".part", copy)
    path = os.path.join(model, "config.json")
    with open(os.path.join(arguments.model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    if not arguments.layers <= config["num_hidden_layers"]:
        sys.exit(f"--layers {arguments.layers}: the model has {config['num_hidden_layers']}")
    with open(path + ".part", "w", encoding="utf-8") as f:
        json.dump(dict(config, num_hidden_layers=arguments.layers), f, indent=2)
    os.replace(path + ".part", path)
    return [f"model.path={model}"]


def named(arguments, study):
    """A study of another model is another study."""
    return study if arguments.layers == 0 else f"{study}-layers-{arguments.layers}"


def take_up(arguments, study):
    """What `save` has kept of a study that this directory does not have."""
    kept = os.path.join(PARTIAL, f"{study}.jsonl.gz")
    if os.path.exists(os.path.join("studies", study)) or not os.path.exists(kept):
        return
    with tempfile.TemporaryDirectory() as scratch:
        plain = os.path.join(scratch, "study.jsonl")
        with gzip.open(kept, "rb") as f, open(plain, "wb") as out:
            out.write(f.read())
        run(arguments.program, "study", "import", plain)
        with open(kept_machines(study), "w", encoding="utf-8") as f:
            json.dump(machines(os.path.join(PARTIAL, f"{study}.machines.json")), f)


def kept_machines(study):
    return os.path.join("studies", f"{study}.machines.json")


def machines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def note_machine(study):
    """Which ones have trained a study that several took up, in their order."""
    trained, here = machines(kept_machines(study)), common.provenance()["machine"]
    if here not in trained:
        trained.append(here)
    os.makedirs("studies", exist_ok=True)
    with open(kept_machines(study), "w", encoding="utf-8") as f:
        json.dump(trained, f)


def save(arguments):
    studies = sorted(name for name in os.listdir("studies") if os.path.exists(os.path.join("studies", name, "study.db")))
    os.makedirs(PARTIAL, exist_ok=True)
    for name in studies:
        if not name.startswith("asha-"):
            continue
        study, *trials = lines_of(arguments, name)
        ended = [t["state"] in FINISHED for t in trials] + [False]
        trials = trials[:ended.index(False)]  # the one that runs begins anew elsewhere
        with gzip.GzipFile(os.path.join(PARTIAL, f"{name}.jsonl.gz"), "wb", mtime=0) as f:
            f.write("".join(json.dumps(line) + "\n" for line in [study, *trials]).encode())
        with open(os.path.join(PARTIAL, f"{name}.machines.json"), "w", encoding="utf-8") as f:
            json.dump(machines(kept_machines(name)), f)
        print(f"{name}: {len(trials)} trials")


def record(arguments):
    name = named(arguments, "asha-curves")
    tune(arguments, name, arguments.trials, "study.sampler=quasi_random", "study.pruner=none")
    study, *trials = lines_of(arguments, name)
    kept = {"number", "state", "values", "params", "distributions", "intermediate_values"}
    complete = [t for t in trials if t["state"] == "COMPLETE"]
    lines = [dict(study, study="curves", user_attributes={"recorded": dict(common.provenance(), trained_on=machines(kept_machines(name)))}, system_attributes={})]
    rest = {"user_attributes": {}, "system_attributes": {}, "datetime_start": None, "datetime_complete": None}
    lines += [dict({k: v for k, v in t.items() if k in kept}, number=i, **rest) for i, t in enumerate(complete)]
    with gzip.GzipFile(arguments.curves, "wb", mtime=0) as f:
        f.write("".join(json.dumps(line) + "\n" for line in lines).encode())
    print(f"{len(complete)} curves of {len(trials)} trials in {arguments.curves}, {os.path.getsize(arguments.curves)} bytes")


def luck_of(curves):
    """The file beside one of curves that has some of its settings, trained again with other seeds."""
    if not os.path.basename(curves).startswith("curves_"):
        sys.exit(f"{curves}: a file of curves is called curves_NAME.jsonl.gz, and beside it is luck_NAME.jsonl.gz")
    return os.path.join(os.path.dirname(curves), os.path.basename(curves).replace("curves_", "luck_", 1))


def written(path, lines):
    with open(path + ".new", "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as f:
        f.write("".join(json.dumps(line) + "\n" for line in lines).encode())
    os.replace(path + ".new", path)


def trained(arguments, params, seed):
    """A complete trial of these settings, as an export has it."""
    with tempfile.TemporaryDirectory() as scratch:
        where = os.path.join(scratch, "run")
        run(arguments.program, "train", arguments.config, *EVALUATIONS, *shortened(arguments), *(f"{k}={v}" for k, v in params.items()), *arguments.settings,
            "output.save_steps=0", f"train.seed={seed}", f"output.dir={where}")
        with open(os.path.join(where, "run.json"), encoding="utf-8") as f:
            best = json.load(f)["best"]["value"]
        with open(os.path.join(where, "metrics.jsonl"), encoding="utf-8") as f:
            curve = {str(m["step"]): round(m["eval_accuracy"], 9) for m in map(json.loads, f) if "eval_accuracy" in m}
    return {"values": [best], "intermediate_values": curve, "user_attributes": {"seed": seed}}


def luck(arguments):
    """Settings of the recorded study, each with three other seeds. What is there is not trained again."""
    with gzip.open(arguments.curves, "rt") as f:
        study, *trials = map(json.loads, f)
    path, kept = luck_of(arguments.curves), {}
    if os.path.exists(path):
        with gzip.open(path, "rt") as f:
            kept = {(json.dumps(t["params"]), t["user_attributes"]["seed"]): t for t in list(map(json.loads, f))[1:]}
    trials.sort(key=lambda t: t["values"][0], reverse=study["directions"] == ["maximize"])
    wanted = [(trials[int(part * len(trials))], seed) for part in arguments.again for seed in SEEDS]
    for again, seed in wanted:
        key = (json.dumps(again["params"]), seed)
        if key in kept:
            continue
        kept[key] = dict(again, system_attributes={}, datetime_start=None, datetime_complete=None, **trained(arguments, again["params"], seed))
        order = {(json.dumps(t["params"]), s): i for i, (t, s) in enumerate(wanted)}  # one setting's runs side by side, others behind
        lines = sorted(kept.items(), key=lambda pair: order.get(pair[0], len(order)))
        written(path, [dict(study, study="luck", user_attributes={}), *(dict(t, number=i) for i, (_, t) in enumerate(lines))])
    print(f"{len(arguments.again)} settings, {len(SEEDS)} runs each, in {path}")


def place_lines(document):
    """Without the luck of the best of many trials."""
    rows = document["seeds"]
    if "place" not in rows[0]:
        return []
    shares = [r["place_steps"] / r["none_steps"] if r["place_reached"] else 1.0 for r in rows]
    document["median_luck"], document["median_place_share"] = common.median([r["luck"] for r in rows]), common.median(shares)
    return [f"That value is by {document['median_luck']:.4f} (median) the luck of a run. A place where trials are on average as good as there was that of the best trial, "
            f"and stayed so, after {100 * document['median_place_share']:.1f}% of the steps (median; where never 100%): {sum(r['place_reached'] for r in rows)} of {len(rows)} seeds.", ""]


def summary(document, title, note, what="ASHA", stopped="pruned"):
    rows = document["seeds"]
    shares = [r["steps"] / r["none_steps"] if r["reached"] else 1.0 for r in rows]
    own = [r["steps"] / r["none_first_steps"] if r["reached"] else float("inf") for r in rows]
    document["median_share"], document["within_target"] = common.median(shares), sum(s <= TARGET for s in shares)
    reached, sooner = sum(r["reached"] for r in rows), sum(o < 1 for o in own)
    lines = common.title_lines(document, title) + [
        note, "",
        f"Median share of the steps: **{100 * document['median_share']:.1f}%** (where the value was not reached 100%); {document['within_target']} of {len(rows)} seeds "
        f"within {100 * TARGET:.0f}%, {reached} reached the value at all. Against the steps at which the study without a pruner "
        f"had its best (the stricter measure): {sooner} of {len(rows)} seeds took fewer.", "",
        *place_lines(document),
        f"| seed | best of {document['trials_without']} without | its steps | first reached at | with {what} | share | "
        f"trials, {stopped} |", "|---|---|---|---|---|---|---|"]
    for r, share in zip(rows, shares):
        with_asha = f"{r['steps']:,}" if r["reached"] else f"not in {r['steps']:,}"
        took = f"{100 * share:.1f}%" if r["reached"] else f"over {100 * r['steps'] / r['none_steps']:.0f}%"
        lines.append(f"| {r['seed']} | {r['best']:.4f} | {r['none_steps']:,} | {r['none_first_steps']:,} | {with_asha} | "
                     f"{took} | {r['trials']}, {r['pruned']} |")
    return "\n".join(lines) + "\n"


def replayed(arguments, *words):
    """A line about the curves and one a seed, of bench_asha."""
    for path, what in ((arguments.curves, "record"), (luck_of(arguments.curves), "luck")):
        if not os.path.exists(path):
            sys.exit(f"{path} is not there; record it first: python3 benchmarks/search/asha_steps.py {what}")
    with tempfile.TemporaryDirectory() as scratch:
        databases = []
        for path in (arguments.curves, luck_of(arguments.curves)):
            name = os.path.basename(path)[:-len(".jsonl.gz")]
            plain, database = os.path.join(scratch, f"{name}.jsonl"), os.path.join(scratch, f"{name}.db")
            with gzip.open(path, "rb") as f, open(plain, "wb") as out:
                out.write(f.read())
            run(arguments.program, "study", "import", plain, "--storage", database)
            databases.append(database)
        program = os.path.join(os.path.dirname(arguments.program), "benchmarks", "bench_asha")
        told = run(program, *databases, arguments.seeds or 20, arguments.without, *words, *arguments.settings)
    return map(json.loads, told.splitlines())


def replay(arguments):
    curves, *rows = replayed(arguments, *ASHA)
    document = dict(common.provenance(), trials_without=arguments.without, curves=curves, seeds=rows)
    note = (f"{curves['curves']} recorded trials, {curves['evaluations']} evaluations each, {curves['parameters']} parameters; one left "
            f"out is told from the others to {curves['residual']:.4f}. {', '.join(ASHA)}. TPE, trials one after another.")
    common.write_results(arguments.output or os.path.join(common.RESULTS, "asha_steps"), document,
                         summary(document, "Steps of training that ASHA saves, replayed", note))


def freeze_thaw(arguments):
    curves, *rows = replayed(arguments, "freeze_thaw", str(arguments.first))
    document = dict(common.provenance(), trials_without=arguments.without, curves=curves, seeds=rows)
    note = (f"{curves['curves']} recorded trials, {curves['evaluations']} evaluations each, {curves['parameters']} parameters; one left "
            f"out is told from the others to {curves['residual']:.4f}. Without: TPE. With: no sampler; places where the trials around let "
            "most expect (hpo/search/curves/places.h), one evaluation of one trial after the other.")
    common.write_results(arguments.output or os.path.join(common.RESULTS, "freeze_thaw_steps"), document,
                         summary(document, "Steps of training that freeze-thaw saves, replayed", note, "freeze-thaw", "paused"))


def steps_of(trials):
    return sum(max(map(int, t["intermediate_values"]), default=0) for t in trials)


def first_best(trials):
    """The best value, and the steps until it was there."""
    best, at, steps = None, 0, 0
    for t in trials:
        steps += steps_of([t])
        if t["state"] == "COMPLETE" and (best is None or t["values"][0] > best):
            best, at = t["values"][0], steps
    return best, at


def real(arguments):
    rows = []
    for seed in range(arguments.seeds or 2):
        name, without = named(arguments, f"asha-{seed}"), named(arguments, f"asha-none-{seed}")
        tune(arguments, without, arguments.without, f"study.seed={seed}", "study.pruner=none")
        plain = lines_of(arguments, without)[1:]
        best, at = first_best(plain)
        row = {"seed": seed, "best": best, "none_steps": steps_of(plain), "none_first_steps": at}
        reached, trials, count = False, [], 0
        while not reached and steps_of(trials) < arguments.until * row["none_steps"]:
            count += 10
            tune(arguments, name, count, f"study.seed={seed}", *ASHA)
            trials = lines_of(arguments, name)[1:]
            good = [i for i, t in enumerate(trials) if t["state"] == "COMPLETE" and t["values"][0] >= best]
            reached = bool(good)
            trials = trials[:good[0] + 1] if reached else trials # those behind it are of the same ten
        pruned = sum(t["state"] == "PRUNED" for t in trials)
        rows.append(dict(row, reached=reached, steps=steps_of(trials), trials=len(trials), pruned=pruned))
    document = dict(common.provenance(), trials_without=arguments.without, seeds=rows)
    common.write_results(arguments.output or os.path.join(common.RESULTS, "asha_steps_real"), document,
                         summary(document, "Steps of training that ASHA saves, really trained", ", ".join(ASHA) + "."))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "luck", "replay", "freeze-thaw", "real", "save"])
    parser.add_argument("--program", default=os.path.join(common.ROOT, "build", "ftengine"))
    parser.add_argument("--config", default=os.path.join(common.ROOT, "configs", "tune.ini"))
    parser.add_argument("--curves", default=CURVES)
    parser.add_argument("--trials", type=int, default=80, help="of record")
    parser.add_argument("--without", type=int, default=200, help="trials of the study without a pruner")
    parser.add_argument("--seeds", type=int, default=0, help="20 of replay, 2 of real")
    parser.add_argument("--again", type=lambda text: list(map(float, text.split(","))), default=[0, 0.1, 0.3, 0.7],
                        help="of luck: which settings, as parts of all in the order of their values")
    parser.add_argument("--first", type=int, default=0, help="seed of freeze-thaw")
    parser.add_argument("--until", type=float, default=1, help="of real: the share of the steps without a pruner at which ASHA is given up")
    parser.add_argument("--layers", type=int, default=0, help="of the model, the first so many; 0: all")
    parser.add_argument("--model", default=os.path.join(common.ROOT, "models", "all-MiniLM-L6-v2"), help="that --layers cuts")
    parser.add_argument("--output", help="results, without .md and .json")
    parser.add_argument("settings", nargs="*", help="section.key=value, for the studies")
    arguments = parser.parse_intermixed_args() # settings may stand behind options
    {"record": record, "luck": luck, "replay": replay, "freeze-thaw": freeze_thaw, "real": real, "save": save}[arguments.what](arguments)


if __name__ == "__main__":
    main()
