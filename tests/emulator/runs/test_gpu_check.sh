#!/usr/bin/env bash
# benchmarks/gpu_check.sh without a GPU: its parts on the emulator (all but those that call nvcc), what it makes of a machine
# that lacks something, of wrong results and of a tool that hangs, and a packed program elsewhere.
# ctest: part=0 sanitize=leave cost=1000
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
: "${FAKE_CUDA_DIR:?}" "${EMULATED_MODULE:?}" "${FAKE_CUBLASLT:?}" "${BUILD_DIR:?}"
fakes=(LD_LIBRARY_PATH="$FAKE_CUDA_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" FAKE_CUDA=version=13000,memory=1073741824
    FTENGINE_CUDA_MODULE="$EMULATED_MODULE" FTENGINE_CUBLASLT="$FAKE_CUBLASLT")
export BUILD=$scratch/check STEPS=2 COMMITTED=$scratch/committed PYTHONDONTWRITEBYTECODE=1
results=$BUILD/results
check() { "$SOURCE_DIR/benchmarks/gpu_check.sh" "$@"; }
mkdir -p "$BUILD" "$COMMITTED" tools
cp "$BUILD_DIR/gpu_ops" "$BUILD_DIR/gpu_device" "$BUILD" || exit 1

# well_formed PART=VERDICT...: the summary has these and no other, and every table has as many columns in each of its rows
well_formed() {
    python3 - "$results" "$@" <<'PYTHON' || fail "the results are not well formed: $(cat "$results"/summary.*)"
import csv, glob, json, sys
rows = list(csv.DictReader(open(sys.argv[1] + "/summary.csv")))
assert [r["part"] + "=" + r["verdict"] for r in rows] == sys.argv[2:], rows
assert json.load(open(sys.argv[1] + "/summary.json")) == rows
for path in glob.glob(sys.argv[1] + "/*.csv"):
    assert len({len(row) for row in csv.reader(open(path))}) == 1, path
for path in glob.glob(sys.argv[1] + "/*.json"):
    json.load(open(path))
PYTHON
}

# ---- on the emulator ---------------------------------------------------------------------------------------------------------
cat >tools/compute-sanitizer <<'STUB' && chmod +x tools/compute-sanitizer
#!/bin/sh
[ "$1" = --tool ] && [ "$3" = --error-exitcode ] && [ "$4" = 1 ] || exit 9
[ -n "$HANG" ] && exec sleep 60
tool=$2
shift 4
[ "$2" = --attention ] || exec "$@" decay
[ $tool = memcheck ] || set -- "$1" "$2" "$3" "$4" "$5" "$6" small-pooled # the same program for every tool: less of it
exec "$@" --type bf16
STUB
export PATH=$scratch/tools:$PATH HANG=
expect 0 env "${fakes[@]}" FTENGINE="$FTENGINE" "$SOURCE_DIR/benchmarks/gpu_check.sh" context graphs ops training replay tuning
well_formed context=passed graphs=passed ops=passed training=passed replay=passed tuning=passed
grep -q '^6 passed, 0 failed, 0 skipped' out || fail "the last line: $(tail -1 out)"
[ "$(json "$results/graphs.json" '[c["verdict"] for c in d]')" = "['ok', 'ok', 'ok', 'ok']" ] || fail "graphs.json: $(cat "$results/graphs.json")"
[ "$(json "$results/training.json" 'len(d), d[0]["step"], d[0]["precision"]')" = "(6, 1, 'fp32')" ] || fail "training.json"
[ "$(json "$results/run-cuda/run.json" '0 < d["device_used"]["reserved_bytes"] <= d["device_used"]["bytes"] and 0 < d["queueing"]["share"] <= 1')" = True ] ||
    fail "run.json of a GPU: $(cat "$results/run-cuda/run.json")"
[ "$(json "$results/run-cpu/run.json" '"device_used" in d or "queueing" in d')" = False ] || fail "run.json of a CPU: $(cat "$results/run-cpu/run.json")"

# The path of sm_90a, which must be asked for: right, beside the other one and beside the prediction, and clean; on another chip it
# counts as skipped, as for the sanitizers the one on tensor memory does where there is none.
hopper=("${fakes[@]}" FAKE_CUDA=version=13000,memory=1073741824,capability=90)
expect 4 env "${hopper[@]}" TOKENS=20 WGMMA_OPTIONS="small-pooled dense-768" "$SOURCE_DIR/benchmarks/gpu_check.sh" wgmma sanitizer
well_formed disentangled-mma=passed disentangled-wgmma=passed wgmma=passed wgmma-without-turns=passed memcheck=passed racecheck=passed {memcheck,racecheck,synccheck}-wgmma=passed \
    {memcheck,racecheck}-owner=passed {memcheck,racecheck,synccheck}-tcgen05=skipped
[ "$(grep -cE '^pooled(-backward)? .* 890 +wgmma ok ' "$results/memcheck-wgmma.txt")" -ge 8 ] || fail "no buffer is filled twice in front of a sanitizer: $(cat "$results/memcheck-wgmma.txt")"
[ "$(json "$results/wgmma.json" 'len(d["cases"]), sum(c["microseconds"] > 0 for c in d["cases"]), all(c["right"] and c["same_bits"] for c in d["cases"])')" = "(48, 16, True)" ] ||
    fail "wgmma.json: $(cat "$results/wgmma.json")"
[ "$(grep -cE '^  dense-768 bf16, [0-9]+ heads of [0-9]+, dropout 0.[01], 20 tokens: mma [0-9.]+ us, wgmma [0-9.]+ us, ' out)" = 4 ] || fail "times beside each other: $(cat out)"
[ "$(grep -cE '^  dense-768 bf16, [0-9]+ heads of [0-9]+, dropout 0.[01], 20 tokens: wgmma in turns [0-9.]+ us, without [0-9.]+ us, [0-9.]+ times the rate$' out)" = 4 ] ||
    fail "with turns beside without: $(cat out)"
predicted=$(sed -nE 's/.* attention_warpgroup \| 64 .*: .*, ([0-9]+) \(([0-9]+)\) \|$/\2 and \1/p' "$SOURCE_DIR/benchmarks/results/static_model.md")
grep -qE "dense-768 bf16, 12 heads of 64, dropout 0.1.*predicted at most ${predicted:?}, " out || fail "the prediction, $predicted: $(cat out)"
predicted=$(python3 - "$SOURCE_DIR/benchmarks/results/static_model.md" <<'PYTHON'
import re, sys
rows = [l.split("|") for l in open(sys.argv[1]) if "attention_warpgroup_backward" in l and " | 64 | " in l]
rates = {"queries" if "queries" in r[2] else "keys": [int(x) for x in re.search(r", (\d+) \((\d+)\)", r[7]).groups()] for r in rows}
print("%d and %d" % tuple(5 / (3 / rates["queries"][i] + 4 / rates["keys"][i]) for i in (1, 0)))
PYTHON
)
grep -qE "dense-768-backward bf16, 12 heads of 64, dropout 0.1.*predicted at most ${predicted:?}, " out || fail "the prediction backward, $predicted: $(cat out)"
grep -q 'decision: wgmma is right; .* in 8 timed cases' "$results/summary.csv" || fail "no decision: $(cat "$results/summary.csv")"
rm -f "$results"/wgmma*
blackwell=("${fakes[@]}" FAKE_CUDA=version=13000,memory=1073741824,capability=100)
expect 4 env "${blackwell[@]}" TOKENS=20 "$SOURCE_DIR/benchmarks/gpu_check.sh" wgmma sanitizer
well_formed disentangled-mma=passed disentangled-wgmma=skipped wgmma=skipped memcheck=passed racecheck=passed {memcheck,racecheck,synccheck}-wgmma=skipped {memcheck,racecheck}-owner=passed \
    {memcheck,racecheck,synccheck}-tcgen05=passed
grep -q 'wgmma is for compute capability 9.0' out || fail "it should say why: $(cat out)"
# The backward by one owner, beside the passes, on a chip that it is made for.
ada=("${fakes[@]}" FAKE_CUDA=version=13000,memory=1073741824,capability=89,multiprocessors=3)
expect 0 env "${ada[@]}" TOKENS=20 OWNER_OPTIONS="small dense-768" "$SOURCE_DIR/benchmarks/gpu_check.sh" owner
well_formed owner=passed
[ "$(json "$results/owner.json" 'len(d["cases"]), sum(c["microseconds"] > 0 for c in d["cases"]), all(c["right"] and c["same_bits"] for c in d["cases"])')" = "(24, 8, True)" ] ||
    fail "owner.json: $(cat "$results/owner.json")"
[ "$(grep -cE '^  dense-768-backward bf16, [0-9]+ heads of [0-9]+, dropout 0.[01], 20 tokens: mma [0-9.]+ us, owner [0-9.]+ us, ' out)" = 4 ] || fail "times beside each other: $(cat out)"
grep -q 'decision: owner is right; .* in 4 timed cases' "$results/summary.csv" || fail "no decision: $(cat "$results/summary.csv")"
# The forward on tensor memory, on chips that have it; others skip the part and say why.
expect 0 env "${blackwell[@]}" TOKENS=20 TCGEN05_OPTIONS="small causal dense-768" "$SOURCE_DIR/benchmarks/gpu_check.sh" tcgen05
well_formed tcgen05=passed
[ "$(json "$results/tcgen05.json" 'len(d["cases"]), sum(c["microseconds"] > 0 for c in d["cases"]), all(c["right"] and c["same_bits"] for c in d["cases"])')" = "(24, 8, True)" ] ||
    fail "tcgen05.json: $(cat "$results/tcgen05.json")"
[ "$(grep -cE '^  dense-768 bf16, [0-9]+ heads of [0-9]+, dropout 0.[01], 20 tokens: mma [0-9.]+ us, tcgen05 [0-9.]+ us, ' out)" = 4 ] || fail "times beside each other: $(cat out)"
grep -q 'decision: tcgen05 is right; .* in 4 timed cases' "$results/summary.csv" || fail "no decision: $(cat "$results/summary.csv")"
expect 4 env "${hopper[@]}" TOKENS=20 "$SOURCE_DIR/benchmarks/gpu_check.sh" tcgen05
well_formed tcgen05=skipped
grep -q 'tcgen05 is for compute capability 10.0 and 10.3, cuda:0 has 9.0' out || fail "it should say why: $(cat out)"
expect 1 env "${blackwell[@]}" SIMT_LOST=attention_tensor_memory TOKENS=20 TCGEN05_OPTIONS=small "$SOURCE_DIR/benchmarks/gpu_check.sh" tcgen05
well_formed tcgen05=FAILED
# The same table on the CPU, which needs no device.
expect 0 env FAKE_CUDA=error=100 "$BUILD/gpu_ops" --cpu --threads 1 --tokens 33 gemm_weight_gradient disentangled_backward_pooled
[ "$(grep -c ' ok .* GFLOP/s of ' out)" = 10 ] || fail "ops on the CPU: $(cat out)"
expect 2 "$BUILD/gpu_ops" --cpu no_such_op
expect 1 env "${hopper[@]}" "$BUILD/gpu_ops" --attention --candidate flash
grep -q "'flash' is neither wgmma, owner nor tcgen05" err || fail "a candidate that is not there: $(cat err)"
expect 1 env "${hopper[@]}" "$BUILD/gpu_ops" --attention --path flash
grep -q "'flash' is neither wgmma nor mma" err || fail "a path that is not there: $(cat err)"

# Training steps of a tiny model, without rivals (test_gpu_steps.py has those), and the report: a first run writes what the second is
# held against, and an earlier figure that was much better fails it.
cat >tiny.json <<'MODEL'
{"model_type": "deberta-v2", "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 64,
 "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 64, "type_vocab_size": 0,
 "layer_norm_eps": 1e-7, "pad_token_id": 0, "relative_attention": true, "max_relative_positions": -1, "position_buckets": 16,
 "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": "p2c|c2p", "position_biased_input": false, "pooler_dropout": 0,
 "pooler_hidden_act": "gelu", "pooler_hidden_size": 32}
MODEL
export STEPS_OPTIONS="--config $scratch/tiny.json --batch 2 --half 3 --longest 24 --rivals --cases deberta-v3-base/sst2-16 deberta-v3-base/dense-512"
expect 0 env "${fakes[@]}" FTENGINE="$FTENGINE" "$SOURCE_DIR/benchmarks/gpu_check.sh" steps report
well_formed steps=passed report=passed
[ "$(json "$results/steps.json" '[(c["case"], len(c["sides"]["ftengine"]["rounds"]), c["sides"]["ftengine-graphs"]["status"]) for c in d["cases"]]')" = \
    "[('sst2-16', 3, 'measured'), ('dense-512', 3, 'measured')]" ] || fail "steps.json: $(cat "$results/steps.json")"
[ "$(json "$results/steps.json" 'all(c["sides"]["ftengine"]["planned_bytes"] == c["sides"]["ftengine"]["metered_bytes"] > 0 for c in d["cases"])')" = True ] ||
    fail "planned and metered bytes: $(cat "$results/steps.json")"
[ "$(json "$results/steps.json" 'all(0 < s["host_share"] <= 1 for c in d["cases"] for s in c["sides"].values())')" = True ] ||
    fail "the host's share: $(cat "$results/steps.json")"
grep -q '^| host time by that of a step, with graphs, the largest | at most 5.0% | ' "$results/gpu_fake_4096.md" || fail "no targets: $(cat "$results/gpu_fake_4096.md")"
python3 - "$results/steps.json" "$scratch/tiny.json" "$SOURCE_DIR/benchmarks/gpu" <<'PYTHON' || fail "the products of a step are not those that tune-gemm measures"
import json, sys
sys.path.insert(0, sys.argv[3])
import gpu_counts
(products,) = [c["products"] for c in json.load(open(sys.argv[1]))["cases"] if c["products"]]
assert gpu_counts.gemm_seconds(json.load(open(sys.argv[2])), [24, 24], products) > 0
PYTHON
# Several GPUs together; one alone is none.
: "${FAKE_NCCL_LIBRARY:?}"
RANKS_OPTIONS="--config $scratch/tiny.json --batch 2 --half 2 --longest 24 --rounds 1" expect 0 env "${fakes[@]}" FAKE_CUDA=version=13000,memory=1073741824,devices=2 \
    FTENGINE_NCCL="$FAKE_NCCL_LIBRARY" FTENGINE="$FTENGINE" "$SOURCE_DIR/benchmarks/gpu_check.sh" ranks
well_formed ranks=passed
[ "$(json "$results/ranks.json" 'd["gpus"], len(d["tokens_per_second_together"]), d["efficiency"] == d["tokens_per_second_together"][0] / d["tokens_per_second_alone"][0] / 2')" = \
    "(2, 1, True)" ] || fail "ranks.json: $(cat "$results/ranks.json")"
expect 4 env "${fakes[@]}" FTENGINE="$FTENGINE" "$SOURCE_DIR/benchmarks/gpu_check.sh" ranks
well_formed ranks=skipped
grep -q '1 GPU to train on: efficiency is of several' out || fail "it should say why: $(cat out)"
[ ! -e "$results/ranks.json" ] || fail "a figure of an earlier time is left"

[ -e "$COMMITTED/gpu_fake_4096.json" ] || fail "a first run writes no figures: $(ls "$COMMITTED")"
python3 - "$COMMITTED/gpu_fake_4096.json" <<'PYTHON'
import json, sys
document = json.load(open(sys.argv[1]))
document["figures"]["step deberta-v3-base sst2-16 ftengine"]["value"] *= 100
json.dump(document, open(sys.argv[1], "w"))
PYTHON
expect 1 env "${fakes[@]}" "$SOURCE_DIR/benchmarks/gpu_check.sh" report
well_formed report=FAILED
grep -q 'step deberta-v3-base sst2-16 ftengine: ' out || fail "the figure that fell is not named: $(cat out)"
mkdir kept
expect 0 env "${fakes[@]}" ACCEPT=1 OUT="$scratch/kept" "$SOURCE_DIR/benchmarks/gpu_check.sh" report
[ "$(cd kept && echo *)" = "gpu_fake_4096.json gpu_fake_4096.md results.tar.gz summary.csv summary.json" ] || fail "kept: $(ls kept)"
expect 4 env "${fakes[@]}" BUDGET=0 "$SOURCE_DIR/benchmarks/gpu_check.sh" ops steps # there was no time: not measured, not failed
well_formed "ops=not measured" "steps=not measured"

# ---- what is wrong, hangs or is missing --------------------------------------------------------------------------------------
HANG=1 SANITIZER_LIMIT=1 expect 1 env "${fakes[@]}" "$SOURCE_DIR/benchmarks/gpu_check.sh" sanitizer
well_formed {memcheck,racecheck}=FAILED {memcheck,racecheck,synccheck}-wgmma=FAILED {memcheck,racecheck}-owner=FAILED {memcheck,racecheck,synccheck}-tcgen05=FAILED
grep -q 'not done after 1 seconds' out || fail "a tool that hangs: $(cat out)"

expect 4 env FTENGINE="$FTENGINE" "$SOURCE_DIR/benchmarks/gpu_check.sh" context graphs ops speed sanitizer steps # no driver
well_formed context=skipped graphs=skipped ops=skipped speed=skipped sanitizer=skipped steps=skipped
grep -q '^0 passed, 0 failed, 6 skipped' out || fail "the last line: $(tail -1 out)"

printf '#!/bin/sh\necho "gemm WRONG \\"1,5\\""; echo "a, \\"quoted\\\\ reason" >&2; exit 1\n' >"$BUILD/gpu_ops"
printf '#!/bin/sh\necho "one,ok,fine"; echo "two,failed,1, 2 \\"and\\" 3"; exit 1\n' >"$BUILD/gpu_device"
expect 1 check ops graphs
well_formed ops=FAILED graphs=FAILED
[ ! -e "$results/ops.csv" ] || fail "a table of an earlier time is left"
# A program that was ended in the middle of its table leaves none, and one that counted wrong cases leaves them.
cat >"$BUILD/gpu_ops" <<'STUB'
#!/bin/sh
while [ $# -gt 0 ]; do case $1 in --json) json=$2 ;; esac; shift; done
[ -z "$WHOLE" ] && printf '{"device": "x", "ca' >"$json" && exit 137
echo '{"device": "x", "cases": []}' >"$json"
echo "3 cases, 1 wrong" && exit 1
STUB
expect 1 check ops
well_formed ops=FAILED
[ ! -e "$results/ops.json" ] && [ ! -e "$results/ops.json.part" ] || fail "a table that was cut off is left"
WHOLE=1 expect 1 check ops
[ -e "$results/ops.json" ] || fail "the table with wrong cases is not kept"
PYTHON=/nonexistent expect 4 env FTENGINE="$FTENGINE" "$SOURCE_DIR/benchmarks/gpu_check.sh" steps ranking report
well_formed steps=skipped ranking=skipped report=skipped
printf '#!/bin/sh\nexit 0\n' | tee "$BUILD/gpu_ops" >"$BUILD/gpu_device" # an exit status alone proves nothing
expect 1 check ops context
well_formed ops=FAILED context=FAILED
rm "$BUILD/gpu_ops"
expect 4 check ops
well_formed ops=skipped
expect 2 check ops nonsense

# Kernels are compiled for the chip that is there, where it is one of those that they are made for.
mkdir stubs
printf '#!/bin/sh\necho 9.0\n' >stubs/nvidia-smi
printf '#!/bin/sh\necho "$@" >>"%s/cmake.log"\n' "$scratch" >stubs/cmake
chmod +x stubs/*
expect 0 env PATH="$scratch/stubs:$PATH" BUILD="$scratch/built" RESULTS="$results" "$SOURCE_DIR/benchmarks/gpu_check.sh" build
well_formed build=passed
grep -q -- '-D FT_CUDA_TARGETS=90a$' cmake.log || fail "not compiled for sm_90a: $(cat cmake.log)"

# ---- packed ------------------------------------------------------------------------------------------------------------------
expect 0 env FTENGINE="$FTENGINE" "$SOURCE_DIR/benchmarks/gpu_check.sh" pack
well_formed pack=passed
mv "$BUILD/carry" "$scratch/elsewhere"
expect 0 env -i "$scratch/elsewhere/ftengine" --version
expect 0 env -i "$scratch/elsewhere/ftengine" train "$here/follow.ini" train.max_steps=1 eval.strategy=no data.cache_dir=none \
    device.name=cpu output.dir="$scratch/carried"
[ "$(json carried/run.json 'd["status"]')" = completed ] || fail "the packed program: $(cat err)"
exit 0
