#!/usr/bin/env bash
# One run on several GPUs follows one GPU, takes what was planned, has the same bits again in another order of queues, with moments dealt out and from
# graphs, goes on with another number of ranks, and ends when one of them is lost. Trials of a study have two GPUs each, with the results of such runs: all or
# none of a trial's GPUs are reserved, and a rank that is killed costs one retry. The rest: test_ranks_more.sh.
# ctest: part=2 asan_part=1 tsan=leave cost=60
steps=4
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/ranks_of_gpus.sh" || exit 1

# shellcheck disable=SC2086
trained one bert cuda:0 $options
ranks two bert 2
says "ranks      2 on $(hostname), cuda:0,cuda:1: gradients are summed by NCCL, 2 channels"
beside 2e-5 one two
# Of the word table only the rows of a step's words travel, some 60 of 264: in four steps less than half of it.
ranks table bert 2 memory.active_vocabulary=off
same two table
python3 - table/model/model.safetensors "$(sed -n 's/.* \([0-9]*\) bytes summed$/\1/p' report | head -1)" <<'PYTHON' || fail "what was summed"
import json, math, struct, sys
with open(sys.argv[1], "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
elements = {name: math.prod(t["shape"]) for name, t in header.items() if name != "__metadata__"}
table = next(n for name, n in elements.items() if "word_embeddings" in name)
rest, summed = 4 * 4 * (sum(elements.values()) - table), int(sys.argv[2])
assert rest + 4 * 4 * 20 * 36 < summed < rest + 4 * 4 * table / 2, (rest, summed, table)
PYTHON
# What is planned for GPUs that are here, to the byte.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $run $options model.path=bert --devices 2 --json
[ "$(json out 'd["communication_bytes"], d["memory"]["peak_reserved_bytes"], d["memory"]["peak_requested_bytes"]')" = \
  "$(json two/run.json 'd["devices"][1]["communication"]["bytes"], d["planned"]["peak_reserved_bytes"], d["planned"]["peak_requested_bytes"]')" ] ||
    fail "plan --devices 2 says something else: $(cat out)"

# Moments dealt out: the same checkpoint, and half of them on each.
FAKE_CUDA=$FAKE_CUDA,schedule=2 FAKE_NCCL=rank=1,busy=2,late=1 ranks dealt bert 2 distributed.shard=optimizer device.graphs=on
same two dealt
cmp two/checkpoints/step-00000004/state.safetensors dealt/checkpoints/step-00000004/state.safetensors || fail "moments that are dealt out are saved as others"
python3 - two/run.json dealt/run.json <<'PYTHON' || fail "what dealing out moments saves"
import json, sys
two, dealt = (json.load(open(path))["devices"][1]["memory"]["at_peak"]["optimizer"] for path in sys.argv[1:])
assert 0.49 < dealt / two < 0.55, (two, dealt)
PYTHON

# With gradients, of which a step is one micro-batch a rank: likewise. What is there at once is less than all of them.
ranks auto bert 2 distributed.shard=auto output.save_steps=0
says "distributed.shard = auto: nothing is dealt out, for all fits"
ranks gradients bert 2 distributed.shard=gradients
same two gradients
cmp two/checkpoints/step-00000004/state.safetensors gradients/checkpoints/step-00000004/state.safetensors || fail "gradients that are dealt out lead to others"
# All that is kept of several micro-batches is kept whole, and said to be.
expect 0 "$FTENGINE" plan $run $options model.path=bert --devices 2 --gpu H200 --channels 2 distributed.shard=gradients train.micro_batch=1
grep -q "gradients; a rank has several micro-batches a step, and keeps its gradients whole" out || fail "what a plan deals out: $(cat out)"

from dealt 3 from-dealt distributed.shard=optimizer
beside 2e-5 one from-dealt
lost dead rank=1,die_at=9
one_error "rank 1 on $(hostname) was killed by signal 9"

# shellcheck disable=SC2086
expect 4 "$FTENGINE" train $run model.path=bert output.dir=none --devices cuda:0,7
one_error "7"
# shellcheck disable=SC2086
FTENGINE_NCCL=$scratch/none.so expect 4 "$FTENGINE" train $run model.path=bert output.dir=none --devices cuda:all
one_error "FTENGINE_NCCL names a file that is not there"
[ ! -e none ] || fail "a run that could not start left a directory"

# ---- a study ---------------------------------------------------------------------------------------------------------------
# As many trials at a time as there are pairs of GPUs. Every first attempt loses its second rank behind the checkpoint in the middle; what is left has fewer sums.
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done; rm -rf "$scratch"' EXIT
export FAKE_CUDA=version=13000,memory=1073741824,devices=4
cat >study.ini <<INI
include = $here/follow.ini
[model]
path = $scratch/bert
init = random
hidden_dropout = 0.1
attention_dropout = 0.1
[data]
validation = $scratch/few.tsv
cache_dir = none
[train]
max_steps = $steps
[eval]
strategy = steps
steps = $((steps / 2))
[output]
save_steps = 2
[distributed]
channels = 2
[device]
wait = true
[study]
sampler = random
pruner = none
trials = 2
keep = all
devices_per_trial = 2
[space]
train.learning_rate = float(1e-4, 3e-2, log)
INI
retries() { # of the study's trials
    python3 -S -c 'import sqlite3, sys
print(sorted(int(v) for (v,) in sqlite3.connect(f"studies/{sys.argv[1]}/study.db").execute("SELECT value_json FROM trial_user_attributes WHERE key = ?", ("retries",))))' "$1"
}
rm -f report
FAKE_NCCL=rank=1,die_at=12 expect 0 "$FTENGINE" tune study.ini --study pairs --parallel auto device.name=cuda:all
[ "$(retries pairs)" = "[1, 1]" ] || fail "retries of two trials that each lost a rank: $(retries pairs)"
grep -qE "^(driver|cublasLt|nccl) ([1-9]|0 misuses, [1-9])" report && fail "a study: $(cat report)"
for pair in cuda:0,cuda:1 cuda:2,cuda:3; do grep -q "ranks      2 on .*, $pair: " studies/pairs/trials/*/log.txt || fail "no trial was on $pair"; done
for trial in 0 1; do
    expect 0 "$FTENGINE" train studies/pairs/trials/0000$trial/config.ini device.name=cuda:0,1 output.dir=alone-$trial
    same alone-$trial studies/pairs/trials/0000$trial
done

[ -z "${FT_SANITIZE:-}" ] || exit 0 # a sanitizer's own memory does not fit into what follows
# Two coordinators, whose pairs have a GPU in common with room for one trial: the second one's trial has neither of its GPUs until both have room.
export FTENGINE_LEDGER_CAPACITY=100MiB
held() { # held GPU: who has reserved something there
    "$FTENGINE" devices --json | python3 -S -c 'import json, sys
print(*(r["pid"] for d in json.load(sys.stdin)["devices"] if d["device"] == sys.argv[1] for r in d["reservations"]))' "$1"
}
until_there() { # until_there FILE WORDS
    for _ in $(seq 12000); do
        grep -qs "$2" "$1" && return
        sleep 0.01
    done
    fail "$1 lacks '$2': $(cat "$1")"
}
long="train.max_steps=12 eval.steps=12 output.save_steps=12"
# shellcheck disable=SC2086
{
    "$FTENGINE" tune study.ini --study shared device.name=cuda:1,2,3 $long >out-1 2>err-1 </dev/null &
    first=$!
    until_there studies/shared/trials/00000/metrics.jsonl '"step"'
    stopped=$(pgrep -f "worker .*$scratch/studies/shared")
    kill -STOP $stopped
    "$FTENGINE" tune study.ini --study shared device.name=cuda:0,1 $long >out-2 2>err-2 </dev/null &
    second=$!
}
until_there studies/shared/trials/00001/log.txt "waiting    until each of cuda:0,cuda:1 has room"
[ "$(wc -w <<<"$(held cuda:1)")" = 1 ] || fail "cuda:1 has not one trial: $(held cuda:1)"
for _ in $(seq 600); do # now and then it tries
    waiting=$(held cuda:0)
    [ -z "$waiting" ] && break
    sleep 0.1
done
[ -z "$waiting" ] || fail "a trial that waits for cuda:1 has reserved cuda:0"
expect 4 "$FTENGINE" train study.ini device.name=cuda:0,1 output.dir=late device.wait_timeout=1s device.check_interval=1s # a run waits in the same way
one_error "no room on cuda:1 after 1 seconds"
# shellcheck disable=SC2086
kill -CONT $stopped
wait $first || fail "the first coordinator: $(cat err-1)"
wait $second || fail "the second coordinator: $(cat err-2)"
grep -q "device.name has 3 GPUs, and a trial takes 2: the last one is idle" err-1 || fail "nothing is said of a GPU that is left over: $(cat err-1)"
[ "$(retries shared)" = "[]" ] || fail "a trial that had to wait was tried again"
[ "$(json studies/shared/trials/00001/run.json 'd["status"], [r["device"] for r in d["devices"]]')" = "('completed', ['cuda:0', 'cuda:1'])" ] ||
    fail "the trial that waited: $(cat studies/shared/trials/00001/run.json)"
exit 0
