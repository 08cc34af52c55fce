#!/usr/bin/env bash
# A run on several CPU ranks of which one dies again and again goes on with those that are left, down to one, with the bits of a run that nothing happened
# to; never with fewer than distributed.min_ranks. What it says of it on the terminal, in train.log and for programs. GPUs: emulator/runs/test_elastic.sh.
# ctest: part=1 cost=10 sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/same_runs.sh" || exit 1
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done; rm -rf "$scratch"' EXIT
# No checkpoint but at the end: every loss is at the same one.
common="$here/follow.ini data.validation=$here/validation.tsv data.cache_dir=none eval.strategy=steps eval.steps=1000 output.save_steps=10000 train.max_steps=2000
        train.warmup_steps=3 train.logging_steps=100 model.hidden_dropout=0.1 model.attention_dropout=0.1 device.threads=1"

# begin DIR N OPTIONS...: in the background, on N ranks
begin() {
    local list=cpu
    run=$1
    : >err # of the run before: its restarts are not this one's
    for _ in $(seq 2 "$2"); do list=$list,cpu; done
    # shellcheck disable=SC2086
    "$FTENGINE" train $common --devices "$list" output.dir="$run" output.exists=resume "${@:3}" >out 2>err </dev/null &
    pid=$!
}
restarts() { grep -c "; restart [0-9]* of at most" err; }
# lose R N TIMES: rank R of N is killed in so many attempts, each time when these have begun to train
lose() {
    local before rank
    for _ in $(seq "$3"); do
        before=$(restarts)
        for _ in $(seq 12000); do
            if [ "$(grep -hs "training   " "$run/train.log" | wc -l)" -gt "$before" ] && rank=$(pgrep -P "$pid" -f "rank $1 $2 "); then
                kill -9 "$rank"
                break
            fi
            kill -0 "$pid" 2>/dev/null || fail "$run ended before rank $1 was lost"
            sleep 0.01
        done
        for _ in $(seq 12000); do
            [ "$(restarts)" -gt "$before" ] && break
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.01
        done
    done
}
ended() { # ended CODE
    local code
    wait "$pid"
    code=$?
    [ $code = "$1" ] || fail "$run ended with exit code $code instead of $1"
}

# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common --devices cpu output.dir=calm

# Of three the second one stays away, then of two; one is left, and comes back when it is killed.
begin three 3 distributed.max_restarts=7 --json
lose 1 3 3
says "rank 1 on $(hostname) was killed by signal 9 (Killed); restart 3 of at most 7, from the last checkpoint, with 2 ranks instead of 3: cpu is left out (its rank was lost 3 times in a row before the first checkpoint)"
lose 1 2 3
lose 0 1 1
ended 0
says "; restart 6 of at most 7, from the last checkpoint, with 1 rank instead of 2: cpu is left out"
says "rank 0 on $(hostname) was killed by signal 9 (Killed); restart 7 of at most 7, from the last checkpoint"
[ "$(grep -c "is left out" err)" = 2 ] || fail "not two devices are left out"
same calm three
is_document train
for line in 3 6 7; do
    grep -q "warning: rank .* was killed by signal 9 .*; restart $line of at most 7" three/train.log || fail "train.log lacks restart $line: $(grep restart three/train.log)"
done
[ "$(json out '[(r["rank"], r["device"], r["checkpoint"], r["ranks_before"], r["ranks"], [(l["rank"], l["device"]) for l in r["left_out"]]) for r in d["restarts"]]')" = \
    "$(python3 -c 'a, b = (1, "cpu", None, 3), (1, "cpu", None, 2)
print([a + (3, []), a + (3, []), a + (2, [(1, "cpu")]), b + (2, []), b + (2, []), b + (1, [(1, "cpu")]), (0, "cpu", None, 1, 1, [])])')" ] ||
    fail "restarts in run.json: $(json out 'd["restarts"]')"
[ "$(json three/restarts.json 'd["restarts"]')" = "$(json out 'd["restarts"]')" ] || fail "restarts.json and run.json differ"
grep -q '^name = cpu$' three/config.ini || fail "config.ini does not say on what it was: $(grep '^name' three/config.ini)"

# With fewer it is not to go on: then all come back, as often as they may.
begin two 2 distributed.max_restarts=4 distributed.min_ranks=2
lose 1 2 4
ended 0
[ "$(restarts)" = 4 ] || fail "$(restarts) restarts instead of 4"
grep -q "left out" err && fail "one of two was left out, and two are to be there"
same calm two
begin gone 2 distributed.max_restarts=2 distributed.min_ranks=2
lose 1 2 3
ended 1
one_error "rank 1 on $(hostname) was killed by signal 9"

# Another one is lost in between: none of them stays away.
begin turns 2 distributed.max_restarts=4
for rank in 0 1 0 1; do lose $rank 2 1; done
ended 0
grep -q "left out" err && fail "one was left out that came back"
same calm turns
exit 0
