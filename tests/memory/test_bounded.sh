#!/usr/bin/env bash
# A data set a hundred times larger than what may be kept for it is evaluated and predicted: the same figures and the same file, byte for
# byte, as without a limit, and its counts are counted again here. How much a process needs is found with a few short rows, under
# memory.host_limit and under `ulimit -d` (which the kernel keeps, and nobody needs rights for); with the whole set it may have a hundredth
# of its bytes more. Where a cgroup can be made, there too. What is caught: anything that is kept for every byte, every probability or every
# line of predictions, in a plan or beside it, and figures that depend on where logits lie.
# ctest: sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/memory/cgroup.sh"
export TMPDIR=$scratch
python3 - <<'PYTHON'
import random
rng = random.Random(26)
words = ["food", "music", "travel", "good", "bad", "the", "song", "soup", "a", "of"]
long = " ".join(rng.choices(words, k=6600))
def row(i): # no more than its beginning is computed with, all of it is read
    return f"{' '.join(rng.choices(words, k=8))} {i}", f"\tc{i % 1000},c{i * 7 % 1000}\n"
with open("all.tsv", "w") as every, open("few.tsv", "w") as few, open("some.tsv", "w") as some, open("train.tsv", "w") as train:
    for f in (every, few, some, train): f.write("text\tlabel\n")
    for i in range(2100):
        text, labels = row(i)
        every.write(f"{text} {long}{labels}")
        if i < 1060: few.write(text + labels) # whose logits are more than a window of them already
        if i < 50: some.write(f"{text} {long}{labels}") # more than a piece of predict
    for i in range(1000): train.write(f"good food {i}\tc{i}\n")
PYTHON
bytes=$(stat -c %s all.tsv)
[ "$bytes" -gt $((33 << 20)) ] || fail "the file is small, and not read in pieces: $bytes"
kept=$((bytes / 100))

# Weights of some MB: they come when the piece of a file that is read has gone.
expect 0 "$FTENGINE" train "$here/follow.ini" "data.train=$scratch/train.tsv" train.task=multi_label eval.strategy=no data.max_length=16 train.max_steps=1 \
    model.head.hidden=2800 model.ignore_mismatched_sizes=true device.name=cpu device.threads=1 output.dir=run
with=(device.name=cpu device.threads=1 eval.batch_size=8)
evaluate() { "$FTENGINE" eval run --data "$1" "${with[@]}" --json "${@:2}"; }
predict() { "$FTENGINE" predict run --data "$1" "${with[@]}" --output written.jsonl "${@:2}"; }

expect 0 evaluate all.tsv && mv out figures
expect 0 predict all.tsv && mv written.jsonl answers.jsonl
python3 - <<'PYTHON' || fail "the figures are not those of the predictions"
import json, re
figures = json.load(open("figures"))
hit = said = true = wrong = count = 0
with open("answers.jsonl") as answers:
    for i, line in enumerate(answers):
        predicted = set(json.loads(re.search(r'"(?:predicted|labels?)": ?(\[[^\]]*\])', line).group(1)))
        labels = {f"c{i % 1000}", f"c{i * 7 % 1000}"}
        hit, said, true, wrong, count = hit + len(predicted & labels), said + len(predicted), true + len(labels), wrong + len(predicted ^ labels), count + 1
assert figures["examples"] == count and hit > 0
for name, value in (("f1_micro", 2 * hit / (said + true)), ("hamming_loss", wrong / count / 1000)):
    assert abs(figures["metrics"][name] - value) <= 1e-15 * count, (name, figures["metrics"][name], value)
PYTHON

data_limit() { (ulimit -d "$1" && shift && "$@"); }
# least COMMAND...: the least number of KiB, put behind the command, with which it ends well; what does not is refused
least() {
    local low=4000 high=200000 middle code
    while [ $((high - low)) -gt 32 ]; do
        middle=$(((low + high) / 2))
        "$@" $middle >out 2>err </dev/null
        code=$?
        case $code in 0) high=$middle ;; 3) low=$middle ;; *) fail "exit code $code with $middle KiB" ;; esac
    done
    least=$high
}
held() { "$1" "$2" "memory.host_limit=$3KiB"; } # COMMAND FILE KIB
kept_by_kernel() { data_limit "$3" "$1" "$2"; }
same() { # COMMAND
    if [ "$1" = evaluate ]; then cmp -s out figures; else cmp -s written.jsonl answers.jsonl; fi
}

for command in evaluate predict; do
    few=few.tsv
    [ $command = evaluate ] || few=some.tsv
    least held $command $few
    host=$((least * 1024 + kept))
    least kept_by_kernel $command $few
    rm -f written.jsonl
    expect 0 data_limit $((least + kept / 1024)) $command all.tsv "memory.host_limit=$host"
    same $command || fail "$command: not the same in a bounded process"
    # That was a limit: with the data in memory the process would be far above it.
    expect 3 $command all.tsv "memory.host_limit=$((host - (4 << 20)))" && one_error memory.host_limit
    if ! make_cgroup $((host + (2 << 20))); then # the slack of a plan is nobody's need
        rmdir "$cgroup_made" 2>/dev/null
        echo "skipped: $command in a cgroup, since none can be made here"
        continue
    fi
    group=$cgroup_made
    rm -f written.jsonl
    case $command in
    evaluate) enter_cgroup "$group" "$FTENGINE" eval run --data all.tsv "${with[@]}" --json >out 2>err </dev/null ;;
    predict) enter_cgroup "$group" "$FTENGINE" predict run --data all.tsv "${with[@]}" --output written.jsonl >out 2>err </dev/null ;;
    esac
    code=$?
    killed=$(killed_in "$group")
    remove_cgroup "$group"
    [ $code = 0 ] && [ "$killed" = 0 ] || fail "$command in a cgroup of $((host + (2 << 20))) bytes: exit code $code, $killed killed"
    same $command || fail "$command: not the same in a cgroup"
done
