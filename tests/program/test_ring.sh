#!/usr/bin/env bash
# distributed.reduction = ring: CPU ranks that each add up gradients of their own. A run follows one rank's, over models, adapters, frozen parts, precisions, micro-batches and
# ranks without one; the same ranks have the same bits again, also after a stop; the memory is what was planned; what does not go with it is refused.
# ctest: part=0 cost=20 asan_part=3
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/same_runs.sh" || exit 1
common="$here/follow.ini data.validation=$here/validation.tsv data.cache_dir=none eval.strategy=steps eval.steps=4 output.save_steps=4 train.max_steps=8
        train.warmup_steps=3 train.learning_rate=3e-4 model.hidden_dropout=0.1 model.attention_dropout=0.1 device.threads=1 output.save_total_limit=9"

# train DIR OPTIONS...
train() {
    local dir=$1
    shift
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common "$@" output.dir="$dir"
}
ring() { train "$@" distributed.reduction=ring; }
many() { # many N: cpu,cpu,...
    local list=cpu
    for _ in $(seq 2 "$1"); do list=$list,cpu; done
    echo $list
}
# beside A B: the figures of two runs, as near as those of GPUs are to one's; and what gradients were, tensor by tensor, by the moments that are saved
beside() {
    python3 - "$@" <<'PYTHON' || fail "$1 and $2 went different ways"
import array, glob, json, os, struct, sys
runs = sys.argv[1:]
lines = [[json.loads(line) for line in open(run + "/metrics.jsonl")] for run in runs]
assert len(lines[0]) == len(lines[1]) >= 8, [len(l) for l in lines]
most = 0
for a, b in zip(*lines):
    assert a.keys() == b.keys(), (a, b)
    for key in a:
        if key != "tokens_per_second" and isinstance(a[key], (int, float)):
            most = max(most, abs(a[key] - b[key]) / max(1, abs(a[key])))
            assert abs(a[key] - b[key]) <= 2e-5 * max(1, abs(a[key])), (key, a, b)

def moments(run):
    with open(max(glob.glob(run + "/checkpoints/step-*/state.safetensors")), "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {name: array.array("f", data[slice(*t["data_offsets"])]) for name, t in head.items() if name.startswith("exp_avg.")}

one, other = map(moments, runs)
assert one.keys() == other.keys() and one, (one.keys(), other.keys())
largest, apart = max(max(map(abs, m)) for m in one.values()), 0
for name in one: # where the gradient is no more than rounding (keys' biases) it says nothing
    scale = max(max(map(abs, one[name])), 1e-5 * largest)
    worst = max(abs(x - y) for x, y in zip(one[name], other[name])) / scale
    apart = max(apart, worst)
    assert worst < 0.02, (name, worst)
print(f"{runs[1]}: figures {most:.1e}, moments {apart:.1e} apart")
PYTHON
}
# planned DIR RANKS CHAINED: what each rank took is what was planned, and gradients are there once a rank, beside once in the run CHAINED
planned() {
    python3 - "$1/run.json" "$2" "$3/run.json" <<'PYTHON' || fail "run.json of $1"
import json, sys
run, n, chained = json.load(open(sys.argv[1])), int(sys.argv[2]), json.load(open(sys.argv[3]))
assert len(run["devices"]) == n
for key in "peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "shared_bytes", "shared", "at_peak":
    assert run["planned"][key] == run["memory"][key], (key, run["planned"][key], run["memory"][key])
first, *others = (r["memory"] for r in run["devices"])
assert not any("shared_bytes" in m for m in others), others
of, once = first["shared"], chained["devices"][0]["memory"]["shared"]
slot = of["gradients"] // n
assert of["gradients"] == n * slot and 0 <= slot - once["gradients"] < 512, (of, once)
assert all(of[k] == once[k] for k in of if k != "gradients" and k in ("weights", "optimizer", "adapters")), (of, once)
PYTHON
}

for family in deberta_v3 albert mpnet; do
    mkdir "$family" && cp "$here/model/vocab.txt" "$family" && echo '{"tokenizer_class": "BertTokenizer"}' >"$family/tokenizer_config.json"
    python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1])) | {"vocab_size": len(open(sys.argv[2]).readlines())}, open(sys.argv[3], "w"))' \
        "$SOURCE_DIR/tests/vectors/$family/config.json" "$here/model/vocab.txt" "$family/config.json" || fail "no config.json for $family"
done

# NAME RANKS OPTIONS: of 8 texts a batch; with several micro-batches a rank, and with more ranks than a batch has pieces
random="model.init=random data.max_length=16"
while read -r name n options; do
    # shellcheck disable=SC2086
    {
        train "$name-one" $options
        train "$name-chain" $options device.name="$(many "$n")"
        ring "$name-ring" $options device.name="$(many "$n")"
        says "ranks      $n on $(hostname), 1 thread each: each adds up its own gradients, and then they are summed"
        beside "$name-one" "$name-ring"
        planned "$name-ring" "$n" "$name-chain"
        ring "$name-again" $options device.name="$(many "$n")"
    }
    same "$name-ring" "$name-again"
    cmp -s "$name-ring/model/model.safetensors" "$name-chain/model/model.safetensors" && fail "$name: the bits of a chain"
done <<CASES
bert 2 data.test=$here/validation.tsv train.gradient_accumulation_steps=2
pieces 3 train.micro_batch=1 train.gradient_checkpointing=on
many 9 train.batch_size=16 eval.batch_size=2
lora 2 adapter.type=lora adapter.r=4 adapter.dropout=0.1 train.learning_rate=1e-3
frozen 2 model.freeze_layers=1 model.freeze=embeddings
bf16 2 train.precision=bf16 train.micro_batch_tokens=40 train.weight_decay=0.1
fp16 2 train.precision=fp16
deberta 3 model.path=deberta_v3 $random
albert 2 model.path=albert $random train.micro_batch=3
mpnet 2 model.path=mpnet $random
CASES

# Early stopping, at the same step as one rank; from a checkpoint on, the same ranks have the same bits and others follow.
early="train.max_steps=24 train.patience=2 train.min_delta=10"
# shellcheck disable=SC2086
{
    train early-one $early
    ring whole $early --devices cpu,cpu
}
says "stopping early"
beside early-one whole
for n in 2 3 1; do
    cp -r whole "from-$n"
    for state in "from-$n"/checkpoints/*; do [ "$(basename "$state")" = step-00000004 ] || rm -r "$state"; done
    # shellcheck disable=SC2086
    ring "from-$n" $early output.exists=resume --devices "$(many $n)"
    says "resumed    at step 4"
    beside early-one "from-$n"
done
same whole from-2
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $common $early output.dir=from-2 output.exists=resume --devices cpu,cpu distributed.reduction=chain
one_error "this run cannot be resumed with another distributed.reduction: it was \"ring\", now it is \"chain\""
# A checkpoint of a program that did not know it is one of a chain.
cp -r early-one older
python3 - older/checkpoints/step-*/state.json <<'PYTHON'
import json, sys
for path in sys.argv[1:]:
    state = json.load(open(path))
    del state["run"]["distributed.reduction"]
    json.dump(state, open(path, "w"))
PYTHON
# shellcheck disable=SC2086
{
    expect 2 "$FTENGINE" train $common $early output.dir=older output.exists=resume distributed.reduction=ring
    one_error "another distributed.reduction: it was absent"
    train older $early output.exists=resume
}

# A rank that is killed ends all.
long="train.max_steps=4000 eval.steps=4000 output.save_steps=0"
# shellcheck disable=SC2086
"$FTENGINE" train $common $long --devices cpu,cpu distributed.reduction=ring output.dir=lost >out 2>err </dev/null &
pid=$!
for _ in $(seq 12000); do
    [ "$(cat lost/metrics.jsonl 2>/dev/null | wc -l)" -gt 3 ] && break
    kill -0 $pid 2>/dev/null || break
    sleep 0.01
done
kill -9 "$(pgrep -P $pid -f "rank 1 ")"
wait $pid
[ $? = 1 ] && one_error "rank 1 on $(hostname) was killed by signal 9" || fail "a killed rank"

# The plan, which says that every rank has a set.
# shellcheck disable=SC2086
{
    expect 0 "$FTENGINE" plan $common distributed.reduction=ring --devices cpu,cpu --json
    cp out plan.json
    expect 0 "$FTENGINE" plan $common distributed.reduction=ring --devices cpu,cpu
    grep -q "of which gradients, a set a rank" out || fail "a plan that does not say it: $(cat out)"
    ring plain device.name=cpu,cpu
    expect 0 "$FTENGINE" plan $common --devices cpu,cpu
    ! grep -q "a set a rank" out || fail "a chain's plan says it too: $(cat out)"
}
[ "$(json plan.json 'd["memory"]["shared_bytes"], d["memory"]["shared"], d["memory"]["peak_reserved_bytes"]')" = \
  "$(json plain/run.json 'd["memory"]["shared_bytes"], d["memory"]["shared"], d["memory"]["peak_reserved_bytes"]')" ] || fail "plan --devices says something else than what was taken"

for shard in optimizer gradients; do
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $common --devices cpu,cpu distributed.reduction=ring distributed.shard=$shard output.dir=refused
    one_error "not with distributed.reduction = ring of ranks on the CPU: each has its gradients whole (distributed.shard)"
    says "hint: distributed.shard=none"
    [ ! -e refused ] || fail "a refused run left a directory"
done
exit 0
