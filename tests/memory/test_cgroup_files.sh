#!/usr/bin/env bash
# The limits of control groups as v2's files say them: memory.max and memory.high of the group and of its parents, what of it is used and
# stays, which one binds, and that a run is refused by its name. No such groups are needed: a tree of files stands where they would be
# mounted, in a mount namespace of this test's own, which takes root. What is caught: a mark that is not read, pages of files counted as
# memory that is gone, a parent that is overlooked.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
group=$(awk -F: '$1 == 0 && $2 == "" {print $3}' /proc/self/cgroup 2>/dev/null)
if [ -z "$group" ] || [ ! -d /sys/fs/cgroup ] || ! unshare -m sh -c 'mount --bind "$0" /sys/fs/cgroup' "$scratch" 2>/dev/null; then
    echo "skipped: no file system can be mounted here, or there are no control groups" >&2
    exit 77
fi
tree=$scratch/tree
leaf=$tree${group%/}
mkdir -p "$leaf"
within() { unshare -m sh -c 'mount --bind "$0" /sys/fs/cgroup && exec "$@"' "$tree" "$@"; }
files() { # DIRECTORY MAX HIGH CURRENT FILE_PAGES
    echo "$2" >"$1/memory.max" && echo "$3" >"$1/memory.high" && echo "$4" >"$1/memory.current"
    printf 'anon %s\ninactive_file %s\nactive_file %s\n' "$4" $(($5 - $5 / 4)) $(($5 / 4)) >"$1/memory.stat"
}
check() { # KINDS_AND_FIGURES: of control groups, tightest first
    expect 0 within "$FTENGINE" devices --json
    local got
    got=$(json out '" ".join("%s:%d:%d" % (l["kind"], l["bytes"], l["left_bytes"]) for l in d["limits"] if l["kind"].startswith("cgroup"))')
    [ "$got" = "$1" ] || fail "the limits are \"$got\", not \"$1\""
    [ -z "$1" ] || [ "$(json out '[l["kind"] for l in d["limits"] if l["binds"]][0]')" = "${1%%:*}" ] || fail "another one binds: $(cat out)"
}
files "$leaf" max max 50000000 40000000 && check ""
files "$leaf" 200000000 max 50000000 40000000 && check "cgroup_v2_max:200000000:190000000"
files "$leaf" 200000000 150000000 50000000 40000000 && check "cgroup_v2_high:150000000:140000000 cgroup_v2_max:200000000:190000000"
files "$leaf" 200000000 250000000 50000000 0 && check "cgroup_v2_max:200000000:150000000" # it never comes to the mark
files "$leaf" max 150000000 50000000 0 && check "cgroup_v2_high:150000000:100000000"

files "$leaf" max 4500000 1000000 0
expect 3 within "$FTENGINE" train "$here/follow.ini" train.max_steps=1 device.name=cpu device.threads=1 output.dir=run && one_error "memory.high of the cgroup"
[ ! -e run ] || fail "a run was begun"
[ "$leaf" != "$tree" ] || exit 0
files "$leaf" 200000000 max 50000000 0
files "$tree" 180000000 max 100000000 0 # of a parent, with what others there hold
check "cgroup_v2_max:180000000:80000000 cgroup_v2_max:200000000:150000000"
