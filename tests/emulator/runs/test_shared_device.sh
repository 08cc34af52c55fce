#!/usr/bin/env bash
# study.share_devices on an emulated GPU: the same two trials share one whose kernels are short beside what it takes to start them, and do not share one with a
# single multiprocessor, on which they keep it busy; each GPU of two has a trial whatever they keep busy. Catches: shares that have nothing to
# do with the GPU, a device that is taken for another, a factor that is not that of the shares.
# ctest: tsan=leave cost=30
steps=4
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
unset FAKE_REPORT           # of one process
export OMP_NUM_THREADS=4    # cores, whatever this machine has
model wide trainer/model hidden_size=128 intermediate_size=512 num_hidden_layers=2 num_attention_heads=4
cat >shared.ini <<INI
include = $here/follow.ini
[model]
path = wide
init = random
[data]
validation = $here/validation.tsv
cache_dir = none
[device]
name = cuda
[train]
max_steps = $steps
batch_size = 8
[eval]
strategy = no
[study]
objective = minimize train.loss
sampler = random
trials = 2
parallel = 2
[space]
train.seed = int(0, 1000)
INI
# shows STUDY EXPRESSION: of d, what `study show --json` says of sharing
shows() {
    expect 0 "$FTENGINE" study show "$1" --json
    [ "$(json out "($2)" | tr -d '\n')" = True ] || fail "$1: not $2: $(json out 'd["sharing"]') $(cat err)"
}
waits="waits for one of the 1 on its device to end"

expect 0 "$FTENGINE" tune shared.ini --study large
! grep -q "$waits" err || fail "there are gaps, and a trial waited: $(cat err)"
# Of two: 1 + the product of their shares, and that of the link, which small batches keep busy for next to nothing.
shows large '(lambda s: (s["shared"], s["held"]) == (2, 0) and all(0 < t["share"] < 0.9 and -1e-9 < t["predicted"] - 1 - s["trials"][0]["share"] * s["trials"][1]["share"] < 1e-3 for t in s["trials"]))(d["sharing"])'

export FAKE_CUDA=$FAKE_CUDA,multiprocessors=1
expect 0 "$FTENGINE" tune shared.ini --study small
grep -q "$waits" err || fail "the GPU has no gaps, and no trial waited: $(cat err)"
shows small '(lambda s: (s["shared"], s["held"]) == (0, 1) and s["trials"][0]["share"] > 0.9)(d["sharing"])'

export FAKE_CUDA=$FAKE_CUDA,devices=2
expect 0 "$FTENGINE" tune shared.ini --study two device.name=cuda:all
! grep -q "$waits" err || fail "a GPU was free, and a trial waited: $(cat err)"
shows two 'd["sharing"]["trials"] == []'
exit 0
