#!/usr/bin/env bash
# The configurations that ship: each parses, needs what its comment says and fits its budget; one of them trains, from the
# built-in numbers of its model alone. And `include`, by which they share a base. configs/oom: test_oom_configs.sh.
# ctest: asan_part=1
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
configs=$SOURCE_DIR/configs

# ---- parsed, and planned within the stated budget ----------------------------------------------------------------------
planned=0
for file in "$configs"/*.ini "$configs"/spaces/*.ini; do
    expect 0 "$FTENGINE" config "$file"
    stated=$(sed -n 's/^# Planned peak with [^:]*: \([^ ]*\) GiB .*/\1/p' "$file")
    [ -n "$stated" ] || continue
    labels=$(sed -n 's/^# Planned peak .* --labels \([0-9]*\)).*/\1/p' "$file")
    expect 0 "$FTENGINE" plan "$file" data.train= data.validation= --labels "$labels" device.threads=2 --json
    peak=$(json out '"%.2f" % (d["memory"]["peak_reserved_bytes"] / 2**30)')
    [ "$peak" = "$stated" ] || fail "$file says it needs $stated GiB, it needs $peak"
    [ "$(json out 'd["fits"]')" = True ] || fail "$file does not fit its budget"
    grep -q '^limit = ' "$file" || fail "$file states no budget"
    expect 0 "$FTENGINE" plan "$file" # as a visitor types it, who has neither the texts nor the model
    planned=$((planned + 1))
done
for file in minilm_quickstart ratings trec tune; do
    expect 0 "$FTENGINE" plan "$configs/$file.ini" --json
    [ "$(json out 'd["verdict"]')" = fits ] || fail "$file: $(cat out)"
done
[ $planned -ge 10 ] || fail "only $planned configurations were planned"

# ---- a run without a download ------------------------------------------------------------------------------------------
quick="model.init=random model.stand_in_tokenizer=$here/model data.train=$here/train.tsv data.validation= train.max_steps=1 train.batch_size=4 data.max_length=16"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train "$configs/deberta_base_memory_safe.ini" $quick output.dir=run
says "random weights in the shape of microsoft/deberta-base and the tokenizer of $here/model: good for memory and speed, the accuracy means nothing"
[ "$(json run/run.json 'd["status"]')" = completed ] || fail "the run did not complete"
[ "$(json run/run.json 'd["memory"]["peak_reserved_bytes"] < 4 * 2**30')" = True ] || fail "it took more than its budget"
cmp run/model/vocab.txt "$here/model/vocab.txt" || fail "the stand-in's vocabulary is not saved with the model"
rm -rf run
# Without weights and without asking for random ones it is refused, and told how.
expect 2 "$FTENGINE" train "$configs/bert_base.ini" "data.train=$here/train.tsv" data.validation=
one_error bert-base-uncased

# ---- include -----------------------------------------------------------------------------------------------------------
mkdir -p sub
printf '[train]\nbatch_size = 7\nepochs = 9\nseed = 3\n[data]\ntrain = texts.tsv\n[space]\ntrain.seed = int(1, 5)\n' >sub/base.ini
printf 'include = sub/base.ini\n[train]\nepochs = 2\nseed = 4\n' >top.ini
expect 0 "$FTENGINE" config top.ini
grep -qx 'batch_size = 7' out || fail "the included file's value is lost"
grep -qx 'epochs = 2' out || fail "the including file does not count more"
grep -qx "train = $scratch/sub/texts.tsv" out || fail "a path of the included file does not start there: $(grep '^train' out)"
grep -q 'int(1, 5)' out && fail "an option set by the including file is still searched"
refused() { # TEXT: top.ini is refused with it
    expect 2 "$FTENGINE" config top.ini
    one_error "$1"
}
printf 'include = missing.ini\n' >top.ini
refused "missing.ini to include (top.ini:1)"
printf '[train]\nepochs = 2\n[]\ninclude = sub/base.ini\n' >top.ini
refused "include stands before all sections"
printf 'include = sub/base.ini\ninclude = sub/base.ini\n' >top.ini
refused "include stands before all sections and options, and once (top.ini:2)"
printf 'include = top.ini\n' >top.ini
refused "is it a circle?"
printf 'include = sub\n' >top.ini
refused "is a directory, not a configuration file"
echo "all good: $planned configurations planned"
