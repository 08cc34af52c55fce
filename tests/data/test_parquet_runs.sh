#!/usr/bin/env bash
# Parquet from outside: a run, answers and tokens from a Parquet file are those from JSON lines of the same rows; columns of bytes are left out with a word. Where there is no
# DuckDB the message says what helps, and this is skipped after that.
# ctest: sanitize=leave
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
vectors=$SOURCE_DIR/tests/vectors/parquet
base="$here/follow.ini train.max_steps=3 train.warmup_steps=1 data.cache_dir=none model.ignore_mismatched_sizes=true device.threads=1 data.validation="

# ---- a library that is none --------------------------------------------------------------------------------------------------
tokens() { "$FTENGINE" tokenize "$here/model" --data "$@"; }
expect 1 env FTENGINE_DUCKDB=/nowhere/libduckdb.so "$FTENGINE" tokenize "$here/model" --data "$vectors/reviews.parquet" && one_error "DuckDB's library cannot be loaded: /nowhere/libduckdb.so" && says FTENGINE_DUCKDB
expect 1 env FTENGINE_DUCKDB=libz.so.1 "$FTENGINE" tokenize "$here/model" --data "$vectors/reviews.parquet" && one_error "libz.so.1 has no duckdb_"
expect 2 bash -c "cat '$vectors/reviews.parquet' | '$FTENGINE' tokenize '$here/model' --data -" && one_error "this is a Parquet file" && says "save it as a file"
if [ -z "${FTENGINE_DUCKDB:-}" ]; then
    FTENGINE_DUCKDB=$(ls "$SOURCE_DIR"/third_party/duckdb/*duckdb*.so 2>/dev/null | head -n 1)
    export FTENGINE_DUCKDB
fi
if [ -z "$FTENGINE_DUCKDB" ] && ! tokens "$vectors/reviews.parquet" >out 2>err; then
    one_error "this is a Parquet file" && says "python3 -c" && says "FTENGINE_DUCKDB=FILE"
    echo "skipped: no DuckDB: tools/duckdb.sh fetches it"
    exit 77
fi

# ---- with it -------------------------------------------------------------------------------------------------------------------
for name in reviews words questions; do
    for form in jsonl parquet; do
        # shellcheck disable=SC2086
        expect 0 "$FTENGINE" train $base data.train="$vectors/$name.$form" output.dir="$name-$form"
    done
    cmp "$name-jsonl/model/model.safetensors" "$name-parquet/model/model.safetensors" || fail "$name: another model"
    [ $name != reviews ] || says 'columns of bytes are left out: "raw", "image"'
    for form in jsonl parquet; do
        expect 0 "$FTENGINE" predict "$name-jsonl" --data "$vectors/$name.$form" --json && cp out $form
    done
    cmp jsonl parquet || fail "$name: other answers"
done
[ "$(json reviews-parquet/run.json 'd["data"]["train"]["sha256"]')" = "$(sha256sum <"$vectors/reviews.parquet" | cut -d' ' -f1)" ] || fail "the hash is another file's"
cp "$vectors/reviews.parquet" "it's [1]*.data"
tokens "$vectors/reviews.jsonl" >jsonl && tokens "it's [1]*.data" >parquet && cmp jsonl parquet || fail "by content, whatever it is called"
expect 2 tokens "$vectors/reviews.parquet" data.text_column=txt && one_error "txt" && says "price"
head -c 5000 "$vectors/reviews.parquet" >short.parquet
expect 2 tokens short.parquet && one_error "this Parquet file cannot be read: "
