#!/usr/bin/env bash
# Studies in Optuna's journal: the tests of storage over it, a journal that Optuna wrote, both kinds of its lock, and what a process that
# was killed leaves.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
vectors=$SOURCE_DIR/tests/vectors/optuna_journal
if [ -x "$BUILD_DIR/tests/hpo_test_storage" ]; then
    for of in storage storage_together; do
        FT_TEST_JOURNAL=1 "$BUILD_DIR/tests/hpo_test_$of" >storage.log 2>&1 || { cp storage.log err; fail "hpo/$of over a journal"; }
    done
    "$BUILD_DIR/tests/hpo_test_storage" dump "journal:$vectors/study.log" >dump.txt 2>err || fail "what Optuna wrote is not read"
    diff dump.txt "$vectors/expect.txt" >err || fail "what Optuna wrote is read as something else"
fi
cp "$vectors/study.log" all.log
expect 0 "$FTENGINE" study list --storage journal:all.log
expect 0 "$FTENGINE" study enqueue --study two --storage journal:all.log x=0.5
tail -n 1 all.log | python3 -c '
import json, sys
line = json.loads(sys.stdin.read())
assert line["op_code"] == 9 and line["system_attr"] == {"fixed_params": {"x": 0.5}} and len(line["worker_id"]) > 36, line' 2>err || fail "the line: $(tail -n 1 all.log)"
[ ! -e all.log.lock ] || fail "the lock is still there"

# A piece of a line that a killed process has left is nobody's; the next one mends it.
printf '{"op_code":8,"worker' >>all.log
expect 0 "$FTENGINE" study list --storage journal:all.log
expect 0 "$FTENGINE" study enqueue --study two --storage journal:all.log x=0.25
python3 -c 'import json; [json.loads(line) for line in open("all.log")]' 2>err || fail "the journal is broken"

# A disk that is full in the middle of a line: an error, and the journal is as it was.
cp all.log before.log
(ulimit -f $(($(wc -c <all.log) / 1024 + 1)) && for i in $(seq 40); do "$FTENGINE" study enqueue --study two --storage journal:all.log x=0.0625 || exit; done) >out 2>err </dev/null &&
    fail "a journal grows beyond what its file may have"
one_error "cannot write the journal"
python3 -c 'import json; [json.loads(line) for line in open("all.log")]' 2>err || fail "a full disk broke the journal"
[ "$(tail -c 1 all.log)" = "" ] || fail "a full disk left a piece of a line"
cmp -n "$(wc -c <before.log)" before.log all.log || fail "a full disk changed what was there"

# Ours is known to be left behind at once; another program's lock is waited for, whichever kind it is.
ln -s .//all.log all.log.lock
SECONDS=0
expect 0 "$FTENGINE" study enqueue --study two --storage journal:all.log x=0.75
[ $SECONDS -lt 10 ] || fail "a lock left behind took $SECONDS seconds"
for kind in symlink open; do
    if [ $kind = open ]; then : >all.log.lock; else ln -s "$scratch/all.log" all.log.lock; fi
    "$FTENGINE" study enqueue --study two --storage journal:all.log "x=0.1" >out 2>err </dev/null &
    sleep 0.7
    kill -0 $! || fail "the lock of kind $kind was not waited for"
    rm all.log.lock
    wait $! || fail "after the lock of kind $kind"
done
expect 2 "$FTENGINE" study list --storage journal:nothing.log
one_error "there is no such study"
printf 'text\tlabel\n' >broken.log
expect 2 "$FTENGINE" study list --storage journal:broken.log
one_error "(broken.log:1:"
exit 0
