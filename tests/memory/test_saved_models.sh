#!/usr/bin/env bash
# Evaluations, predictions and merges judge their whole process before they read weights, as a run does: in what `--verbose` says of it
# they end well, in less there is one line with the name of the limit, exit code 3, no kill, and nothing written. Texts are read within the
# limits. What is caught: a command that takes memory without asking, one that is killed where a run would be refused, a refusal after
# rows were written, of several models a later one that is judged after the first has computed, room that others reserved.
# ctest: part=0 sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/memory/cgroup.sh"
python3 - <<'PYTHON'
with open("many.tsv", "w") as f:
    f.write("text\tlabel\n")
    for i in range(6000):
        f.write(f"good food {i % 50} and music\tc{i % 500}\n")
PYTHON
head -1001 many.tsv >few.tsv
expect 0 "$FTENGINE" train "$here/follow.ini" "data.train=$scratch/few.tsv" data.validation= eval.strategy=no data.max_length=16 train.max_steps=1 \
    model.ignore_mismatched_sizes=true device.name=cpu device.threads=1 output.dir=run
run=("$scratch/run" --data "$scratch/many.tsv" device.name=cpu device.threads=1)

limited() { (ulimit "-$1" "$2" && shift 2 && exec "$@"); }
need_of() { python3 -c "import re; n, u = re.search(r'memory +([0-9.]+)([KMG])iB for the whole process', open('err').read()).groups(); print(int(float(n) * 2 ** {'K': 10, 'M': 20, 'G': 30}[u]))"; }
judge() { # NAME COMMAND...: what it writes, in its need and in less
    local name=$1 need
    shift
    rm -rf written
    expect 0 "$@" --verbose
    need=$(need_of)
    mv out "$name.out"
    [ ! -e written ] || mv written "$name.written"
    expect 0 "$@" "memory.host_limit=$need"
    cmp -s out "$name.out" || fail "$name says something else in what was planned"
    [ ! -e written ] || diff -r written "$name.written" >/dev/null || fail "$name writes something else in what was planned"
    for bytes in 4500000 6000000; do
        rm -rf written
        expect 3 "$@" "memory.host_limit=$bytes" && one_error memory.host_limit
        [ ! -s out ] && [ ! -e written ] || fail "$name wrote in $bytes bytes"
    done
    for kind in v d; do # upwards: refused, until it ends as without a limit
        local ended=0
        for kilobytes in 20000 30000 45000 70000 250000; do
            rm -rf written
            limited $kind $kilobytes "$@" >out 2>err </dev/null
            case $? in
            0) ended=1 && cmp -s out "$name.out" || fail "$name says something else under ulimit -$kind $kilobytes" ;;
            3) one_error "" && [ $ended = 0 ] && [ ! -s out ] && [ ! -e written ] || fail "$name under ulimit -$kind $kilobytes: $(cat err)" ;;
            *) fail "$name under ulimit -$kind $kilobytes" ;;
            esac
        done
        [ $ended = 1 ] || fail "$name never ended well under ulimit -$kind"
    done
    [ $groups = 1 ] || return
    for bytes in 4500000 6000000 $((need / 2)) $((need * 2 / 3)) $((need + need / 100)); do
        rm -rf written
        in_cgroup "$bytes" "$@" >out 2>err </dev/null
        code=$?
        [ "$KILLED" = 0 ] || fail "$name: killed in $bytes of $need bytes"
        case $code in # with smaller micro-batches it may do
        0) [ "$bytes" -gt 6000000 ] && cmp -s out "$name.out" || fail "$name in $bytes of $need bytes" ;;
        3) [ "$bytes" -lt "$need" ] && [ ! -s out ] && [ ! -e written ] && one_error "of the cgroup" ;;
        *) fail "$name: exit code $code in $bytes of $need bytes" ;;
        esac || fail "$name in $bytes of $need bytes"
    done
}
groups=0
if make_cgroup 100000000; then groups=1 && remove_cgroup "$cgroup_made"; else rmdir "$cgroup_made" 2>/dev/null; echo "skipped: cgroups, since none can be made here"; fi

judge eval "$FTENGINE" eval "${run[@]}"
judge predict "$FTENGINE" predict "${run[@]}" --output written
judge stream "$FTENGINE" predict "${run[@]}"
judge several "$FTENGINE" predict "$scratch/run" "${run[@]}" --output written

# Others have reserved what there is.
"$FTENGINE" train "$here/follow.ini" "model.head.hidden=2500,1500" model.ignore_mismatched_sizes=true train.max_steps=1000000 output.save_steps=0 output.dir=holder >/dev/null 2>holder.err &
holder=$!
trap 'kill -9 $holder 2>/dev/null; wait 2>/dev/null; rm -rf "$scratch"' EXIT
for _ in $(seq 2400); do "$FTENGINE" devices --json >devices.json 2>/dev/null && [ "$(json devices.json 'd["devices"][0]["reserved_bytes"]')" != 0 ] && break; sleep 0.05; done
rm -rf written
reserved=$(json devices.json 'd["devices"][0]["reserved_bytes"]')
[ "$reserved" -gt 0 ] || fail "the holder reserved nothing: $(cat holder.err)"
export FTENGINE_LEDGER_CAPACITY=$((reserved + (1 << 20)))
expect 4 "$FTENGINE" eval "${run[@]}" && one_error "no room on the device"
expect 4 "$FTENGINE" predict "${run[@]}" --output written && one_error "no room on the device"
[ ! -e written ] || fail "something was written"
