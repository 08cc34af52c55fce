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

# ---- tensor memory: chips of compute capability 10.0, and runs that ask for tcgen05. It is checked, and used; with the same fault, on another chip, and for
# a model that has nothing for it, mma.sync computes attention and one line says so, with mma.sync's numbers to the bit.
blackwell=${clean/capability=90/capability=100}
rm -rf "$XDG_CACHE_HOME" checked fallen late
left='attention on tensor memory (FTENGINE_ATTENTION=tcgen05) is left alone on cuda:0, mma.sync computes it: '
other='FTENGINE_ATTENTION=tcgen05 is for full attention in 16 bits with heads of 64 or 128, and this model has none'

# ran NAME MODEL LINES: with tcgen05 asked for; so many lines tell of mma.sync, in what is printed and in the run's log
ran() {
    # shellcheck disable=SC2086
    FTENGINE_ATTENTION=tcgen05 trained "$1" "$2" cuda $few
    [ "$(grep -cF -e "$left" -e "$other" err) $(grep -cF -e "$left" -e "$other" "$1/train.log")" = "$3 $3" ] || fail "$1: not $3 lines"
    [ "$(json "$1/run.json" 'd["attention"]')" = "$([ "$3" = 0 ] && echo tcgen05 || echo mma.sync)" ] || fail "$1: run.json has another path"
}
same() { cmp -s "$1/model/model.safetensors" "$2/model/model.safetensors"; }

export FAKE_CUDA=$blackwell
# shellcheck disable=SC2086
trained default wide cuda $few
[ "$(json default/run.json 'd["attention"]')" = mma.sync ] || fail "who does not ask has mma.sync"
ran checked wide 0
beside 0.02 default checked
# Whoever passed has it: a fault that comes later is in the numbers.
export FAKE_CUDA=$blackwell,map_columns=8
ran late wide 0
same default late && fail "tcgen05 was not there"
rm -r "$XDG_CACHE_HOME"
ran fallen wide 1
grep -qF "${left}out of bf16, heads of 64, is " err || fail "another reason"
same default fallen || fail "other numbers than those of mma.sync"
# Found once, told by every run.
export FAKE_CUDA=$blackwell
FTENGINE_ATTENTION=tcgen05 expect 0 "$FTENGINE" predict fallen --data few.tsv --output again.jsonl device.name=cuda
says "$left"

export FAKE_CUDA=$FAKE_CUDA,capability=80
ran ampere wide 1
grep -qF "${left}compute capability 10.0 and 10.3 have it, this is 8.0" err || fail "another reason"

# Models that have nothing for it: heads of another width, 32 bits, disentangled attention.
export FAKE_CUDA=$blackwell
rm -r "$XDG_CACHE_HOME"
model narrow trainer/model hidden_size=64,num_attention_heads=2 num_hidden_layers=1
ran slim narrow 1
grep -qF "$other (heads of another width): mma.sync computes it" err || fail "another reason"
model positions deberta_v3 num_hidden_layers=1
ran deberta positions 1
grep -qF "$other (disentangled attention): mma.sync computes it" err || fail "another reason"
few="train.precision=fp32 train.batch_size=4 data.validation=few.tsv"
ran precise wide 1
grep -qF "$other (it computes in fp32): mma.sync computes it" err || fail "another reason"
few="train.precision=auto train.batch_size=4 data.validation=few.tsv"
ran automatic wide 1
grep -qF "$other (it computes in fp32): mma.sync computes it" err || fail "auto is fp32 too, which nobody said"
exit 0
