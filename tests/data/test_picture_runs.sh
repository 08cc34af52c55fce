#!/usr/bin/env bash
# Training on changed pictures from outside: the same bits for any number of threads and any micro-batch, and of a run that is resumed in the middle of an
# epoch; plans are met to the byte; broken pictures are left out, named and counted; and one clear error each for what cannot be.
# ctest: asan_part=3 cost=20
. "$(dirname "$0")/../fixtures/shell_test.sh"
vectors=$SOURCE_DIR/tests/vectors
digits=$vectors/pictures/digits
mkdir vit
cp "$vectors/vit/config.json" "$vectors/vit/model.safetensors" vit
echo '{"image_processor_type": "ViTImageProcessor", "size": {"height": 12, "width": 12}}' >vit/preprocessor_config.json
common="device.threads=1 data.cache_dir=none model.path=vit model.ignore_mismatched_sizes=true train.batch_size=8 train.learning_rate=2e-3 train.warmup_steps=0 data.train=$digits/train"
one_by_one="augment.crop=true augment.crop_least=0.4 augment.flip=0.5 augment.color_jitter=0.4,0.4,0.4,0.1 augment.randaugment=2 augment.erasing=0.5"
all="$one_by_one augment.mixup=0.8 augment.cutmix=1 train.label_smoothing=0.1"
train() { # DIRECTORY OPTION...
    local dir=$1
    shift
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common train.epochs=2 eval.strategy=no output.dir="$dir" "$@"
}
same() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$2 leaves another model than $1"; }
differ() { cmp -s "$1/model/model.safetensors" "$2/model/model.safetensors" && fail "$2 leaves the model of $1"; return 0; }

# shellcheck disable=SC2086
train none
for workers in 0 1 4; do
    # shellcheck disable=SC2086
    train all-$workers $all data.workers=$workers
    same all-0 all-$workers
    [ "$(json all-$workers/run.json 'all(d["memory"][k] == v for k, v in d["planned"].items()) and d["planned"]["peak_requested_bytes"] > 0')" = True ] ||
        fail "planned and met with $workers workers: $(json all-$workers/run.json 'd["planned"], d["memory"]')"
done
differ none all-0
# shellcheck disable=SC2086
train cut $all train.micro_batch=3 data.workers=2
same all-0 cut
# shellcheck disable=SC2086
train accumulated $all train.batch_size=4 train.gradient_accumulation_steps=2 train.micro_batch=3
# shellcheck disable=SC2086
train accumulated-whole $all train.batch_size=4 train.gradient_accumulation_steps=2
same accumulated accumulated-whole
differ all-0 accumulated
# Each of them does something by itself.
for one in augment.crop=true augment.flip=0.5 augment.color_jitter=0.4 augment.randaugment=2 augment.erasing=1 augment.mixup=0.4 augment.cutmix=1; do
    train "${one%%=*}" $one
    differ none "${one%%=*}"
    rm -r "${one%%=*}"
done
# One by one pictures are changed, mixed they are not judged: an evaluation sees none of it.
# shellcheck disable=SC2086
train judged $all eval.strategy=epoch data.validation="$digits/val"
expect 0 "$FTENGINE" eval judged --data "$digits/val" --json
[ "$(json out 'd["metrics"]["accuracy"]')" = "$(json judged/run.json 'd["best"] and d["metrics"]["eval_accuracy"]')" ] || fail "eval: $(cat out)"

# In the middle of an epoch (15 steps each), and at once: the state of step 10 goes on, with other threads.
# shellcheck disable=SC2086
train whole $all output.save_steps=5 output.save_total_limit=10
same all-0 whole
cp -r whole resumed
rm -r resumed/model resumed/run.json
for step in resumed/checkpoints/step-*; do [ "${step##*-}" -gt 10 ] && rm -r "$step"; done
[ "$(ls resumed/checkpoints | tail -n 1)" = step-00000010 ] || fail "checkpoints: $(ls resumed/checkpoints)"
# shellcheck disable=SC2086
train resumed $all output.save_steps=5 output.save_total_limit=10 output.exists=resume data.workers=3
says "10"
same whole resumed

# Broken pictures.
cp -r "$digits/train" broken
head -c 60 "$digits/train/3/0003.png" >broken/3/0003.png
echo nothing >broken/0/0000.png
# shellcheck disable=SC2086
train skipped $one_by_one data.train=broken data.broken_pictures=skip
says "0/0000.png: not a picture: left out"
says "2 of 120 pictures cannot be read and are left out"
[ "$(json skipped/run.json 'sorted(b["file"] for b in d["data"]["train"]["broken"])')" = "['0/0000.png', '3/0003.png']" ] || fail "run.json: $(json skipped/run.json 'd["data"]["train"]')"
[ "$(json skipped/run.json 'd["data"]["train"]["examples"]')" = 118 ] || fail "examples"
[ "$(json all-0/run.json 'd["data"]["train"]["broken"]')" = "[]" ] || fail "nothing was left out there"
expect 0 "$FTENGINE" eval judged --data broken --json data.broken_pictures=skip
expect 2 "$FTENGINE" eval judged --data broken
one_error "not a picture"
expect 0 "$FTENGINE" predict judged --data broken --output skipped.tsv data.broken_pictures=skip
expect 0 "$FTENGINE" predict judged --data "$digits/train" --output whole.tsv
python3 - <<'PY' || fail "predictions of other pictures changed"
import sys
rows = lambda path: {line.split("\t")[-1]: line for line in open(path)}
whole, skipped = rows("whole.tsv"), rows("skipped.tsv")
gone = set(whole) - set(skipped)
sys.exit(not (len(gone) == 2 and all(whole[k] == v for k, v in skipped.items())))
PY

# A picture that goes while the run reads: one error with its name, whoever reads it.
for workers in 0 2; do
    rm -rf going
    cp -r "$digits/train" going
    # shellcheck disable=SC2086
    "$FTENGINE" train $common data.train=going train.epochs=100000 eval.strategy=no augment.crop=true data.workers=$workers output.dir=gone-$workers output.save_steps=100000 >out 2>err &
    pid=$!
    for _ in $(seq 12000); do grep -q "Training Start" err && break; sleep 0.01; done
    rm going/7/*.png
    wait $pid
    [ $? = 2 ] || fail "exit code of a run whose pictures went"
    one_error "going/7/"
done

# JPEG decoded at a part of its size: other pixels, and with augment.crop none of it.
printf 'image,label\n%s,a\n%s,b\n' "$vectors/pictures/files/large.jpg" "$vectors/pictures/files/large444.jpg" >large.csv
for run in "large " "large-scaled data.scaled_decoding=true" "large-cropped augment.crop=true" "large-both augment.crop=true data.scaled_decoding=true"; do
    # shellcheck disable=SC2086
    train ${run%% *} data.train=large.csv ${run#* }
done
differ large large-scaled
same large-cropped large-both
expect 0 "$FTENGINE" eval large-scaled --data large.csv data.scaled_decoding=true

# What cannot be.
refused() { # TEXT OPTION...
    local text=$1
    shift
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $common output.dir=refused "$@"
    one_error "$text"
}
refused "neither one number, nor three or four" augment.color_jitter=0.4,0.4
refused "neither one number, nor three or four" augment.color_jitter=much
refused "hue is turned by at most 0.5" augment.color_jitter=0.4,0.4,0.4,0.6
refused "is more than augment.crop_most" augment.crop=true augment.crop_least=0.5 augment.crop_most=0.4
refused "labels are mixed in the cross-entropy of single_label" augment.mixup=1 train.loss=focal
refused "augment.flip" augment.flip=1.5
mkdir none-left none-left/a
echo nothing >none-left/a/x.png
refused "none of its 1 pictures can be read" data.train=none-left data.broken_pictures=skip
expect 2 "$FTENGINE" train "$here/follow.ini" augment.flip=0.5 output.dir=refused
one_error "this is for pictures"
expect 2 "$FTENGINE" train "$here/follow.ini" data.scaled_decoding=true output.dir=refused
one_error "this is for pictures" && says "data.scaled_decoding"
echo "augment: all as expected"
