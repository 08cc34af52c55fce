#!/usr/bin/env bash
# A study has as many workers as their memory allows beside the coordinator's, which is known before its first trial. Catches: workers that
# are counted without their texts, tokenizer and evaluation (the kernel killed some of four where there was memory for two), a trial that
# fits alone and not beside its coordinator, a refusal that leaves a study behind.
# ctest: sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
# shellcheck source=tests/memory/cgroup.sh
. "$SOURCE_DIR/tests/memory/cgroup.sh"
export XDG_CACHE_HOME=$scratch/cache
python3 - <<'PYTHON'
with open("train.tsv", "w") as f:
    f.write("text\tlabel\n")
    for i in range(100000): f.write(f"good food and bad music for travel by train {i} of the song and the soup\t{('food', 'music', 'travel')[i % 3]}\n")
PYTHON
cat >space.ini <<INI
[data]
train = train.tsv
[train]
max_steps = 2
[device]
name = cpu
threads = 1
[space]
train.learning_rate = float(1e-5, 1e-3, log)
train.batch_size = choice(4, 8)
INI
study="$here/follow.ini space.ini data.validation=$here/validation.tsv eval.strategy=epoch --trials 6 --parallel 4"

for _ in tokenised cached; do
    expect 0 "$FTENGINE" plan "$here/follow.ini" space.ini data.validation="$here/validation.tsv" train.batch_size=8 train.learning_rate=1e-4 --json
done
peak=$(json out 'd["host"]["peak_bytes"]')
coordinator=$((12 << 20)) # with a little that it holds when it begins
two=$((2 * peak + peak / 2 + coordinator))

# ---- memory.host_limit, of all processes of the study together ------------------------------------------------------------
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune $study --study given memory.host_limit=$two
says "2 workers, not 4: one more needs"
says "may be taken (memory.host_limit)"
# shellcheck disable=SC2086
expect 3 "$FTENGINE" tune $study --study refused memory.host_limit="$peak"
one_error "" && says "nothing was started" # for its process and the coordinator, or already for its data beside that
# shellcheck disable=SC2086
expect 3 "$FTENGINE" tune $study --study refused memory.host_limit=3MiB
one_error "has not the memory to read its data"
[ ! -e studies/refused ] || fail "a study that was refused is there"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune $study --study all
! grep -q "workers, not" err || fail "fewer workers than asked for: $(cat err)"

# ---- a cgroup ---------------------------------------------------------------------------------------------------------------
need_cgroups
# shellcheck disable=SC2086
in_cgroup "$two" "$FTENGINE" tune $study --study grouped 2>err >out || fail "in $two bytes: $? $(cat err)"
[ "$KILLED" = 0 ] || fail "$KILLED killed in $two bytes: $(cat err)"
says "2 workers, not 4: one more needs"
says "6 trials, 6 complete, 0 pruned, 0 failed"
# shellcheck disable=SC2086
in_cgroup $((peak + (1 << 20))) "$FTENGINE" tune $study --study none 2>err >out && fail "a trial and its coordinator in the memory of a trial"
[ "$KILLED" = 0 ] || fail "$KILLED killed before the refusal"
one_error "" && says "nothing was started" # for its process and the coordinator, or already for its data beside that
[ ! -e studies/none ] || fail "a study that was refused is there"
exit 0
