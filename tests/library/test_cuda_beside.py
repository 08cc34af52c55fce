#!/usr/bin/env python3
"""From Python the CUDA module is looked for beside libftengine.so, not beside python: what is missing names that folder, and with a driver and the
kernels of the emulator beside the library there is a device to train on."""
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

    found = card()
    assert not found["trains"] and f"libftengine_cuda.so was not found in {place}/package" in found["missing"]["message"], found
    if not module.exists():
        print("no emulated kernels in this build: that they are found is not tested")
        sys.exit(0)
    shutil.copy(module, place / "package" / "libftengine_cuda.so")
    found = card()
    assert found["trains"] and found["missing"] is None, found
