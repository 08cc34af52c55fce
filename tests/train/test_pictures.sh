#!/usr/bin/env bash
# Runs on pictures from outside: handwritten digits (vectors/pictures/make_digits.py) by a small ViT and a small DINOv2. A folder and files give the same
# run; eval and predict take what training left; plans are met to the byte; a probe reads its cache, an adapter its files; and one clear error
# each for what cannot be.
# ctest: cost=30
. "$(dirname "$0")/../fixtures/shell_test.sh"
vectors=$SOURCE_DIR/tests/vectors
digits=$vectors/pictures/digits
rules='{"image_processor_type": "ViTImageProcessor", "size": {"height": SIZE, "width": SIZE}}'
for model in vit dinov2; do
    mkdir $model
    cp "$vectors/$model/config.json" "$vectors/$model/model.safetensors" $model
done
echo "${rules//SIZE/12}" >vit/preprocessor_config.json
echo "${rules//SIZE/16}" >dinov2/preprocessor_config.json
common="device.threads=1 data.cache_dir=none model.ignore_mismatched_sizes=true train.batch_size=8 train.learning_rate=2e-3 train.warmup_steps=0 eval.strategy=epoch"

# A folder a class; the accuracy is far above the tenth of chance.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common model.path=vit data.train="$digits/train" data.validation="$digits/val" train.epochs=25 output.dir=folder
says "120 pictures, 12 x 12"
accuracy() { python3 -c 'import json,sys; print([l for l in map(json.loads, open(sys.argv[1])) if "eval_accuracy" in l][-1]["eval_accuracy"])' "$1/metrics.jsonl"; }
python3 -c "import sys; sys.exit(not $(accuracy folder) >= 0.6)" || fail "an accuracy of $(accuracy folder)"
[ -s folder/model/preprocessor_config.json ] || fail "the model lacks preprocessor_config.json"
[ "$(json folder/model/config.json 'd["architectures"][0], d["image_size"], len(d["id2label"])')" = "('ViTForImageClassification', 12, 10)" ] || fail "config.json"
# Planned and metered bytes are one number.
[ "$(json folder/run.json 'all(d["memory"][k] == v for k, v in d["planned"].items()) and d["planned"]["peak_requested_bytes"] > 0')" = True ] || fail "planned and met: $(json folder/run.json 'd["memory"]')"

# The same from a CSV and from JSON lines, with paths relative to the file: the same bits.
python3 - "$digits" <<'PY'
import json, os, sys
root = sys.argv[1]
for split in "train", "val":
    rows = [(os.path.join(root, split, c, f), c) for c in sorted(os.listdir(os.path.join(root, split))) for f in sorted(os.listdir(os.path.join(root, split, c)))]
    os.makedirs("lists", exist_ok=True)
    with open(f"lists/{split}.csv", "w") as out:
        out.write("image,label\n" + "".join(f"{os.path.relpath(p, 'lists')},{c}\n" for p, c in rows))
    with open(f"lists/{split}.jsonl", "w") as out:
        out.writelines(json.dumps({"file_name": os.path.relpath(p, "lists"), "label": c}) + "\n" for p, c in rows)
    # What the pictures are called there is for data.image to say: "path" would be taken by its name.
    with open(f"lists/{split}-named.csv", "w") as out:
        out.write("path,photo,label\n" + "".join(f"camera {i},{os.path.relpath(p, 'lists')},{c}\n" for i, (p, c) in enumerate(rows)))
    with open(f"lists/{split}-named.jsonl", "w") as out:
        out.writelines(json.dumps({"path": f"camera {i}", "photo": os.path.relpath(p, "lists"), "label": c}) + "\n" for i, (p, c) in enumerate(rows))
PY
for kind in csv jsonl; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common model.path=vit data.train=lists/train.$kind data.validation=lists/val.$kind train.epochs=25 output.dir=$kind
    cmp -s folder/model/model.safetensors $kind/model/model.safetensors || fail "$kind leaves another model than a folder"
done

# What training left is read: the same accuracy, and a line a picture, in the order of names.
expect 0 "$FTENGINE" eval folder --data "$digits/val" --json
[ "$(json out 'd["metrics"]["accuracy"]')" = "$(accuracy folder)" ] || fail "eval: $(cat out)"
mkdir flat
for class in "$digits"/val/*; do cp "$class"/*.png flat; done
expect 0 "$FTENGINE" predict folder --data flat --json
[ "$(wc -l <out)" = 50 ] || fail "$(wc -l <out) lines for 50 pictures"
expect 0 "$FTENGINE" predict folder --data flat --output flat.tsv
expect 0 "$FTENGINE" predict folder --data lists/val.csv
cp out unnamed.tsv
for kind in csv jsonl; do
    expect 0 "$FTENGINE" predict folder --data lists/val-named.$kind data.image=photo
    cmp -s out unnamed.tsv || fail "predictions of pictures that data.image=photo names in $kind are others"
done
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common model.path=vit data.train=lists/train-named.csv data.validation=lists/val-named.jsonl data.image=photo train.max_steps=2 output.dir=named
says 'picture from "photo", label from "label"'
expect 0 "$FTENGINE" eval named --data lists/val-named.csv # the column of training
cp unnamed.tsv out
python3 - <<'PY' || fail "predictions of a folder and of a file differ"
import os, sys
rows = lambda path: [line.rstrip("\n").split("\t") for line in open(path)][1:]
by_name = lambda path: {os.path.basename(r[-1]): r[:-1] for r in rows(path)}
a, b = by_name("flat.tsv"), by_name("out")
sys.exit(not (len(a) == 50 and a == b and [r[-1] for r in rows("flat.tsv")] == sorted(a)))
PY

# Pictures of another size than the model's: its positions are interpolated, and the saved model is of that size.
echo "${rules//SIZE/20}" >vit/preprocessor_config.json
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common model.path=vit data.train="$digits/train" train.max_steps=2 eval.strategy=no output.dir=larger
says "positions for 12 x 12: they are interpolated"
[ "$(json larger/model/config.json 'd["image_size"]')" = 20 ] || fail "image_size is $(json larger/model/config.json 'd["image_size"]')"
expect 0 "$FTENGINE" eval larger --data "$digits/val"
echo "${rules//SIZE/12}" >vit/preprocessor_config.json

# A probe: the trunk's rows are made once, and found by the next run.
probe="model.path=dinov2 data.train=$digits/train data.validation=$digits/val train.parameters=classifier data.feature_cache=$scratch/features train.epochs=3"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common $probe output.dir=probe
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common $probe output.dir=probe-again
says "features   of 170 texts from"
cmp -s probe/model/model.safetensors probe-again/model/model.safetensors || fail "a probe from the cache is another"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common $probe data.feature_cache=off output.dir=probe-without
cmp -s probe/model/model.safetensors probe-without/model/model.safetensors || fail "a probe without the cache is another"

# An adapter, by the names of either version of transformers.
for names in query,value q_proj,v_proj; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common model.path=vit data.train="$digits/train" data.validation="$digits/val" train.epochs=2 adapter.type=lora adapter.r=4 \
        adapter.targets=$names output.dir=lora-$names
done
cmp -s lora-query,value/adapter/adapter_model.safetensors lora-q_proj,v_proj/adapter/adapter_model.safetensors || fail "names decide about an adapter"
grep -q '"vit.layers.0.attention.q_proj"' lora-query,value/adapter/adapter_config.json || fail "adapter_config.json: $(cat lora-query,value/adapter/adapter_config.json)"
expect 0 "$FTENGINE" eval lora-query,value --data "$digits/val" --json
[ "$(json out 'd["metrics"]["accuracy"]')" = "$(accuracy lora-query,value)" ] || fail "eval of an adapter"
expect 0 "$FTENGINE" merge lora-query,value --output merged
expect 0 "$FTENGINE" eval merged --data "$digits/val"

# What cannot be.
refused() { # TEXT OPTION...
    local text=$1
    shift
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $common model.path=vit data.train="$digits/train" output.dir=refused "$@"
    one_error "$text"
}
cp -r "$digits/train" broken
head -c 60 "$digits/train/3/0003.png" >broken/3/0003.png
refused "truncated PNG picture" data.train=broken
says broken/3/0003.png
mkdir broken/9/.hidden empty
refused "there are no folders of classes in it" data.train=empty
mkdir broken/none
refused 'there is no picture in its folder "none"' data.train=broken
refused "one for train and one for val, not for classes" data.train="$digits"
says "data.train=$digits/train data.validation=$digits/val"
refused "token_classification is for texts" train.task=token_classification
refused "reads pictures" data.text_pair=other
says "data.text_pair"
refused "pictures are not cut: they have 10 rows here" data.max_length=5
printf 'image,label\nnowhere.png,1\nnowhere.png,2\n' >lists/absent.csv
refused "nowhere.png" data.train=lists/absent.csv
refused 'no column "phota" for the picture' data.train=lists/train-named.csv data.image=phota
says 'did you mean "photo"?'
printf 'photo,label\n0.png,1\n' >lists/unnamed.csv
refused "no picture column found by its name" data.train=lists/unnamed.csv
says "name it with data.image=NAME"
printf 'image,path,label\n0.png,0.png,1\n' >lists/two.csv
refused 'which column is meant, "image" or "path"?' data.train=lists/two.csv
says "data.image=image or data.image=path says"
refused 'the pictures are in the column "photo", and data.text_column says "path"' data.train=lists/train-named.csv data.image=photo data.text_column=path
refused "it is no list of pictures" data.image=photo
expect 2 "$FTENGINE" train "$here/follow.ini" data.image=text output.dir=refused
one_error "this is for pictures, and" && says "data.text_column names the column of texts"
expect 2 "$FTENGINE" eval named --data lists/val-named.csv data.image=photos
one_error 'no column "photos" for the picture' && says 'did you mean "photo"?'
rm vit/preprocessor_config.json
refused "preprocessor_config.json"
echo "pictures: all as expected"
