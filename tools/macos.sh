#!/usr/bin/env bash
# macos.sh [BUILD] - compiles the CPU half for macOS on 64-bit ARM, with zig's C compiler, into objects in BUILD (build-macos): the kernels of the CPU,
# in NEON and in plain C, and what they stand on. ZIG="python3 -m ziglang" is another one (`pip install ziglang` brings it). Nothing is linked, and nothing
# has run on such a machine.
#
# Left out, since they are written for Linux: files that are replaced whole (fopencookie, renameat2), arrays on disk (fallocate, mremap),
# and ranks on one host (futex). They, the libraries of others and a first run are what a port would have to do.
set -euo pipefail

source_dir=$(cd "${0%/*}/.." && pwd)
build=$(mkdir -p "${1:-build-macos}" && cd "${1:-build-macos}" && pwd)
left_out="base/atomic.c base/spill.c kernels/collectives/shared_memory.c"
zig=${ZIG:-python3 -m ziglang}
# shellcheck disable=SC2086
$zig version >/dev/null 2>&1 || {
    echo "macos.sh: there is no zig: pip install ziglang, or ZIG names one" >&2
    exit 77
}
export ZIG_LOCAL_CACHE_DIR=$build/cache ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$build/cache}

# compile SET SOURCE: prints the object. SET: plain, or an instruction set
compile() {
    local object
    object=$build/$1-$(tr / - <<<"${2%.c}").o
    local flags=(-target aarch64-macos -std=gnu17 -O1 -fsigned-char -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Werror -Wshadow
        -Wpointer-arith -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter -I "$source_dir" -D_GNU_SOURCE -DFT_VERSION='"0"')
    [ "$1" = plain ] && flags+=(-DFT_HAVE_ISA_neon=1 -DFT_HAVE_ISA_portable=1) || flags+=(-DFT_ISA="$1" -DFT_ISA_"$1"=1)
    # shellcheck disable=SC2086
    $zig cc "${flags[@]}" -c "$source_dir/$2" -o "$object" || {
        echo "macos.sh: $2 ($1) does not compile" >&2
        return 255 # xargs stops
    }
}
export -f compile
export build source_dir zig

cd "$source_dir"
{
    find base kernels -name '*.c' ! -path 'base/json/*' ! -name 'sha*.c' ! -path 'kernels/cuda/*' ! -path 'kernels/cpu/isa/*' | sort |
        grep -vxF "$(tr ' ' '\n' <<<"$left_out")" | sed 's/^/plain /'
    for set in neon portable; do
        find kernels/cpu/isa -maxdepth 1 -name '*.c' | sort | sed "s/^/$set /"
    done
} >"$build/sources"
# shellcheck disable=SC2016
xargs -P "${JOBS:-$(nproc)}" -L 1 bash -c 'compile "$1" "$2"' _ <"$build/sources"
echo "$(wc -l <"$build/sources") objects for macOS on 64-bit ARM in $build; not compiled: $left_out"
