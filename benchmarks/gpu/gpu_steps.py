#!/usr/bin/env python3
"""The training step on a GPU: ftengine beside transformers eager, SDPA, torch.compile, FlashAttention-2 padding-free,
disentangled-flash and FlashDeBERTa, in turns, in one run. gpu_check.sh runs it. Standard library only; the rivals
(gpu_rival.py) need a Python with torch and transformers, and are listed as not there without.

    gpu_steps.py --output steps.json [--seconds 300] [--python python3] [--cases MODEL/CASE ...] ...

Models have the shapes of configs/models and random weights; words are drawn evenly from the whole vocabulary. Cases: dense (every
text 512 tokens, 32 texts), and TREC's, SST-2's and long texts' lengths (gpu_texts.py) with batches of 16 and large ones. All
sides train on the same texts: the first half warms up, the second is timed. The rivals have their batches by length, as the
Trainer groups them (group_by_length), short and long batches in a drawn order; ftengine shuffles, having no padding.
ftengine has attention on mma.sync everywhere, ftengine-graphs with device.graphs=on; ftengine-wgmma, on sm_90 alone and in dense cases of BERT, has
it on warpgroups. ftengine-tuned, in dense cases, has the matrix products that `ftengine tune-gemm` has measured just before (device.gemm_tuning): beside
ftengine it is what tuning brings to a step. ftengine-16bit, in dense cases of BERT, has train.residual=16bit. Host share: of the second half, the time in which the host queued steps (run.json's queueing.share). tokens/s are of real tokens; MFU is of executed operations (gpu_counts.py), of
the batches that a rival ran before its time was over: a padded one executes its padding too, and is credited with it. Peak memory
is the driver's, of the whole device over what was used before that side began (nvidia-smi). The rivals' models and optimizers stay
on the GPU while others are measured, their activations do not: ftengine has that much less memory than alone.

Cases are in the order of what matters most. What there was no time for is listed as not measured. A case that is in --output
already is not measured again, so that a second run goes on, unless a side of ftengine failed in it, or another program, commit,
chip or setting had measured it.
"""

import argparse
import hashlib
import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import gpu_counts
import gpu_memory
import gpu_texts

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MODELS = {
    "bert-base": "bert-base-uncased",
    "deberta-v3-base": "microsoft/deberta-v3-base",
    "bert-large": "bert-large-uncased",
    "deberta-v3-large": "microsoft/deberta-v3-large",
}
RIVALS = {
    "bert": ["eager", "sdpa", "fa2", "compile"],
    "deberta-v2": ["disentangled-flash", "flashdeberta", "eager", "compile"],
}
# What is computed by whose rules: (operations of attention are the fused kernel's, the last layer for the pooled rows alone).
FUSED = {"fa2", "disentangled-flash", "flashdeberta", "sdpa", "compile", "ftengine", "ftengine-graphs", "ftengine-wgmma", "ftengine-tuned", "ftengine-16bit"}
# Options, and what is in the environment.
MMA = {"FTENGINE_ATTENTION": "mma"}  # on sm_90 too, where warpgroups have a side of their own
OURS = {
    "ftengine": ([], MMA),
    "ftengine-graphs": (["device.graphs=on"], MMA),
    "ftengine-wgmma": ([], {"FTENGINE_ATTENTION": "wgmma"}),
    "ftengine-tuned": ([], MMA),  # with the case's products
    "ftengine-16bit": (["train.residual=16bit"], MMA),
}
# name: (lengths, texts a batch, batches a half)
CASES = {
    "dense-512": ("512", 32, 8),
    "sst2-16": ("sst2", 16, 150),
    "long-16": ("long", 16, 40),
    "trec-16": ("trec", 16, 150),
    "sst2-256": ("sst2", 256, 20),
    "long-64": ("long", 64, 12),
    "trec-256": ("trec", 256, 20),
}
NO_DEVICE = 4  # ftengine's exit code, and ours
ROOM = 16 * 2**30  # bytes that a case may need for its model, its texts and what ftengine saves


class Clock:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return self.end - time.monotonic()


# ---- ftengine --------------------------------------------------------------------------------------------------------------


class Failed(Exception):
    """Of one side, in one case."""


class NoDevice(Exception):
    pass


def lines_of(path):
    try:
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []


def error_in(log):
    with open(log, encoding="utf-8", errors="replace") as f:
        text = f.read()
    found = [line for line in text.splitlines() if "error: " in line]
    return (found or text.splitlines() or ["it said nothing"])[-1][:300]


def arguments_of(options, case):
    words = [f"model.path={case['model_directory']}", "model.init=random", f"data.train={case['texts']}", "data.cache_dir=none"]
    words += [f"data.max_length={case['most']}", f"train.batch_size={case['batch']}", "train.epochs=1", f"train.precision={options.precision}"]
    return words + [f"device.name={options.device}", "eval.strategy=no"] + options.set


def measured_products(options, case, limit):
    """The fastest algorithm of every matrix product of a step, for its floor and for the side that uses them. None: there was no time."""
    path, log = os.path.join(case["scratch"], "products.json"), os.path.join(case["scratch"], "products.log")
    with open(log, "wb") as err:
        try:
            command = [options.ftengine, "tune-gemm"] + arguments_of(options, case) + ["--output", path]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=err, cwd=ROOT, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return None
    if done.returncode != 0:
        raise Failed(error_in(log))
    case["products"] = path
    with open(path, encoding="utf-8") as f:
        return [{key: p[key] for key in ("m", "n", "k", "transposed", "microseconds")} for p in json.load(f)["products"]]


def outside_of(used, base):
    """Bytes of the driver beside ftengine's allocator after its first step: of the whole device but for what was used before. None: unknown."""
    return None if used is None or base is None else max(0, used["bytes"] - used["reserved_bytes"] - base) or None


def run_ftengine(options, side, case, memory, deadline, to_the_end):
    """The rate is the second line's of metrics.jsonl: of the second half. What follows is saving, for which only the first run
    of a side is waited: run.json says what was planned and metered, and the host's share."""
    run = os.path.join(case["scratch"], "run")
    shutil.rmtree(run, ignore_errors=True)
    log = os.path.join(case["scratch"], side + ".log")
    command = [options.ftengine, "train"] + arguments_of(options, case) + OURS[side][0]
    command += [f"device.gemm_tuning={case['products']}"] if side == "ftengine-tuned" else []
    command += [f"train.logging_steps={case['half']}", "output.save_steps=1000000000", "memory.timeline=false", f"output.dir={run}"]
    base = memory.begin()
    with open(log, "wb") as err:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err, cwd=ROOT, env=os.environ | OURS[side][1])
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise Failed("not done in its time")
                if not to_the_end and len(lines_of(os.path.join(run, "metrics.jsonl"))) >= 2:
                    break
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
    if process.returncode == NO_DEVICE:
        raise NoDevice(error_in(log))
    lines = lines_of(os.path.join(run, "metrics.jsonl"))
    if process.returncode not in (0, -signal.SIGKILL) or len(lines) < 2:
        raise Failed(error_in(log))
    found = {"tokens_per_second": lines[1]["tokens_per_second"], "loss": lines[1]["loss"], "peak_bytes": memory.over(base)}
    if to_the_end:
        with open(os.path.join(run, "run.json"), encoding="utf-8") as f:
            result = json.load(f)
        found |= {
            "planned_bytes": result["planned"]["peak_reserved_bytes"],
            "metered_bytes": result["memory"]["peak_reserved_bytes"],
            "device": result["device_description"],
            "ftengine": result["versions"]["ftengine"],
            "host_share": result.get("queueing", {}).get("share"),  # on a CPU there is none
            "outside_bytes": outside_of(result.get("device_used"), base),
        }
        if result["tokens"] != sum(case["lengths"]):
            raise Failed(f"{result['tokens']} tokens were trained on, not {sum(case['lengths'])}")
    return found


# ---- rivals ----------------------------------------------------------------------------------------------------------------


class Rival:
    """A gpu_rival.py that is asked, for one case after the other; it loads its libraries while others are measured."""

    def __init__(self, options, name, log):
        self.name, self.log, self.resting, self.peak = name, log, 0, 0
        command = [options.python, os.path.join(HERE, "gpu_rival.py"), "--rival", name]
        command += ["--device", options.rival_device, "--precision", options.precision]
        with open(log, "ab") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, cwd=ROOT)

    def ask(self, question, deadline):
        try:
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(error_in(self.log)) from error
        if not select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise Failed("no answer in its time")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(error_in(self.log))
        document = json.loads(line)
        if "failed" in document:
            raise Failed(document["failed"])
        return document

    def close(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass  # what was not sent to a program that had ended


class Rivals:
    """Those that run. One that failed is started anew for the next case."""

    def __init__(self, options, directory):
        self.options, self.directory, self.running = options, directory, {}

    def get(self, name):
        if name not in self.running:
            self.running[name] = Rival(self.options, name, os.path.join(self.directory, name + ".log"))
        return self.running[name]

    def drop(self, name):
        if name in self.running:
            self.running.pop(name).close()

    def close(self):
        for name in list(self.running):
            self.drop(name)


def prepare_rival(options, rival, case, memory, deadline):
    """Model and warm-up. What the process holds at rest is what the device has more since it held nothing, or its last model."""
    before, held = memory.begin(), rival.resting
    says = rival.ask({"open": {"config": case["config_path"]}}, deadline)
    if "absent" in says:
        return says
    half = case["rival_batches"][: len(case["rival_batches"]) // 2]
    rival.ask({"prepare": {"batches": half, "seconds": options.warm_seconds, "dynamic": not case["dense"]}}, deadline)
    grown = memory.over(before)
    rival.ask({"release": {}}, deadline)
    after = memory.begin()
    rival.peak, rival.resting = (None, 0) if before is None else (held + grown, held + after - before)
    return says


def run_rival(options, rival, case, memory, deadline):
    half = case["rival_batches"][len(case["rival_batches"]) // 2 :]
    before = memory.begin()
    found = rival.ask({"run": {"batches": half, "seconds": options.run_seconds}}, deadline)
    grown = memory.over(before)
    rival.ask({"release": {}}, deadline)
    peak = None if rival.peak is None or grown is None else max(rival.peak, rival.resting + grown)
    rate = found["tokens"] / found["seconds"]
    return {"tokens_per_second": rate, "loss": found["loss"], "peak_bytes": peak, "steps": found["steps"]}


# ---- a case ----------------------------------------------------------------------------------------------------------------


def mfu_of(side, config, case, rounds, peak):
    """Share of the chip's dense rate that was spent on executed operations. A rival's are those of the batches it ran."""
    if peak is None:
        return None
    batches, half = case["rival_batches"], len(case["rival_batches"]) // 2
    fused = side in FUSED and not (side == "compile" and gpu_counts.position_terms(config))

    def share(found):
        ran = batches if side in OURS else batches[half:][: found["steps"]]
        padded = side not in OURS and side not in ("fa2", "disentangled-flash")
        texts = [max(b) if padded else n for b in ran for n in b]
        flops = gpu_counts.step_flops(config, texts, fused, side in OURS, len(ran))
        return flops / sum(map(sum, ran)) * found["tokens_per_second"] / peak

    return statistics.median(map(share, rounds))


def check_device(options):
    """Before a rival is started in vain."""
    if not options.device.startswith("cuda"):
        return
    asked = subprocess.run([options.ftengine, "devices", "--pick"], capture_output=True, text=True, check=False)
    if asked.returncode != 0 or not asked.stdout.startswith("cuda"):
        said = [line for line in asked.stderr.splitlines() if "error: " in line]
        raise NoDevice(said[0] if said else "ftengine finds no CUDA device")


def absent_everywhere(options):
    """Why no rival can be here at all, or None."""
    try:
        check = subprocess.run([options.python, "-c", "import torch, transformers"], capture_output=True, text=True, timeout=180, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{options.python}: {error}"
    return None if check.returncode == 0 else (check.stderr.strip().splitlines() or ["it ended"])[-1]


def ours_of(case, config, chip, precision="bf16"):
    """Our sides in this case."""
    dense_bert = case["dense"] and config["model_type"] == "bert"
    lacking = {"ftengine-wgmma": not dense_bert or ", sm_90" not in chip, "ftengine-tuned": not case.get("products"), "ftengine-16bit": not dense_bert or precision == "fp32"}
    return [name for name in OURS if not lacking.get(name)]


def measure(options, case, config, chip, memory, clock, rivals, missing):
    """Every side of one case. Its rounds go through all sides, forwards and then backwards."""
    names = options.rivals if options.rivals is not None else RIVALS[config["model_type"]]
    sides = {name: {"status": "measured", "rounds": []} for name in ours_of(case, config, chip, options.precision) + names}

    def deadline():
        """Of one side's warm-up, or one of its runs: one for all that it is asked in it."""
        if clock.left() <= 0:
            raise TimeoutError
        return min(clock.end, time.monotonic() + options.side_seconds)

    def give_up(name, why):
        rivals.drop(name)
        deadline()  # what was cut off for want of time has not failed
        sides[name] = {"status": "failed", "why": str(why)}

    for name in [] if missing else names:
        rivals.get(name)  # all load their libraries at once
    for name in names:
        if missing:
            sides[name] = {"status": "not there", "why": missing}
            continue
        try:
            says = prepare_rival(options, rivals.get(name), case, memory, deadline())
            sides[name] = {"status": "not there", "why": says["absent"]} if "absent" in says else sides[name] | {"what": says["what"]}
        except Failed as why:
            give_up(name, why)
    for turn in range(options.rounds):
        order = [name for name in sides if sides[name]["status"] == "measured"]
        for name in order if turn % 2 == 0 else reversed(order):
            try:
                if name in OURS:
                    found = run_ftengine(options, name, case, memory, deadline(), turn == 0)
                    for key in ("planned_bytes", "metered_bytes", "device", "ftengine", "host_share", "outside_bytes"):
                        if key in found:
                            sides[name][key] = found.pop(key)
                else:
                    found = run_rival(options, rivals.get(name), case, memory, deadline())
                sides[name]["rounds"].append(found)
            except Failed as why:
                give_up(name, why)
    return sides


def refuse_peaks(sides):
    """The driver cannot have given less than ftengine counted itself: then it was asked about another device, or too seldom, and
    is not believed about any side."""
    ours = sides["ftengine"]
    peak, metered = ours.get("peak_bytes"), ours.get("metered_bytes")
    if peak is None or metered is None or peak >= metered:
        return {}
    for side in sides.values():
        if side["status"] == "measured":
            side["peak_bytes"] = None
    return {"peaks_refused": f"nvidia-smi saw {peak} bytes at most, ftengine has counted {metered}"}


def summarise(sides, config, case, peak):
    for name, side in sides.items():
        if side["status"] != "measured":
            continue
        rates = [r["tokens_per_second"] for r in side["rounds"]]
        peaks = [r["peak_bytes"] for r in side["rounds"] if r["peak_bytes"] is not None]
        side["tokens_per_second"] = statistics.median(rates)
        side["peak_bytes"] = max(peaks) if peaks else None
        side["mfu"] = mfu_of(name, config, case, side["rounds"], peak)
    refused = refuse_peaks(sides)
    for ours in OURS:
        if ours not in sides or sides[ours]["status"] != "measured":
            continue
        mine = [r["tokens_per_second"] for r in sides[ours]["rounds"]]
        sides[ours]["ratios"] = {}
        for name, side in sides.items():
            if name not in OURS and side["status"] == "measured":
                ratios = [a / r["tokens_per_second"] for a, r in zip(mine, side["rounds"])]
                sides[ours]["ratios"][name] = [statistics.median(ratios), min(ratios), max(ratios)]
    return {"sides": sides} | refused


def make_case(options, model, name, config, directory, scratch):
    kind, batch, half = CASES[name]
    batch, half = options.batch or batch, options.half or half
    most = min(options.longest, config["max_position_embeddings"])
    lengths = gpu_texts.draw_lengths(kind, 2 * batch * half, most, options.seed)
    case = {"batch": batch, "half": half, "most": most, "lengths": lengths, "dense": kind.isdigit(), "scratch": scratch}
    halves = [gpu_texts.grouped(lengths[i * batch * half :][: batch * half], batch, options.seed + i) for i in range(2)]
    case["rival_batches"] = halves[0] + halves[1]
    case["model_directory"] = os.path.join(directory, model)
    case["config_path"] = os.path.join(case["model_directory"], "config.json")
    gpu_texts.write_model(config, case["model_directory"])
    case["texts"] = os.path.join(scratch, "texts.tsv")
    gpu_texts.write_texts(case["texts"], lengths, config["vocab_size"], options.seed)
    return case


def chosen(options):
    """(model, case) in the order of what the first ten minutes may reach: what a target is stated of comes first, of it what needs the most
    explanation; then the other cases, a model's together for what its rivals have compiled."""
    every = [(model, "dense-512") for model in sorted(MODELS, key=lambda model: model.endswith("base"))] + [("bert-base", "sst2-16")]
    first = ("sst2-16", "long-16")
    every += [(model, name) for kind in ("base", "large") for model in MODELS if model.endswith(kind) for name in first]
    every += [(model, name) for model in MODELS for name in CASES]
    every = list(dict.fromkeys(every))
    if options.cases:
        every = [tuple(word.split("/", 1)) for word in options.cases]
    for model, name in every:
        if model not in MODELS or name not in CASES:
            raise SystemExit(f"gpu_steps.py: no case {model}/{name} (models: {', '.join(MODELS)}; cases: {', '.join(CASES)})")
    return every


def config_of(options, model):
    path = options.config or os.path.join(ROOT, "configs", "models", MODELS[model] + ".json")
    with open(path, encoding="utf-8") as f:
        return {k: v for k, v in json.load(f).items() if not k.startswith("_")}


def save(path, document):
    with open(path + ".part", "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)
        f.write("\n")
    os.replace(path + ".part", path)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="JSON; cases that it has are not measured again")
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--python", default="python3", help="with torch and transformers")
    parser.add_argument("--seconds", type=float, default=300, help="for everything")
    parser.add_argument("--side-seconds", type=float, default=120, help="the most for one side's warm-up, or one of its runs")
    parser.add_argument("--warm-seconds", type=float, default=3, help="a rival's warm-up ends after it, and at least three steps")
    parser.add_argument("--run-seconds", type=float, default=1.5, help="likewise a rival's timed steps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commit", default="unknown", help="of ftengine, for whoever reads --output")
    parser.add_argument("--device", default="cuda", help="of ftengine")
    parser.add_argument("--rival-device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--precision", default="bf16", choices=["bf16", "fp16", "fp32"])
    parser.add_argument("--cases", nargs="+", metavar="MODEL/CASE")
    parser.add_argument("--rivals", nargs="*", help="these instead of all of the model's family")
    parser.add_argument("--config", help="a config.json in place of the model's own: to try this program out")
    parser.add_argument("--batch", type=int, help="likewise texts a batch")
    parser.add_argument("--half", type=int, help="likewise batches a half")
    parser.add_argument("--longest", type=int, default=512)
    parser.add_argument("--peak-tflops", type=float, help="dense tensor-core rate of the chip, where gpu_counts.py does not have it")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="options of ftengine")
    options = parser.parse_args()
    options.ftengine = os.path.abspath(options.ftengine)
    return options


def contents(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()[:16]


def origin_of(options):
    """What figures of two runs must have in common to stand in one document."""
    here = os.path.dirname(options.ftengine)
    module = os.environ.get("FTENGINE_CUDA_MODULE")
    # A packed program (gpu_check.sh pack) is a script; program and module are in lib.
    places = [options.ftengine, os.path.join(here, "lib", "ftengine")]
    modules = [module] if module else [os.path.join(here, folder, "libftengine_cuda.so") for folder in ("", "lib")]
    asked = subprocess.run([options.ftengine, "devices"], capture_output=True, text=True, check=False).stdout
    chip = next((" ".join(line.split()) for line in asked.splitlines() if line.startswith(options.device)), "unknown")
    settings = {key: getattr(options, key) for key in ("batch", "half", "longest", "seed", "set", "rivals", "config")}
    origin = {"commit": options.commit, "chip": chip, "precision": options.precision, "rounds": options.rounds, "settings": settings}
    origin["program"] = [contents(path) for path in places if os.path.isfile(path)]
    return origin | {"module": [contents(path) for path in modules if os.path.isfile(path)]}


def earlier_cases(path, origin):
    """Those of an earlier run of the same."""
    try:
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
    except (FileNotFoundError, ValueError):
        return []
    if document.get("origin") != origin:
        print(f"gpu_steps.py: the cases in {path} are of another program, chip or setting: they are dropped", file=sys.stderr)
        return []
    return document["cases"]


def failures_of(case):
    """Of ftengine's own, in words."""
    failed = [(side, case["sides"][side]["why"]) for side in OURS if case["sides"].get(side, {}).get("status") == "failed"]
    failed += [("tune-gemm", case["products_failed"])] if case.get("products_failed") else []
    return [f"{case['model']}/{case['case']} {side}: {why}" for side, why in failed]


def measure_all(options, document, directory, clock, memory, rivals):
    """Into the document, which is saved before every case with those that are still to be measured."""
    check_device(options)
    document["origin"] = origin_of(options)
    document["cases"] = earlier_cases(options.output, document["origin"])
    missing, slowest = absent_everywhere(options), 0
    done = {(c["model"], c["case"]) for c in document["cases"] if not failures_of(c)}
    remaining = [at for at in chosen(options) if at not in done]

    def note(waiting):
        document["not_measured"] = ["/".join(at) for at in waiting]
        save(options.output, document)

    skipped = []
    for i, (model, name) in enumerate(remaining):
        note(skipped + remaining[i:])
        if clock.left() < max(slowest / 2, 1):
            skipped.append((model, name))
            continue
        begun, config, products, why_not = time.monotonic(), config_of(options, model), None, None
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            case = make_case(options, model, name, config, directory, scratch)
            try:
                if case["dense"]:
                    products = measured_products(options, case, max(1, clock.left()))
            except Failed as why:
                why_not = str(why)
            try:
                sides = measure(options, case, config, document["origin"]["chip"], memory, clock, rivals, missing)
            except TimeoutError:
                skipped.append((model, name))
                continue
        chip = next((s["device"] for s in sides.values() if "device" in s), "")
        peak = options.peak_tflops * 1e12 if options.peak_tflops else gpu_counts.peak_of(chip)
        entry = {"model": model, "case": name, "batch": case["batch"], "tokens": sum(case["lengths"]), "texts": len(case["lengths"])}
        entry |= {"chip": chip, "peak_flops": peak, "seconds": time.monotonic() - begun, "products": products, "products_failed": why_not}
        entry |= summarise(sides, config, case, peak)
        document["cases"] = [c for c in document["cases"] if (c["model"], c["case"]) != (model, name)] + [entry]
        slowest = max(slowest, entry["seconds"])
        for side, found in sides.items():
            rate = f"{found['tokens_per_second']:12.0f} tokens/s" if found["status"] == "measured" else f"{found['status']}: {found['why']}"
            print(f"{model:17} {name:10} {side:19} {rate}", flush=True)
    note(skipped)


def scratch_place(output):
    """A model that is saved is no part of a step: into memory where there is room for it, else beside the results."""
    shared = "/dev/shm"
    if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > ROOM:
        return shared
    return os.path.dirname(os.path.abspath(output))


def main():
    options = parse()
    document = {"precision": options.precision, "rounds": options.rounds, "cases": [], "not_measured": []}
    with tempfile.TemporaryDirectory(dir=scratch_place(options.output), prefix=f"gpu_steps-{os.getpid()}-") as directory:
        clock, memory, rivals = Clock(options.seconds), gpu_memory.DriverMemory(), Rivals(options, directory)
        try:
            measure_all(options, document, directory, clock, memory, rivals)
        except NoDevice as why:
            print(f"gpu_steps.py: {why}", file=sys.stderr)
            return NO_DEVICE
        finally:
            rivals.close()
            memory.close()
    broken = [line for case in document["cases"] for line in failures_of(case)]
    for line in broken:
        print(f"gpu_steps.py: {line}", file=sys.stderr)
    print(f"{len(document['cases'])} cases measured, {len(document['not_measured'])} not: {' '.join(document['not_measured'])}")
    return 1 if broken else 0


def ended(*_):
    sys.exit(143)  # through every finally: the temporary folder goes, and so do the programs that were started


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, ended)
    sys.exit(main())
