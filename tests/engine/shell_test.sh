# Sourced by the scripts here: a scratch directory, and checks that say what went wrong.
set -uo pipefail
here=$SOURCE_DIR/tests/vectors/trainer
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache FTENGINE_LEDGER_DIR=$scratch/ledger
unset FTENGINE_LEDGER_CAPACITY
cd "$scratch" || exit 1

fail() {
    echo "FAILED: $*" >&2
    [ -f err ] && sed 's/^/  stderr: /' err >&2
    exit 1
}
# expect CODE COMMAND...: runs it, output in out and err
expect() {
    local want=$1 got
    shift
    "$@" >out 2>err </dev/null
    got=$?
    [ "$got" = "$want" ] || fail "exit code $got instead of $want: $*"
}
# says TEXT: the last command's standard error contains it
says() { grep -qF -- "$1" err || fail "standard error lacks: $1"; }
# one_error TEXT: exactly one error line, and it contains TEXT
one_error() {
    [ "$(grep -c '^ftengine: error: ' err)" = 1 ] || fail "not exactly one error line"
    grep '^ftengine: error: ' err | grep -qF -- "$1" || fail "the error lacks: $1"
}
json() { python3 -c "import json,sys; d=json.load(open(sys.argv[1])); print(eval(sys.argv[2], {'d': d}))" "$1" "$2"; }
