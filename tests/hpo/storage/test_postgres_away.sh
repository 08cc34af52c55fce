#!/usr/bin/env bash
# The server of a study is not there at first, goes away and comes back, in every way that pg_ctl knows, while two coordinators work: they go on, every trial
# ends once, and what came of each is what comes of it undisturbed. One that stays away ends the study with one error.
# ctest: cost=60
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/postgres_server.sh" || exit 1
trap 'end_server; rm -rf "$scratch"' EXIT
start_server
cat >tiny.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 60
batch_size = 8
[eval]
strategy = steps
steps = 20
metric = accuracy
[output]
save_steps = 20
[study]
trials = 6
sampler = random
pruner = none
[space]
train.learning_rate = float(1e-4, 3e-2, log)
train.lr_scheduler = choice(linear, cosine, constant)
INI
values() {
    "$FTENGINE" study trials --study tiny "$@" --json 2>err | python3 -c '
import json, sys
for t in json.load(sys.stdin)["trials"]: print(t["number"], t["state"], sorted(t["params"].items()), t["values"])'
}
expect 0 "$FTENGINE" tune tiny.ini --study tiny
values >alone.txt
[ "$(grep -c COMPLETE alone.txt)" = 6 ] || { cp alone.txt err; fail "the undisturbed study"; }

stop_server fast # nor is it there when they begin
mkdir one two
(cd one && exec "$FTENGINE" tune ../tiny.ini --storage "$server_url" >out 2>err </dev/null) &
first=$!
(cd two && exec "$FTENGINE" tune ../tiny.ini --storage "$server_url" >out 2>err </dev/null) &
second=$!
finished() { query ft "SELECT count(*) FROM trials WHERE state = 'COMPLETE'" 2>/dev/null || echo -1; }
for _ in $(seq 2400); do grep -q 'paused: cannot connect' one/err 2>/dev/null && grep -q 'paused: cannot connect' two/err 2>/dev/null && break; sleep 0.05; done
grep -q 'paused: cannot connect.*refused\|paused: cannot connect.*No such file' two/err || { cp two/err err; fail "a coordinator does not wait for its server"; }
again_server
for _ in $(seq 2400); do [ -e one/studies/tiny/config.ini ] && [ -e two/studies/tiny/config.ini ] && break; sleep 0.05; done
[ -e two/studies/tiny/config.ini ] || fail "the coordinators do not begin"
for mode in fast immediate fast; do
    before=$(finished)
    for _ in $(seq 2400); do [ "$(finished)" -gt "$before" ] && break; sleep 0.05; done
    stop_server $mode
    sleep 0.3
    again_server
done
wait $first || { code=$?; cp one/err err; fail "the first coordinator ended with $code"; }
wait $second || { code=$?; cp two/err err; fail "the second coordinator ended with $code"; }
values --storage "$server_url" >shared.txt
diff alone.txt shared.txt >err || fail "other trials than undisturbed"
[ "$(query ft "SELECT count(*) FROM trial_values")" = 6 ] || fail "a trial ended twice, or not at all"

# One that does not come back.
query ft "UPDATE studies SET study_name = 'other'" >/dev/null
"$FTENGINE" tune tiny.ini --study gone --trials 50 study.reconnect=1s --storage "$server_url" >out 2>err </dev/null &
tune=$!
for _ in $(seq 2400); do [ "$(query ft "SELECT count(*) FROM trials WHERE state = 'RUNNING'")" -gt 0 ] && break; sleep 0.05; done
kill -STOP $tune # so that the server is gone before its next word
stop_server immediate
kill -CONT $tune
kill -TERM $tune
wait $tune
code=$?
[ $code = 143 ] || [ $code = 1 ] || fail "exit code $code when the server was gone"
[ "$(grep -c '^ftengine: error: ' err)" -le 1 ] || fail "more than one error"
exit 0
