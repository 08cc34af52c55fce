#!/usr/bin/env bash
# The CPU half compiles for macOS on 64-bit ARM (tools/macos.sh), without a warning, and what comes out is code of that machine. Needs zig (pip install
# ziglang; ZIG names another) and minutes.
# ctest: label=full_size sanitize=leave timeout=3600
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
zig=${ZIG:-python3 -m ziglang}
# shellcheck disable=SC2086
$zig version >/dev/null 2>&1 || { echo "skipped: there is no zig (pip install ziglang)"; exit 77; }
expect 0 "$SOURCE_DIR/tools/macos.sh" objects
grep -qE '^[0-9]+ objects for macOS' out || fail "it says: $(cat out)"
for object in plain-kernels-cpu-open neon-kernels-cpu-isa-gemm neon-kernels-cpu-isa-int8_product portable-kernels-cpu-isa-gemm; do
    # a Mach-O object of 64 bits (feedfacf) for ARM (0100000c), both little-endian
    [ "$(od -An -tx4 -N8 objects/$object.o | tr -d ' ')" = feedfacf0100000c ] || fail "$object.o is $(od -An -tx4 -N8 objects/$object.o)"
done
[ "$(ls objects/*.o | wc -l)" = "$(wc -l <objects/sources)" ] || fail "$(ls objects/*.o | wc -l) objects"
expect 77 env ZIG=false "$SOURCE_DIR/tools/macos.sh" none && says "there is no zig"
exit 0
