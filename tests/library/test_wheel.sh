#!/usr/bin/env bash
# The wheel of this build, in an empty virtual environment and with nothing of this machine's but its C library: what it holds, its tag, that it
# installs, imports, trains and tunes, and that its program takes the best instruction set that there is. Where ZIG names a zig (ZIG="python3 -m ziglang"), the one
# that it links is tried in the same way: for glibc 2.28 or older, by auditwheel's judgement where that is there, with no library beside.
# ctest: sanitize=leave timeout=900
. "$SOURCE_DIR/tests/fixtures/shell_test.sh"
if [ ! -x "$BUILD_DIR/dist/ftengine" ]; then
    echo "skipped: no archives of the third-party libraries"
    exit 77
fi
python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "skipped: no venv of python3"; exit 77; }
command -v strip >/dev/null && command -v readelf >/dev/null || exit 77

cp -r "$here/." .
cat >use.py <<'PYTHON'
import sys

import ftengine
from ftengine._library import program

assert ftengine.__file__.startswith(sys.prefix), ftengine.__file__
assert program().startswith(sys.prefix), program()
assert "libftengine.so" in open("/proc/self/maps").read() or ftengine.__version__
assert ftengine.devices()[0]["instruction_set"] == sys.argv[1]
small = {"model": "model", "max_length": 24, "batch_size": 8, "max_steps": 6, "cache_dir": "none"}
run = ftengine.train(train="train.tsv", validation="validation.tsv", **small)
assert run.status == "completed" and "eval_accuracy" in run.metrics, run.json
with run.load() as model:
    assert len(model.predict_proba(["a text", "another"])) == 2
study = ftengine.tune(train="train.tsv", validation="validation.tsv", study="s", trials=2, space={"learning_rate": "float(1e-4, 1e-2, log)"}, **small)
assert study.trials["complete"] == 2, study.json
PYTHON
inside() { env -i HOME="$scratch" PATH=/usr/bin:/bin FTENGINE_LEDGER_DIR="$scratch/ledger" XDG_CACHE_HOME="$scratch/cache" "$@"; }
best=portable
grep -qw fma /proc/cpuinfo && grep -qw avx2 /proc/cpuinfo && best=avx2
grep -qw avx512f /proc/cpuinfo && grep -qw avx512bw /proc/cpuinfo && grep -qw avx512vl /proc/cpuinfo && grep -qw avx512dq /proc/cpuinfo && best=avx512
[ "$(uname -m)" = x86_64 ] || best=neon

# try [OPTION...]: of wheel.py; the wheel is then $wheel
try() {
    python3 "$SOURCE_DIR/tools/wheel.py" "$BUILD_DIR" wheel "$@" >out 2>err || fail "the wheel"
    wheel=$(cat out)
    [[ $(basename "$wheel") =~ ^ftengine-[0-9.]+-py3-none-manylinux_2_[0-9]+_[a-z0-9_]+\.whl$ ]] || fail "its name is $(basename "$wheel")"
    [ "$(stat -c %s "$wheel")" -lt 15000000 ] || fail "it has $(stat -c %s "$wheel") bytes"
    python3 - "$wheel" >out 2>err <<'PYTHON' || fail "its RECORD: $(cat out)"
import base64, csv, hashlib, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
record = {place: (digest, size) for place, digest, size in csv.reader(archive.read([n for n in archive.namelist() if n.endswith("RECORD")][0]).decode().splitlines())}
assert set(record) == set(archive.namelist()), set(record) ^ set(archive.namelist())
for name, (digest, size) in record.items():
    if not name.endswith("RECORD"):
        data = archive.read(name)
        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() and int(size) == len(data), name
PYTHON
    cp "$wheel" first.whl
    python3 "$SOURCE_DIR/tools/wheel.py" "$BUILD_DIR" wheel "$@" >out 2>err && cmp "$(cat out)" first.whl || fail "another wheel from the same build"

    rm -rf venv runs studies
    python3 -m venv venv >out 2>err || fail "venv"
    env -i PATH=/usr/bin:/bin HOME="$scratch" venv/bin/python -m pip install --quiet --no-index --disable-pip-version-check "$wheel" >out 2>err || fail "pip install"
    inside venv/bin/ftengine --version >out 2>err || fail "the program"
    [ "$(sed -n 's/^ftengine //p' out)" = "$("$FTENGINE" --version | sed -n 's/^ftengine //p')" ] || fail "its version"
    inside venv/bin/ftengine devices --json >out 2>err || fail "devices"
    [ "$(json out 'd["devices"][0]["instruction_set"]')" = $best ] || fail "it computes with $(json out 'd["devices"][0]["instruction_set"]'), not $best"

    inside venv/bin/python use.py $best >out 2>err || fail "the module: $(cat out)"
    [ ! -s out ] || fail "the library prints: $(cat out)"
}
try
if [ -n "${ZIG:-}" ]; then
    try --zig "$ZIG"
    tag=$(grep -oE 'manylinux_2_[0-9]+' <<<"$wheel")
    [ "${tag#manylinux_2_}" -le 28 ] || fail "linked by zig it is $tag"
    python3 -m zipfile -l "$wheel" | grep -E '\.so' | grep -v 'ftengine/libftengine\.so' && fail "a library lies beside"
    ! command -v auditwheel >/dev/null || auditwheel show "$wheel" | tr '\n' ' ' | grep -qE 'constrains the platform tag to "manylinux_2_([0-9]|1[0-9]|2[0-8])_' ||
        fail "$(auditwheel show "$wheel")"
fi
