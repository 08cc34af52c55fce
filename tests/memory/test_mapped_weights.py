#!/usr/bin/env python3
"""Frozen weights that are read where their file lies (memory.map_weights), from outside: two runs have them once in memory (smaps), none writes to them; same
bits as copied ones, for files in fp32 and bf16, products of several parts, tied and own heads, encoders and decoders, LoRA and probes, predict and eval; what has no
use for them copies; planned is metered, and the plan names them apart. Catches: a private copy, a weight that is written to, parts of a product in another
order, a checkpoint that lacks or overwrites them, a type that is taken for another."""
# ctest: asan_part=3

import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE, PROGRAM = Path(os.environ["SOURCE_DIR"]), os.environ["FTENGINE"]
VECTORS, TRAINER = SOURCE / "tests/vectors", SOURCE / "tests/vectors/trainer"
folder = tempfile.TemporaryDirectory(prefix="ftengine-mapped-")
os.environ["XDG_CACHE_HOME"], os.environ["FTENGINE_LEDGER_DIR"] = f"{folder.name}/cache", f"{folder.name}/ledger"
os.chdir(folder.name)
DEADLINE = 240


def ftengine(*words, code=0):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, f"{' '.join(map(str, words))}: {done.returncode}\n{done.stderr}"
    return done


def decoder(name, family, **keys):
    """A configuration of the vectors in front of the trainer's vocabulary."""
    os.mkdir(name)
    words = (TRAINER / "model/vocab.txt").read_text(encoding="utf-8")
    Path(name, "vocab.txt").write_text(words, encoding="utf-8")
    Path(name, "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    config = json.loads((VECTORS / "causal_lm" / family / "config.json").read_text())
    config.pop("layer_types", None)
    Path(name, "config.json").write_text(json.dumps(config | {"vocab_size": words.count("\n"), "initializer_range": 0.1} | keys))


COMMON = ["train.seed=3", "data.cache_dir=none", f"data.train={TRAINER}/train.tsv", "eval.strategy=no", "train.batch_size=6", "train.micro_batch=4", "data.max_length=20",
          "device.threads=2", "train.warmup_steps=0", "output.save_steps=1", "output.save_total_limit=2"]  # fmt: skip


def save_weights(name, *options):
    """Random weights in a file, as one step that learns nothing leaves them."""
    ftengine("train", f"model.path={name}", "model.init=random", *COMMON, "train.max_steps=1", "train.learning_rate=1e-30", f"output.dir={name}-made", *options)
    return Path(f"{name}-made/model")


def read_tensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return {k: v for k, v in json.loads(data[8 : 8 + size]).items() if k != "__metadata__"}, data[8 + size :]


def write_halves(path):
    """The same in bf16: every number's first half."""
    tensors, data = read_tensors(path)
    out, header = b"", {}
    for name, t in tensors.items():
        first, end = t["data_offsets"]
        words = memoryview(data[first:end]).cast("H")[1::2]
        part = words.tobytes()
        header[name] = {"dtype": "BF16", "shape": t["shape"], "data_offsets": [len(out), len(out) + len(part)]}
        out += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + out)


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def outcome(run):
    tensors = sorted(Path(run).glob("adapter/*.safetensors")) + sorted(Path(run).glob("model/*.safetensors")) + sorted(Path(run).glob("checkpoints/*/*.safetensors"))
    assert len(tensors) > 1, run
    return [(path.name, digest(path)) for path in tensors]


# ---- the same bits ------------------------------------------------------------------------------------------------------------

LORA = ["adapter.type=lora", "adapter.r=2", "adapter.targets=all-linear", "adapter.init=false", "adapter.dropout=0.1"]
LANGUAGE = ["train.task=causal_lm", "data.learn=all", "memory.loss_rows=33"]
decoder("own", "qwen2", hidden_size=48, num_hidden_layers=3)
decoder("tied", "qwen2_tied")
decoder("three", "qwen3")
for name in ("own", "tied", "three"):
    save_weights(name, *LANGUAGE)
made = {name: Path(f"{name}-made/model") for name in ("own", "tied", "three")} | {"bert": TRAINER / "model"}
for name in ("own", "tied"):
    subprocess.run(["cp", "-r", made[name], f"{name}-halves"], check=True)
    write_halves(Path(f"{name}-halves/model.safetensors"))
    made[name + "-halves"] = Path(f"{name}-halves")

CASES = [  # model, options, are weights read where they lie?
    ("own", LANGUAGE + LORA, True),
    ("tied", LANGUAGE + LORA + ["train.gradient_checkpointing=on"], True),
    ("three", LANGUAGE + LORA, True),
    ("bert", LORA, True),
    ("bert", ["adapter.type=dora", "adapter.r=2", "adapter.targets=all-linear"], True),
    ("bert", ["train.parameters=classifier", "data.feature_cache=off"], True),
    ("own-halves", LANGUAGE + LORA + ["train.precision=bf16"], True),
    ("own-halves", LANGUAGE + LORA + ["model.storage=bf16"], True),
    ("tied-halves", LANGUAGE + LORA + ["train.precision=bf16"], True),
    ("own-halves", LANGUAGE + LORA + ["train.precision=fp16"], False),
    ("own", LANGUAGE + LORA + ["model.storage=nf4"], None),  # the head and the table alone
    ("bert", ["model.freeze_layers=1"], False),  # whose checkpoints have the frozen layers
]
for number, (name, options, maps) in enumerate(CASES):
    words = [f"model.path={made[name]}", *COMMON, "train.max_steps=2", "train.learning_rate=1e-2", *options]
    runs = {how: f"run{number}-{how}" for how in ("on", "off")}
    before = digest(made[name] / "model.safetensors")
    for how, run in runs.items():
        ftengine("train", *words, f"memory.map_weights={how}", f"output.dir={run}")
    records = {how: json.loads(Path(run, "run.json").read_text()) for how, run in runs.items()}
    what = f"{name} {' '.join(options)}"
    assert digest(made[name] / "model.safetensors") == before, f"{what}: the file was written to"
    assert outcome(runs["on"]) == outcome(runs["off"]), f"{what}: other bits"
    for how, record in records.items():
        planned, metered = ({key: value for key, value in record[part].items() if key != "outside_allocator_bytes"} for part in ("planned", "memory"))
        assert planned == metered, f"{what}: planned and metered differ: {planned} {metered}"
    mapped = records["on"]["host"]["mapped_weights_bytes"]
    assert records["off"]["host"]["mapped_weights_bytes"] == 0, what
    saved = records["off"]["memory"]["at_peak"]["weights"] - records["on"]["memory"]["at_peak"]["weights"]
    if maps is not None:
        assert (mapped > 0) == maps, f"{what}: {mapped} bytes are read where they lie"
    assert abs(saved - mapped) <= 4096, f"{what}: {saved} bytes less are held where {mapped} are not copied"
    if number % 3 > 0:
        continue
    plan = json.loads(ftengine("plan", *words, "memory.map_weights=on", "--json").stdout)
    assert plan["host"]["mapped_weights_bytes"] == mapped and plan["host"]["mapped_bytes"] >= mapped, f"{what}: {plan['host']}"

# A run goes on, whatever it did before.
words = [f"model.path={made['own']}", *COMMON, *LANGUAGE, *LORA, "train.learning_rate=1e-2"]
ftengine("train", *words, "train.max_steps=4", "memory.map_weights=on", "output.dir=whole")
ftengine("train", *words, "train.max_steps=4", "memory.map_weights=on", "output.dir=parts")
for left in ("adapter", "run.json", "checkpoints/step-00000004"):
    subprocess.run(["rm", "-r", f"parts/{left}"], check=True)
ftengine("train", *words, "train.max_steps=4", "memory.map_weights=off", "output.dir=parts", "output.exists=resume")
assert digest("whole/adapter/adapter_model.safetensors") == digest("parts/adapter/adapter_model.safetensors"), "the run that went on"

# A value that is no number is found in a file that is mapped, too.
subprocess.run(["cp", "-r", made["own"], "nan"], check=True)
tensors, data = read_tensors(Path("nan/model.safetensors"))
at = tensors["model.layers.1.mlp.up_proj.weight"]["data_offsets"][0] + 400
file = Path("nan/model.safetensors").read_bytes()
at += len(file) - len(data)
Path("nan/model.safetensors").write_bytes(file[:at] + struct.pack("<f", float("nan")) + file[at + 4 :])
error = ftengine("train", "model.path=nan", *COMMON, *LANGUAGE, *LORA, "memory.map_weights=on", "output.dir=bad", code=2).stderr
assert "not finite" in error and "model.layers.1.mlp.up_proj.weight" in error, error

# ---- prediction ------------------------------------------------------------------------------------------------------------------

for command, model, words in (("eval", "own-made", []), ("eval", "run0-on", []), ("eval", "run3-on", []), ("predict", "run3-on", []), ("predict", TRAINER / "model", []),
                              ("eval", "tied-halves", ["--precision", "bf16", "train.task=causal_lm"])):  # fmt: skip
    said = {how: ftengine(command, model, "--data", TRAINER / "validation.tsv", "--json", *words, f"memory.map_weights={how}").stdout for how in ("on", "off")}
    assert said["on"] == said["off"] != "", f"{command} {model}: {said}"

# ---- two runs, one copy ------------------------------------------------------------------------------------------------------------

decoder("large", "qwen2", hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2)
save_weights("large", *LANGUAGE)
weights = Path("large-made/model/model.safetensors").resolve()


def start(number, how):
    words = ["model.path=large-made/model", *COMMON, *LANGUAGE, *LORA, "train.max_steps=1000000", "train.logging_steps=1", "output.save_steps=1000000", f"output.dir=shared{number}"]
    return subprocess.Popen([PROGRAM, "train", *words, f"memory.map_weights={how}"], stdout=subprocess.DEVNULL, stderr=open(f"shared{number}.err", "w"))


def trains(number, process):
    """Waits until it has stepped, and stops it there."""
    end = time.monotonic() + DEADLINE
    while not (Path(f"shared{number}/metrics.jsonl").exists() and Path(f"shared{number}/metrics.jsonl").stat().st_size > 0):
        assert process.poll() is None and time.monotonic() < end, Path(f"shared{number}.err").read_text()
        time.sleep(0.05)
    process.send_signal(signal.SIGSTOP)


def memory_of(process):
    """Of the mapped file, bytes by smaps; and the anonymous ones of all else."""
    of_file, anonymous, here = {}, 0, False
    for line in Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
        key, _, value = line.partition(":")
        if not value.strip().endswith("kB"):
            if " " in key:  # a mapping's head
                here = line.endswith(str(weights))
            continue
        amount = int(value.split()[0]) * 1024
        if here:
            of_file[key] = of_file.get(key, 0) + amount
        elif key == "Anonymous":
            anonymous += amount
    return of_file, anonymous


processes = [start(0, "on"), start(1, "on"), start(2, "off")]
try:
    for number, process in enumerate(processes):
        trains(number, process)
    seen = [memory_of(process) for process in processes]
finally:
    for process in processes:
        process.kill()
        process.wait()
plan = json.loads(ftengine("plan", "model.path=large-made/model", *COMMON, *LANGUAGE, *LORA, "memory.map_weights=on", "--json").stdout)
mapped = plan["host"]["mapped_weights_bytes"]
assert mapped > 20 << 20, plan["host"]
for of_file, _ in seen[:2]:
    assert of_file.get("Rss", 0) >= 0.95 * mapped, f"{mapped} bytes are read, {of_file} there"
    assert of_file["Pss"] <= 0.6 * of_file["Rss"], f"not shared: {of_file}"
    assert of_file["Private_Dirty"] == of_file["Anonymous"] == 0, f"written to: {of_file}"
copied, shared = seen[2][1], max(anonymous for _, anonymous in seen[:2])
assert copied - shared >= 0.9 * mapped, f"a copy has {copied} bytes of its own, a run that shares {shared}: {mapped} are mapped"
sys.exit(0)
