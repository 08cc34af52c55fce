#!/usr/bin/env bash
# One run on several GPUs, what test_ranks.sh leaves out: sums in any order, several micro-batches, a model with gradients at the end of a step and a loss
# scale, early checkpoints with any number of ranks, a rank whose sums fail, one that is told to stop.
# ctest: label=full_size sanitize=leave
steps=4
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/ranks_of_gpus.sh" || exit 1

# shellcheck disable=SC2086
trained one bert cuda:0 $options
ranks two bert 2
for schedule in 1 2 3 4; do
    FAKE_CUDA=$FAKE_CUDA,schedule=$schedule ranks again-$schedule bert 2
    same two again-$schedule
done
FAKE_NCCL=drawn=1,seed=3 ranks drawn bert 3
beside 2e-5 one drawn

pieces="train.gradient_accumulation_steps=2 train.micro_batch=3"
# shellcheck disable=SC2086
{
    trained pieces-1 bert cuda:0 $options $pieces
    ranks pieces-3 bert 3 $pieces device.graphs=on
    beside 2e-5 pieces-1 pieces-3
    # Layers whose gradients are pieces by themselves; fewer texts than ranks in some steps.
    model wide bert_gelu intermediate_size=8192
    ranks wide-3 wide 3 train.batch_size=5 data.train="$scratch/few.tsv"
    FAKE_CUDA=$FAKE_CUDA,schedule=2 ranks wide-again wide 3 train.batch_size=5 data.train="$scratch/few.tsv"
    FAKE_CUDA=$FAKE_CUDA,schedule=2 FAKE_NCCL=rank=1,busy=2,late=1 ranks wide-gradients wide 3 train.batch_size=5 data.train="$scratch/few.tsv" distributed.shard=gradients
}
same wide-3 wide-again
same wide-3 wide-gradients
cmp wide-3/checkpoints/step-00000004/state.safetensors wide-gradients/checkpoints/step-00000004/state.safetensors || fail "gradients in pieces, dealt out"
model v3 deberta_v3
for precision in fp16 bf16; do
    # shellcheck disable=SC2086
    trained "$precision-1" v3 cuda:0 $options train.precision=$precision
    ranks "$precision-2" v3 2 train.precision=$precision
    beside 3e-2 "$precision-1" "$precision-2"
    ranks "$precision-dealt" v3 2 train.precision=$precision distributed.shard=optimizer
    same "$precision-2" "$precision-dealt"
    ranks "$precision-gradients" v3 2 train.precision=$precision distributed.shard=gradients
    for how in dealt gradients; do
        same "$precision-2" "$precision-$how"
        cmp "$precision-2/checkpoints/step-00000004/state.safetensors" "$precision-$how/checkpoints/step-00000004/state.safetensors" || fail "$precision: $how"
    done
done
ranks graphs v3 2 device.graphs=on
ranks graphs-gradients v3 2 device.graphs=on distributed.shard=gradients
same graphs graphs-gradients

# Four ranks, then one, then three: whatever is dealt out, the bits are those of ranks that have all.
chain() {
    local shard=$1 n at=0
    for n in 4 1 3; do
        [ $at = 0 ] || cp -r "$shard-$at" "$shard-$((at + 2))"
        rm -rf "$shard-$((at + 2))"/checkpoints/step-0000000{$((at + 2)),6}
        at=$((at + 2))
        # shellcheck disable=SC2086
        expect 0 "$FTENGINE" train $run $options model.path=bert train.max_steps=6 output.dir="$shard-$at" output.exists=resume train.precision=bf16 \
            distributed.shard="$shard" --devices "cuda:$(seq -s, 0 $((n - 1)))"
        [ $at = 2 ] || says "resumed    at step $((at - 2))"
    done
}
# From all that is dealt out to nothing, and back.
ranks dealt bert 2 distributed.shard=gradients
from dealt 2 dealt-none
from two 2 none-dealt distributed.shard=gradients
for dir in dealt dealt-none none-dealt; do
    same two $dir
done
chain none
chain gradients
for at in 2 4 6; do
    same "none-$at" "gradients-$at"
    cmp "none-$at/checkpoints/step-00000006/state.safetensors" "gradients-$at/checkpoints/step-00000006/state.safetensors" || fail "a chain of ranks: $at"
done

# Started by somebody else, as torchrun does.
pids=
for r in 0 1; do
    # shellcheck disable=SC2086
    RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)) TORCHELASTIC_RUN_ID=gpus-$$ \
        "$FTENGINE" train $run $options model.path=bert output.dir=launched device.name=cuda >out-$r 2>err-$r </dev/null &
    pids="$pids $!"
done
for pid in $pids; do wait "$pid" || fail "ranks that were launched: $(cat err-0 err-1)"; done
same two launched

# With a test set, adapters, and moments in memory of the host.
for form in "data.test=$here/validation.tsv train.patience=1 train.min_delta=10" "adapter.type=lora adapter.r=4 adapter.init=false" memory.offload=optimizer; do
    name=$(echo "$form" | cut -c1-6)
    # shellcheck disable=SC2086
    {
        trained "$name-1" bert cuda:0 $options $form
        ranks "$name-2" bert 2 $form
    }
    beside 2e-5 "$name-1" "$name-2"
done

for n in 1 3; do
    from two "$n" "from-$n"
    beside 2e-5 one "from-$n"
done
lost failed rank=1,fail_at=9
one_error "rank 1 on $(hostname): "
[ "$(json failed/run.json 'd["status"]')" = failed ] || fail "run.json of a run whose sums failed"
for at in 1 2 5 8 13 15; do
    lost "dead-$at" "rank=0,die_at=$at"
    one_error "rank 0 on $(hostname) was killed by signal 9"
done
# shellcheck disable=SC2086
"$FTENGINE" train $run $options model.path=bert train.max_steps=100000 eval.steps=100000 output.dir=stopped --devices cuda:0,1 >out 2>err &
pid=$!
for _ in $(seq 6000); do
    [ "$(cat stopped/metrics.jsonl 2>/dev/null | wc -l)" -gt 2 ] && break
    kill -0 $pid 2>/dev/null || break
    sleep 0.01
done
kill -INT "$(pgrep -P $pid -f "rank 1 ")"
wait $pid
[ $? = 130 ] && [ "$(grep -c "stopped at step" err)" = 1 ] || fail "a rank that was told to stop"
exit 0
