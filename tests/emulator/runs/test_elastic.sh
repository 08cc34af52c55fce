#!/usr/bin/env bash
# A run on several GPUs of which one breaks in the middle and stays broken goes on from the last checkpoint with those that are left, as one does that is
# resumed with them: where the driver does not see it any more and counts the others anew, where it cannot be opened, and with one GPU left. One that is well
# again takes part again. Not with fewer than distributed.min_ranks; and no further error of another kind.
# ctest: sanitize=leave cost=40
steps=4
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/ranks_of_gpus.sh" || exit 1

# breaks DIR HOW CODE GPUS OPTION...: cuda:1 does when the first checkpoint is there
breaks() {
    local dir=$1 how=$2 code=$3 gpus=$4
    shift 4
    # shellcheck disable=SC2086
    FAKE_BROKEN="device=1,how=$how,from=$scratch/$dir/checkpoints/step-0000000$((steps / 2))" expect "$code" "$FTENGINE" train $run $options model.path=bert \
        output.dir="$dir" --devices "cuda:$gpus" "$@"
}
loss="rank 1 on $(hostname): CUDA_ERROR_ECC_UNCORRECTABLE"
# went_on DIR DEVICES WORDS: how it ended, and what was said of it
went_on() {
    says "$loss"
    says "; restart 1 of at most 2, from the last checkpoint$3"
    grep -qF "; restart 1 of at most 2, from the last checkpoint$3" "$1/train.log" || fail "train.log of $1 lacks it"
    [ "$(grep -c "^warning: rank .*restart" err)" = 1 ] || fail "$1: not one restart"
    [ "$(json "$1/run.json" '[r["device"] for r in d["devices"]], d["status"]')" = "$2" ] || fail "$1 was on $(json "$1/run.json" 'd["devices"]')"
}

ranks three bert 3
from three 2 two-left
breaks gone gone 0 0,1,2 distributed.max_restarts=2
went_on gone "(['cuda:0', 'cuda:1'], 'completed')" ", with 2 ranks instead of 3: cuda:1 is left out (the driver does not see it any more)"
same two-left gone
[ "$(json gone/run.json '[(r["rank"], r["device"], r["checkpoint"], r["ranks_before"], r["ranks"], [(l["rank"], l["device"]) for l in r["left_out"]]) for r in d["restarts"]]')" = \
    "[(1, 'cuda:1', 2, 3, 2, [(1, 'cuda:1')])]" ] || fail "restarts in run.json: $(json gone/run.json 'd["restarts"]')"
breaks refused refused 0 0,1,2 distributed.max_restarts=2
went_on refused "(['cuda:0', 'cuda:2'], 'completed')" ", with 2 ranks instead of 3: cuda:1 is left out (CUDA_ERROR_DEVICE_UNAVAILABLE"
same two-left refused
breaks healed healed 0 0,1,2 distributed.max_restarts=2
went_on healed "(['cuda:0', 'cuda:1', 'cuda:2'], 'completed')" ""
grep -q "left out" err && fail "a GPU that is well again was left out"
same three healed

# A launcher's ranks, which go on in a run of more GPUs.
cp -r three launched && rm -r "launched/checkpoints/step-0000000$steps"
pids=
for r in 0 1; do
    RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)) TORCHELASTIC_RUN_ID=gpus-$$ \
        "$FTENGINE" train launched >"out-$r" 2>"err-$r" </dev/null &
    pids="$pids $!"
done
for pid in $pids; do wait "$pid" || fail "ranks that were launched: $(cat err-0 err-1)"; done
same two-left launched

# One is left: a run of one process.
ranks two bert 2
from two 1 one-left
breaks one refused 0 0,1 distributed.max_restarts=2 distributed.shard=gradients
says "$loss"
says ", with 1 rank instead of 2: cuda:1 is left out"
[ "$(json one/run.json 'd["device"], d.get("devices"), d["status"], len(d["restarts"])')" = "('cuda:0', None, 'completed', 1)" ] || fail "one: $(json one/run.json 'd["device"], d.get("devices")')"
same one-left one

breaks few gone 1 0,1,2 distributed.max_restarts=2 distributed.min_ranks=3
one_error "$loss"
one_error "it does not go on, with 2 ranks instead of 3: cuda:1 is left out (the driver does not see it any more)"
one_error "distributed.min_ranks"
breaks never refused 1 0,1,2
one_error "$loss"
lost failed rank=1,fail_at=9 # no GPU is at fault
FAKE_NCCL=rank=1,fail_at=9 breaks failed-again healed 1 2,3 distributed.max_restarts=2
grep -q "restart 1 of" err && fail "an error that would come again was tried again"
exit 0
