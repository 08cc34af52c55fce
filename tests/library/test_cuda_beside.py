#!/usr/bin/env python3
"""From Python the CUDA module is looked for beside libftengine.so, not beside python: what is missing names that folder, and with a driver and the
kernels of the emulator beside the library there is a device to train on. A module without a driver is an ordinary machine: one line, the program's, and
training on the CPU; a GPU that lacks its module is one warning, the program's."""
# ctest: sanitize=leave

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD, SOURCE = Path(os.environ["BUILD_DIR"]), Path(os.environ["SOURCE_DIR"])
driver, module = BUILD / "tests/libfake_driver.so", BUILD / "tests/emulator/libemulated_module.so"
ASK = "import json, ftengine; print(json.dumps(ftengine.devices()))"
TINY = {"model.path": str(SOURCE / "tests/vectors/trainer/model"), "data.train": str(SOURCE / "tests/vectors/trainer/train.tsv"), "data.max_length": "48",
        "train.max_steps": "2", "eval.strategy": "no", "data.cache_dir": "none"}  # fmt: skip
TRAIN = """
import json, sys, warnings
import ftengine
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    run = ftengine.train(progress=False, output_dir=sys.argv[1], **json.loads(sys.argv[2]))
print(json.dumps({"status": run.status, "device": run.json["device"], "steps": run.json["steps"], "warnings": [str(warning.message) for warning in said]}))
"""
VERBOSE = "import json, sys, ftengine; ftengine.train(progress=False, verbose=True, output_dir=sys.argv[1], **json.loads(sys.argv[2]))"

with tempfile.TemporaryDirectory(prefix="ftengine-beside-") as folder:
    place = Path(os.path.realpath(folder))
    (place / "package").mkdir()
    (place / "driver").mkdir()
    library = place / "package" / "libftengine.so"
    shutil.copy(BUILD / "libftengine.so", library)
    shutil.copy(driver, place / "driver" / "libcuda.so.1")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FTENGINE_CUDA", "CUDA_"))}
    environment.update(FTENGINE_LIBRARY=str(library), LD_LIBRARY_PATH=str(place / "driver"), FAKE_CUDA="version=13000,memory=25769803776",
                       PYTHONPATH=str(SOURCE / "python"), FTENGINE_CUBLASLT=str(BUILD / "tests/emulator/libfake_cublaslt.so"))  # fmt: skip

    def card():
        done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return next(device for device in json.loads(done.stdout) if device["device"] == "cuda:0")

    def output(*command):
        done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, check=False, cwd=place)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    def about(text):
        return [line for line in text.splitlines() if "device.name=auto is the CPU" in line]

    def trained(name):
        """What a run says of its device: the program beside the module (its lines, its warnings), and Python's."""
        words = [f"{option}={value}" for option, value in TINY.items()]
        program = output(place / "package" / "ftengine", "train", *words, f"output.dir=program-{name}").stderr
        said = json.loads(output(sys.executable, "-c", TRAIN, f"python-{name}", json.dumps(TINY)).stdout)
        assert said["status"] == "completed" and said["steps"] == 2 and said["device"] == "cpu", said
        return about(program), about(output(sys.executable, "-c", VERBOSE, f"verbose-{name}", json.dumps(TINY)).stdout), said["warnings"]

    shutil.copy(os.environ["FTENGINE"], place / "package" / "ftengine")
    lines, verbose, warned = trained("no-module")
    assert f"warning: {warned[0]}" == lines[0] and len(warned) == 1 and "a GPU (NVIDIA Fake 4096) is not used" in warned[0], (lines, warned)
    assert [line.replace("program-", "") for line in lines] == [line.replace("verbose-", "") for line in verbose], (lines, verbose)

    if "libcuda.so.1" not in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout:
        # A module, whichever: without a driver nothing opens it.
        shutil.copy(module if module.exists() else driver, place / "package" / "libftengine_cuda.so")
        with_driver = environment.pop("LD_LIBRARY_PATH")
        lines, verbose, warned = trained("no-driver")
        assert len(lines) == 1 and "no NVIDIA driver: libcuda.so.1 was not found" in lines[0] and not lines[0].startswith("warning"), lines
        assert verbose == lines and warned == [], (verbose, warned)
        environment["LD_LIBRARY_PATH"] = with_driver
        (place / "package" / "libftengine_cuda.so").unlink()

    found = card()
    assert not found["trains"] and f"libftengine_cuda.so was not found in {place}/package" in found["missing"]["message"], found
    if not module.exists():
        print("no emulated kernels in this build: that they are found is not tested")
        sys.exit(0)
    shutil.copy(module, place / "package" / "libftengine_cuda.so")
    found = card()
    assert found["trains"] and found["missing"] is None, found

    # As pip lays it: the library in the package, the kernels in lib/ftengine, for the program in bin too.
    package = place / "venv/lib/python3.11/site-packages/ftengine"
    for path in (package, place / "venv/lib/ftengine", place / "venv/bin"):
        path.mkdir(parents=True)
    (place / "package/libftengine_cuda.so").rename(place / "venv/lib/ftengine/libftengine_cuda.so")
    shutil.copy(library, package / "libftengine.so")
    shutil.copy(os.environ["FTENGINE"], place / "venv/bin/ftengine")
    environment["FTENGINE_LIBRARY"] = str(package / "libftengine.so")
    assert card()["trains"], card()
    program = json.loads(output(place / "venv/bin/ftengine", "devices", "--json").stdout)["devices"]
    assert [device["trains"] for device in program if device["device"] == "cuda:0"] == [True], program
