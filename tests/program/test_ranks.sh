#!/usr/bin/env bash
# One run on several CPU ranks has the bits of one rank: any number of ranks and any micro-batch, over models, adapters, dropout, accumulation, evaluation and
# early stopping; resumed with another number of ranks; stopped, killed, and what cannot be.
# ctest: cost=20 asan_part=3
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/same_runs.sh" || exit 1
common="$here/follow.ini data.validation=$here/validation.tsv data.cache_dir=none eval.strategy=steps eval.steps=4 output.save_steps=4 train.max_steps=8
        train.warmup_steps=3 train.logging_steps=1 model.hidden_dropout=0.1 model.attention_dropout=0.1 device.threads=1"

# train DIR OPTIONS...
train() {
    local dir=$1
    shift
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common "$@" output.dir="$dir"
}
many() { # many N: cpu,cpu,...
    local list=cpu
    for _ in $(seq 2 "$1"); do list=$list,cpu; done
    echo $list
}

# With a test set; the whole batch, which is cut, and small pieces; more ranks than the last batch of an epoch has texts.
bert="data.test=$here/validation.tsv train.gradient_accumulation_steps=2"
# shellcheck disable=SC2086
{
    train bert1 $bert
    train bert2 $bert --devices cpu,cpu distributed.shard=optimizer
    says "ranks      2 on "
    says "distributed.shard is of GPUs"
    train bert3 $bert device.name=cpu,cpu,cpu train.micro_batch=2 train.gradient_checkpointing=on
    train bert9 $bert device.name="$(many 9)" train.gradient_accumulation_steps=1 train.batch_size=16 eval.batch_size=2
}
for n in 2 3 9; do same bert1 bert$n; done
grep -q "Training Start" bert2/rank-1.log && [ ! -e bert2/rank-2.log ] || fail "rank-1.log of two ranks holds: $(cat bert2/rank-1.log)"
# What is planned is what is taken, on every rank, and what all have in common is there once.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $common $bert device.name=cpu,cpu --json
cp out plan.json
python3 - bert2/run.json bert3/run.json plan.json <<'PYTHON' || fail "run.json of ranks"
import json, sys
two, three, plan = (json.load(open(path)) for path in sys.argv[1:])
assert plan["memory"]["shared_bytes"] == two["memory"]["shared_bytes"] and plan["memory"]["peak_reserved_bytes"] == two["memory"]["peak_reserved_bytes"], plan["memory"]
for run, n in (two, 2), (three, 3):
    ranks = run["devices"]
    assert [r["rank"] for r in ranks] == list(range(n)) and {r["device"] for r in ranks} == {"cpu"}, ranks
    first, *others = (r["memory"] for r in ranks)
    assert first["shared"].keys() >= {"weights", "gradients", "optimizer"} and not any("shared_bytes" in m for m in others), ranks
    for key in "peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "shared_bytes", "shared":
        assert run["planned"][key] == run["memory"][key], (key, run["planned"][key], run["memory"][key])
    assert all(m["peak_allocated_bytes"] > 0 and m["at_peak"]["weights"] < first["shared"]["weights"] / 2 for m in others), others
PYTHON

# Adapters, 16 bits, texts of mixed lengths by tokens, layers that share all weights; with the same micro-batches ALBERT too has the bits of one rank.
lora="adapter.type=lora adapter.r=4 adapter.dropout=0.1 train.learning_rate=1e-3 model.ignore_mismatched_sizes=true"
bf16="train.precision=bf16 train.micro_batch_tokens=40 train.weight_decay=0.1"
narrow="train.precision=bf16 train.residual=16bit train.micro_batch_tokens=40"
for form in lora bf16 narrow; do
    # shellcheck disable=SC2086
    train $form-1 ${!form}
    # shellcheck disable=SC2086
    train $form-2 ${!form} --devices cpu,cpu
    same $form-1 $form-2
done
for family in deberta_v3 albert; do
    mkdir "$family" && cp "$here/model/vocab.txt" "$family" && echo '{"tokenizer_class": "BertTokenizer"}' >"$family/tokenizer_config.json"
    python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1])) | {"vocab_size": len(open(sys.argv[2]).readlines())}, open(sys.argv[3], "w"))' \
        "$SOURCE_DIR/tests/vectors/$family/config.json" "$here/model/vocab.txt" "$family/config.json" || fail "no config.json for $family"
    small="model.path=$family model.init=random data.max_length=16 train.micro_batch=3"
    # shellcheck disable=SC2086
    train "$family-1" $small
    # shellcheck disable=SC2086
    train "$family-2" $small --devices cpu,cpu
    same "$family-1" "$family-2"
done

# 4 ranks, then 1, then 3, as if stopped in between; early stopping at the same step.
early="train.max_steps=24 train.patience=2 train.min_delta=10 output.save_total_limit=9"
# go_on STEP DEVICES: from the checkpoint of that step
go_on() {
    for state in moved/checkpoints/*; do [ "$(basename "$state")" = "step-0000000$1" ] || rm -r "$state"; done
    # shellcheck disable=SC2086
    train moved $early output.exists=resume device.name="$2"
    says "resumed    at step $1"
}
# shellcheck disable=SC2086
{
    train whole $early
    train moved $early device.name="$(many 4)"
}
says "stopping early"
same whole moved
go_on 4 cpu
go_on 8 cpu,cpu,cpu
same whole moved

# A signal to any of them stops all after the same step, and is said once; a rank that is killed ends all, is named, and the run goes on.
long="train.max_steps=200 output.save_steps=10 eval.steps=100"
# shellcheck disable=SC2086
train long $long
ranks_of() { pgrep -P "$1" -f "rank $2 "; }
# begin N [DIR OPTIONS]: in the background, until more than N lines are logged
begin() {
    local dir=${2:-long2}
    # shellcheck disable=SC2086
    "$FTENGINE" train $common $long --devices cpu,cpu output.dir="$dir" "${@:3}" output.exists=resume >out 2>err &
    pid=$!
    for _ in $(seq 6000); do
        [ "$(cat "$dir/metrics.jsonl" 2>/dev/null | wc -l)" -gt "$1" ] && return
        kill -0 $pid 2>/dev/null || return
        sleep 0.01
    done
}
begin 5
kill -INT "$(ranks_of $pid 1)"
wait $pid
[ $? = 130 ] && [ "$(grep -c "stopped at step" err)" = 1 ] || fail "a rank that was told to stop"
begin "$(wc -l <long2/metrics.jsonl)"
one=$(ranks_of $pid 1)
kill -9 "$one"
wait $pid
[ $? = 1 ] && one_error "rank 1 on $(hostname) was killed by signal 9" || fail "a killed rank"
[ "$(json long2/run.json 'd["status"]')" = failed ] || fail "run.json of a run that lost a rank"
begin "$(wc -l <long2/metrics.jsonl)"
kill -9 "$(ranks_of $pid 0)"
wait $pid
[ $? = 1 ] && one_error "rank 0 on $(hostname) was killed by signal 9" || fail "a killed first rank"
pgrep -f "rank [01] 2 .*output.dir=long2" >/dev/null && fail "a rank outlived its run"
begin "$(wc -l <long2/metrics.jsonl)"
kill -9 $pid # who started them
wait $pid
for _ in $(seq 6000); do pgrep -f "rank [01] 2 .*output.dir=long2" >/dev/null || break; sleep 0.01; done
pgrep -f "rank [01] 2 .*output.dir=long2" >/dev/null && fail "a rank outlived who started it"
# shellcheck disable=SC2086
train long2 $long output.exists=resume --devices cpu,cpu
same long long2

# With distributed.max_restarts it goes on by itself, to the same end; so many times and no more.
begin 30 long3 distributed.max_restarts=1
kill -9 "$(ranks_of $pid 0)"
wait $pid
[ $? = 0 ] || fail "a run that lost a rank did not go on"
says "rank 0 on $(hostname) was killed by signal 9 (Killed); restart 1 of at most 1, from the last checkpoint"
same long long3
begin 30 long4 distributed.max_restarts=1
kill -9 "$(ranks_of $pid 1)"
for _ in $(seq 6000); do grep -q "restart 1 of" err && again=$(ranks_of $pid 1) && [ -n "$again" ] && kill -9 "$again" && break; sleep 0.01; done
wait $pid
[ $? = 1 ] && one_error "rank 1 on $(hostname) was killed by signal 9" || fail "a second loss"

# What cannot be, each by one clear error.
refused() { # refused WORDS OPTIONS...
    local words=$1
    shift
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $common --devices cpu,cpu output.dir=refused "$@"
    one_error "$words"
    [ ! -e refused ] || fail "a refused run left a directory"
}
refused "not with several devices (cpu,cpu): a run of several seeds" train.seeds=1,2
refused "a run of all folds" data.folds=3 data.validation=
refused "train.deadline" train.deadline=1h
refused "training a head alone" train.parameters=classifier
refused "on the CPU or on GPUs, not on both" --devices cuda:0,cpu
refused "a GPU has one rank" --devices=cuda:0,0
refused "device.name" --devices cpu,gpu
refused "none.tsv" data.train=none.tsv
exit 0
