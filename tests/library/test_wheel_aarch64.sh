#!/usr/bin/env bash
# The wheel for 64-bit ARM under qemu's emulation: its tag, what is in it, that pip takes it for such a machine, and that module and program from
# it train, predict and tune with the bits of this build. With ZIG (ZIG="python3 -m ziglang") it is the one for glibc 2.28. FT_AARCH64_BUILD: a build
# of tools/aarch64.sh; else one is made, which takes packages of Debian for arm64 from its servers at the first time, and minutes.
# ctest: label=full_size sanitize=leave timeout=7200
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
if [ "$(uname -m)" != x86_64 ] || ! command -v aarch64-linux-gnu-gcc qemu-aarch64-static >/dev/null; then
    echo "skipped: tools/install.sh aarch64 installs the cross compiler and the emulator on x86-64"
    exit 77
fi
python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "skipped: no venv of python3"; exit 77; }
arm=${FT_AARCH64_BUILD:-$BUILD_DIR/aarch64}
"$SOURCE_DIR/tools/aarch64.sh" "$arm" >out 2>err || fail "the build: $(tail -5 out)"

python3 "$SOURCE_DIR/tools/wheel.py" "$arm" wheel ${ZIG:+--zig "$ZIG"} >out 2>err || fail "the wheel"
wheel=$(cat out)
[[ $(basename "$wheel") =~ ^ftengine-[0-9.]+-py3-none-manylinux_2_([0-9]+)_aarch64\.whl$ ]] || fail "its name is $(basename "$wheel")"
[ -z "${ZIG:-}" ] || [ "${BASH_REMATCH[1]}" -le 28 ] || fail "linked by zig it is for glibc 2.${BASH_REMATCH[1]}"
[ "$(stat -c %s "$wheel")" -lt 15000000 ] || fail "it has $(stat -c %s "$wheel") bytes"

# pip, for such a machine: what belongs to this one is not taken.
python3 -m venv venv >out 2>err || fail "venv"
for machine in x86_64 aarch64; do
    venv/bin/python -m pip install --quiet --no-index --no-deps --disable-pip-version-check --only-binary=:all: --platform manylinux_2_35_$machine \
        --platform manylinux_2_28_$machine --target site-$machine "$wheel" >out 2>err && took=yes || took=no
    [ "$machine $took" = "x86_64 no" ] || [ "$machine $took" = "aarch64 yes" ] || fail "pip for $machine: $took"
done
site=$scratch/site-aarch64
for file in bin/ftengine ftengine/libftengine.so; do
    file -b "$site/$file" | grep -q 'aarch64' || fail "$file is $(file -b "$site/$file")"
done
# An emulated program cannot start another one by itself.
printf '#!/bin/sh\nexec qemu-aarch64-static -L %s %s "$@"\n' "$arm/root" "$site/bin/ftengine" >program
chmod +x program
[ "$(./program --version | sed -n 1p)" = "$("$FTENGINE" --version | sed -n 1p)" ] || fail "the program: $(./program --version 2>&1)"

cp -r "$here/." .
cat >use.py <<'PYTHON'
import hashlib
import sys
import ftengine
small = {"model": "model", "max_length": 24, "batch_size": 8, "cache_dir": "none", "seed": 7}
run = ftengine.train(train="train.tsv", validation="validation.tsv", output_dir=f"run-{sys.argv[1]}", max_steps=10, progress=False, **small)
print(run.status, run.metrics["eval_accuracy"].hex(), hashlib.sha256((run.model_dir / "model.safetensors").read_bytes()).hexdigest())
with run.load() as model:
    print([[float(p).hex() for p in row] for row in model.predict_proba(["a fine opera", "the ferry left late"])])
study = ftengine.tune(train="train.tsv", validation="validation.tsv", study=f"study-{sys.argv[1]}", trials=2, parallel=1, max_steps=2,
                      space={"learning_rate": "float(1e-4, 1e-2, log)"}, **{"eval.strategy": "epoch"}, **small)
for trial in ftengine.study("trials", f"study-{sys.argv[1]}")["trials"]:
    print(trial["number"], trial["state"], sorted(trial["params"].items()), trial["values"])
PYTHON
FTENGINE_LIBRARY=$BUILD_DIR/libftengine.so FTENGINE_PROGRAM=$FTENGINE PYTHONPATH=$SOURCE_DIR/python PYTHONDONTWRITEBYTECODE=1 \
    python3 -S use.py here >here.txt 2>err || fail "the module: $(cat here.txt)"
FTENGINE_PROGRAM=$scratch/program PYTHONPATH=$site "$arm/python" use.py arm >arm.txt 2>err || fail "the module, emulated: $(cat arm.txt)"
[ "$(wc -l <here.txt)" = 4 ] && cmp here.txt arm.txt || fail "other bits: $(diff here.txt arm.txt)"
echo "$(basename "$wheel"), $(stat -c %s "$wheel") bytes: $(sed -n 's/^completed .* \(.\{16\}\).*/\1/p' here.txt)"
