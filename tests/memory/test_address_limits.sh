#!/usr/bin/env bash
# Limits of addresses and of data (ulimit -v and -d, as grid engines set them): a run, an evaluation and a prediction inside of such a
# limit end as without one, with the same bits; below what they need they end with exit code 3 and one line. What is caught: ranges of
# addresses as large as the whole budget, a refusal at commit that is taken for a failure of the system, heaps and stacks for every
# thread, a limit that is not named, a plan that fits where the run is refused.
# ctest: part=1 sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
run=("$FTENGINE" train "$here/follow.ini" train.max_steps=3 "data.validation=$here/validation.tsv" eval.strategy=epoch)
tsv=$here/validation.tsv

expect 0 "${run[@]}" output.dir=free device.threads=2
expect 0 "$FTENGINE" eval free --data "$tsv" --json && mv out free.eval
expect 0 "$FTENGINE" predict free --data "$tsv" --output free.tsv

# limited v|d KILOBYTES COMMAND...
limited() { (ulimit "-$1" "$2" && shift 2 && exec "$@"); }
same() { # under a limit that is enough
    rm -rf one
    expect 0 limited "$1" "$2" "${run[@]}" output.dir=one device.threads="$3"
    cmp -s free/model/model.safetensors one/model/model.safetensors || fail "other bits under ulimit -$1 $2"
    [ "$3" != 2 ] || [ "$(json one/run.json 'd["memory"]["peak_reserved_bytes"]')" = "$(json free/run.json 'd["memory"]["peak_reserved_bytes"]')" ] ||
        fail "more is reserved under ulimit -$1 $2"
    expect 0 limited "$1" "$2" "$FTENGINE" eval free --data "$tsv" --json
    cmp -s out free.eval || fail "other metrics under ulimit -$1 $2"
    expect 0 limited "$1" "$2" "$FTENGINE" predict free --data "$tsv" --output one.tsv
    cmp -s free.tsv one.tsv || fail "other predictions under ulimit -$1 $2"
}
same v 8000000 2
same v 120000 16
same v 70000 2
same d 60000 16
same d 30000 2

# Downwards until nothing goes: each step is one or the other, a refusal names the limit, and a plan says what the run then does.
expect 0 "$FTENGINE" plan "${run[@]:2}" device.threads=2 --json
mv out planned
for kind in v d; do
    refused=0
    figure=$([ $kind = v ] && echo address_bytes || echo data_bytes)
    least=$((($(json planned "d['host']['$figure']") - (1 << 20)) / 1024)) # without half of the slack
    for kilobytes in $(printf '%s\n' 48000 34000 28000 $((least + 300)) $((least - 600)) 20000 18500 17000 15500 14000 11000 6000 4500 3000 2000 1000 | sort -rn); do
        rm -rf one
        limited $kind $kilobytes "${run[@]}" output.dir=one device.threads=2 >out 2>err </dev/null
        code=$?
        case $code in
        0) [ $refused = 0 ] || fail "ulimit -$kind $kilobytes is enough, and more was not" ;;
        3) refused=1; one_error RLIMIT; [ $kilobytes -lt $((least + 300)) ] || fail "ulimit -$kind $kilobytes is more than is planned" ;;
        127) break ;; # not even the program's own libraries find room
        *) fail "exit code $code under ulimit -$kind $kilobytes" ;;
        esac
        limited $kind $kilobytes "$FTENGINE" plan "${run[@]:2}" device.threads=2 >out 2>err </dev/null
        [ $? = $code ] || fail "a run ended with $code under ulimit -$kind $kilobytes, and its plan did not"
        [ $code = 0 ] || one_error RLIMIT
    done
    [ $refused = 1 ] || fail "nothing was refused under ulimit -$kind"
done

# The limits that there are, and which of them binds.
expect 0 limited v 300000 "$FTENGINE" devices --json
[ "$(json out '[(l["kind"], l["bytes"]) for l in d["limits"] if l["binds"]]')" = "[('rlimit_as', $((300000 * 1024)))]" ] ||
    fail "the limits: $(cat out)"
[ "$(json out 'd["devices"][0]["total_bytes"]')" = $((300000 * 1024)) ] || fail "the device has more than the limit: $(cat out)"
expect 0 limited d 200000 "$FTENGINE" devices
grep -q "limit RLIMIT_DATA (ulimit -d): 195.3MiB, .* left: this one binds" out || fail "the limit is not shown: $(cat out)"
expect 0 "$FTENGINE" devices --json
[ "$(json out 'sum(l["binds"] for l in d["limits"]), any(l["kind"] == "machine" for l in d["limits"])')" = "(1, True)" ] ||
    fail "the limits: $(cat out)"

# Several seeds of a model with thousands of classes: what a run writes about them is megabytes of the heap, whose addresses stay there.
# All of it was planned before the first; the second is not refused when that has been trained.
python3 - <<'PYTHON'
with open("classes.tsv", "w") as f:
    f.write("text\tlabel\n")
    for i in range(80000):
        f.write(f"good food {i}\tc{i // 2}\n")
PYTHON
head -101 classes.tsv >tested.tsv
many=("$here/follow.ini" "data.train=$scratch/classes.tsv" "data.test=$scratch/tested.tsv" "data.validation=$scratch/tested.tsv" eval.strategy=no data.max_length=16
    train.batch_size=1 train.max_steps=1 train.seeds=1,2 model.head.hidden=8 model.ignore_mismatched_sizes=true device.name=cpu device.threads=1
    data.cache_dir=none)
expect 0 "$FTENGINE" plan "${many[@]}" --json
mv out planned
for kind in v d; do
    figure=$([ $kind = v ] && echo address_bytes || echo data_bytes)
    kilobytes=$(($(json planned "d['host']['$figure']") / 1000))
    rm -rf many
    expect 0 limited $kind $kilobytes "$FTENGINE" train "${many[@]}" output.dir=many
    rm -rf many
    expect 3 limited $kind $((kilobytes - 5000)) "$FTENGINE" train "${many[@]}" memory.limit=1GiB output.dir=many && one_error RLIMIT
    [ ! -e many ] || fail "a run was begun under ulimit -$kind $((kilobytes - 5000))"
done
