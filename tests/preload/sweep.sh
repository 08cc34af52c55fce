#!/usr/bin/env bash
# sweep.sh LIBRARY [--from N] [--step N] [--allow CODES] -- COMMAND... - runs COMMAND once for every heap allocation that
# it makes, with that one failing. Each run must end by itself with a code of CODES (default "0 1 3"; a signal never is one)
# and say something on standard error unless it ends with 0. Prints one line; error at the first run that does not.
# CLEAN and CHECK, if set, are commands (bash -c) before and after each run; CHECK must succeed, CODE is in its environment.
set -euo pipefail

library=$(realpath "$1")
shift
from=1 step=1 allow="0 1 3"
while [ "$1" != -- ]; do
    case $1 in
    --from) from=$2 ;;
    --step) step=$2 ;;
    --allow) allow=$2 ;;
    *) echo "sweep.sh: unknown option $1" >&2 && exit 2 ;;
    esac
    shift 2
done
shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

once() { # NAME=VALUE: one run with it in the environment
    [ -z "${CLEAN:-}" ] || bash -c "$CLEAN"
    code=0
    env LD_PRELOAD="$library" "$1" "${command[@]}" >"$work/out" 2>"$work/err" </dev/null || code=$?
    if [ -n "${CHECK:-}" ] && ! CODE=$code bash -c "$CHECK" >"$work/check" 2>&1; then
        echo "sweep.sh: $1: code $code, and afterwards: $(head -5 "$work/check")" >&2
        exit 1
    fi
}
command=("$@")

once COUNT_FILE="$work/count"
if [ $code -ne 0 ]; then
    echo "sweep.sh: the command fails (code $code) without any failure injected: $(tail -3 "$work/err")" >&2
    exit 1
fi
total=$(cat "$work/count")
runs=0 survived=0
for ((n = from; n <= total; n += step)); do
    once FAIL_AT=$n
    runs=$((runs + 1))
    if [[ " $allow " != *" $code "* ]] || { [ $code -ne 0 ] && [ ! -s "$work/err" ]; }; then
        echo "sweep.sh: FAIL_AT=$n of $total: code $code, standard error: $(tail -3 "$work/err")" >&2
        exit 1
    fi
    if [ $code -eq 0 ]; then survived=$((survived + 1)); fi
done
echo "$total allocations, $runs made to fail one by one: $((runs - survived)) clean errors, $survived did without"
[ $runs -gt 0 ]
