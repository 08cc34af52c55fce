"""Random runs, each held to what was planned for its whole process (test_host.py: a few; benchmarks/memory/host_runs.py: many).

A run is drawn from a seed: family, task, precision, classes, texts, threads, seeds, evaluations, weights that are mapped or drawn. It is
planned, and then runs in a limit of exactly the planned figure and 1%: a cgroup, RLIMIT_AS or RLIMIT_DATA. It must end well there. With
less than the plan without its slack it must be refused before its first step, with exit code 3 and one line.
"""

import json
import math
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time

FTENGINE = os.environ.get("FTENGINE", "build/ftengine")
SOURCE = os.environ.get("SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SLACK = 2 << 20  # FT_HOST_SLACK_BYTES
V1 = "/sys/fs/cgroup/memory"

# ---- runs ------------------------------------------------------------------------------------------------------------

FAMILIES = {
    "bert": {"model_type": "bert", "vocab_size": 300, "type_vocab_size": 2, "max_position_embeddings": 160, "hidden_act": "gelu"},
    "distilbert": {"model_type": "distilbert", "vocab_size": 300, "max_position_embeddings": 160, "activation": "gelu"},
    "electra": {"model_type": "electra", "vocab_size": 300, "type_vocab_size": 2, "max_position_embeddings": 160, "hidden_act": "gelu"},
    "deberta-v2": {"model_type": "deberta-v2", "vocab_size": 2000, "max_position_embeddings": 160, "hidden_act": "gelu",
                   "relative_attention": True, "max_relative_positions": -1, "position_buckets": 16, "norm_rel_ebd": "layer_norm",
                   "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
}


def write_model(directory, family, rng):
    os.makedirs(directory)
    hidden = rng.choice([16, 32, 64, 128, 256])
    layers = rng.choice([1, 2, 4, 6])
    config = dict(FAMILIES[family], hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=4 * hidden,
                  hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    if family == "distilbert":
        config.update(dim=hidden, n_layers=layers, n_heads=4, hidden_dim=4 * hidden, dropout=0.1, attention_dropout=0.1)
    if family == "electra":
        config.update(embedding_size=hidden)
    with open(f"{directory}/config.json", "w") as f:
        json.dump(config, f)
    if family == "deberta-v2":
        shutil.copy(f"{SOURCE}/tests/vectors/tokenizer_families/deberta.spm", f"{directory}/spm.model")
    else:
        shutil.copy(f"{SOURCE}/tests/vectors/trainer/model/vocab.txt", f"{directory}/vocab.txt")
    return f"{family} {layers}x{hidden}"


def write_texts(path, rows, words, classes, task, rng):
    """Rows of about so many words; every class at least once where there are rows enough."""
    vocabulary = ["food", "music", "travel", "good", "bad", "the", "a", "of", "and", "train", "song", "soup"]
    lines = [" ".join(rng.choices(vocabulary, k=max(1, int(rng.expovariate(1 / words))))) for _ in range(min(rows, 997))]
    with open(path, "w") as f:
        f.write("text\tlabel\n")
        for i in range(rows):
            if task == "regression":
                label = f"{rng.random():.4f}"
            elif task == "multi_label":
                label = ",".join(sorted({f"c{rng.randrange(classes)}", f"c{i % classes}"}))
            else:
                label = f"c{i % classes}"
            f.write(f"{lines[i % len(lines)]} {i}\t{label}\n")


def draw(seed, scratch, largest, most_threads=16, large_share=0.15, repeated_share=0.2):
    """A run: the arguments of `ftengine train`, and words about it. largest: bytes of its texts, at most; large_share: of runs above 3 MB,
    which take their time; repeated_share: of runs for several seeds, some with folds."""
    rng = random.Random(seed)
    directory = f"{scratch}/{seed}"
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    family = rng.choice(list(FAMILIES))
    shape = write_model(f"{directory}/model", family, rng)
    task = rng.choice(["single_label", "single_label", "multi_label", "regression"])
    classes = 1 if task == "regression" else rng.choice([2, 3, 10, 100, 500, 2000])
    small = min(largest, 3e6)
    size = int(10 ** rng.uniform(3, math.log10(small)))
    if largest > small and rng.random() < large_share:
        size = int(10 ** rng.uniform(math.log10(small), math.log10(largest)))
    words = rng.choice([3, 12, 60])
    rows = max(4 * classes + 8, size // (6 * words + 12))
    write_texts(f"{directory}/train.tsv", rows, words, classes, task, rng)
    evaluated = max(10, min(rows // 2, rng.choice([20, 500, 5000, 50000]), 1000000 // classes))
    write_texts(f"{directory}/dev.tsv", evaluated, words, classes, task, rng)
    precision = rng.choice(["fp32", "fp32", "bf16", "fp16"])
    threads = min(most_threads, rng.choice([1, 1, 1, 1, 1, 1, 2, 3, 8, 16]))
    args = [f"model.path={directory}/model", "model.init=random", f"data.train={directory}/train.tsv", f"train.task={task}",
            f"train.precision={precision}", f"device.threads={threads}", f"train.batch_size={rng.choice([1, 8, 32])}",
            f"data.max_length={rng.choice([16, 64, 128])}", "train.max_steps=2", f"output.dir={directory}/run", "device.name=cpu",
            f"data.cache_dir={directory}/cache"]
    told = [shape, task, f"{classes} classes", f"{os.path.getsize(f'{directory}/train.tsv') / 1e6:.3f} MB", precision, f"{threads} threads"]
    repeated = rng.random() < repeated_share and size < 3e6
    if repeated:
        args += [f"train.seeds={rng.randrange(9)},{rng.randrange(10, 99)}"]
        told.append("2 seeds")
    if repeated and task != "multi_label" and rng.random() < 0.5 and 4 * classes <= rows <= 2e6 / classes: # all of them are predicted
        args += ["data.folds=2"]
        told.append("2 folds")
    else:
        args += [f"data.validation={directory}/dev.tsv", "eval.strategy=" + rng.choice(["epoch", "steps", "no"]), "eval.steps=1"]
        told.append(f"{evaluated} evaluated")
    if rng.random() < 0.3 and "2 folds" not in told:
        args += [f"data.test={directory}/dev.tsv"]
    if not repeated and rng.random() < 0.4:  # weights that are there, and mapped
        first = subprocess.run([FTENGINE, "train", *args, f"output.dir={directory}/weights", "--quiet"], capture_output=True)
        if first.returncode == 0:
            args = [a for a in args if a != "model.init=random" and not a.startswith("model.path=")] + [f"model.path={directory}/weights/model"]
            told.append("mapped weights")
    return args, ", ".join(told)


def plan(args):
    p = subprocess.run([FTENGINE, "plan", *args, "--json"], capture_output=True, text=True)
    if p.returncode != 0:
        raise RuntimeError(f"plan: {p.returncode} {p.stderr}")
    return json.loads(p.stdout)


# ---- limits ------------------------------------------------------------------------------------------------------------

def v1_group():
    try:
        with open("/proc/self/cgroup") as f:
            for line in f:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                if "memory" in controllers.split(","):
                    return V1 + path
    except OSError:
        pass
    return None


def make_group(limit):
    """A cgroup (v1) with that limit, or None where none can be made."""
    parent = v1_group()
    if parent is None or not os.path.exists(f"{parent}/memory.limit_in_bytes"):
        return None
    group = f"{parent}/ftengine-{os.getpid()}-{time.monotonic_ns()}"
    try:
        os.mkdir(group)
        with open(f"{group}/memory.limit_in_bytes", "w") as f:
            f.write(str(limit))
    except OSError:
        shutil.rmtree(group, ignore_errors=True)
        return None
    return group


def remove_group(group):
    for _ in range(50):
        try:
            os.rmdir(group)
            return
        except OSError:
            time.sleep(0.05)


def kills_in(group):
    with open(f"{group}/memory.oom_control") as f:
        return int(re.search(r"^oom_kill (\d+)", f.read(), re.M).group(1))


def held(pid):
    """What the process holds now that no file gives back: RssAnon."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) * 1024
    except (OSError, AttributeError):
        return 0


def run(args, kind, limit):
    """kind: cgroup, as or data. -> exit code, kills, the most that it was seen to hold, its errors"""
    group = make_group(limit) if kind == "cgroup" else None
    if kind == "cgroup" and group is None:
        return None

    def enter():
        if group:
            with open(f"{group}/cgroup.procs", "w") as f:
                f.write(str(os.getpid()))
        else:
            which = resource.RLIMIT_AS if kind == "as" else resource.RLIMIT_DATA
            resource.setrlimit(which, (limit, limit))

    output = next(a for a in args if a.startswith("output.dir="))[len("output.dir="):]
    shutil.rmtree(output, ignore_errors=True)
    p = subprocess.Popen([FTENGINE, "train", *args, "--quiet"], preexec_fn=enter, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    most = 0
    while p.poll() is None:
        most = max(most, held(p.pid))
        time.sleep(0.002)
    errors = p.stderr.read().decode(errors="replace")
    kills = kills_in(group) if group else 0
    if group:
        remove_group(group)
    return p.returncode, kills, most, errors


def started(args):
    """Was a run directory left, that is, was anything begun?"""
    output = next(a for a in args if a.startswith("output.dir="))[len("output.dir="):]
    return os.path.exists(output)


FIGURE = {"cgroup": "peak_bytes", "as": "address_bytes", "data": "data_bytes"}


def forget_tokens(args):
    """A plan makes tokens too, and a run that finds them in the cache needs less."""
    cache = next(a for a in args if a.startswith("data.cache_dir="))[len("data.cache_dir="):]
    shutil.rmtree(cache, ignore_errors=True)


def judge(args, kind):
    """-> dict of what was planned and what came, with `faults`: what must not be; None: there are no such limits here"""
    forget_tokens(args)
    planned = plan(args)
    forget_tokens(args)
    host = planned["host"]
    need = host[FIGURE[kind]]
    got = run(args, kind, int(need * 1.01))
    if got is None:
        return None
    code, kills, most, errors = got
    faults = []
    if kills or code != 0:
        faults.append(f"in {need * 1.01 / 1e6:.2f} MB: exit code {code}, {kills} kills: {errors.strip()[-400:]}")
    if kind == "cgroup" and most > host["peak_bytes"]:
        faults.append(f"held {most}, planned {host['peak_bytes']}")
    # A run whose memory.limit is auto is fitted, if it can be: named, so that the only way is to refuse.
    again = plan(args) # tokens are there now
    least = again["host"][FIGURE[kind]]
    less = least - SLACK - max(1 << 20, least // 50)
    code, kills, _, errors = run([*args, f"memory.limit={max(again['memory']['peak_reserved_bytes'], 1 << 16)}"], kind, less)
    lines = [line for line in errors.split("\n") if line.startswith("ftengine: error: ")]
    if kills or code != 3 or len(lines) != 1 or started(args):
        faults.append(f"in {less / 1e6:.2f} MB: exit code {code}, {kills} kills, began: {started(args)}: {errors.strip()[-300:]}")
    return {"need": need, "held": most, "host": host, "faults": faults, "reserved": planned["memory"]["peak_reserved_bytes"]}
