#!/usr/bin/env python3
# ctest: sanitize=leave
"""tests/kernels/cuda/static_model.py: what it lets pass and what not. The committed limits, made worse by one number, and a target that is missed.
And machine_code.py: which ways round a loop there are, by how its jumps are written."""

import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import machine_code  # noqa: E402
import static_model  # noqa: E402

with open(os.path.join(HERE, "static_model.json"), encoding="utf-8") as f:
    LIMITS = json.load(f)
ROWS = ("sm_80 attention_forward 32 dropout", "sm_89/sm_80 attention_forward 96 plain", "sm_90a disentangled_backward, keys 96 dropout",
        "sm_90a attention_warpgroup 128 plain", "sm_90a layernorm_forward")


def worse(key, **changes):
    return list(static_model.drops(LIMITS | {key: LIMITS[key] | changes}, LIMITS))


class Drops(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(list(static_model.drops(LIMITS, LIMITS)), [])

    def test_every_row(self):
        """Each of its numbers is looked at, and its message says which row it is."""
        for key, limit in LIMITS.items():
            for changes in ({"part": limit["part"] - 0.015}, {"warps": limit["warps"] - 1}, {"instructions": int(limit["instructions"] * 1.03) + 1}):
                said = worse(key, **changes)
                self.assertEqual(len(said), 1, (key, changes))
                self.assertTrue(said[0].startswith(key + ": "), said)

    def test_let_pass(self):
        for key in ROWS:
            limit = LIMITS[key]
            self.assertEqual(worse(key, part=limit["part"] - 0.009, instructions=limit["instructions"]), [])
            self.assertEqual(worse(key, part=limit["part"] + 0.1, warps=limit["warps"] + 4, instructions=limit["instructions"] - 9), [])

    def test_rows_come_and_go(self):
        for key in ROWS:
            less = {k: v for k, v in LIMITS.items() if k != key}
            self.assertEqual(list(static_model.drops(less, LIMITS)), [f"there is no kernel any more of: {key}"])
            self.assertIn("--write", "".join(static_model.drops(LIMITS, less)))

    def test_other_chips(self):
        """A module without code for a chip says nothing of it, and keeps its limits when it writes its own."""
        one = {k: v for k, v in LIMITS.items() if k.startswith("sm_80 ")}
        self.assertEqual(list(static_model.drops(one, LIMITS)), [])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "limits.json")
            static_model.write_limits(path, LIMITS)
            changed = {k: v | {"warps": 1} for k, v in one.items() if "adamw" not in k}
            static_model.write_limits(path, changed)
            with open(path, encoding="utf-8") as f:
                self.assertEqual(json.load(f), {k: v for k, v in LIMITS.items() if k not in one} | changed)

    def test_complete(self):
        """Three chips, all head sizes (of the owner two, on the chip that it is for), with and without dropout, and what is bound by memory."""
        for chip in ("sm_80", "sm_89", "sm_89/sm_80", "sm_90a"):
            for kernel in static_model.TENSOR:
                if static_model.ONLY.get(kernel, chip[:5]) != chip[:5]:
                    continue
                for d in (32, 64) if kernel in static_model.ONLY else (32, 64, 96, 128):
                    for key in ("plain", "dropout"):
                        self.assertIn(f"{chip} {kernel} {d} {key}", LIMITS)
            for kernel in static_model.MEMORY:
                self.assertIn(f"{chip} {kernel}", LIMITS)


class Targets(unittest.TestCase):
    def said(self, part, d, arch="sm_80", kernel="attention_forward"):
        row = {"arch": arch, "kernel": kernel, "head_dim": d, "dropout": {"part": part, "bound": "issue"}}
        return list(static_model.misses([row], []))

    def test_head_sizes(self):
        for d in (64, 96, 128):
            self.assertEqual(self.said(0.66, d), [])
            self.assertIn(f"attention_forward {d}: 65%", self.said(0.65, d)[0])

    def test_reasons(self):
        """A miss with a reason may not grow, and a reason without a miss has to go."""
        least = static_model.MISSES["sm_80 attention_forward 32"][0]
        self.assertEqual(self.said(least, 32), [])
        self.assertIn("let pass is", self.said(least - 0.01, 32)[0])
        self.assertIn("need not name it", self.said(0.7, 32)[0])


class Turns(unittest.TestCase):
    """A loop from 0x10 to 0x60 as cuobjdump writes it: SKIP jumps over an exponential, AGAIN back."""

    SASS = """arch = sm_100f
        Function : planted
        /*0000*/                   MOV R1, 0x4 ;          /* 0x0000000000007947 */
        /*0010*/                   LDTM.x32 R4, tmem[UR4] ;
        /*0020*/                   SKIP 0x50 ;
        /*0030*/                   MUFU.EX2 R4, R4 ;
        /*0040*/                   FFMA R5, R4, R4, R5 ;
        /*0050*/                   STS [R0], R5 ;
        /*0060*/                   AGAIN 0x10 ;
        /*0070*/                   EXIT ;
"""
    MAYBE = ("@P0 BRA", "@!P1 BRA P2,", "@P0 BRA.U.ANY", "@UP3 BRA", "BRA.U !UP0,", "BRA.U UP2,", "BRA.DIV UR4,", "BRA.DIV ~URZ,", "BRA.CONV ~URZ,")
    ALWAYS = ("BRA", "BRA.U")

    def ways(self, skip, again):
        """Instructions of a turn with the exponential and without, if that is asked for, and of the way from beginning to end; is the jump back conditional?"""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("sass", self.SASS.replace("SKIP", skip).replace("AGAIN", again)), ("res-usage", "")):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                    f.write(text)
            code, _ = machine_code.read_module("", folder)
        body = code["sm_100f", "planted"]
        exponential, nothing = (lambda t: machine_code.base(t) == "MUFU"), (lambda t: False)
        (loop,) = machine_code.loops(body)
        self.assertEqual(loop, (0x10, 0x60), (skip, again))
        found = [machine_code.turn(body, *loop, exponential), machine_code.turn(body, *loop, nothing, exponential), machine_code.turn(body, None, None, exponential)]
        return [len(way) if way else None for way in found] + [machine_code.conditional(body[6][1])]

    def test_conditional(self):
        """Of the threads' predicates or the warp's uniform ones, before the jump or in it."""
        for skip in self.MAYBE:
            for again in self.MAYBE:
                self.assertEqual(self.ways(skip, again), [6, 4, 8, True], (skip, again))

    def test_always(self):
        for skip in self.ALWAYS:
            for again in self.ALWAYS:
                self.assertEqual(self.ways(skip, again), [4, 4, None, False], (skip, again))


if __name__ == "__main__":
    unittest.main()
