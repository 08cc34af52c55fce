#!/usr/bin/env bash
# The tarball of `make dist`, unpacked somewhere else and run with nothing of this machine's but its C library: what it needs,
# what is in it, that it finds its kernels, trains, and tunes with workers.
. "$SOURCE_DIR/tests/fixtures/shell_test.sh"
if [ ! -x "$BUILD_DIR/dist/ftengine" ]; then
    echo "skipped: no archives of the third-party libraries, or a sanitized build"
    exit 77
fi

(cd "$BUILD_DIR" && cpack -B "$scratch/packed") >out 2>err || fail "cpack"
tarball=$(echo packed/ftengine-*-linux-*.tar.gz)
[ -s "$tarball" ] || fail "no tarball"
mkdir elsewhere
tar xzf "$tarball" -C elsewhere || fail "the tarball does not unpack"
top=$(echo "$scratch"/elsewhere/ftengine-*)
program=$top/bin/ftengine

# Of every program and library in it: only what comes with the C library, and no directory of this machine.
elves=0
while IFS= read -r -d '' file; do
    [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
    elves=$((elves + 1))
    dynamic=$(LC_ALL=C readelf -d "$file") || fail "readelf of $file"
    needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic" | grep -vE '^(libc|libm|libpthread|libdl|librt|ld-linux-.*)\.so')
    [ -z "$needed" ] || [ -e "$(dirname "$file")/$needed" ] || fail "$(basename "$file") needs $needed"
    grep -E 'RPATH|RUNPATH' <<<"$dynamic" | grep -qvF '[$ORIGIN]' && fail "$(basename "$file") names a directory of this machine"
done < <(find "$top" -type f -size +3c -print0)
expected=1
for library in libftengine_cuda.so libftengine_cuda12.so libcudart.so.12; do
    [ -e "$BUILD_DIR/$library" ] && expected=$((expected + 1))
done
[ "$elves" = "$expected" ] || fail "$elves programs and libraries in it, not $expected"
for file in share/doc/ftengine/README.md share/doc/ftengine/licences/{libjansson,libinih,libpcre2,libssl,zlib1g,libzstd,libsqlite3}-dev share/ftengine/configs/{{reference,common,minilm_quickstart}.ini,priors/encoder_classification.jsonl.gz}; do
    [ -s "$top/$file" ] || fail "$file is missing"
done
run() { env -i HOME="$scratch" PATH=/usr/bin:/bin "$program" "$@"; }
run config "$top/share/ftengine/configs/bert_base.ini" >out 2>err || fail "a configuration in it is not read"
for module in libftengine_cuda.so libftengine_cuda12.so; do
    [ -e "$BUILD_DIR/$module" ] || continue
    [ -s "$top/lib/$module" ] || fail "the CUDA kernels are missing: $module"
    shown=$(LC_ALL=C nm -D --defined-only "$top/lib/$module" | awk '{ print $NF }')
    [ "$shown" = ft_cuda_module_get ] || fail "$module shows more than its entry: $shown"
done
if [ -e "$BUILD_DIR/libftengine_cuda.so" ]; then
    run devices >out 2>err
    cat out err | grep -q "kernels are missing" && fail "the program does not find its kernels"
fi

cp -r "$here/." .
run train follow.ini output.dir=run train.max_steps=3 data.cache_dir=none >out 2>err || fail "training"
[ -s run/model/model.safetensors ] || fail "there is no model"
run tune follow.ini --study packed --trials 2 space.train.learning_rate='float(1e-5, 1e-3, log)' train.max_steps=2 data.validation=validation.tsv eval.strategy=epoch \
    data.cache_dir=none >out 2>err || fail "tuning"
run study best packed >out 2>err || fail "the study has no best trial"
