#!/usr/bin/env bash
# The program from outside: a run directory, eval, predict, config, help; and every kind of bad input, each with one clear
# error, the right exit code, and nothing left behind.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
small="$here/follow.ini train.max_steps=6 train.logging_steps=2 eval.strategy=epoch data.validation=$here/validation.tsv"

# ---- a run ---------------------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $small output.dir=run
for f in config.ini run.json metrics.jsonl predictions.jsonl model/config.json model/model.safetensors model/vocab.txt model/ftengine.json; do
    [ -s "run/$f" ] || fail "the run directory lacks $f"
done
[ "$(json run/run.json 'd["status"], d["steps"], d["best"]["step"]')" = "('completed', 6, 6)" ] || fail "run.json: $(cat run/run.json)"
[ "$(json run/run.json 'sum(d["memory"]["at_peak"].values()) == d["memory"]["peak_allocated_bytes"] <= d["memory"]["peak_reserved_bytes"]')" = True ] ||
    fail "memory in run.json does not add up"
"$FTENGINE" plan "$here/follow.ini" --json >out
[ "$(json run/run.json 'd["model"]')" = "$(json out '{k: d["model"][k] for k in ("parameters", "trained")}')" ] || fail "the model in run.json: $(json run/run.json 'd.get("model")')"
[ "$(grep -c '"loss"' run/metrics.jsonl)" = 3 ] && [ "$(grep -c eval_accuracy run/metrics.jsonl)" = 1 ] || fail "metrics.jsonl: $(cat run/metrics.jsonl)"
[ "$(wc -l <run/predictions.jsonl)" = "$(($(wc -l <"$here/validation.tsv") - 1))" ] || fail "predictions.jsonl has another number of lines than the data"
grep -qF "from cache" err && fail "nothing can be cached on the first run"
# config.ini runs again as it is, elsewhere, to the same bits; and the tokens come from the cache.
expect 0 "$FTENGINE" train run/config.ini output.dir=again
says "from cache"
cmp run/model/model.safetensors again/model/model.safetensors || fail "the same configuration gave another model"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $small output.dir=run output.exists=error
one_error "holds a run already"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $small output.dir=run output.exists=new
[ -s run-001/run.json ] || fail "output.exists=new did not take the next number"
# Another start was as fast, and had the empty directory's lock first: the next number too, be it there already.
mkdir twin && exec 5<twin && flock 5
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $small output.dir=twin output.exists=new
[ -s twin-001/run.json ] && [ -z "$(ls twin)" ] || fail "two starts at once: $(ls -d twin*)"
exec 5<&-
# A run directory is a configuration that goes on; its config.ini goes on there when asked to, and begins another run else.
for resume in run-001 "run-001/config.ini output.exists=resume"; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $resume && says "at step 6" && says "$scratch/run-001"
    [ ! -e runs ] || fail "$resume goes on elsewhere: $(ls runs)"
done
expect 0 "$FTENGINE" train run-001/config.ini
[ "$(ls runs)" = config-001 ] || fail "RUN/config.ini does not begin another run"
expect 0 "$FTENGINE" train run-001 output.exists=new && [ -s run-001-001/run.json ] || fail "the command line wins over RUN"
mkdir no_run && cp run/config.ini no_run
expect 2 "$FTENGINE" train no_run && one_error "this is a directory"

# ---- eval, predict -------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" eval run --data "$here/validation.tsv" --json
[ "$(json out 'abs(d["metrics"]["loss"] - '"$(json run/run.json 'd["metrics"]["eval_loss"]')"') < 1e-6')" = True ] || fail "eval disagrees with the run: $(cat out)"
expect 0 "$FTENGINE" eval run/model --data "$here/validation.tsv"
grep -q '^accuracy' out || fail "eval prints no accuracy"
printf 'the soup was lovely\nwe took the train\n' >texts.txt
expect 0 "$FTENGINE" predict run --data texts.txt
[ "$(wc -l <out)" = 3 ] && [ "$(head -1 out)" = "$(printf 'label\tprobability\tp:food\tp:music\tp:travel\ttext')" ] || fail "predict: $(cat out)"
cp out one
expect 0 "$FTENGINE" predict run again --data texts.txt
cmp out one || fail "the mean of two equal models differs from one"
expect 0 "$FTENGINE" predict run --data texts.txt --output p.jsonl --logits
[ "$(python3 -c 'import json; r=[json.loads(l) for l in open("p.jsonl")]; print(len(r), abs(sum(r[0]["probabilities"].values())-1)<1e-6, sorted(r[0]["logits"]))')" = "2 True ['food', 'music', 'travel']" ] ||
    fail "p.jsonl: $(cat p.jsonl)"
"$FTENGINE" predict run --data - <texts.txt >out 2>err || fail "predict from standard input"
cmp out one || fail "standard input gives other predictions than the file"

# ---- help, config --------------------------------------------------------------------------------------------------------
for command in train eval predict config; do
    expect 0 "$FTENGINE" help $command && grep -q "ftengine $command" out || fail "help $command"
    expect 0 "$FTENGINE" $command --help && grep -q "ftengine $command" out || fail "$command --help"
done
expect 0 "$FTENGINE" --version && grep -q '^ftengine [0-9]' out || fail "--version"
for words in "--version --json" "help tune --json" "help --json tune"; do
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" $words && one_error "(${words##* })" && says "ftengine help --json"
done
expect 0 "$FTENGINE" --help && grep -q 'ftengine train' out || fail "--help"
expect 0 "$FTENGINE" config
cmp out "$SOURCE_DIR/configs/reference.ini" || fail "configs/reference.ini is not what ftengine config prints"

# ---- bad usage -----------------------------------------------------------------------------------------------------------
expect 2 "$FTENGINE"
expect 2 "$FTENGINE" trian && says "did you mean ftengine train"
expect 2 "$FTENGINE" train && one_error "no configuration"
expect 2 "$FTENGINE" train learning_rate=3e-5 && one_error "unknown option learning_rate" && says "called train.learning_rate here"
expect 2 "$FTENGINE" plan num_train_epochs=3 && says "called train.epochs here"
expect 2 "$FTENGINE" tune model=x && says "called model.path here"
expect 2 "$FTENGINE" train ./learning_rate=3e-5 && one_error "cannot open the file"
expect 2 "$FTENGINE" eval run && one_error "--data is missing"
expect 2 "$FTENGINE" eval run --dta x && says "did you mean --data"
expect 2 "$FTENGINE" predict --data texts.txt && one_error "run or model directory"
expect 2 "$FTENGINE" predict nowhere --data texts.txt && one_error "nowhere"

# ---- bad input: refused TEXT OVERRIDE...: exit code 2, one error with TEXT, no run directory ----------------------------
refused() {
    local text=$1
    shift
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $small output.dir=refused "$@"
    one_error "$text"
    [ ! -e refused ] || fail "a refused run left a directory: $*"
}
refused "train.batch_sise" train.batch_sise=4 && says "train.batch_size"
refused "train.batch_size" train.batch_size=0
refused "train.batch_size" train.batch_size=many
refused "missing.tsv" data.train=missing.tsv
refused "no such" model.path=no_such_model
printf 'text\tlabel\n' >empty.tsv && refused "empty.tsv" data.train=empty.tsv
printf 'text\tlabel\none\tfood\ntwo\n' >ragged.tsv && refused "ragged.tsv:3" data.train=ragged.tsv
printf 'text\tlabel\none\tfood\ntwo\tfood\n' >one.tsv && refused "nothing to learn" data.train=one.tsv
printf 'text\tlabel\none\tfood\ntwo\ttravle\n' >unknown.tsv && refused "unknown.tsv:3" data.validation=unknown.tsv && says "travel"
printf 'text\tlabel\none\tfood\ntwo\tmusic\n' >two.tsv && refused "classifier" data.train=two.tsv data.validation=two.tsv && says "ignore_mismatched_sizes"
refused "positions" data.max_length=4000
refused "freeze_layers" model.freeze_layers=99
refused "f1_binary" eval.metric=f1_binary
copy_model() { rm -rf m && cp -r "$here/model" m; }
copy_model && rm m/config.json && refused "config.json" model.path=m
copy_model && sed -i 's/"bert"/"gpt2"/' m/config.json && refused "gpt2" model.path=m
copy_model && sed -i 's/"hidden_size": *[0-9]*/"hidden_size": 33/' m/config.json && refused "hidden_size" model.path=m
copy_model && sed -i 's/"vocab_size": *[0-9]*/"vocab_size": 9/' m/config.json && refused "tokenizer" model.path=m
copy_model && sed -i 's/"intermediate_size": *[0-9]*/"intermediate_size": 40/' m/config.json && refused "the model needs" model.path=m
copy_model && echo '{' >m/config.json && refused "config.json:" model.path=m
copy_model && rm m/vocab.txt && refused "vocab.txt" model.path=m
copy_model && rm m/model.safetensors && refused "model.safetensors" model.path=m
copy_model && truncate -s -100 m/model.safetensors && refused "model.safetensors" model.path=m
copy_model && printf '\377\377\377\377\377\377\377\177' | dd of=m/model.safetensors conv=notrunc 2>/dev/null && refused "model.safetensors" model.path=m
copy_model && sed -i 's/bert.encoder.layer.0.output.dense.weight/bert.encoder.layer.0.output.dense.weighx/' m/model.safetensors && refused "output.dense.weight is missing" model.path=m
expect 2 "$FTENGINE" eval run --data unknown.tsv && one_error "unknown.tsv:3"
# What is no file would be waited for, or read, for ever.
mkfifo fifo
for file in config.json vocab.txt model.safetensors; do copy_model && rm m/$file && mkfifo m/$file && refused "this is a pipe ($scratch/m/$file)" model.path=m; done
refused "this is a pipe" data.train=fifo
refused "this is a device" data.train=/dev/zero
expect 2 "$FTENGINE" predict run --data /dev/zero && one_error "a row of more than"

# ---- failures while running ----------------------------------------------------------------------------------------------
touch afile
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $small output.dir=afile && one_error "afile"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $small output.dir=/proc/nowhere/run && one_error "(output.dir)"
# shellcheck disable=SC2086
expect 3 "$FTENGINE" train $small output.dir=oom memory.limit=200KiB && one_error "out of memory"
"$FTENGINE" predict run --data texts.txt >/dev/full 2>err
[ $? = 1 ] && says "standard output" || fail "a full standard output is not an error"
# A disk that fills up while the model is written: an error that names the file, and the last good model stays as it was.
# Without its checkpoints a run begins again, and so comes to write the model it has already.
cp -r run begun && rm -r begun/checkpoints
limited() { # limited KIBIBYTES COMMAND...: a limit on file sizes stands for a full disk
    (ulimit -f "$1"; shift; "$@" >out 2>err </dev/null)
}
# shellcheck disable=SC2086
limited 60 "$FTENGINE" train $small output.dir=begun output.exists=resume
[ $? = 1 ] || fail "a disk that fills up with the model in place: exit code"
one_error "model.safetensors"
diff -r run/model begun/model || fail "the good model was damaged"
# The model fits, the checkpoint does not: the older checkpoint stays.
cp -r run kept
# shellcheck disable=SC2086
limited 200 "$FTENGINE" train $small output.dir=kept output.exists=resume
[ $? = 1 ] || fail "a disk that fills up with the checkpoint: exit code"
one_error "state.safetensors"
diff -r run/checkpoints kept/checkpoints || fail "the good checkpoint was damaged"
[ -z "$(find begun kept -name '*.ft-*')" ] || fail "temporaries are left: $(find begun kept -name '*.ft-*')"
# shellcheck disable=SC2086
limited 60 "$FTENGINE" train $small output.dir=full
[ $? = 1 ] || fail "exit code of a run on a full disk"
[ ! -e full/model ] || fail "half a model was left"
# shellcheck disable=SC2086
limited 1 "$FTENGINE" train $small output.dir=tight --quiet
[ $? = 1 ] || fail "exit code of a run whose configuration finds no room"
one_error "tight/config.ini)"
for command in config "config train.epochs=1"; do
    # shellcheck disable=SC2086
    "$FTENGINE" $command >/dev/full 2>err
    [ $? = 1 ] && one_error "(standard output)"
done
# Divergence: exit code 5, and the checkpoint of the last good step is still there.
# shellcheck disable=SC2086
expect 5 "$FTENGINE" train $small output.dir=diverged train.learning_rate=100 train.weight_decay=1 train.warmup_steps=3 train.max_steps=60 output.save_steps=1 train.lr_scheduler=constant_with_warmup
one_error "diverged"
[ "$(json diverged/run.json 'd["status"]')" = diverged ] || fail "status of a diverged run"
ls diverged/checkpoints/step-*/state.json >/dev/null || fail "no checkpoint is left"
