#!/usr/bin/env bash
# ftengine tune-gemm and device.gemm_tuning, on a cuBLASLt whose third algorithm is the fastest by a fake clock: the file is
# made, used, hashed into what a run leaves behind, and refused where it does not belong.
# ctest: tsan=leave asan_part=1 cost=1000
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
: "${FAKE_CUDA_DIR:?}" "${EMULATED_MODULE:?}" "${FAKE_CUBLASLT:?}"
export FAKE_REPORT=$scratch/report FTENGINE_CUDA_MODULE=$EMULATED_MODULE FTENGINE_CUBLASLT=$FAKE_CUBLASLT
export LD_LIBRARY_PATH=$FAKE_CUDA_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FAKE_CUDA=version=13000,memory=1073741824
run="$here/follow.ini train.max_steps=4 train.micro_batch=5 data.cache_dir=none device.name=cuda"

# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune-gemm $run --output tuned.json
grep -q 'products of [0-9]* sizes of micro-batches: .* us in all, .* with cuBLASLt.s first choices' out || fail "tune-gemm says: $(cat out)"
grep -q '^driver 0 misuses, 0 left$' report && grep -q '^cublasLt 0 misuses, 0 left$' report || fail "tune-gemm: $(cat report)"
python3 - <<'PYTHON' || fail "tuned.json: $(head -c 600 tuned.json)"
import json
d = json.load(open("tuned.json"))
assert d["format_version"] == 1 and d["chip"] == "NVIDIA Fake 4096, sm_80" and d["cublaslt"] > 0, d
shapes = set()
for p in d["products"]:
    assert p["microseconds"] == 250 and p["first_microseconds"] == 500, p
    assert len(p["algorithm"]) == 128 and p["types"] == ["fp32"] * 3, p
    shapes.add(json.dumps([p[k] for k in p if k not in ("algorithm", "microseconds", "first_microseconds")]))
assert len(shapes) == len(d["products"]) > 10
PYTHON
# The same choices, and the same file, whatever was measured before it; a configuration that leaves it to the run measures all the same.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune-gemm $run device.gemm_tuning=auto --output again.json --json && is_document tune_gemm
cmp tuned.json again.json || fail "another file the second time"

# Micro-batches that are filled up: as many sizes as they come in, not one a batch. An evaluation of many batches, whose size is
# chosen (eval.batch_size=auto): 4000 texts are more than one.
python3 - "$here/validation.tsv" >large.tsv <<'PYTHON'
import sys
lines = open(sys.argv[1]).read().splitlines()
print("\n".join(lines[:1] + lines[1:] * 5))
PYTHON
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune-gemm $run device.graphs=on --output filled.json
sizes=$(sed -n 's/.* products of \([0-9]*\) sizes.*/\1/p' out)
[ "${sizes:-99}" -le 8 ] || fail "filled up: $(cat out)" # five texts and three, of at most 24 tokens, in multiples of 24
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune-gemm $run train.max_steps=1 data.validation=large.tsv eval.strategy=steps --output evaluated.json
grep -q '^driver 0 misuses, 0 left$' report && grep -q '^cublasLt 0 misuses, 0 left$' report || fail "tune-gemm: $(cat report)"

# ---- used, and noted ---------------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=plain
[ "$(json plain/run.json 'd.get("gemm_tuning")')" = None ] || fail "a hash without a file"
rm -f report
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=with device.gemm_tuning=tuned.json output.save_steps=2 train.max_steps=4
says "tuned products"
[ "$(json with/run.json 'd["gemm_tuning"]')" = "$(sha256sum tuned.json | cut -d' ' -f1)" ] || fail "run.json has another hash"
grep -q '^cublasLt products by algorithm: 0 0 [1-9][0-9]* 0$' report || fail "other algorithms than the tuned ones: $(cat report)"
cmp plain/model/model.safetensors with/model/model.safetensors || fail "the fake algorithms differ" # only in what they take

# ---- a resumed run keeps its choices -------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=with output.exists=resume output.save_steps=2
one_error "cannot be resumed without its gemm_tuning"
sed 's/"first_microseconds": 500.0/"first_microseconds": 501.0/' tuned.json >other.json
cmp -s tuned.json other.json && fail "other.json is the same"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=with output.exists=resume output.save_steps=2 device.gemm_tuning=other.json
one_error "cannot be resumed with another gemm_tuning"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=with output.exists=resume output.save_steps=2 device.gemm_tuning=tuned.json

# ---- where it does not belong ----------------------------------------------------------------------------------------------------
refused() { # refused TEXT, of bad.json
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $run output.dir=none device.gemm_tuning=bad.json
    one_error "$1"
    [ ! -e none ] || fail "a run that could not start left a directory"
}
sed 's/NVIDIA Fake 4096/NVIDIA H200/' tuned.json >bad.json && refused "were measured on NVIDIA H200, sm_80 with cuBLASLt"
sed 's/"cublaslt": [0-9]*/"cublaslt": 120000/' tuned.json >bad.json && refused "with cuBLASLt 120000, this is"
sed 's/"format_version": 1/"format_version": 99/' tuned.json >bad.json && refused "format_version 99, this program reads 1"
sed '0,/"algorithm": "../s//"algorithm": "xy/' tuned.json >bad.json && refused "products[0]: algorithm is no 128 hexadecimal digits"
sed '0,/fp32/s//fp8/' tuned.json >bad.json && refused "products[0]: types are three of fp32, bf16, fp16"
sed 's/"products"/"product"/' tuned.json >bad.json && refused "products is no list"
echo '{' >bad.json && refused "bad.json:"
rm bad.json && refused "device.gemm_tuning names a file that cannot be read"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=cpu device.name=cpu device.gemm_tuning=tuned.json train.max_steps=1
says "device.gemm_tuning is for GPUs: nothing uses it on cpu"
# shellcheck disable=SC2086
expect 4 "$FTENGINE" tune-gemm $run device.name=cpu --output none.json
one_error "matrix products are tuned on a GPU"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" tune-gemm $run
one_error "where the measured choices go is not given"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" tune-gemm $run --output none.json device.gemm_tuning=tuned.json
one_error "cannot be tuned already"
[ ! -e none.json ] || fail "a file was left"
exit 0
