#!/usr/bin/env python3
# ctest: sanitize=leave
"""benchmarks/gpu/gpu_steps.py, gpu_texts.py, gpu_counts.py and gpu_report.py with made-up programs and figures; gpu_rival.py on the CPU where a
Python has torch and transformers (TORCH_PYTHON, python3 or /opt/ref/bin/python), else that part is skipped and says so."""

import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

SOURCE = os.environ["SOURCE_DIR"]
BENCHMARKS = os.path.join(SOURCE, "benchmarks", "gpu")
sys.path.insert(0, BENCHMARKS)
import gpu_counts  # noqa: E402
import gpu_report  # noqa: E402
import gpu_steps  # noqa: E402
import gpu_targets  # noqa: E402
import gpu_texts  # noqa: E402

BERT = {
    "model_type": "bert",
    "vocab_size": 300,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}
DEBERTA = BERT | {
    "model_type": "deberta-v2",
    "type_vocab_size": 0,
    "relative_attention": True,
    "max_relative_positions": -1,
    "position_buckets": 16,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "pooler_dropout": 0,
    "pooler_hidden_act": "gelu",
    "pooler_hidden_size": 32,
}


def model(name):
    with open(os.path.join(SOURCE, "configs", "models", name + ".json"), encoding="utf-8") as f:
        return json.load(f)


class Counts(unittest.TestCase):
    def test_dense_bert_is_the_usual_formula(self):
        """6 N + 12 L d S operations a token, N the layers' weights (what papers count), and a head."""
        config, texts, length = model("bert-base-uncased"), 4, 512
        weights = 12 * (4 * 768 * 768 + 2 * 768 * 3072)
        head = 6 * texts * (768 * 768 + 768 * gpu_counts.LABELS)
        want = texts * length * (6 * weights + 12 * 12 * 768 * length) + head
        self.assertEqual(gpu_counts.step_flops(config, [length] * texts, False, False), want)

    def test_pooled_last_layer(self):
        """Keys and values of all tokens; everything else, and the scores of one query, for a row a text."""
        whole, pooled = (gpu_counts.step_flops(BERT, [10, 20], False, last) for last in (False, True))
        d, f = 32, 64
        products = 6 * (30 * (2 * d * d + 2 * d * f) + 30 * 2 * d * d) - 6 * (30 * 2 * d * d + 2 * (2 * d * d + 2 * d * f))
        scores = 3 * 4 * d * ((10 * 10 + 20 * 20) - (10 + 20))
        self.assertEqual(whole - pooled, products + scores)

    def test_reached_rows(self):
        config = model("microsoft/deberta-v3-base")
        for length in (1, 5, 128):  # near distances have a row each
            self.assertEqual(gpu_counts.reached_rows(config, length), 2 * length - 1)
        self.assertEqual(gpu_counts.reached_rows(config, 512), 511)

    def test_products(self):
        """One microsecond each: as many as a step has."""
        d, f, t, n = 32, 64, 20, 2
        shapes = [(t, 3 * d, d), (t, d, d), (t, f, d), (t, d, f), (t, 2 * d, d), (n, d, d), (n, f, d), (n, d, f)]
        products = [
            {"m": a, "n": b, "k": c, "transposed": kind, "microseconds": us}
            for m, k, j in shapes
            for a, b, c, kind in ((m, k, j, [False, True]), (m, j, k, [False, False]), (k, j, m, [True, False]))
            for us in (1.0, 3.0)  # the faster one counts
        ]
        count = 3 * (2 * 4 + 1 + 2 + 2)
        self.assertAlmostEqual(gpu_counts.gemm_seconds(BERT, [10, 10], products), count * 1e-6)
        self.assertIsNone(gpu_counts.gemm_seconds(BERT, [10, 11], products))

    def test_peak(self):
        chips = ("NVIDIA A100-SXM4-80GB, sm_80", "NVIDIA H200, sm_90", "NVIDIA Fake 4096, sm_80", "NVIDIA L40, sm_89", "NVIDIA H100 PCIe, sm_90")
        self.assertEqual([gpu_counts.peak_of(chip) for chip in chips], [312e12, 989e12, None, 181e12, 756e12])
        for unlisted in ("NVIDIA GeForce RTX 4090 Laptop GPU, sm_89", "NVIDIA A100-SXM4-80GB MIG 1g.10gb, sm_80", ""):
            self.assertIsNone(gpu_counts.peak_of(unlisted))

    def test_first_device(self):
        for visible, want in (("3,1", "3"), ("GPU-ab", "GPU-ab"), ("", "0")):
            with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": visible}):
                self.assertEqual(gpu_counts.first_device(), want)

    def test_floor(self):
        floor = gpu_counts.floor(BERT, [10, 10], None, 1e12, None)
        self.assertIsNone(floor["sum"])
        self.assertAlmostEqual(floor["moving"], gpu_counts.step_bytes(BERT, [10, 10]) / 1e12)

    def test_deberta_floor_is_the_note_s(self):
        """An independent count of DeBERTa-v3 at S512 on an H200 (650 and 230 TFLOP/s, 4.3 TB/s) came to 0.61M and 0.20M tokens/s."""
        for name, want in (("base", 0.61e6), ("large", 0.20e6)):
            config, lengths = model(f"microsoft/deberta-v3-{name}"), [512] * 32
            attention = gpu_counts.attention_flops(config, lengths)
            products = gpu_counts.step_flops(config, lengths, True, True) - attention
            seconds = products / 650e12 + attention / 230e12 + gpu_counts.step_bytes(config, lengths) / 4.3e12
            self.assertAlmostEqual(sum(lengths) / seconds / want, 1, delta=0.06)


class Lengths(unittest.TestCase):
    def test_grouped(self):
        lengths = gpu_texts.draw_lengths("sst2", 1600, 512, 1)
        batches = gpu_texts.grouped(lengths, 16, 1)
        self.assertEqual([len(b) for b in batches], [16] * 100)
        self.assertEqual(sorted(n for b in batches for n in b), sorted(lengths))
        self.assertLess(sum(16 * max(b) for b in batches), 1.05 * sum(lengths))  # next to no padding
        self.assertEqual(batches, gpu_texts.grouped(lengths, 16, 1))
        for seed in range(5):  # who ends after a part has had no longer ones than are in all
            batches = gpu_texts.grouped(lengths, 16, seed)
            first = [n for b in batches[:20] for n in b]
            self.assertAlmostEqual(sum(first) / len(first) / (sum(lengths) / len(lengths)), 1, delta=0.3)

    def test_files_lengths_are_the_data_s(self):
        means = {"trec": 13.47, "sst2": 25.21, "long": 297.3}
        for kind, mean in means.items():
            drawn = gpu_texts.draw_lengths(kind, 20000, 512, 3)
            self.assertAlmostEqual(sum(drawn) / len(drawn) / mean, 1, delta=0.02)
            self.assertTrue(min(drawn) >= 3 and max(drawn) <= 512)


# A Python that is three rivals, an ftengine and an nvidia-smi, which all write down when they are asked.
RIVAL = '''import json, sys
if sys.argv[1] == "-c": sys.exit(0)
name = sys.argv[sys.argv.index("--rival") + 1]
def note(text): print(name, text, file=open("LOG", "a"))
for line in sys.stdin:
    (verb, words), *_ = json.loads(line).items()
    answer = {}
    if verb == "open": answer = {"absent": "no such package"} if name == "flashdeberta" else {"what": name + " 1.0"}
    if verb == "run":
        note("run")
        ran = words["batches"][:2]  # its time is over
        tokens = sum(map(sum, ran))
        answer = {"tokens": tokens, "computed_tokens": tokens, "steps": 2, "seconds": tokens / 1000, "loss": 1.0}
    if verb == "prepare" and name == "compile": answer = {"failed": "out of memory"}
    print(json.dumps(answer), flush=True)
'''
FTENGINE = '''import json, os, sys
if sys.argv[1] == "devices": print("cuda:0", os.environ.get("CHIP", "")); sys.exit(0)
words = dict(w.split("=", 1) for w in sys.argv[2:] if "=" in w)
side = "graphs" if "device.graphs" in words else "tuned" if "device.gemm_tuning" in words else "16bit" if "train.residual" in words else {"mma": "ftengine"}.get(os.environ.get("FTENGINE_ATTENTION"), "wgmma")
if sys.argv[1] == "tune-gemm": print("tune-gemm", file=open("LOG", "a")); json.dump({"products": []}, open(sys.argv[-1], "w")); sys.exit(0)
print(side, "run", file=open("LOG", "a"))
if os.environ.get("HANG"):
    import time
    time.sleep(60)
if side == "graphs" and os.environ.get("BROKEN"): print("ftengine: error: planted (here)", file=sys.stderr); sys.exit(1)
os.makedirs(words["output.dir"])
tokens = sum(len(line.split("\\t")[0].split()) + 2 for line in list(open(words["data.train"]))[1:])
rates = [1.0, 3000.0 if side == "ftengine" else 4000.0]
open(words["output.dir"] + "/metrics.jsonl", "w").writelines(json.dumps({"tokens_per_second": r, "loss": 1.0}) + "\\n" for r in rates)
json.dump({"planned": {"peak_reserved_bytes": 7}, "memory": {"peak_reserved_bytes": int(os.environ.get("METERED", 0))}, "device_description": "NVIDIA H200, sm_90", "tokens": tokens,
           "device_used": {"bytes": 1500 * 2**20, "reserved_bytes": 2 * 2**20}, "queueing": {"seconds": 1.0, "share": 0.03 if side == "graphs" else 0.2}, "versions": {"ftengine": "1"}}, open(words["output.dir"] + "/run.json", "w"))
'''
SMI = "import time\nwhile True: print(1000, flush=True); time.sleep(0.02)\n"


class Steps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.log = os.path.join(self.folder.name, "log")
        for name, text in (("python", RIVAL), ("ftengine", FTENGINE), ("nvidia-smi", SMI)):
            path = os.path.join(self.folder.name, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write("#!" + sys.executable + "\n" + text.replace("LOG", self.log))
            os.chmod(path, 0o755)
        with open(os.path.join(self.folder.name, "config.json"), "w", encoding="utf-8") as f:
            json.dump(BERT, f)

    def run_steps(self, *words):
        """Exit code, and steps.json."""
        at = self.folder.name
        output = os.path.join(at, "steps.json")
        command = ["gpu_steps.py", "--output", output, "--ftengine", os.path.join(at, "ftengine"), "--python", os.path.join(at, "python")]
        command += ["--config", os.path.join(at, "config.json"), "--batch", "2", "--half", "4", "--longest", "24", *words]
        with mock.patch.dict(os.environ, {"PATH": at + ":" + os.environ["PATH"]}), mock.patch.object(sys, "argv", command):
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as self.said:
                code = gpu_steps.main()
        with open(output, encoding="utf-8") as f:
            return code, json.load(f)

    def test_turns_ratios_and_who_is_not_there(self):
        names = ["--rivals", "eager", "flashdeberta", "compile"]
        code, document = self.run_steps("--cases", "bert-base/dense-512", *names)
        self.assertEqual(code, 0)
        (case,) = document["cases"]
        sides = case["sides"]
        self.assertEqual(sides["flashdeberta"], {"status": "not there", "why": "no such package"})
        self.assertEqual(sides["compile"], {"status": "failed", "why": "out of memory"})
        self.assertAlmostEqual(sides["ftengine"]["ratios"]["eager"][0], 3.0)
        self.assertAlmostEqual(sides["ftengine-graphs"]["ratios"]["eager"][0], 4.0)
        self.assertEqual(list(sides["ftengine"]["ratios"]), ["eager"])
        self.assertEqual((sides["ftengine"]["planned_bytes"], sides["ftengine"]["peak_bytes"]), (7, 0))
        self.assertEqual([sides[name]["outside_bytes"] for name in ("ftengine", "ftengine-graphs")], [498 * 2**20] * 2)
        self.assertEqual([gpu_steps.outside_of(*words) for words in ((None, 1), ({"bytes": 1, "reserved_bytes": 0}, None), ({"bytes": 4, "reserved_bytes": 3}, 2))], [None] * 3)
        self.assertEqual([sides[name]["host_share"] for name in ("ftengine", "ftengine-graphs")], [0.2, 0.03])
        with open(self.log, encoding="utf-8") as f:
            order = [line.split()[0] for line in f]
        there = ["ftengine", "graphs", "tuned", "16bit", "eager"]
        self.assertEqual(order, ["tune-gemm"] + there + there[::-1] + there)  # measured before whoever uses it
        self.assertEqual(sides["ftengine-tuned"]["status"], "measured")
        # 3,000 tokens/s of a dense step, by the chip's dense rate
        flops = gpu_counts.step_flops(BERT, case["texts"] * [24], True, True) / case["tokens"]
        self.assertAlmostEqual(sides["ftengine"]["mfu"] / (flops * 3000 / 989e12), 1)
        # A second run goes on where this one was.
        os.remove(self.log)
        code, document = self.run_steps("--cases", "bert-base/dense-512", "bert-base/sst2-16", *names)
        self.assertEqual([c["case"] for c in document["cases"]], ["dense-512", "sst2-16"])
        with open(self.log, encoding="utf-8") as f:
            self.assertEqual([line.split()[0] for line in f], ["ftengine", "graphs", "eager", "eager", "graphs", "ftengine", "ftengine", "graphs", "eager"])  # no dense case
        # What another commit has measured is not mixed with this one's.
        code, document = self.run_steps("--cases", "bert-base/trec-16", "--commit", "later", *names)
        self.assertEqual(([c["case"] for c in document["cases"]], document["origin"]["commit"]), (["trec-16"], "later"))
        with open(os.path.join(self.folder.name, "ftengine"), "a", encoding="utf-8") as f:
            f.write("# another build of it\n")
        code, document = self.run_steps("--cases", "bert-base/sst2-16", "--commit", "later", *names)
        self.assertEqual([c["case"] for c in document["cases"]], ["sst2-16"])

    def test_what_targets_are_stated_of_comes_first(self):
        order = gpu_steps.chosen(mock.Mock(cases=None))
        self.assertEqual(set(order[:2]), {("bert-large", "dense-512"), ("deberta-v3-large", "dense-512")})
        self.assertEqual(set(order[2:4]), {("bert-base", "dense-512"), ("deberta-v3-base", "dense-512")})
        self.assertEqual(order[4], ("bert-base", "sst2-16"))
        self.assertEqual(sorted(order), sorted((model, name) for model in gpu_steps.MODELS for name in gpu_steps.CASES))

    def test_warpgroups_where_they_are(self):
        """On sm_90, on dense texts of BERT; elsewhere they are no side."""
        for chip, name, there in (("sm_90", "dense-512", True), ("sm_90", "sst2-16", False), ("sm_89", "dense-512", False)):
            with mock.patch.dict(os.environ, {"CHIP": "NVIDIA H200, " + chip}):
                _, document = self.run_steps("--cases", "bert-base/" + name, "--commit", chip + name, "--rivals")
            dense = name.startswith("dense")
            self.assertEqual(list(document["cases"][0]["sides"]), ["ftengine", "ftengine-graphs"] + ["ftengine-wgmma"] * there + ["ftengine-tuned", "ftengine-16bit"] * dense)
        with open(self.log, encoding="utf-8") as f:
            self.assertEqual(sum(line.startswith("wgmma") for line in f), 3)
        for name in ("ftengine-wgmma", "ftengine-16bit"):
            self.assertIn(name, gpu_steps.ours_of({"dense": True}, BERT, "NVIDIA H200, sm_90"))
            self.assertNotIn(name, gpu_steps.ours_of({"dense": True}, DEBERTA, "NVIDIA H200, sm_90"))
        self.assertNotIn("ftengine-16bit", gpu_steps.ours_of({"dense": True}, BERT, "NVIDIA H200, sm_90", "fp32"))

    def test_mfu_is_of_the_batches_that_ran(self):
        """Every text of the first half of a half is twice as long as the others: operations a token are of those alone."""
        case = {"lengths": [10] * 4 + [20, 20, 10, 10], "rival_batches": [[10], [10], [10], [10], [20], [20], [10], [10]]}
        found = gpu_steps.mfu_of("eager", BERT, case, [{"steps": 2, "tokens_per_second": 1000.0}], 1e9)
        self.assertAlmostEqual(found, gpu_counts.step_flops(BERT, [20, 20], False, False, 2) / 40 * 1000 / 1e9)

    def test_driver_s_peak_below_what_was_metered(self):
        with mock.patch.dict(os.environ, {"METERED": "7"}):
            _, document = self.run_steps("--cases", "bert-base/sst2-16", "--rivals", "eager")
        (case,) = document["cases"]
        self.assertEqual([side["peak_bytes"] for side in case["sides"].values()], [None, None, None])
        self.assertIn("ftengine has counted 7", case["peaks_refused"])

    def test_ended_by_a_signal(self):
        """The temporary folder is removed, and what was not measured is in the document."""
        at, output = self.folder.name, os.path.join(self.folder.name, "steps.json")
        command = [sys.executable, os.path.join(BENCHMARKS, "gpu_steps.py"), "--output", output, "--ftengine", os.path.join(at, "ftengine")]
        command += ["--config", os.path.join(at, "config.json"), "--batch", "2", "--half", "4", "--longest", "24", "--rivals", "--cases", "bert-base/trec-16"]
        environment = os.environ | {"PATH": at + ":" + os.environ["PATH"], "HANG": "1"}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if os.path.exists(self.log):
                break
            time.sleep(0.05)

        def folders():
            return [name for name in os.listdir(gpu_steps.scratch_place(output)) if name.startswith(f"gpu_steps-{process.pid}-")]

        self.assertEqual(len(folders()), 1)
        process.terminate()
        self.assertEqual(process.wait(30), 143)
        self.assertEqual(folders(), [])
        with open(output, encoding="utf-8") as f:
            self.assertEqual(json.load(f)["not_measured"], ["bert-base/trec-16"])

    def test_a_small_dev_shm(self):
        with mock.patch("shutil.disk_usage") as usage, mock.patch("os.access", return_value=True):
            for free, want in ((64 * 2**20, self.folder.name), (17 * 2**30, "/dev/shm")):
                usage.return_value.free = free
                self.assertEqual(gpu_steps.scratch_place(os.path.join(self.folder.name, "steps.json")), want)

    def test_failure_of_ours_is_one(self):
        with mock.patch.dict(os.environ, {"BROKEN": "1"}):
            code, document = self.run_steps("--cases", "bert-base/sst2-16", "--rivals")
        self.assertEqual((code, document["cases"][0]["sides"]["ftengine-graphs"]["status"]), (1, "failed"))
        self.assertIn("planted (here)", self.said.getvalue())
        for words in ((), ("--seconds", "0")):  # nor does a second run pass, whether it had time for that case or not
            with mock.patch.dict(os.environ, {"BROKEN": "1"}):
                self.assertEqual(self.run_steps("--cases", "bert-base/sst2-16", "--rivals", *words)[0], 1)
        code, document = self.run_steps("--cases", "bert-base/sst2-16", "--rivals")
        self.assertEqual((code, len(document["cases"]), document["not_measured"]), (0, 1, []))

    def test_no_time(self):
        code, document = self.run_steps("--seconds", "0", "--rivals")
        self.assertEqual((code, document["cases"], len(document["not_measured"])), (0, [], 4 * len(gpu_steps.CASES)))


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.results, self.committed = (os.path.join(self.folder.name, name) for name in ("results", "committed"))
        os.mkdir(self.results), os.mkdir(self.committed)

    def report(self, gemm, step, *words, right=True, verdicts=(), peak=None, shares=None):
        """Exit code, and what stands in the committed file then. A rate of None was not measured."""
        op = {"op": "gemm", "type": "bf16", "rows": 9, "cols": 9, "length": 128, "gb_per_second": 5.0, "microseconds": 2.0, "tflop_per_second": gemm, "right": right}
        small = op | {"rows": 1, "microseconds": 0.0, "right": True}
        side = {"status": "measured", "tokens_per_second": step, "host_share": shares, "peak_bytes": peak or 2**30, "planned_bytes": 2**30, "mfu": 0.5}
        rival = {"status": "measured", "tokens_per_second": 10.0, "peak_bytes": 2**32, "mfu": None, "what": "eager 1"}
        absent = {"status": "not there", "why": "no | torch"}
        case = {"model": "bert-base", "case": "sst2-16", "batch": 16, "tokens": 4, "texts": 1, "chip": "", "products": None}
        case["sides"] = {"ftengine": side | {"ratios": {"eager": [1.0, 0.9, 1.1]}}, "eager": rival, "sdpa": absent}
        steps = {"precision": "bf16", "rounds": 2, "cases": [case] if step else [], "not_measured": ["bert-large/dense-512"]}
        documents = {"speed": {"device": "NVIDIA H200, sm_90", "cases": [small, op]}, "steps": steps, "verdicts": list(verdicts)}
        for name, document in documents.items():
            with open(os.path.join(self.results, name + ".json"), "w", encoding="utf-8") as f:
                json.dump(document, f)
        command = ["gpu_report.py", "--results", self.results, "--committed", self.committed, "--commit", "abc", *words]
        with mock.patch.object(sys, "argv", command), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as self.said:
            code = gpu_report.main()
        path = os.path.join(self.committed, "gpu_h200.json")
        if not os.path.exists(path):
            return code, None
        with open(path, encoding="utf-8") as f:
            return code, {name: figure["value"] for name, figure in json.load(f)["figures"].items()}

    def test_first_run_writes_and_a_fall_of_5_percent_fails(self):
        names = ("op gemm bf16 9x9, texts of 128", "step bert-base sst2-16 ftengine", "peak memory bert-base sst2-16 ftengine")
        self.assertEqual(self.report(100.0, 1000.0), (0, dict(zip(names, (100.0, 1000.0, 2**30)))))
        self.assertEqual(self.report(95.0, 950.0)[0], 0)
        self.assertEqual(self.report(94.9, 2000.0)[0], 1)
        self.assertIn("op gemm bf16 9x9, texts of 128: 94.9, was 100", self.said.getvalue())
        self.assertNotIn("step", self.said.getvalue())
        code, committed = self.report(200.0, 940.0)
        self.assertEqual((code, committed[names[0]]), (1, 100.0))  # only --accept changes what is committed
        self.assertEqual(self.report(100.0, float("nan"))[0], 1)
        self.assertEqual(self.report(50.0, None, "--accept"), (0, dict(zip(names, (50.0, 1000.0, 2**30)))))  # what was not measured stays
        self.assertEqual(self.report(50.0, 949.0)[0], 1)

    def test_a_peak_that_rises_by_5_percent_fails(self):
        self.report(100.0, 1000.0, peak=1000)
        self.assertEqual(self.report(100.0, 1000.0, peak=1050)[0], 0)
        self.assertEqual(self.report(100.0, 1000.0, peak=500)[0], 0)
        self.assertEqual(self.report(100.0, 1000.0, peak=1051)[0], 1)
        self.assertIn("peak memory bert-base sst2-16 ftengine: 1051, was 1000", self.said.getvalue())

    def of_results(self):
        with open(os.path.join(self.results, "gpu_h200.md"), encoding="utf-8") as f:
            return f.read()

    def test_what_is_wrong_is_no_baseline(self):
        self.assertEqual(self.report(100.0, 1000.0, right=False), (1, None))
        self.assertIn("**FAILED:**\n\n- op gemm bf16 9x9, texts of 128, is wrong\n", self.of_results())
        with open(os.path.join(self.results, "gpu_h200.json"), encoding="utf-8") as f:
            self.assertEqual(list(json.load(f)["figures"]), ["step bert-base sst2-16 ftengine", "peak memory bert-base sst2-16 ftengine"])
        verdicts = [{"part": name, "verdict": verdict, "note": "why"} for name, verdict in (("tiles", "FAILED"), ("ceilings", "skipped"))]
        self.assertEqual(self.report(100.0, 1000.0, "--accept", verdicts=verdicts), (1, None))
        self.assertIn("**FAILED:**\n\n- part tiles (why)\n\n**Skipped:**\n\n- part ceilings (why)\n", self.of_results())
        self.assertEqual(self.report(100.0, 1000.0, verdicts=verdicts[1:])[0], 0)
        _, committed = self.report(50.0, 1000.0, "--accept", verdicts=verdicts)
        self.assertEqual(committed["op gemm bf16 9x9, texts of 128"], 100.0)

    def test_a_file_that_was_cut_off(self):
        self.report(100.0, 1000.0)
        with open(os.path.join(self.results, "speed.json"), "r+", encoding="utf-8") as f:
            f.truncate(20)
        with open(os.path.join(self.results, "steps.json"), encoding="utf-8") as f:
            steps = json.load(f)
        steps["cases"][0]["chip"] = "NVIDIA H200, sm_90"
        with open(os.path.join(self.results, "steps.json"), "w", encoding="utf-8") as f:
            json.dump(steps, f)
        command = ["gpu_report.py", "--results", self.results, "--committed", self.committed, "--accept", "--commit", "later"]
        with mock.patch.object(sys, "argv", command), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            self.assertEqual(gpu_report.main(), 0)
        self.assertIn("speed.json (cut off)", self.of_results())
        # The table of ops is the earlier one then, and says so.
        self.assertIn("| gemm | bf16 | 9x9, 128 | 2.0 |", self.of_results())
        self.assertRegex(self.of_results(), r"\*\*Of an earlier run:\*\* speed \(.*, commit abc\)\.")

    def test_cases_of_an_earlier_run_stay_in_the_table(self):
        self.report(100.0, 1000.0)
        self.report(100.0, None, "--accept", "--commit", "later")
        self.assertRegex(self.of_results(), r"\| bert-base sst2-16, 16 texts \(.*, commit abc\) \| ftengine \| 1000 \|")

    def test_table(self):
        self.report(100.0, 1000.0, shares=0.12)
        with open(os.path.join(self.committed, "gpu_h200.md"), encoding="utf-8") as f:
            text = f.read()
        self.assertIn("**Not measured:** step bert-large/dense-512.", text)
        self.assertIn("| bert-base sst2-16, 16 texts | eager | 10 | - | - | 4.00 | 1.00x | - | 1.00x (0.90 to 1.10) |  |", text)
        self.assertIn("| ftengine | 1000 | 50.0% | 12.0% | 1.00 | 0.25x | 1.00 |  |  |", text)
        self.assertIn("| sdpa | not there: no / torch |", text)
        rows = [line for line in text.splitlines() if line.startswith("| bert-base")]
        self.assertEqual({line.count("|") for line in rows if "texts" in line}, {11})
        self.assertIn("| bert-base sst2-16, faster than eager | at least 6.00x | 1.00x | NOT MET |", text)

    def test_gain_of_tuning(self):
        sides = {name: {"status": "measured", "tokens_per_second": rate, "peak_bytes": None} for name, rate in (("ftengine", 1000.0), ("ftengine-tuned", 1025.0))}
        case = {"model": "bert-base", "case": "dense-512", "batch": 32, "measured": "now", "sides": sides}
        steps = {"precision": "bf16", "rounds": 2, "cases": [case, case | {"case": "sst2-16", "sides": {"ftengine": sides["ftengine"]}}]}
        said = [line for line in gpu_report.steps_table(steps, "now") if "tune-gemm" in line]
        self.assertEqual(said, ["- bert-base dense-512: with matrix products that tune-gemm has measured 1.025 times ftengine's rate"])

    def test_targets(self):
        """Each is met by its figure and missed by a little less; without one it is not measured."""

        def ours(rate, mfu, peak, host, **ratios):
            memory = {"planned_bytes": 0.75 * peak, "outside_bytes": (0.25 - (0.009 if peak <= 350 else 0.011)) * peak}
            return memory | {"status": "measured", "tokens_per_second": rate, "mfu": mfu, "peak_bytes": peak, "host_share": host, "ratios": {k.replace("_", "-"): [v, v, v] for k, v in ratios.items()}}

        def cases(better):
            bert = {"eager": 6.0, "compile": 2.5, "sdpa": 1.3, "fa2": 1.3}
            deberta = {"eager": 4.0, "compile": 1.3, "disentangled_flash": 1.3, "flashdeberta": 1.3}
            rates = {"deberta-v3-base": 0.8 * 0.61e6, "deberta-v3-large": 0.8 * 0.20e6}
            for model in gpu_steps.MODELS:
                for name in gpu_steps.CASES:
                    ratios = {k: v * better for k, v in (deberta if model in rates else bert).items()}
                    side = ours(rates.get(model, 1.0) * better, 0.55 * better, 350 / better, 0.05 / better, **ratios)
                    sides = {"ftengine-graphs": side, "eager": {"status": "measured", "peak_bytes": 1000}}
                    yield {"model": model, "case": name, "batch": 32, "sides": sides}

        def of(better, slug="h200", drop=()):
            floors = [{"model": "bert-large", "case": "dense-512", "seconds": {"sum": 1.0}, "step_seconds": {"ftengine": 1.15 / better}}]
            op = {"op": "decay", "type": "bf16", "rows": 1, "cols": 1, "microseconds": 1.0, "right": True, "tflop_per_second": 0.0, "gb_per_second": 850 * better}
            found = list(cases(better))
            for case in found:
                for side in case["sides"].values():
                    side["ratios"] = {k: v for k, v in side.get("ratios", {}).items() if k not in drop}
            attention = (0.9 * better, {"flash_attention_2": 1.0})
            return {(r["target"], r["wanted"]): r["met"] for r in gpu_targets.targets(found, floors, {"cases": [op]}, {"copy_bytes_per_second": 1e12}, attention, slug)}

        def undecided(found):
            return [target for (target, _), met in found.items() if met is None]

        better = of(1.001)
        self.assertEqual((set(better.values()), len(better)), ({True}, 33))
        worse = of(0.999)  # 50% and 60% are first steps, which this reaches
        kept = {target for (target, wanted), met in worse.items() if met}
        self.assertEqual(kept, {"bert-large dense-512, MFU, first"} | {f"deberta-v3-{size} dense-512, of {rate} tokens/s, first" for size, rate in (("base", "0.61M"), ("large", "0.20M"))})
        self.assertEqual(sum("tokens/s" in target for target in undecided(of(1.001, "h100_pcie"))), 4)
        without = of(1.001, drop=("fa2", "flashdeberta"))  # the best rival may be one that is not there
        self.assertEqual(len(undecided(without)), 12 + 2)
        self.assertFalse(any(of(0.999, drop=("fa2",))[key] for key in better if "FlashAttention-2" in key[0] and key[0].startswith("bert-")))
        empty = gpu_targets.targets([], [], None, None, None, "h200")
        self.assertEqual({r["met"] for r in empty}, {None})
        self.assertEqual(gpu_targets.table(empty)[6], "| bert-large dense-512, step by its floor | at most 1.15x | - | not measured |")

    def test_paths_of_attention(self):
        case = {"case": "dense-1024", "type": "bf16", "heads": 16, "head_dim": 64, "dropout": 0.1, "tokens": 16384, "right": True}
        alone = case | {"case": "tails", "path": "wgmma", "microseconds": 0.0, "tflop_per_second": 0.0}
        both = [case | {"path": "wgmma", "microseconds": 50.0, "tflop_per_second": 400.0}, case | {"path": "mma", "microseconds": 75.0, "tflop_per_second": 300.0}]
        path = os.path.join(self.results, "wgmma.json")
        for cases in ([alone, *both], [alone | {"right": False}, *both]):
            with open(path, "w", encoding="utf-8") as f:
                json.dump({"device": "NVIDIA H200, sm_90", "cases": cases}, f)
            code, committed = self.report(100.0, 1000.0)
            self.assertEqual(code, int(not cases[0]["right"]))
            self.assertEqual(committed["attention wgmma dense-1024 bf16, 16 heads of 64, dropout 0.1"], 400.0)
            self.assertIn("| dense-1024 bf16, 16384 tokens | 16 of 64 | 0.1 | 75.0 | 50.0 | 300.0 | 400.0 | 1.50x |", self.of_results())
        self.assertIn("- attention wgmma tails bf16, 16 heads of 64, dropout 0.1, is wrong\n", self.of_results())
        self.assertIn("3 cases, 1 wrong.", self.of_results())

    def test_attention_is_held_against_others(self):
        """2 microseconds at 100 TFLOP/s and 6 at 200 are 1.4e9 operations in 8 microseconds."""
        case = {"type": "bf16", "cols": 768, "length": 512}
        passes = [case | {"op": "attention_" + name, "microseconds": us, "tflop_per_second": rate} for name, us, rate in (("forward", 2, 100), ("backward", 6, 200))]
        short = case | {"op": "attention_forward", "microseconds": 1, "tflop_per_second": 1, "length": 128}
        theirs = {"heads": 12, "head_dim": 64, "flash_attention_2": 350e12, "cudnn": None}
        ceilings = {"length": 512, "attention": [theirs | {"heads": 16}, theirs]}
        ours, beside = gpu_report.attention_of({"cases": [short] + passes}, ceilings)
        self.assertAlmostEqual(ours, 175e12)
        self.assertIs(beside, theirs)
        self.assertIsNone(gpu_report.attention_of({"cases": [short] + passes[:1]}, ceilings))
        self.assertIsNone(gpu_report.attention_of({"cases": passes}, None))

    def test_beside_the_prediction(self):
        def of(chip, case, batch, best, expected):
            columns = {"best": {"seconds": 1 / best, "graph_seconds": 0.5 / best}, "expected": {"seconds": 1 / expected, "graph_seconds": 0.5 / expected}}
            return {"chip": chip, "model": "bert-base", "case": case, "batch": batch, "tokens": 1} | columns

        cases = [of("H200", "sst2-16", 16, 1500.0, 800.0), of("A100-SXM4-80GB", "sst2-16", 16, 9.0, 9.0), of("H200", "sst2-16", 32, 9.0, 9.0)]
        with open(os.path.join(self.committed, "predicted_steps.json"), "w", encoding="utf-8") as f:
            json.dump({"date": "2026-11-22", "cases": cases}, f)
        for measured, by, word in ((1000.0, "1.25", ""), (1600.0, "2.00", "the model is wrong"), (700.0, "0.88", "slower than expected")):
            self.report(100.0, measured, "--accept")
            self.assertIn("## Beside the prediction\n\ntokens/s; predicted on 2026-11-22", self.of_results())
            self.assertIn(f"| bert-base sst2-16 | ftengine | {measured:.0f} | 1500 | 800 | {by}x | {word} |\n", self.of_results())
            self.assertEqual(self.of_results().count("| bert-base sst2-16 | ftengine |"), 1)
        graphs = {"status": "measured", "tokens_per_second": 1000.0}
        steps = {"precision": "bf16", "cases": [{"model": "bert-base", "case": "sst2-16", "batch": 16, "sides": {"ftengine-graphs": graphs, "eager": graphs}}]}
        (row,) = gpu_report.beside_prediction(steps, {"cases": cases}, "h200")
        self.assertEqual((row["side"], row["best"], row["expected"]), ("ftengine-graphs", 3000.0, 1600.0))
        self.assertEqual(gpu_report.beside_prediction(steps | {"precision": "fp16"}, {"cases": cases}, "h200"), [])

    def test_nothing_measured(self):
        with mock.patch.object(sys, "argv", ["gpu_report.py", "--results", self.results]), redirect_stderr(io.StringIO()):
            self.assertEqual(gpu_report.main(), 4)


# Packed texts give the logits of padded ones; PyTorch counts the operations that gpu_counts.py says; a step learns.
OF_TORCH = """
import json, sys, torch, gpu_counts, gpu_rival
from types import SimpleNamespace
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
for config in sys.argv[1:]:
    numbers = json.load(open(config))
    for name in ("eager", "sdpa", "fa2", "disentangled-flash"):
        side = None
        try:
            side = gpu_rival.Side(SimpleNamespace(device="cpu", precision="fp32", rival=name), config)
        except gpu_rival.Absent as why:
            assert name == "disentangled-flash" or name != "eager" and numbers["model_type"] != "bert", why
            continue
        if name == "eager":
            eager = side
            counted = side.count([[9, 9]])["flops"]
            assert counted == gpu_counts.step_flops(numbers, [9, 9], False, False), (config, counted)
            loss = [side.run([[9, 9]] * 4, 60)["loss"] for _ in range(2)]
            assert loss[0] != loss[1] and all(abs(x - 1.1) < 0.3 for x in loss), loss
        else:
            side.network.load_state_dict(eager.network.state_dict())
            lengths = [5, 9, 2]
            padded = eager.rival.batch(lengths, 300)
            batch = side.rival.batch(lengths, 300)
            if name != "sdpa": batch["ids"] = padded["input_ids"][padded["attention_mask"] > 0][None]
            else: batch = padded
            with torch.no_grad(): apart = (eager.rival.logits(padded) - side.rival.logits(batch)).abs().max()
            assert apart < 1e-6, (name, apart)
distances = torch.arange(-511, 512)
want = make_log_bucket_position(distances, 256, 512).long().tolist()
for count in (1, 2, 3, 10, 17):
    batches = [[n] for n in range(1, count + 1)]
    order = [n for (n,) in gpu_rival.spread(batches)]
    assert sorted(order) == list(range(1, count + 1)) and order[:2] == [count, 1][: count], order
assert order[2] == 9, order
assert want == [gpu_counts.bucket(d, 256, 512) for d in distances.tolist()]
"""


NO_TORCH = "no Python has torch and transformers: the rivals were not tried"


def torch_python():
    for python in (os.environ.get("TORCH_PYTHON"), "python3", "/opt/ref/bin/python"):
        try:
            if python and subprocess.run([python, "-c", "import torch, transformers"], capture_output=True, check=False).returncode == 0:
                return python
        except FileNotFoundError:
            pass
    return None


class Rivals(unittest.TestCase):
    def test_of_torch(self):
        python = torch_python()
        if python is None:
            self.skipTest(NO_TORCH)
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for config in (BERT, DEBERTA):
                paths.append(os.path.join(folder, config["model_type"] + ".json"))
                with open(paths[-1], "w", encoding="utf-8") as f:
                    json.dump(config, f)
            done = subprocess.run([python, "-c", OF_TORCH, *paths], cwd=BENCHMARKS, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    if program.result.skipped:  # else it is one line among all that passed
        print("\nSKIPPED: " + "; ".join(why for _, why in program.result.skipped))
    sys.exit(not program.result.wasSuccessful())
