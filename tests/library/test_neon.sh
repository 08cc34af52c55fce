#!/usr/bin/env bash
# NEON in a whole run: the program for 64-bit ARM, built by Debian's cross compiler with less optimisation than tools/aarch64.sh's own, runs under qemu. Its
# log says that it computes with NEON, and ten steps in fp32 and in bf16 have the weights of x86-64 to the bit, predictions in 8 bits its answers, on a
# chip with SDOT and USDOT and on one with neither. library/aarch64 asks for more and takes longer. Needs packages of Debian for arm64, from its servers.
# ctest: part=1 sanitize=leave timeout=3600 cost=900
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
if [ "$(uname -m)" != x86_64 ] || ! command -v aarch64-linux-gnu-gcc qemu-aarch64-static >/dev/null; then
    echo "skipped: tools/install.sh aarch64 installs the cross compiler and the emulator on x86-64"
    exit 77
fi
arm=${FT_NEON_BUILD:-$BUILD_DIR/neon}
TARGETS=ftengine_dist "$SOURCE_DIR/tools/aarch64.sh" "$arm" -D CMAKE_BUILD_TYPE=Quick -D CMAKE_C_FLAGS_QUICK=-O1 -D FT_MATH_LEVEL=-O1 -D FT_WERROR=OFF >out 2>err ||
    fail "the build: $(tail -5 out)"
rich="env QEMU_CPU=max $arm/run" poor="env QEMU_CPU=cortex-a53 $arm/run"

expect 0 $rich devices --json
[ "$(json out 'd["devices"][0]["instruction_set"]')" = neon ] || fail "the instruction set: $(cat out)"
[ "$(json out '{"neon", "neon_dotprod", "neon_i8mm"} <= set(d["devices"][0]["units"])')" = True ] || fail "units: $(cat out)"
expect 0 $poor devices --json
[ "$(json out 'd["devices"][0]["units"]')" = "['neon']" ] || fail "units of a Cortex-A53: $(cat out)"

cp -r "$here" trainer || fail "copy"
base="trainer/follow.ini train.max_steps=10 train.warmup_steps=2 data.cache_dir=none model.hidden_dropout=0.1 model.attention_dropout=0.1"
for precision in fp32 bf16; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $base train.precision=$precision output.dir=here-$precision
    # shellcheck disable=SC2086
    expect 0 $rich train $base train.precision=$precision output.dir=arm-$precision
    grep -q ', neon, ' arm-$precision/run.json || fail "it does not say that it computed with NEON: $(cat arm-$precision/run.json)"
    cmp here-$precision/model/model.safetensors arm-$precision/model/model.safetensors || fail "other weights in $precision"
    echo "$(sha256sum here-$precision/model/model.safetensors | cut -c1-16) $precision, ten steps"
done
cut -f1 trainer/validation.tsv >texts.tsv
expect 0 "$FTENGINE" predict here-fp32 --data texts.tsv --precision int8 --json && mv out here.txt
for chip in "$rich" "$poor"; do
    expect 0 $chip predict here-fp32 --data texts.tsv --precision int8 --json
    [ -s out ] && cmp here.txt out || fail "other answers in 8 bits by $chip: $(diff here.txt out | head -3)"
done
echo "$(sha256sum here.txt | cut -c1-16) $(wc -l <here.txt) predictions in 8 bits"
