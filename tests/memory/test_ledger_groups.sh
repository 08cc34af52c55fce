#!/usr/bin/env bash
# Two runs of one user in control groups of their own, as two jobs of a scheduler on one node: what one has reserved takes nothing of
# the other's limit; what a third reserves inside of the same group does. What is caught: a ledger that takes every reservation off
# every limit ("0B free of 95.4MiB" while the machine is empty), or none.
# ctest: sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/memory/cgroup.sh"
groups=()
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done; wait 2>/dev/null; for g in "${groups[@]}"; do remove_cgroup "$g"; done; rm -rf "$scratch"' EXIT
need_cgroups
large=("$FTENGINE" train "$here/follow.ini" "model.head.hidden=2500,1500" model.ignore_mismatched_sizes=true train.max_steps=1000000 output.save_steps=0)
small=("$FTENGINE" train "$here/follow.ini" train.max_steps=2)

reserved_now() { "$FTENGINE" devices --json >devices.json 2>err && json devices.json 'd["devices"][0]["reserved_bytes"]'; }
hold() { # GROUP DIRECTORY: a large run there that goes on until it is killed
    enter_cgroup "$1" "${large[@]}" output.dir="$2" >/dev/null 2>"$2.err" &
    for _ in $(seq 400); do
        kill -0 $! 2>/dev/null || { cat "$2.err"; fail "the holder ended"; }
        [ "$(reserved_now)" != 0 ] && return
        sleep 0.05
    done
    fail "the holder reserved nothing"
}
make_cgroup 200000000 || fail "a second group"
first=$cgroup_made groups+=("$cgroup_made")
hold "$first" holder
reserved=$(reserved_now)
[ "$reserved" -gt 40000000 ] || fail "the holder is too small to be seen: $reserved"

# Less than the other group's run has reserved, and enough.
expect 0 in_cgroup $((reserved - 5000000)) "${small[@]}" output.dir=beside
grep -q "may be taken" err || fail "it did not run: $(cat err)"
expect 0 in_cgroup $((reserved - 5000000)) "$FTENGINE" devices --json
[ "$(json out 'd["devices"][0]["free_bytes"] > 20000000')" = True ] || fail "nothing is free in an empty group: $(cat out)"
[ "$(json out '[l["kind"][:6] for l in d["limits"] if l["binds"]]')" = "['cgroup']" ] || fail "the group's limit does not bind: $(cat out)"

# In the same group it does count.
expect 4 enter_cgroup "$first" "${small[@]}" output.dir=within device.min_free_memory=$((200000000 - reserved + 1000000))
one_error "no room on the device"
