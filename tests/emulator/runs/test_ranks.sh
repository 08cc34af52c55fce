#!/usr/bin/env bash
# One run on several GPUs follows one GPU, takes what was planned, has the same bits again in another order of queues, with moments dealt out and from
# graphs, goes on with another number of ranks, and ends when one of them is lost. The rest: test_ranks_more.sh.
# ctest: part=2 asan_part=1 tsan=leave cost=60
steps=4
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/ranks_of_gpus.sh" || exit 1

# shellcheck disable=SC2086
trained one bert cuda:0 $options
ranks two bert 2
says "ranks      2 on $(hostname), cuda:0,cuda:1: gradients are summed by NCCL, 2 channels"
beside 2e-5 one two
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
exit 0
