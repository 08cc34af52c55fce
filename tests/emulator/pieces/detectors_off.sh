#!/usr/bin/env bash
# Do the tests of planted faults depend on what is said to find them? In a copy of the sources each detector is switched off, one
# by one, and the test that plants its fault must fail. Run by hand (about ten minutes on 2 cores):
#
#   tests/emulator/pieces/detectors_off.sh [FOLDER for the copy and its build, default a new one]
set -uo pipefail
source=$(cd "$(dirname "$0")/../../.." && pwd)
work=${1:-$(mktemp -d)}
copy=$work/copy
mkdir -p "$copy" || exit 1
fail() { echo "FAILED: $*" >&2; exit 1; }
restore() { rm -rf "${copy:?}"/{base,benchmarks,configs,engine,hpo,kernels,tests,tools}; (cd "$source" && tar cf - --exclude=results CMakeLists.txt ftengine.c base benchmarks configs engine hpo kernels tests tools) | tar xf - -C "$copy"; }
restore
generator=$(command -v ninja >/dev/null && echo "-G Ninja")
# shellcheck disable=SC2086
cmake -S "$copy" -B "$work/build" $generator -D FT_CUDA=OFF ${CMAKE_C_COMPILER_LAUNCHER:+-D CMAKE_C_COMPILER_LAUNCHER=$CMAKE_C_COMPILER_LAUNCHER} >"$work/log" 2>&1 ||
    fail "cmake: $(tail -3 "$work/log")"

judged=0
# off WHAT FILE SED TEST WORDS: with that line of FILE changed, TEST fails in the case that WORDS name
off() {
    local what=$1 file=$copy/tests/emulator/$2 expression=$3 test=$4 words=$5
    cp "$file" "$work/kept"
    sed -i "$expression" "$file"
    cmp -s "$file" "$work/kept" && fail "$what: there is no such line in $2"
    cmake --build "$work/build" --target "emulator_test_$test" >"$work/log" 2>&1 || fail "$what: it does not build: $(tail -3 "$work/log")"
    if ctest --test-dir "$work/build" -R "^emulator/(.*/)?$test\$" --output-on-failure --timeout 120 >"$work/log" 2>&1; then fail "$what is off, and $test passes"; fi
    grep -qE "FAILED.*($words)|Timeout" "$work/log" || fail "$what is off, and $test fails elsewhere: $(grep FAILED "$work/log")"
    cp "$work/kept" "$file"
    judged=$((judged + 1))
    echo "$what: $(grep -oE "FAILED.*test_[a-z_]+|Timeout" "$work/log" | grep -oE 'test_[a-z_]+|Timeout' | sort -u | tr '\n' ' ')"
}

off "NaN in shared memory that nobody wrote" simt/shared_memory.cpp \
    's/^    fill_bytes(data, 0xff, with_zone);/    fill_bytes(data + bytes, 0xff, with_zone - bytes);/' faults 'uninitialised_read'
off "the red zones of shared memory" simt/shared_memory.cpp 's/while (from < to \&\& \*from == 0xff)/while (from < to)/' faults 'shared_overrun|dynamic_overrun'
off "the scheduler's eye on barriers" simt/scheduler.cpp 's/else if (barrier_site != where)/else if (false)/' faults divergent_barrier
off "ThreadSanitizer" CMakeLists.txt 's/-fsanitize=thread -fno-omit-frame-pointer/-fno-omit-frame-pointer/' faults 'race'
off "the order of the queues" driver/fake_streams.c 's/switch ((fake_schedule)fake_set.schedule)/switch (FAKE_EAGER)/;s/if (fake_set.schedule == FAKE_RANDOM)/if (false)/' streams 'missing_event|reused_pinned'
off "the digest of what is uploaded" driver/fake_streams.c 's/digest_of(w->from, w->bytes) != w->digest/false/' streams 'rewritten_source'
off "the ban of waits" driver/fake_driver.c 's/if (!fake_waits_forbidden) return 0;/return 0;/' streams 'waiting_call'
off "the red zones of buffers" driver/fake_memory.c 's/if (changed > 0) fake_kept.overruns/if (false) fake_kept.overruns/' streams 'overrun_of_a_buffer'
off "the books of who wrote a tile" simt/async_proxy.cpp 's/^void check_writer(.*{$/&\n    return;/' hopper 'planted_faults'
off "the books of who reads a tile" simt/async_proxy.cpp 's/^void check_readers(.*{$/&\n    return;/' hopper 'planted_faults'
off "the second memory of tensor cores" simt/async_proxy.cpp 's/^SIMT_NO_TSAN bool same(.*{$/&\n    return true;/' hopper 'products'
rm -rf "$work/kept"
[ $# -gt 0 ] || rm -rf "$work"
echo "$judged detectors: the tests fail without each"
