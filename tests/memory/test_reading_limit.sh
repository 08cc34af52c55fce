#!/usr/bin/env bash
# Files are read, and runs planned, within the limits that the run is held to: below them there is one line and exit code 3, no kill and
# nothing begun; what was planned runs. No rights are needed: memory.host_limit; and a cgroup where one can be made. What is caught: a
# file of some MB that is read into a limit which does not hold it, a refusal while reading of what fits, several runs of which the first
# alone is watched.
# ctest: sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/memory/cgroup.sh"
python3 - <<'PYTHON'
import random
rng = random.Random(1)
words = ["food", "music", "travel", "good", "bad", "the", "song"]
with open("texts.tsv", "w") as f:
    f.write("text\tlabel\n")
    for i in range(60000):
        f.write(" ".join(rng.choices(words, k=12)) + f" {i}\tc{i % 3}\n")
PYTHON
run=("$FTENGINE" train "$here/follow.ini" model.init=random "data.train=$scratch/texts.tsv" "data.validation=$here/few.tsv" data.max_length=16
    train.task=single_label train.max_steps=1 eval.strategy=no device.name=cpu device.threads=1 data.cache_dir=none output.dir=one)
head -200 texts.tsv >few.tsv
run=("${run[@]/$here\/few.tsv/$scratch/few.tsv}")

expect 0 "$FTENGINE" plan "${run[@]:2}" --json
need=$(json out 'd["host"]["peak_bytes"]')
[ "$(json out 'd["host"]["loading_bytes"] > 8e6')" = True ] || fail "the file is too small for this test: $(cat out)"
expect 0 "${run[@]}" "memory.host_limit=$need" && rm -rf one
for bytes in 5000000 7000000 9000000 $((need - (3 << 20))); do
    expect 3 "${run[@]}" "memory.host_limit=$bytes" && one_error memory.host_limit
    expect 3 "${run[@]}" "memory.host_limit=$bytes" train.seeds=1,2 && one_error memory.host_limit
    [ ! -e one ] || fail "a run was begun under memory.host_limit=$bytes"
done

need_cgroups
for bytes in 6000000 8000000 $((need - (3 << 20))); do
    in_cgroup "$bytes" "${run[@]}" >out 2>err </dev/null
    code=$?
    [ "$code" = 3 ] && [ "$KILLED" = 0 ] || fail "exit code $code in $bytes bytes, $KILLED killed"
    [ ! -e one ] || fail "a run was begun in $bytes bytes"
done
in_cgroup $((need + need / 100)) "${run[@]}" >out 2>err </dev/null || fail "not in what was planned, $KILLED killed"
