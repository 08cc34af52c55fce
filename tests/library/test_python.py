#!/usr/bin/env python3
"""The Python module of the wheel, without NumPy or anything else: it trains as transformers' Trainer did, with the bits of the program;
predicts what the program predicts; takes data as people have them; says what the program says; stops when it is asked to."""
# ctest: sanitize=leave timeout=900

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path
from xml.etree import ElementTree

import wheel_site

SOURCE = Path(os.environ["SOURCE_DIR"])
PROGRAM = wheel_site.use()
TRAINER = SOURCE / "tests/vectors/trainer"
folder = tempfile.TemporaryDirectory(prefix="ftengine-python-")
os.environ["XDG_CACHE_HOME"], os.environ["FTENGINE_LEDGER_DIR"] = f"{folder.name}/cache", f"{folder.name}/ledger"
os.chdir(folder.name)

import ftengine  # noqa: E402

SMALL = {"model": TRAINER / "model", "max_length": 24, "batch_size": 8, "max_steps": 12, "cache_dir": "none", "seed": 7}


def rows(name):
    with open(TRAINER / name, encoding="utf-8") as lines:
        return list(zip(*(line.rstrip("\n").split("\t") for line in list(lines)[1:])))


TEXTS, LABELS = rows("train.tsv")
NEW, TRUE = rows("validation.tsv")


def program(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=True)
    return done.stdout


def weights(run):
    return (Path(run.path if isinstance(run, ftengine.Run) else run) / "model/model.safetensors").read_bytes()


PROMPTS = ["the film was", "a", "good and bad, as they said it would be", "so"]


def language_model():
    """A run of a small decoder with random weights."""
    if not Path("language/run.json").exists():
        os.mkdir("decoder")
        vectors = SOURCE / "tests/vectors"
        for file in ("tokenizer.json", "tokenizer_config.json"):
            Path("decoder", file).write_bytes((vectors / "decoder_tokenizers/qwen" / file).read_bytes())
        Path("decoder/chat_template.jinja").write_bytes((vectors / "chat/qwen3.jinja").read_bytes())
        config = json.loads((vectors / "causal_lm/qwen2/config.json").read_text())
        Path("decoder/config.json").write_text(json.dumps(config | {"vocab_size": 1500, "max_position_embeddings": 128, "initializer_range": 0.3}))
        Path("texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in PROMPTS))
        program("train", "model.path=decoder", "model.init=random", "data.train=texts.jsonl", "train.task=causal_lm", "train.max_steps=1", "eval.strategy=no", "data.max_length=64",
                "output.dir=language")  # fmt: skip
    return "language"


class Language(unittest.TestCase):
    def lines(self, file, *words):
        return [json.loads(line) for line in program("predict", language_model(), "--data", file, *words).splitlines()]

    def test_writes_what_the_program_writes(self):
        run = language_model()
        chats = [[{"role": "user", "content": text}] for text in PROMPTS]
        Path("chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
        greedy, drawn = self.lines("texts.jsonl", "--max-new-tokens", 12), self.lines("texts.jsonl", "--max-new-tokens", 12, "--sample", "--top-k", 7, "--seed", 3)
        answered, whole = self.lines("chats.jsonl", "--max-new-tokens", 12), self.lines("texts.jsonl")
        self.assertNotEqual([line["completion"] for line in greedy], [line["completion"] for line in drawn])
        with ftengine.load(run) as model:
            self.assertEqual((model.task, model.info["reads"]), ("causal_lm", "prompts"))
            self.assertEqual(model.generate([]), [])
            self.assertEqual(model.generate(PROMPTS[:1], max_new_tokens=3), [self.lines("texts.jsonl", "--max-new-tokens", 3)[0]["completion"]])
            for _ in range(2):  # more and longer texts than its memory was planned for, and then as many
                self.assertEqual(model.generate(PROMPTS, max_new_tokens=12, details=True), greedy)
            self.assertEqual(model.generate(PROMPTS, max_new_tokens=12, sample=True, top_k=7, seed=3, details=True), drawn)
            self.assertEqual(model.generate(chats, max_new_tokens=12, details=True), answered)
            self.assertEqual(model.answers(PROMPTS), whole)
            self.assertEqual(model.predict(PROMPTS), [line["completion"] for line in whole])
            self.assertEqual(model.generate(PROMPTS[:2], max_new_tokens=12), [line["completion"] for line in greedy[:2]])
        with ftengine.load(run, map_weights="on") as model:
            self.assertEqual(model.generate(PROMPTS, max_new_tokens=12, details=True), greedy)

    def test_refuses(self):
        with ftengine.load(language_model()) as model:
            for error, words, call in (
                (ftengine.InvalidError, "--temperature", lambda: model.generate(PROMPTS, temperature=-1)),
                (ftengine.InvalidError, "--top-k", lambda: model.generate(PROMPTS, top_k=3)),
                (ftengine.InvalidError, "no tokens", lambda: model.generate([""])),
                (ftengine.InvalidError, "numbers", lambda: model.predict_proba(PROMPTS)),
                (ftengine.InvalidError, "messages", lambda: model.generate([[]])),
                (TypeError, "list of prompts", lambda: model.generate("a")),
                (TypeError, "not both", lambda: model.generate(["a", [{"role": "user", "content": "a"}]])),
            ):
                with self.assertRaisesRegex(error, words):
                    call()
            self.assertEqual(len(model.generate(PROMPTS[:1], max_new_tokens=2)), 1)


class Training(unittest.TestCase):
    def test_follows_the_trainer(self):
        news = []
        run = ftengine.train(TRAINER / "follow.ini", cache_dir="none", output_dir="runs/follow", progress=news.append)
        expected = [step["loss"] for step in json.loads((TRAINER / "expect.json").read_text())["steps"]]
        got = [n["loss"] for n in news if n["event"] == "logged"]
        self.assertEqual(len(got), len(expected))
        self.assertLess(max(abs(a - b) for a, b in zip(got, expected)), 1e-4)
        self.assertEqual(run.status, "completed")
        self.assertEqual([line["loss"] for line in run.history if "learning_rate" in line], [float(f"{loss:.9g}") for loss in got])
        self.assertEqual(sum(run.memory.values()), run.peak_memory)
        self.assertIn("completed", repr(run))
        self.assertIn("<table>", run._repr_html_())
        program("train", TRAINER / "follow.ini", "data.cache_dir=none", "output.dir=runs/by-program")
        self.assertEqual(weights(run), weights("runs/by-program"))

    def test_data_in_memory(self):
        file = ftengine.train(train=TRAINER / "train.tsv", validation=TRAINER / "validation.tsv", output_dir="runs/file", **SMALL)
        self.assertIn("eval_accuracy", file.metrics)

        class Column(list):
            def tolist(self):
                return list(self)

        class Frame(dict):  # as pandas has it: names in `columns`, a column by its name
            @property
            def columns(self):
                return list(self.keys())

        class Classes:
            names = sorted(set(LABELS))

        class Dataset:  # as Hugging Face's: column_names, features with the names of classes
            column_names = ["text", "label"]
            features = {"text": None, "label": Classes}

            def __getitem__(self, name):
                return list(TEXTS) if name == "text" else [Classes.names.index(label) for label in LABELS]

        forms = {
            "pair": (TEXTS, LABELS),
            "generators": ((t for t in TEXTS), (t for t in LABELS)),
            "columns": {"text": TEXTS, "label": LABELS},
            "rows": [{"text": t, "label": label} for t, label in zip(TEXTS, LABELS)],
            "frame": Frame(text=Column(TEXTS), label=Column(LABELS)),
            "dataset": Dataset(),
        }
        for name, data in forms.items():
            run = ftengine.train(train=data, validation=(NEW, TRUE), output_dir=f"forms/{name}", progress=False, **SMALL)
            self.assertEqual(weights(run), weights(file), name)
            self.assertEqual(run.metrics, file.metrics, name)
        self.assertEqual(len(list(Path("forms/data").glob("*.jsonl"))), 2)  # of one content one file
        again = program("train", "forms/pair/config.ini", "output.dir=runs/again")
        self.assertEqual(again, "")
        self.assertEqual(weights("runs/again"), weights(file))  # a run's configuration is whole

    def test_stop_and_resume(self):
        whole = ftengine.train(train=(TEXTS, LABELS), output_dir="runs/whole", progress=False, **SMALL)
        with self.assertRaises(ftengine.Interrupted) as stopped:
            ftengine.train(train=(TEXTS, LABELS), output_dir="runs/part", progress=lambda n: n["step"] == 5, **SMALL)
        self.assertIn("stopped at step 5 of 12", str(stopped.exception))
        run = stopped.exception.run
        self.assertEqual((run.status, run.json["steps"]), ("interrupted", 5))
        self.assertEqual(weights(run.resume(progress=False)), weights(whole))

    def test_errors_of_a_listener_are_raised(self):
        def listener(news):
            if news["step"] == 3:
                raise LookupError("mine")

        with self.assertRaisesRegex(LookupError, "mine"):
            ftengine.train(train=(TEXTS, LABELS), output_dir="runs/raised", progress=listener, **SMALL)

    def test_ctrl_c(self):
        script = (
            "import ftengine, signal, sys\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may ignore it\n"
            "try: ftengine.train(sys.argv[1], max_steps=100000, output_dir='runs/ctrl-c', cache_dir='none', progress=lambda n: print(n['step'], flush=True))\n"
            "except KeyboardInterrupt as stopped: print('stopped', stopped.run.status, flush=True)\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(TRAINER / "follow.ini")], stdout=subprocess.PIPE, text=True,
            env=dict(os.environ),
        )  # fmt: skip
        for line in child.stdout:
            if line.strip() == "2":
                break
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
        self.assertEqual(child.wait(), 0)
        self.assertIn("stopped interrupted", rest)
        self.assertLess(time.monotonic() - began, 60)
        self.assertTrue(list(Path("runs/ctrl-c/checkpoints").iterdir()))

    def test_tune(self):
        study = ftengine.tune(train=(TEXTS, LABELS), validation=(NEW, TRUE), study="tuned", trials=2, parallel=1, **SMALL,
                              space={"learning_rate": "float(1e-4, 1e-2, log)", "batch_size": [4, 8]})  # fmt: skip
        self.assertEqual(study.trials["complete"], 2)
        self.assertEqual(set(study.best_params), {"train.learning_rate", "train.batch_size"})
        self.assertTrue(study.best_config.exists())
        self.assertEqual(json.loads(program("study", "best", "tuned", "--json"))["trials"][0]["values"], [study.best_value])
        self.assertIn("tuned", study._repr_html_())
        report = study.report("tuned.html")
        self.assertEqual(report.html, Path(study.report().path).read_text(encoding="utf-8"))
        self.assertTrue(report.plots, "a study's page has pictures")
        for plot in report.plots.values():
            self.assertTrue(ElementTree.fromstring(plot.svg).tag.endswith("svg"))


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.run_ = ftengine.train(train=(TEXTS, LABELS), output_dir="runs/models", progress=False, **SMALL)

    def test_report(self):
        """The page is the program's, and its pictures stand alone."""
        program("report", "runs/models", "--output", "page.html")
        report = self.run_.report("own.html")
        self.assertEqual(report.html, Path("page.html").read_text(encoding="utf-8"))
        plots = self.run_.plots
        self.assertEqual(plots.keys(), report.plots.keys())
        self.assertTrue((self.run_.path / "report.html").exists())
        loss = next(plot for title, plot in plots.items() if "oss" in title)
        drawing = ElementTree.fromstring(loss.svg)
        self.assertTrue(drawing.tag == "{http://www.w3.org/2000/svg}svg" and list(drawing.iter("{http://www.w3.org/2000/svg}polyline")))
        self.assertEqual(loss.save("loss.svg").read_text(encoding="utf-8"), loss.svg)
        self.assertIn("<figcaption>", loss.save("loss.html").read_text(encoding="utf-8"))
        self.assertTrue(loss._repr_html_().startswith("<iframe srcdoc=") and report._repr_html_().startswith("<iframe srcdoc="))

    def test_predicts_as_the_program(self):
        said = [json.loads(line) for line in program("predict", self.run_.path, "--data", TRAINER / "validation.tsv", "--json").splitlines()]
        with self.run_.load() as model:
            self.assertEqual(model.classes, sorted(set(LABELS)))
            values, labels, answers = model.predict_proba(NEW), model.predict(NEW), model.answers(NEW)
            self.assertEqual(answers, said)
            for value, label, line in zip(values, labels, said):
                self.assertEqual([float(f"{v:.9g}") for v in value], [line["probabilities"][name] for name in model.classes])
                self.assertEqual(label, line["label"])
            self.assertEqual(list(model.predict([])), [])
            metrics = model.eval((NEW, TRUE))["metrics"]
            self.assertEqual(metrics["accuracy"], sum(a == b for a, b in zip(labels, TRUE)) / len(TRUE))
            self.assertEqual(metrics, model.eval(TRAINER / "validation.tsv")["metrics"])
            for wrong, error in ((["a", 3], TypeError), (["a\0b"], ValueError), ("one text", TypeError)):
                with self.assertRaises(error):
                    model.predict(wrong)
            for wrong in ({"path": f"{self.run_.path}\0"}, {"path": self.run_.path, "base": "\0"}, {"path": self.run_.path, "device.threads": "1\0"}):
                with self.assertRaisesRegex(ValueError, "NUL"):
                    ftengine.load(**wrong)
            with self.assertRaisesRegex(ftengine.InvalidError, "not on pairs"):
                model.predict(["a"], ["b"])
        with self.assertRaisesRegex(ValueError, "closed"):
            model.predict(["a"])

    def test_used_by_two_threads(self):
        """What one works with stays until it has ended, whatever another does, and a handler of signals."""
        model, texts, said = self.run_.load(), NEW * 4000, []
        other = threading.Thread(target=lambda: said.append(len(model.predict_proba(texts))))
        other.start()
        until = time.monotonic() + 60
        while not model._lock.locked() and time.monotonic() < until:
            time.sleep(0.001)
        for use in (model.close, lambda: model.predict(["a"])):
            with self.assertRaisesRegex(ftengine.Error, "another call is under way"):
                use()
        other.join()
        self.assertEqual(said, [len(texts)])

        def late(*_):
            raise TimeoutError

        before = signal.signal(signal.SIGALRM, late)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with self.assertRaises(TimeoutError):
                for _ in range(1000):
                    model.predict_proba(texts)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(len(model.predict(["a"])), 1)  # nothing works on behind it
        model.close()

    def test_several_labels_numbers_and_pairs(self):
        several = [[label, "long"] if len(text) > 20 else [label] for text, label in zip(TEXTS, LABELS)]
        run = ftengine.train(train=(TEXTS, several), output_dir="runs/several", progress=False, ignore_mismatched_sizes=True, **SMALL)
        with run.load() as model:
            self.assertEqual(model.task, "multi_label")
            self.assertEqual([set(row) <= set(model.classes) for row in model.predict(NEW[:4])], [True] * 4)
        run = ftengine.train(train=(TEXTS, [float(len(t)) for t in TEXTS]), task="regression", output_dir="runs/numbers", progress=False,
                             ignore_mismatched_sizes=True, **SMALL)  # fmt: skip
        with run.load() as model:
            self.assertEqual(len(model.predict(NEW)), len(NEW))
            self.assertIsInstance(float(model.predict(NEW[:1])[0]), float)
        run = ftengine.train(train=(TEXTS, TEXTS[::-1], LABELS), output_dir="runs/pairs", progress=False, **SMALL)
        with run.load() as model:
            self.assertEqual(model.info["reads"], "pairs")
            self.assertEqual(len(model.predict(NEW, NEW)), len(NEW))
            with self.assertRaisesRegex(ftengine.InvalidError, "trained on pairs"):
                model.predict(NEW)


class Looking(unittest.TestCase):
    def test_plan(self):
        plan = ftengine.plan(model="bert-base-uncased", gpu="4090", batch_size=32)
        self.assertTrue(plan and plan.fits)
        said = json.loads(program("plan", "model.path=bert-base-uncased", "--gpu", "4090", "train.batch_size=32", "--json"))
        self.assertEqual(set(plan.json), set(said))
        for name in set(said) - {"host"}:  # which is the process's own
            self.assertEqual(plan.json[name], said[name], name)
        self.assertIn("fits", plan._repr_html_())
        small = ftengine.plan(model="bert-large-uncased", memory="1GiB")
        self.assertFalse(small)
        self.assertEqual(small.verdict, "does_not_fit")

    def test_quote(self):
        quote = ftengine.quote(TRAINER / "follow.ini", seconds=0, cache_dir="none", max_steps=9)
        low, high = quote.interval
        self.assertTrue(0 <= low < quote.seconds < high, quote)
        self.assertEqual(quote.peak_memory, ftengine.plan(TRAINER / "follow.ini", cache_dir="none", max_steps=9).peak_memory)
        self.assertEqual(quote.json["total_steps"], 9)
        self.assertEqual(list(Path().glob("**/.ftengine-quote*")), [])

    def test_deadline(self):
        run = ftengine.train(TRAINER / "follow.ini", cache_dir="none", output_dir="runs/in-time", progress=False, deadline="0.000001s")
        self.assertEqual((run.status, run.json["steps"], run.json["deadline"]["reached"]), ("completed", 1, True))
        with self.assertRaises(ftengine.InvalidError):
            ftengine.train(TRAINER / "follow.ini", progress=False, deadline="2020-01-01T00:00")

    def test_parquet(self):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            Path("texts.parquet").write_bytes(b"PAR1\x15\x04\x15\x10")
            with self.assertRaises(ftengine.InvalidError) as raised:
                ftengine.train(train="texts.parquet", progress=False, output_dir="runs/parquet", **SMALL)
            self.assertIn("Parquet", str(raised.exception))
            return
        pyarrow.parquet.write_table(pyarrow.table({"text": list(TEXTS), "label": list(LABELS)}), "texts.parquet")
        run = ftengine.train(train="texts.parquet", progress=False, output_dir="runs/parquet", **SMALL)
        same = ftengine.train(train=(TEXTS, LABELS), progress=False, output_dir="runs/no-parquet", **SMALL)
        self.assertEqual(weights(run), weights(same))

    def test_devices(self):
        self.assertEqual(ftengine.devices()[0]["device"], "cpu")
        self.assertEqual(ftengine.best_device(), json.loads(program("devices", "--pick", "--json"))["device"])
        with self.assertRaises(ftengine.NoDeviceError):
            ftengine.best_device(min_free="1000000GiB")

    def test_options(self):
        for name, option in {
            "epochs": "train.epochs", "train.epochs": "train.epochs", "num_train_epochs": "train.epochs", "batch_size": "train.batch_size",
            "per_device_train_batch_size": "train.batch_size", "model": "model.path", "seed": "train.seed", "output_dir": "output.dir",
        }.items():  # fmt: skip
            self.assertEqual(ftengine.resolve(name), option)
        for wrong, hint in (("epocs", "epochs"), ("storage", "model.storage"), ("nothing_like_it", "options")):
            with self.assertRaisesRegex(ftengine.InvalidError, hint):
                ftengine.train(progress=False, **{wrong: 1})
        self.assertEqual(ftengine.config(epochs=2, **{"train.seeds": [1, 2]})["train.seeds"], "1, 2")
        self.assertEqual(set(ftengine.config()), {name for name in ftengine.options() if not name.startswith("study.")})
        self.assertEqual(ftengine.options()["train.batch_size"]["least"], 1)

    def test_errors_are_the_programs(self):
        with self.assertRaises(ftengine.InvalidError) as raised:
            ftengine.train(train="nothing.tsv", model=TRAINER / "model", progress=False)
        done = subprocess.run([PROGRAM, "train", "data.train=nothing.tsv", f"model.path={TRAINER}/model"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, raised.exception.code)
        self.assertIn(str(raised.exception).splitlines()[0], done.stderr)
        self.assertIn(raised.exception.message, str(raised.exception))

    def test_warnings(self):
        few = (TEXTS[:40], ["seldom" if i == 0 else LABELS[i] for i in range(40)])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ftengine.train(train=few, validation=(NEW[:3], ["never", *TRUE[1:3]]), output_dir="runs/warned", progress=False,
                           ignore_mismatched_sizes=True, **SMALL)  # fmt: skip
        self.assertTrue(any("training example" in str(w.message) for w in caught), [str(w.message) for w in caught])

    def test_studies_of_others(self):
        ftengine.study("create", "--study", "others", "--direction", "minimize")
        Path("space.json").write_text('{"x": {"name": "FloatDistribution", "attributes": {"low": -1.0, "high": 1.0}}}')
        for _ in range(3):
            trial = ftengine.study("ask", "others", "--space", "space.json")
            ftengine.study("tell", "others", trial["number"], trial["params"]["x"] ** 2)
        self.assertEqual(ftengine.study("show", "others")["trials"]["complete"], 3)

    def test_module(self):
        self.assertEqual(ftengine.__version__, program("--version").split()[1])
        done = subprocess.run([sys.executable, "-m", "ftengine", "--version"], capture_output=True, text=True, check=True,
                              env=dict(os.environ))  # fmt: skip
        self.assertEqual(done.stdout.split()[1], ftengine.__version__)
        loaded = subprocess.run([sys.executable, "-X", "importtime", "-c", "import ftengine"], capture_output=True, text=True, check=True,
                                env=dict(os.environ)).stderr  # fmt: skip
        for heavy in ("numpy", "pandas", "sklearn", "optuna", "torch", "transformers", "pyarrow", "asyncio"):
            self.assertNotIn(f" {heavy}\n", loaded)

    def test_import_is_light(self):
        """Neither the library nor what a few functions need: an import takes the time of what it loads."""
        looks = ("import sys; before = set(sys.modules); import ftengine; after = set(sys.modules) - before; "
                 "print('libftengine' in open('/proc/self/maps').read(), *sorted(after))")  # fmt: skip
        done = subprocess.run([sys.executable, "-S", "-c", looks], capture_output=True, text=True, check=True, env=dict(os.environ))
        mapped, *modules = done.stdout.split()
        self.assertEqual(mapped, "False")
        self.assertIn("ftengine._model", modules)
        for later in ("difflib", "hashlib", "html", "importlib.metadata", "multiprocessing", "shutil", "ssl", "subprocess", "sysconfig", "tempfile", "ftengine.optuna",
                      "ftengine._report", "ftengine.sklearn", "ftengine.trainer"):  # fmt: skip
            self.assertNotIn(later, modules)


if __name__ == "__main__":
    unittest.main(verbosity=1)
