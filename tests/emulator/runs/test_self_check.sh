#!/usr/bin/env bash
# A run on an emulated chip of compute capability 9.0: attention on warpgroups is checked before anything is computed. With a fault planted in
# the copy engine's maps it is left alone: one line says so, and the numbers are mma.sync's, to the bit.
# ctest: tsan=leave asan_part=1
steps=2
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
clean=$FAKE_CUDA,capability=90
model wide trainer/model hidden_size=128 num_attention_heads=2 num_hidden_layers=1
head -9 "$here/validation.tsv" >few.tsv
few="train.precision=bf16 train.batch_size=4 data.validation=few.tsv"
line='attention on warpgroups of cuda:0 is left alone, mma.sync computes it: '

# shellcheck disable=SC2086
{
    export FAKE_CUDA=$clean
    FTENGINE_ATTENTION=mma trained mma wide cuda $few
    grep -qF "$line" err && fail "who names a path is not checked"
    trained checked wide cuda $few
    grep -qF "$line" err && fail "nothing is wrong"
    [ "$(json mma/run.json 'd["attention"]') $(json checked/run.json 'd["attention"]')" = "mma.sync wgmma" ] || fail "run.json: other paths"
    beside 0.02 mma checked

    # Whoever passed has warpgroups: a fault that comes later is in the numbers.
    export FAKE_CUDA=$clean,map_columns=8
    trained late wide cuda $few
    cmp -s mma/model/model.safetensors late/model/model.safetensors && fail "warpgroups were not there"
    rm -r "$XDG_CACHE_HOME"
    trained fallen wide cuda $few
}
[ "$(grep -cF "$line" err)" = 1 ] || fail "not one line"
[ "$(grep -cF "$line" fallen/train.log)" = 1 ] || fail "not in train.log"
[ "$(json fallen/run.json 'd["attention"]')" = mma.sync ] || fail "run.json has another path"
cmp mma/model/model.safetensors fallen/model/model.safetensors || fail "other numbers than those of mma.sync"
# Found once, told by every run: the fault is not there any more, the verdict is.
export FAKE_CUDA=$clean
expect 0 "$FTENGINE" predict fallen --data few.tsv --output predictions.jsonl device.name=cuda
says "$line"
exit 0
