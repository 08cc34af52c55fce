#!/usr/bin/env bash
# Results do not hang on the C library's mathematics, whose last bit is another in other versions and on other processors: the program and the library take
# exp, log and the like from base/math, and a training and a study have the same bits when the C library computes without FMA. (On 64-bit ARM:
# library/aarch64.)
# ctest: sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
command -v nm >/dev/null || exit 77

# What else may come from there is exact by definition, or named here: of pictures that are turned; and SQLite's
# functions, which the library has in it.
names='(acos|acosh|asin|asinh|atan|atan2|atanh|cbrt|cos|cosh|erf|erfc|exp|exp10|exp2|expm1|hypot|lgamma|lgamma_r|log|log10|log1p|log2|pow|sin|sincos|sinh|tan|tanh|tgamma)[fl]?'
of() {
    nm -D --undefined-only "$1" >names || fail "nm $1"
    grep -q ' malloc' names || fail "the search finds nothing: $(cat names)"
    sed -E 's/.* //; s/@.*//' names | grep -xE "$names" | sort -u | tr '\n' ' '
}
[ "$(of "$FTENGINE")" = "atan tan " ] || fail "the program takes from the C library: $(of "$FTENGINE")"
of "$BUILD_DIR/libftengine.so" | tr ' ' '\n' | grep -xE '(cos|erf|erfc|exp|exp2|expm1|log|log10|log1p|log2|pow|sin|sincos|tanh)f?' &&
    fail "the library takes from the C library: $(of "$BUILD_DIR/libftengine.so")"

[ "$(uname -m)" = x86_64 ] || exit 0
other=GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable,-FMA4_Usable
options="$here/follow.ini train.max_steps=10 train.warmup_steps=2 train.lr_scheduler=cosine model.hidden_dropout=0.1 data.cache_dir=none device.threads=1"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options output.dir=plain
# shellcheck disable=SC2086
expect 0 env $other "$FTENGINE" train $options output.dir=other
cmp plain/model/model.safetensors other/model/model.safetensors || fail "other weights"
for sampler in tpe gp; do
    mkdir -p plain-$sampler other-$sampler
    (cd plain-$sampler && python3 "$SOURCE_DIR/tests/fixtures/ask_and_tell.py" $sampler 20 "$FTENGINE") >plain.txt 2>err || fail "$sampler"
    (cd other-$sampler && python3 "$SOURCE_DIR/tests/fixtures/ask_and_tell.py" $sampler 20 env $other "$FTENGINE") >other.txt 2>err || fail "$sampler"
    [ "$(wc -l <plain.txt)" = 20 ] && cmp plain.txt other.txt || fail "$sampler: $(diff plain.txt other.txt)"
done
