#!/usr/bin/env python3
"""Do two builds give the same results to the bit? For changes that must change none.

    tools/same_results.py BUILD --against BUILD2      exit code 1 and a line for each difference; a minute or two on 2 cores
    tools/same_results.py BUILD > before.json         what one build gives; such a file may stand for either build
    tools/same_results.py BUILD --only 'cuda|study'   the cases whose names match; --keep DIR leaves what they wrote there

Trained are tiny models of every family in every precision, on every kind of task and by every way to save memory, on the CPU and on
the emulated CUDA device; folds, seeds, long texts, runs that stop and go on. Searched are studies of one worker, whose order is
fixed. Planned are models of real sizes. Compared are all files of all runs, but for times, rates and what the process holds besides
its allocator; values of trials, and plans byte by byte. A case that a build cannot run is compared by its exit code and error.

A build needs ftengine and, for the emulated device, emulated_module and fake_cublaslt (cmake --build BUILD --target ...)."""

import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VECTORS = os.path.join(ROOT, "tests", "vectors")
TRAINER = os.path.join(VECTORS, "trainer")

# What differs between two runs of one build. "ts" and "dur" are memory_timeline.json's, "queueing" the host's time in run.json, and
# metrics.jsonl is as long as its times have digits.
VARIES = re.compile(r"seconds|tokens_per_second|outside_allocator|^ts$|^dur$|^queueing$|datetime|heartbeat|^metrics_bytes$")
MEASURED = re.compile(r"outside_allocator_bytes|measured on this machine")  # lines of a plan

COMMON = (f"{TRAINER}/follow.ini data.validation={TRAINER}/validation.tsv data.test={TRAINER}/validation.tsv eval.strategy=steps "
          "eval.steps=5 train.max_steps=10 train.warmup_steps=2 model.hidden_dropout=0.1 model.attention_dropout=0.1 "
          "model.classifier_dropout=0.1 model.ignore_mismatched_sizes=true device.threads=1 output.save_steps=4 output.save_total_limit=9")
TAGS = "train.task=multi_label data.train=tags.tsv data.validation=tags.tsv data.test= "
NUMBERS = "data.train=numbers.tsv data.validation=numbers.tsv data.test= data.label_column=stars,price "
PAIRS = "data.train=pairs.tsv data.validation=pairs.tsv data.test= data.text_pair=second "
LONG = "data.train=long.tsv data.validation=long.tsv data.test= "
CPU = "device.name=cpu "
CUDA = "device.name=cuda train.max_steps=4 eval.steps=2 output.save_steps=2 "

# name: family of tests/vectors, or none for the trainer's weights; options. "+resume": the run is then sent back to its first
# checkpoint and goes on. Models called wide have heads of 32, which tensor cores take.
TRAININGS = {
    "bert": ("", CPU + "device.threads=2"),
    "bert_bf16": ("", CPU + "train.precision=bf16 train.gradient_accumulation_steps=2 train.micro_batch=3"),
    "bert_fp16_resume": ("", CPU + "train.precision=fp16 train.weight_decay=0.1 train.max_grad_norm=0.5"),
    "bert_frozen_head": ("bert_relu", CPU + "model.freeze=encoder "
                         "model.head.hidden=16,8 model.head.activation=tanh model.head.dropout=0.2"),
    "bert_folds": ("", CPU + "data.folds=3 data.validation= data.test= eval.calibrate=true eval.metric=f1_macro"),
    "bert_seeds_resume": ("", CPU + "train.seeds=1,2 train.layer_lr_decay=0.8 train.lr_scheduler=cosine"),
    "bert_windows": ("", CPU + LONG + "data.max_length=12 data.truncation=windows(2) "
                     "train.class_weights=balanced eval.window_pooling=max"),
    "bert_head_tail": ("bert_gelu_new", CPU + LONG + "data.max_length=24 data.truncation=head_tail memory.recompute_activation=false"),
    "bert_vocabulary_resume": ("", CPU + "data.train=few.tsv train.weight_decay=0.1"),
    "bert_all_rows": ("", CPU + "data.train=few.tsv train.weight_decay=0.1 memory.active_vocabulary=off device.isa=portable"),
    "bert_frozen_layer": ("", CPU + "model.freeze_layers=1 data.validation_split=0.2 data.validation= "
                          "train.label_smoothing=0.1 train.patience=1"),
    "bert_limited": ("bert_gelu", CPU + LONG + "train.batch_size=64 data.max_length=40 train.max_steps=6 memory.limit=4MiB"),
    "roberta": ("roberta", CPU + "train.micro_batch_tokens=64 train.gradient_checkpointing=2"),
    "xlm_roberta_tags": ("xlm_roberta", CPU + TAGS + "train.class_weights=balanced eval.threshold=tuned"),
    "distilbert_numbers": ("distilbert", CPU + NUMBERS + "train.task=regression"),
    "electra_pairs": ("electra", CPU + PAIRS + "train.loss=focal"),
    "electra_frozen": ("electra", CPU + "model.freeze=embeddings train.precision=bf16 train.gradient_checkpointing=on"),
    "deberta_v1": ("deberta_v1", CPU + "train.gradient_checkpointing=on"),
    "deberta_v1_p2c_bf16": ("deberta_v1_p2c", CPU + "train.precision=bf16 train.micro_batch=4"),
    "deberta_v2_conv_fp16": ("deberta_v2_conv", CPU + "train.precision=fp16 train.gradient_checkpointing=on"),
    "deberta_v2_groups": ("deberta_v2_conv_groups", CPU + TAGS + "train.loss=focal"),
    "deberta_v2_plain": ("deberta_v2_plain", CPU + "model.freeze_layers=1 train.gradient_accumulation_steps=3"),
    "deberta_v2_unshared": ("deberta_v2_unshared", CPU + PAIRS + "memory.recompute_layernorm=true"),
    "deberta_v3_resume": ("deberta_v3", CPU + "train.label_smoothing=0.1 train.micro_batch=3"),
    "deberta_v3_c2p_folds": ("deberta_v2_c2p", CPU + NUMBERS + "data.validation= data.folds=2 train.task=regression"),
    "cuda_bert": ("", CUDA + "train.micro_batch=5"),
    "cuda_bert_graphs_fp16": ("wide bert_gelu", CUDA + "train.precision=fp16 device.graphs=on"),
    "cuda_bert_offload_resume": ("wide bert_gelu", CUDA + "train.precision=bf16 memory.offload=all train.gradient_checkpointing=on"),
    "cuda_roberta_offload": ("roberta", CUDA + "memory.offload=optimizer train.layer_lr_decay=0.9"),
    "cuda_vocabulary": ("", CUDA + "data.train=few.tsv train.precision=bf16 train.weight_decay=0.1"),
    "cuda_electra_tags": ("electra", CUDA + TAGS + "model.freeze_layers=1"),
    "cuda_deberta_v1_offload": ("deberta_v1", CUDA + "memory.offload=activations"),
    "cuda_deberta_v2_conv_bf16": ("wide deberta_v2_conv", CUDA + "train.precision=bf16 train.gradient_checkpointing=on"),
    "cuda_deberta_v3_fp16": ("wide deberta_v3", CUDA + "train.precision=fp16 train.micro_batch=4"),
    "cuda_deberta_v3_windows": ("deberta_v3", CUDA + LONG + "data.max_length=16 data.truncation=windows(3) train.micro_batch_tokens=40"),
}
SPACE = "train.learning_rate=float(1e-4, 1e-2, log)\n"
STUDIES = {  # [study], [space] and options
    "tpe": ("sampler = tpe\ntrials = 24\nstartup_trials = 6\n",
            SPACE + "train.batch_size=choice(4, 8, 16)\nmodel.hidden_dropout=float(0, 0.3)\n"
            "train.weight_decay=float(0, 0.2, step=0.05) if train.batch_size < 16\nmodel.head.hidden=choice([], [16], [8, 8])\n"),
    "random": ("sampler = random\ntrials = 8\nkeep = all\n", SPACE + "train.seed=int(1, 5)\ntrain.warmup_steps=int(0, 4)\n"),
    "quasi_random": ("sampler = quasi_random\ntrials = 6\ncompleted = 5\n", SPACE + "train.adam_beta2=float(0.9, 0.999)\n"),
    "grid": ("sampler = grid\ngrid_points = 3\nkeep = top-k\nkeep_count = 2\n", SPACE + "train.lr_scheduler=choice(linear, cosine)\n"),
    "halving": ("sampler = tpe\ntrials = 20\nstartup_trials = 5\npruner = halving\npruner_min_resource = 2\n"
                "pruner_reduction_factor = 2\n", SPACE),
    "folds": ("trials = 8\npruner = wilcoxon\nobjective = maximize eval.accuracy\n", SPACE, "data.folds=4 data.validation= data.test="),
    "objectives": ("trials = 16\nstartup_trials = 5\nobjective = maximize eval.accuracy, minimize memory.peak_allocated_bytes\n"
                   "constraints = memory.peak_allocated_bytes <= 700KiB\nconstant_liar = false\n",
                   SPACE + "train.batch_size=choice(2, 4, 8, 16)\ntrain.gradient_checkpointing=choice(off, on)\n"),
    "limited": ("trials = 10\nmemory_policy = constrain\nsampler = random\n",
                SPACE + "train.batch_size=choice(8, 60)\nmemory.limit=2MiB\n"),
}
NO_FILES = "model.init=random device.threads=2 "
LARGE = NO_FILES + "model.path=bert-large-uncased "
PLANS = {
    "bert_base": NO_FILES + "model.path=bert-base-uncased train.batch_size=32 --gpu 4090",
    "bert_base_cpu": NO_FILES + "model.path=bert-base-uncased train.batch_size=16 data.max_length=128 device.name=cpu --json",
    "bert_base_multilingual": NO_FILES + "model.path=bert-base-multilingual-cased train.precision=fp16 "
                              "model.freeze=embeddings --gpu l40s --json",
    "bert_large": LARGE + "train.precision=bf16 train.gradient_checkpointing=on train.batch_size=64 --memory 24GiB --json",
    "bert_large_offload": NO_FILES + "model.path=bert-large-cased memory.offload=all train.batch_size=32 --gpu 4090 --json",
    "bert_large_fitted": LARGE + "train.batch_size=32 memory.offload=auto --memory 9GiB",
    "roberta_large": NO_FILES + "model.path=roberta-large train.batch_size=8 memory.recompute_layernorm=on "
                     "memory.recompute_activation=false --json --gpu h200",
    "distilbert_sweep": NO_FILES + "model.path=distilbert-base-uncased --sweep train.batch_size=8,16,32 --gpu 4090",
    "xlm_roberta_frozen": NO_FILES + "model.path=xlm-roberta-base model.freeze_layers=6 model.head.hidden=512,256 --memory 8GiB --json",
    "electra": NO_FILES + "model.path=google/electra-base-discriminator train.micro_batch=4 train.precision=bf16 --gpu 4090 --json",
    "deberta_base": NO_FILES + "model.path=microsoft/deberta-base train.batch_size=16 --gpu 4090",
    "deberta_v2_xlarge": NO_FILES + "model.path=microsoft/deberta-v2-xlarge train.precision=bf16 "
                         "train.gradient_checkpointing=on --gpu h200 --json",
    "deberta_v3_base_table": NO_FILES + "model.path=microsoft/deberta-v3-base train.precision=bf16 --table --gpu 4090",
    "deberta_v3_large": NO_FILES + "model.path=microsoft/deberta-v3-large train.precision=fp16 "
                        "train.gradient_checkpointing=2 --memory 32GiB --json",
    "trainer": COMMON + " train.batch_size=16 train.gradient_checkpointing=on device.name=cpu --json",
}


def write(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(line + "\n" for line in lines)


def make_data(folder):
    """Labels of every kind, pairs, and texts that are cut, from the few hundred texts of the trainer's test."""
    draw = random.Random(4)
    with open(f"{TRAINER}/train.tsv", encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f][1:61]
    write(f"{folder}/few.tsv", ["text\tlabel"] + ["\t".join(row) for row in rows[:30]])
    tags = [",".join(name for name in ("rude", "loud", "odd") if i == 0 or draw.random() < 0.4) for i in range(len(rows))]
    write(f"{folder}/tags.tsv", ["text\tlabel"] + [f"{text}\t{tag}" for (text, _), tag in zip(rows, tags)])
    write(f"{folder}/numbers.tsv", ["text\tstars\tprice"] + [f"{text}\t{draw.randint(1, 5)}\t{draw.random():.3f}" for text, _ in rows])
    write(f"{folder}/pairs.tsv", ["text\tsecond\tlabel"] + [f"{a[0]}\t{b[0]}\t{a[1]}" for a, b in zip(rows, rows[::-1])])
    write(f"{folder}/long.tsv", ["text\tlabel"] + [f"{' '.join([text] * (1 + i % 4))}\t{label}" for i, (text, label) in enumerate(rows)])


def make_model(folder, family):
    """The shape of a family of tests/vectors in front of the trainer's vocabulary."""
    wide, name = family.startswith("wide "), family.split()[-1]
    shutil.copy(f"{TRAINER}/model/vocab.txt", folder)
    with open(f"{folder}/vocab.txt", encoding="utf-8") as f:
        config = {"vocab_size": len(f.readlines()), "initializer_range": 0.1}
    if wide:
        config |= {"hidden_size": 64, "num_attention_heads": 2, "pooler_hidden_size": 64}
    with open(f"{VECTORS}/{name}/config.json", encoding="utf-8") as f:
        config = json.load(f) | config
    write(f"{folder}/config.json", [json.dumps(config)])
    write(f"{folder}/tokenizer_config.json", ['{"tokenizer_class": "BertTokenizer"}'])


class Case:
    """One command, or a few, in a folder of its own."""

    def __init__(self, build, name, place):
        self.build, self.name, self.place = build, name, os.path.join(place, name)
        os.makedirs(self.place)
        self.env = dict(os.environ, FTENGINE_LEDGER_DIR=f"{self.place}/ledger", XDG_CACHE_HOME=f"{self.place}/cache")
        for variable in [v for v in self.env if v.startswith(("FTENGINE_", "FAKE_")) and v != "FTENGINE_LEDGER_DIR"]:
            del self.env[variable]
        if "cuda" in name:
            module, library = (found(build, file) for file in ("libemulated_module.so", "libfake_cublaslt.so"))
            driver = os.path.dirname(found(build, "libcuda.so.1"))
            self.env |= {"FTENGINE_CUDA_MODULE": module, "FTENGINE_CUBLASLT": library, "LD_LIBRARY_PATH": driver,
                         "FAKE_CUDA": "version=13000,memory=1073741824"}

    def call(self, *arguments):
        command = [os.path.join(self.build, "ftengine"), *arguments]
        ended = subprocess.run(command, cwd=self.place, env=self.env, capture_output=True, text=True, errors="replace",
                               stdin=subprocess.DEVNULL, check=False)
        found_errors = [self.here(line) for line in ended.stderr.splitlines() if "error: " in line]
        return {"exit": ended.returncode, **{f"error {i}": line for i, line in enumerate(found_errors)}}, ended.stdout

    def here(self, text):
        return text.replace(self.place, "HERE").replace(ROOT, "ROOT")

    # ---- what a folder holds, as names and hashes or values --------------------------------------------------------------------

    def plain(self, value):
        if isinstance(value, dict):
            return {key: self.plain(v) for key, v in value.items() if not VARIES.search(key)}
        if isinstance(value, list):
            return [self.plain(v) for v in value]
        return self.here(value) if isinstance(value, str) else value

    def flat(self, value, name, into):
        """A line for each number, so that a difference says where it is."""
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        if items is None:
            into[name] = value
        for key, v in items or ():
            self.flat(v, f"{name} {key}", into)

    def file(self, path, name, into):
        with open(path, "rb") as f:
            data = f.read()
        if path.endswith(".json") and not path.endswith("timeline.json"):
            self.flat(self.plain(json.loads(data)), name, into)
            return
        if path.endswith((".json", ".jsonl")):
            data = "\n".join(json.dumps(self.plain(json.loads(line))) for line in data.decode().splitlines() if line.strip()).encode() \
                if path.endswith("l") else json.dumps(self.plain(json.loads(data))).encode()
        elif not path.endswith(".safetensors"):
            data = self.here(data.decode(errors="replace")).encode()
        into[name] = hashlib.sha256(data).hexdigest()

    def folder(self, name, into):
        for base, folders, files in os.walk(os.path.join(self.place, name)):
            folders.sort()
            for file in sorted(files):
                path = os.path.join(base, file)
                if not re.search(r"^study\.db|^log\.txt$|^train\.log$|^owner|^README\.md$", file):
                    self.file(path, os.path.relpath(path, self.place), into)

    # ---- the three kinds --------------------------------------------------------------------------------------------------------

    def train(self, family, options):
        make_data(self.place)
        if family:
            os.makedirs(f"{self.place}/model")
            make_model(f"{self.place}/model", family)
            options += " model.path=model model.init=random"
        command = ["train", *COMMON.split(), *options.split(), "output.dir=run"]
        results, _ = self.call(*command)
        self.folder("run", results)
        if self.name.endswith("resume"):
            for path in glob.glob(f"{self.place}/run/**/checkpoints", recursive=True):
                for late in sorted(os.listdir(path))[1:]:
                    shutil.rmtree(os.path.join(path, late))
            again, _ = self.call(*command, "output.exists=resume")
            self.folder("run", again)
            results |= {f"resumed {key}": value for key, value in again.items()}
        return results

    def search(self, study, space, options=""):
        fixed = [re.sub(r"(\w+)\.(.*)", r"[\1]\n\2", word) for word in COMMON.split()[1:]]
        write(f"{self.place}/study.ini", [f"include = {TRAINER}/follow.ini", *fixed, "[study]", study, "[space]", space])
        results, _ = self.call("tune", "study.ini", "--study", "s", "--parallel", "1", "device.name=cpu", *options.split())
        if os.path.exists(f"{self.place}/studies/s/study.db"):
            self.database(results)
        self.folder("studies/s", results)
        return results

    def database(self, into):
        """Every row but times. A trial that was pruned went on until it was told so: what it left varies, and is removed."""
        database = sqlite3.connect(f"file:{self.place}/studies/s/study.db?mode=ro", uri=True)
        pruned = dict(database.execute("SELECT trial_id, number FROM trials WHERE state = 'PRUNED'"))
        for number in pruned.values():
            shutil.rmtree(f"{self.place}/studies/s/trials/{number:05}", ignore_errors=True)
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        for table in tables:
            rows = database.execute(f"SELECT * FROM {table} ORDER BY rowid")
            columns = [column[0] for column in rows.description]
            for i, row in enumerate(rows):
                row = dict(zip(columns, row))
                if VARIES.search(str(row.get("key", ""))) or table == "trial_user_attributes" and row["trial_id"] in pruned:
                    continue
                if isinstance(row.get("value_json"), str):
                    row["value_json"] = json.dumps(self.plain(json.loads(row["value_json"])))
                into[f"{table} {i}"] = json.dumps(self.plain(row))
        database.close()

    def plan(self, options):
        make_data(self.place)
        results, text = self.call("plan", *options.split())
        return results | {f"line {i}": self.here(line) for i, line in enumerate(text.splitlines()) if not MEASURED.search(line)}

    def run(self):
        kind, name = self.name.split("/")
        return {"train": self.train, "study": self.search, "plan": self.plan}[kind](*CASES[kind][name])


CASES = {"train": TRAININGS, "study": STUDIES, "plan": {name: (options,) for name, options in PLANS.items()}}
NAMES = [f"{kind}/{name}" for kind, cases in CASES.items() for name in cases]


def found(build, file):
    for base, _, files in os.walk(build):
        if file in files:
            return os.path.join(base, file)
    sys.exit(f"{build} has no {file}: cmake --build {build} --target ftengine emulated_module fake_cublaslt")


def results_of(builds, names, place):
    """Cases of all builds together, the slow ones first: the processors have work until the end."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        order = sorted(names, key=lambda name: "cuda" not in name)
        running = [{name: pool.submit(Case(build, name, os.path.join(place, str(i))).run) for name in order}
                   for i, build in enumerate(builds)]
        return [{name: case[name].result() for name in names} for case in running]


def differences(ours, theirs):
    for name in ours.keys() | theirs.keys():
        a, b = ours.get(name, {}), theirs.get(name, {})
        for key in list(a) + [key for key in b if key not in a]:
            if a.get(key) != b.get(key):
                yield f"{name}: {key}: {a.get(key)}, and against it {b.get(key)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build", help="a build's folder, or a file that was written for one")
    parser.add_argument("--against", metavar="BUILD2", help="the other one")
    parser.add_argument("--only", default="", help="a pattern of names, of: " + " ".join(NAMES))
    parser.add_argument("--keep", metavar="DIR", help="a folder to be made for what the runs write")
    options = parser.parse_args()
    sources = [source for source in (options.build, options.against) if source is not None]
    builds = [os.path.abspath(source) for source in sources if os.path.isdir(source)]
    names = [name for name in NAMES if re.search(options.only, name)]
    with tempfile.TemporaryDirectory(prefix="same-") as scratch:
        fresh = iter(results_of(builds, names, options.keep or scratch))
        results = []
        for source in sources:
            if os.path.isdir(source):
                results.append(next(fresh))
                continue
            with open(source, encoding="utf-8") as f:
                results.append({name: case for name, case in json.load(f).items() if name in names})
    if options.against is None:
        print(json.dumps(results[0], indent=1))
        return 0
    differ = sorted(differences(*results))
    print("\n".join(differ) if differ else f"{len(names)} cases, {sum(len(case) for case in results[0].values())} results: the same")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
