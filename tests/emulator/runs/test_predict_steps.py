#!/usr/bin/env python3
# ctest: sanitize=leave
"""benchmarks/gpu/predict_steps.py: what bench_ops says of a step is held against closed formulas, single rows against sums by hand, and the whole
must be the sum of its parts. Nothing is timed."""

import io
import json
import os
import sys
import unittest
from contextlib import redirect_stdout
from unittest import mock

SOURCE, PROGRAM = os.environ["SOURCE_DIR"], os.environ["BENCH_OPS"]
sys.path.insert(0, os.path.join(SOURCE, "benchmarks", "gpu"))
import predict_steps  # noqa: E402
import predicted_tables  # noqa: E402
import step_times  # noqa: E402

COUNTED = step_times.Counted(os.path.join(SOURCE, "benchmarks", "results", "static_model.md"), os.path.join(SOURCE, "tests", "emulator", "pieces", "counts.txt"))
TOKENS, TEXTS, LENGTH = 16384, 32, 512


def total(ops, key, *names):
    return sum(op["number"] * op[key] for op in ops if op["op"] in names)


class Ops(unittest.TestCase):
    """Of 32 texts of 512 tokens."""

    @classmethod
    def setUpClass(cls):
        settings = [f"train.batch_size={TEXTS}", f"data.max_length={LENGTH}"]
        cls.bert, cls.deberta = (step_times.ask(PROGRAM, "sm_90a", f"model.path={m}", *settings) for m in ("bert-base-uncased", "microsoft/deberta-v3-base"))

    def test_products(self):
        """6 N T of eleven whole layers and the last one's keys and values; for one row a text its queries, output and feed-forward network,
        and the pooler and classifier."""
        d, f = 768, 3072
        whole = 11 * (4 * d * d + 2 * d * f) + 2 * d * d
        rows = 2 * d * d + 2 * d * f + d * d + 3 * d
        expected = 6 * (whole * TOKENS + rows * TEXTS)
        self.assertAlmostEqual(total(self.bert["ops"], "flops", "gemm") / expected, 1, delta=0.01)
        # DeBERTa's: two projections more of 511 distances a layer
        expected += 6 * 12 * 2 * 511 * d * d
        self.assertAlmostEqual(total(self.deberta["ops"], "flops", "gemm") / expected, 1, delta=0.01)

    def test_attention(self):
        """Two products forward and five backward of eleven layers over all pairs, and of one over a row a text."""
        expected = 14 * 768 * (11 * TEXTS * LENGTH**2 + TEXTS * LENGTH)
        self.assertAlmostEqual(total(self.bert["ops"], "flops", "attention_forward", "attention_backward") / expected, 1, delta=0.01)

    def test_update(self):
        """The numbers of parameters are transformers' for three labels: 109,484,547 and 184,424,451. Each buffer's end is filled up. Of
        DeBERTa's projected positions there are gradients too."""
        for told, parameters, positions in ((self.bert, 109484547, 0), (self.deberta, 184424451, 12 * 2 * 511 * 768)):
            (adamw,) = [op for op in told["ops"] if op["op"] == "adamw"]
            self.assertEqual(told["trained"], parameters)
            self.assertAlmostEqual(adamw["bytes"] / (28 * parameters), 1, delta=1e-5)
            self.assertAlmostEqual(total(told["ops"], "bytes", "gradient_norm") / (4 * parameters), 1, delta=1e-5)
            self.assertAlmostEqual(total(told["ops"], "bytes", "fill") / (4 * (parameters + positions)), 1, delta=0.001)
            self.assertEqual((told["tokens"], told["texts"], told["fits"]), (TOKENS, TEXTS, True))
        self.assertAlmostEqual(COUNTED.moved("adamw.bf16"), 28, delta=0.01)

    def test_parts_add_up(self):
        lengths, last, case = [LENGTH] * TEXTS, None, {"arch": "sm_90a"}
        for column in ("expected", "best"):
            chip = step_times.Chip("sm_90a", COUNTED, column)
            found = step_times.predict(chip, self.bert["ops"], lengths)
            self.assertAlmostEqual(sum(found["parts"].values()), found["seconds"])
            self.assertAlmostEqual(sum(k["seconds"] for k in found["kinds"]), sum(found["parts"].values()) - found["parts"]["gaps"])
            self.assertLess(found["graph_seconds"], found["seconds"])
            self.assertTrue(last is None or all(found["parts"][p] <= s + 1e-9 for p, s in last["parts"].items() if p != "short kernels"))
            self.assertGreaterEqual(found["launches"], self.bert["calls"])
            last = case[column] = found
        gains = predicted_tables.gains_of(case)
        self.assertAlmostEqual(sum(r["expected"] for r in gains), sum(k["seconds"] for k in case["expected"]["kinds"]))
        for row in gains:
            self.assertTrue(row["expected"] >= row["best"] > 0 and row["least"] > 0, row)
        least = {row["op"]: row["least"] for row in gains}
        self.assertAlmostEqual(least["adamw"] / (28 * 109484608 / (0.9 * 4.8e12)), 1)
        self.assertAlmostEqual(least["attention_backward"] / (10 * 768 * (11 * TEXTS * LENGTH**2 + TEXTS * LENGTH) / 198e12), 1)
        # one text of three words: the host is what takes long
        few = [op | {"shape": [1, 8, 8], "bytes": 1, "scratch": 0} for op in self.bert["ops"] if op["op"] == "gemm"]
        found = step_times.predict(chip, few, [3])
        self.assertEqual(found["seconds"], found["host_seconds"])
        self.assertAlmostEqual(sum(found["parts"].values()), found["seconds"])


class ByHand(unittest.TestCase):
    """H200: 132 multiprocessors at 1.83 GHz, 989 TFLOP/s, 4.8 TB/s."""

    def setUp(self):
        self.chip = step_times.Chip("sm_90a", COUNTED, "expected")

    def test_a_product(self):
        """16384 x 3072 x 768 in 128 x 12 tiles of 128 x 256: 12 waves, each 68% of 989e12 / 132 operations a second."""
        seconds, bound = self.chip.product(16384, 3072, 768, 130547712)
        self.assertAlmostEqual(seconds / (12 * 2 * 128 * 256 * 768 / (0.68 * 989e12 / 132)), 1, places=6)
        self.assertEqual(bound, "tensor")
        # one row of tiles: the weights have to be read
        seconds, bound = self.chip.product(32, 3072, 768, 4964352)
        self.assertGreaterEqual(seconds, 4964352 / (0.9 * 4.8e12))
        # gradient of weights: 12 tiles alone would leave 120 multiprocessors idle
        self.assertLess(self.chip.product(768, 768, 16384, 55050240)[0], 19327352832 / (0.68 * 989e12) * 132 / 12 / 2)

    def test_adamw(self):
        op = {"op": "adamw", "type": "bf16", "out": "bf16", "bytes": 28e8, "shape": [1, 10**8, 0], "head_dim": 0}
        part = COUNTED.part("sm_90a", "adamw")["part"]
        self.assertAlmostEqual(self.chip.other(op)[0], 28e8 / (4.8e12 * 0.9 * 0.9 * part))

    def test_attention(self):
        """On mma.sync. Operations of the two products, at half of the loop's part of 62% of the tensor peak, which is 4096 operations in 4 / 0.62 cycles."""
        chip = step_times.Chip("sm_90a", COUNTED, "expected", warpgroups=False)
        op = {"op": "attention_forward", "type": "bf16", "heads": 12, "head_dim": 64, "shape": [TOKENS, TOKENS, LENGTH], "dropout": 1, "scratch": 0}
        peak = 4096 * 0.62 / 4 * 4 * 132 * 1.83e9
        self.assertAlmostEqual(peak / 1e12, 613, delta=1)
        part = COUNTED.static["sm_90a", "attention_forward", 64]["part"]
        self.assertAlmostEqual(chip.attention(op, [LENGTH] * TEXTS)[0], 4 * 768 * TEXTS * LENGTH**2 / (0.5 * part * peak))
        # backward: three products of queries and four of keys, and D
        op |= {"op": "attention_backward"}
        queries, keys = (COUNTED.static["sm_90a", f"attention_backward, {side}", 64]["part"] for side in ("queries", "keys"))
        expected = 2 * 768 * TEXTS * LENGTH**2 / (0.5 * peak) * (3 / queries + 4 / keys) + 4 * TOKENS * 768 / (0.81 * 4.8e12)
        self.assertAlmostEqual(chip.attention(op, [LENGTH] * TEXTS)[0] / expected, 1)
        # whole tiles: a text of 33 tokens takes as long as one of 64, a pooled row as long as 16
        self.assertEqual(chip.attention(op | {"shape": [33, 33, 33], "op": "attention_forward"}, [33])[0], chip.attention(op | {"shape": [64, 64, 64], "op": "attention_forward"}, [64])[0])
        pooled = chip.attention(op | {"shape": [2, 1024, 512], "op": "attention_forward"}, [512, 512])[0]
        self.assertAlmostEqual(pooled * 16, chip.attention(op | {"shape": [1024, 1024, 512], "op": "attention_forward"}, [512, 512])[0])

    def test_attention_on_warpgroups(self):
        """The same at the loop's part of the whole peak; in tiles of 64 rows and 128 or 64 columns. With a window the loop that is made for bands."""
        op = {"op": "attention_forward", "type": "bf16", "heads": 12, "head_dim": 64, "shape": [TOKENS, TOKENS, LENGTH], "dropout": 1, "scratch": 0}
        part = {kernel: COUNTED.static["sm_90a", f"attention_warpgroup{kernel}", 64]["part"] for kernel in ("", "_banded", "_backward, queries", "_backward, keys")}
        whole = 2 * 768 * TEXTS * LENGTH**2 / 989e12
        self.assertAlmostEqual(self.chip.attention(op, [LENGTH] * TEXTS)[0] / (2 * whole / 0.35 / part[""]), 1)
        self.assertAlmostEqual(self.chip.attention(op | {"window": 1000}, [LENGTH] * TEXTS)[0] / (2 * whole / 0.35 / part["_banded"]), 1)
        expected = whole / 0.38 * (3 / part["_backward, queries"] + 4 / part["_backward, keys"]) + 4 * TOKENS * 768 / (0.81 * 4.8e12)
        self.assertAlmostEqual(self.chip.attention(op | {"op": "attention_backward"}, [LENGTH] * TEXTS)[0] / expected, 1)
        self.assertEqual(self.chip.attention(op | {"shape": [65, 65, 65]}, [65])[0], self.chip.attention(op | {"shape": [128, 128, 128]}, [128])[0])
        for other in ({"head_dim": 32}, {"head_dim": 96}):  # what has no such instance, and other chips
            self.assertEqual(self.chip.sweeps(op | other), step_times.SWEEPS["attention_forward"])
        self.assertEqual(step_times.Chip("sm_80", COUNTED, "best").sweeps(op), step_times.SWEEPS["attention_forward"])

    def test_loops_do_what_is_supposed(self):
        """A turn of 16 rows and 16 columns, or a multiple, has so many products by the static model: a sweep is not counted with another's."""
        for sweeps in step_times.SWEEPS.values():
            for kernel, units, *_ in sweeps:
                for arch in ("sm_80", "sm_89", "sm_90a"):
                    row = COUNTED.static[arch, kernel, 64]
                    self.assertEqual(row["products"] % (units * 4 * 2), 0, f"{arch} {kernel}")
                    self.assertTrue(0.1 < row["part"] <= row["plain"] <= 1, f"{arch} {kernel}")

    def test_a_gain_below_a_hundredth_is_seen(self):
        """Parts are read in thousandths, those of the limits that a module is held to: both files are of one module."""
        self.assertEqual((step_times.percent("578: 71.4% (issue)"), step_times.percent("100%")), (0.714, 1))
        with open(os.path.join(SOURCE, "tests", "kernels", "cuda", "static_model.json"), encoding="utf-8") as f:
            limits = json.load(f)
        for (arch, kernel, head), row in COUNTED.static.items():
            names = {"part": f"{arch} {kernel}"} if head is None else {"part": f"{arch} {kernel} {head} dropout", "plain": f"{arch} {kernel} {head} plain"}
            for key, name in names.items():
                self.assertAlmostEqual(row[key], limits[name]["part"], delta=1e-6, msg=f"static_model.md and static_model.json, {name}")
        op = {"op": "attention_forward", "head_dim": 64, "heads": 12, "shape": [16384, 16384, 512], "dropout": 1, "scratch": 0}
        before = step_times.Chip("sm_80", COUNTED, "best").attention(op, [512] * 32)[0]
        row = COUNTED.static["sm_80", "attention_forward", 64]
        with mock.patch.dict(row, {"part": step_times.percent("577: 88.7% (issue)")}):  # two instructions of 579 less
            after = step_times.Chip("sm_80", COUNTED, "best").attention(op, [512] * 32)[0]
        self.assertAlmostEqual(after / before, 0.884 / 0.887, delta=1e-6)

    def test_bytes_that_were_counted(self):
        self.assertEqual(COUNTED.launches("layernorm_backward", 0), 2)
        self.assertEqual(COUNTED.launches("disentangled_attention_backward", 64), 5)
        self.assertEqual((COUNTED.launches("gemm", 0), COUNTED.launches("adamw", 0)), (1, 1))
        for key, least in step_times.LEAST.items():
            self.assertTrue(0.95 * least < COUNTED.moved(key) < 2.1 * least, f"{key}: {COUNTED.moved(key)} of {least}")


class Whole(unittest.TestCase):
    def test_document(self):
        """As CI would write it. A case of real lengths has the tokens that were drawn (mixed() asserts it)."""
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["predict_steps.py", "--program", PROGRAM]), redirect_stdout(said):
            self.assertEqual(predict_steps.main(), 0)
        text = said.getvalue()
        self.assertTrue(text.startswith("# Predicted training steps: nothing here was measured\n"))
        for words in ("| bert-large, dense S512: step at most 1.15 times its floor |", "| deberta-v3-large, dense S512: 85% of 0.20M tokens/s |", "| bert-large, dense S512: 60 ms a step |",
                      "| bert-large, dense S512, A100: MFU 55% |", "| bert-large, dense S512, RTX 4090: MFU 55% |", "| expected | mma |",
                      "| bert-base, sst2-16: 6 times eager, 2.5 times torch.compile |", "| H200 | bert-base | best |", "| RTX 4090 | deberta-v3-large | expected |"):
            self.assertIn(words, text)
        for line in text.splitlines():
            self.assertNotIn("nan", line.split())

    def test_committed(self):
        with open(os.path.join(SOURCE, "benchmarks", "results", "predicted_steps.json"), encoding="utf-8") as f:
            document = json.load(f)
        self.assertIs(document["measured"], False)
        self.assertEqual(document["assumed"], {name: value for name, (value, _) in step_times.ASSUMED.items()}, "written with other assumptions: predict_steps.py --write")


if __name__ == "__main__":
    unittest.main()
