#!/usr/bin/env bash
# Where pictures come from, from outside: flowers102 and CUB-200-2011 in miniature (vectors/pictures/make_sets.py), laid out as they are downloaded; and
# archives of samples, by Python's tarfile in all its formats. Each gives what a folder or a list of the same pictures gives, to the bit; lists that
# do not fit, and archives that are cut or leave, are one clear error.
# ctest: asan_part=4 cost=30
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/page_test.sh" || exit 1
vectors=$SOURCE_DIR/tests/vectors
pictures=$vectors/pictures
mkdir vit
cp "$vectors/vit/config.json" "$vectors/vit/model.safetensors" vit
echo '{"image_processor_type": "ViTImageProcessor", "size": {"height": 12, "width": 12}}' >vit/preprocessor_config.json
common="device.threads=1 data.cache_dir=none model.path=vit model.ignore_mismatched_sizes=true train.batch_size=8 train.learning_rate=2e-3 train.warmup_steps=0 train.epochs=2 eval.strategy=epoch"
train() { # CODE OPTION...
    local code=$1
    shift
    # shellcheck disable=SC2086
    expect "$code" "$FTENGINE" train $common "$@"
}
sizes() { json "$1/run.json" '[d["data"][s]["examples"] if s in d["data"] else 0 for s in ("train", "validation", "test")]'; }
same() { cmp -s "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$1 and $2 leave different models"; }

# ---- flowers102: official splits, and the same as lists of them, read by somebody else ------------------------------------------
cp -r "$pictures/flowers-102" flowers
train 0 data.train=flowers output.dir=run-flowers
[ "$(sizes run-flowers)" = "[30, 10, 10]" ] || fail "flowers102 has $(sizes run-flowers)"
[ "$(json run-flowers/model/config.json 'len(d["id2label"]), d["id2label"]["0"], d["id2label"]["9"]')" = "(10, '001', '010')" ] || fail "$(cat run-flowers/model/config.json)"
python3 - <<'PY'
# make_sets.py: test, three times training, validation, ten classes each.
for split, numbers in ("test", range(1, 11)), ("train", range(11, 41)), ("validation", range(41, 51)):
    with open(f"flowers/{split}.csv", "w") as out:
        out.write("image,label\n" + "".join(f"jpg/image_{i:05d}.jpg,{(i - 1) % 10 + 1:03d}\n" for i in numbers))
PY
train 0 data.train=flowers/train.csv data.validation=flowers/validation.csv data.test=flowers/test.csv output.dir=run-lists
same run-flowers run-lists
expect 0 "$FTENGINE" eval run-flowers --data 'flowers#test' --json
[ "$(json out 'd["metrics"]["accuracy"]')" = "$(json run-flowers/run.json 'd["metrics"]["test_accuracy"]')" ] || fail "eval of the test split: $(cat out)"
expect 2 "$FTENGINE" eval run-flowers --data flowers
one_error "this is flowers102: which of its splits is meant?"
expect 0 "$FTENGINE" predict run-flowers --data 'flowers#validation' --json
[ "$(wc -l <out)" = 10 ] || fail "$(wc -l <out) predictions"
[ "$(head -n 1 out | python3 -c 'import json,sys; print(json.loads(sys.stdin.readline())["file_name"])')" = jpg/image_00041.jpg ] || fail "$(head -n 1 out)"
expect 0 "$FTENGINE" predict run-flowers --data flowers --json
[ "$(wc -l <out)" = 50 ] || fail "$(wc -l <out) predictions of all"
train 0 data.train='flowers#train' output.dir=run-alone
[ "$(sizes run-alone)" = "[30, 0, 0]" ] || fail "the training split alone: $(sizes run-alone)"
train 0 data.train=flowers data.validation_split=0.2 output.dir=run-cut
[ "$(sizes run-cut)" = "[24, 6, 10]" ] || fail "with a part held out: $(sizes run-cut)"
# Lines of a run say which picture they are about, and the page shows those of the surest mistakes.
[ "$(python3 -c 'import json; print([l["file_name"] for l in map(json.loads, open("run-flowers/predictions.jsonl")) if l["split"] == "test"][9])')" = jpg/image_00010.jpg ] ||
    fail "$(head -n 1 run-flowers/predictions.jsonl)"

cat >page.py <<'PY'
"""page.py PAGE RUN FOLDER: the surest mistakes of both splits, their pictures small in the page; how many of how many."""
import json, struct, sys
from read import Page
page = Page(sys.argv[1])
lines = [json.loads(line) for line in open(sys.argv[2] + "/predictions.jsonl")]
wrong = {split: [l for l in lines if l["split"] == split and l["label"] != l["predicted"]] for split in ("validation", "test")}
expected = sum(min(12, len(w)) for w in wrong.values())
rows = [r for r in page.rows if len(r) == 5 and r[0].isdigit() and r[4].endswith(".jpg")]
names = {(l["file_name"], l["label"], l["predicted"]) for w in wrong.values() for l in w}
assert all((r[4], r[1], r[2]) in names for r in rows), rows
for image in page.images:
    assert image["bytes"][:2] == b"\xff\xd8" and 1 <= int(image["width"]) <= 112 and 1 <= int(image["height"]) <= 112, image
assert len(page.source) < 400000 and "img-src data:" in page.source
print(len(page.images), len(rows), expected, "cannot be read any more" in page.text)
PY
expect 0 "$FTENGINE" report run-flowers --output flowers.html
read -r images rows expected gone <<<"$(python3 page.py flowers.html run-flowers)"
[ "${expected:-0}" -gt 0 ] && [ "$images" = "$expected" ] && [ "$rows" = "$expected" ] && [ "$gone" = False ] || fail "the page has $images pictures in $rows rows of $expected mistakes"
expect 0 "$FTENGINE" report run-flowers --no-texts --output without.html
grep -q '<img' without.html && fail "pictures with --no-texts"
mv flowers/jpg flowers/elsewhere
expect 0 "$FTENGINE" report run-flowers --output gone.html
read -r images rows more gone <<<"$(python3 page.py gone.html run-flowers)"
[ "$images" = 0 ] && [ "$rows" = "$expected" ] && [ "$gone" = True ] || fail "pictures that are gone: $images of $rows, of $more"
mv flowers/elsewhere flowers/jpg
# Names as nobody should write them.
mkdir names
python3 - <<'PY'
import json, shutil
with open("names/list.jsonl", "w") as out:
    for i in range(11, 31):
        name = f"<img src=x onerror=alert({i})>\"'&\u202e\u05d0 {i}.jpg".replace("/", "")
        shutil.copy(f"flowers/jpg/image_{i:05d}.jpg", "names/" + name)
        out.write(json.dumps({"image": name, "label": f"{i % 2}"}) + "\n")
PY
train 0 data.train=names/list.jsonl data.validation=names/list.jsonl train.epochs=1 output.dir=run-names
expect 0 "$FTENGINE" report run-names --output names.html
read -r images rows expected gone <<<"$(python3 page.py names.html run-names)"
[ "${expected:-0}" -gt 0 ] && [ "$images" = "$expected" ] && [ "$rows" = "$expected" ] || fail "names that are markup: $images pictures in $rows rows of $expected"

# ---- CUB-200-2011 -----------------------------------------------------------------------------------------------------------------
cp -r "$pictures/CUB_200_2011" birds
train 0 data.train=birds data.validation_split=0.2 output.dir=run-birds
[ "$(sizes run-birds)" = "[32, 8, 8]" ] || fail "CUB-200-2011 has $(sizes run-birds)"
[ "$(json run-birds/model/config.json 'd["id2label"]["7"]')" = 008.Digit_7 ] || fail "$(cat run-birds/model/config.json)"
python3 - <<'PY'
import os
os.makedirs("folder/train")
os.makedirs("folder/test")
lines = lambda name: [line.split()[1] for line in open(f"birds/{name}.txt")]
for path, side in zip(lines("images"), lines("train_test_split")):
    to = os.path.join("folder", "train" if side == "1" else "test", path)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    os.symlink(os.path.abspath(f"birds/images/{path}"), to)
PY
train 0 data.train=folder/train data.test=folder/test data.validation_split=0.2 output.dir=run-folder
same run-birds run-folder
# Planned and metered bytes are one number.
[ "$(json run-birds/run.json 'all(d["memory"][k] == v for k, v in d["planned"].items()) and d["planned"]["peak_requested_bytes"] > 0')" = True ] || fail "planned and met"
train 2 data.train=birds data.validation=birds output.dir=refused
one_error "CUB-200-2011 has no validation split"

# ---- a study over a set that has a validation split of its own -----------------------------------------------------------------------
printf '[model]\npath = vit\n' >vit.ini
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune vit.ini $common data.train=flowers train.epochs=1 'space.train.learning_rate=float(1e-3, 2e-3, log)' study.objective='maximize eval.accuracy' \
    --study flowers --storage "sqlite:///$scratch/study.db" --trials 1 --parallel 1

# ---- what does not fit ------------------------------------------------------------------------------------------------------------
broken() { # TEXT WHERE: the copy in `broken` is refused
    train 2 data.train=broken data.validation_split=0.2 output.dir=refused
    one_error "$1"
    says "$2"
    rm -rf broken
}
fresh() { rm -rf broken; cp -r "$pictures/$1" broken; }
fresh flowers-102; rm -r broken/jpg broken/setid.mat
broken "of flowers102 there are missing: jpg, setid.mat" broken
fresh CUB_200_2011; rm broken/images.txt broken/classes.txt
broken "of CUB-200-2011 there are missing: images.txt, classes.txt" broken
fresh flowers-102; rm broken/jpg/image_00011.jpg
broken "cannot open the file" broken/jpg/image_00011.jpg
fresh flowers-102; cp broken/imagelabels.mat broken/setid.mat
broken 'there is no "trnid" in it' broken/setid.mat
fresh flowers-102; head -c 150 "$pictures/flowers-102/setid.mat" >broken/setid.mat
broken "a damaged or truncated MATLAB file" broken/setid.mat
fresh CUB_200_2011; sed -i '3s/.*/3 9/' broken/image_class_labels.txt
broken "class 9 is not in classes.txt" broken/image_class_labels.txt:3
fresh CUB_200_2011; sed -i '3d' broken/train_test_split.txt
broken "picture 4, and images.txt has 3 there" broken/train_test_split.txt:3
fresh CUB_200_2011; sed -i '$d' broken/train_test_split.txt
broken "it ends before images.txt, at picture 48" broken/train_test_split.txt
fresh CUB_200_2011; sed -i '2s/.*/2 2/' broken/train_test_split.txt
broken '"2": 1 is for training, 0 for the test' broken/train_test_split.txt:2
fresh CUB_200_2011; sed -i '5s/.*/5 ..\/..\/secret.jpg/' broken/images.txt
broken "leaves the folder" broken/images.txt:5
fresh CUB_200_2011; echo 1 >broken/classes.txt
broken "a line has a number and what belongs to it" broken/classes.txt:1

# ---- archives: the birds again, in the order of their list ----------------------------------------------------------------------------
cat >pack.py <<'PY'
"""Python's tarfile as the oracle: what it packs is read. samples() in the order of images.txt, with labels as classes' names."""
import io, json, tarfile


def samples(side):
    lines = lambda name: [line.split()[1] for line in open(f"birds/{name}.txt")]
    names = lines("classes")
    return [(p, names[int(c) - 1]) for p, c, s in zip(lines("images"), lines("image_class_labels"), lines("train_test_split")) if s == side]


def add(tar, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def pack(path, rows, label, form=tarfile.GNU_FORMAT, prefix=""):
    with tarfile.open(path, "w", format=form) as tar:
        for i, (picture, name) in enumerate(rows):
            key = f"{prefix}{i:06d}"
            add(tar, key + ".jpg", open(f"birds/images/{picture}", "rb").read())
            add(tar, key + ".txt", b"passed over")
            if label == "cls":
                add(tar, key + ".cls", name.encode() + b"\n")
            else:
                add(tar, key + ".json", json.dumps({"file_name": "x", "label": name, "source": "digits"}).encode())


if __name__ == "__main__":
    train, test = samples("1"), samples("0")
    for k in range(3):  # shards of 14, 14 and 12
        pack(f"train-{k:03d}.tar", train[14 * k : 14 * (k + 1)], "cls", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT][k])
    pack("test.tar", test, "json", tarfile.PAX_FORMAT, "long/" * 30)
    pack("test-gnu.tar", test, "json", tarfile.GNU_FORMAT, "long/" * 30)
    pack("tägs.tar", test, "cls", tarfile.PAX_FORMAT, "ü/")
PY
python3 pack.py || fail "pack.py"
train 0 data.train='train-{000..002}.tar' data.test=test.tar data.validation_split=0.2 output.dir=run-tar
[ "$(sizes run-tar)" = "[32, 8, 8]" ] || fail "archives have $(sizes run-tar)"
same run-tar run-folder
[ "$(json run-tar/run.json 'd["metrics"]["test_accuracy"]')" = "$(json run-folder/run.json 'd["metrics"]["test_accuracy"]')" ] || fail "another accuracy on the test archive"
for name in test-gnu.tar tägs.tar; do
    expect 0 "$FTENGINE" eval run-tar --data "$name" --json
    [ "$(json out 'd["metrics"]["accuracy"]')" = "$(json run-tar/run.json 'd["metrics"]["test_accuracy"]')" ] || fail "eval of $name: $(cat out)"
done
expect 0 "$FTENGINE" predict run-tar --data 'train-{000..002}.tar' --json
[ "$(python3 -c 'import json; rows = [json.loads(l)["file_name"] for l in open("out")]; print(len(rows), rows[13], rows[14])')" = "40 train-000.tar/000013.jpg train-001.tar/000000.jpg" ] ||
    fail "predictions of archives: $(head -n 2 out)"
expect 0 "$FTENGINE" predict run-tar --data test.tar
[ "$(head -n 2 out | tail -n 1 | awk -F '\t' '{print $NF}')" = "test.tar/$(printf 'long/%.0s' {1..30})000000.jpg" ] || fail "$(head -n 2 out)"
expect 0 "$FTENGINE" report run-tar --output tar.html
read -r images rows expected gone <<<"$(python3 page.py tar.html run-tar)"
[ "${expected:-0}" -gt 0 ] && [ "$images" = "$expected" ] && [ "$gone" = False ] || fail "pictures of archives in the page: $images of $expected"
# Another member of the JSON is the label; a column that says what belongs together.
train 2 data.train=test.tar data.label_column=colour output.dir=refused
one_error 'no column "colour" for the label'
train 0 data.train=test.tar data.label_column=label data.test=test.tar output.dir=run-json

# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan vit.ini $common "data.train=train-{000..002}.tar" data.validation_split=0.2 data.test=test.tar --json
[ "$(json out 'd["memory"]["peak_requested_bytes"]')" = "$(json run-tar/run.json 'd["memory"]["peak_requested_bytes"]')" ] || fail "the plan of a run on archives is another"

# ---- archives that are refused ----------------------------------------------------------------------------------------------------------
cat >spoil.py <<'PY'
import gzip, io, os, sys, tarfile
from pack import add, samples
jpg = open("birds/images/" + samples("1")[0][0], "rb").read()
def make(name, *entries):
    with tarfile.open(name, "w") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
            else:
                add(tar, *entry)
def special(name, kind, link=""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry
good = (("0.jpg", jpg), ("0.cls", b"a"))
make("link.tar", *good, special("1.jpg", tarfile.SYMTYPE, "/etc/passwd"))
make("hard.tar", *good, special("1.jpg", tarfile.LNKTYPE, "0.jpg"))
make("up.tar", *good, ("../1.jpg", jpg))
make("unlabelled.tar", *good, ("1.jpg", jpg))
make("alone.tar", ("0.cls", b"a"), *good)
make("nolabel.tar", ("0.jpg", jpg))
make("blank.tar", ("0.jpg", jpg), ("0.cls", b" \n"))
make("twice.tar", ("0.jpg", jpg), ("0.png", jpg), ("0.cls", b"a"))
make("json.tar", ("0.jpg", jpg), ("0.json", b'["a"]'))
make("text.tar", ("0.jpg", b"no picture"), ("0.cls", b"a"), ("1.jpg", jpg), ("1.cls", b"b"))
make("empty.tar", ("readme.txt", b"hello"))
make("far.tar", ("0.jpg", jpg), ("1.jpg", jpg), ("0.cls", b"a"), ("1.cls", b"b"))
data = open("train-000.tar", "rb").read()
open("cut.tar", "wb").write(data[: len(data) // 2 - 700])
open("packed.tar", "wb").write(gzip.compress(data))
os.makedirs("sub", exist_ok=True)
PY
python3 spoil.py || fail "spoil.py"
while IFS='|' read -r name text where; do
    train 2 "data.train=$name" output.dir=refused
    one_error "$text"
    says "$where"
done <<'TABLE'
link.tar|a link, which is not supported|link.tar: 1.jpg
hard.tar|a link, which is not supported|hard.tar: 1.jpg
up.tar|the path of a member goes up|up.tar: ../1.jpg
unlabelled.tar|there is no "cls" with this sample, and with the first there is|unlabelled.tar: 1
alone.tar|two labels|alone.tar: 0
nolabel.tar|a sample without a label|nolabel.tar: 0
blank.tar|its label (.cls) is empty|blank.tar: 0
twice.tar|a sample with two pictures|twice.tar: 0
json.tar|its .json is no JSON object|json.tar: 0
text.tar|not a picture|text.tar/0.jpg
empty.tar|there are no pictures in it|empty.tar
far.tar|a sample without a label|far.tar: 0
cut.tar|truncated|cut.tar
packed.tar|a packed archive|gunzip
train-{000..009}.tar|cannot open the file|train-003.tar
train-{2..0}.tar|a range that ends before it begins|{2..0}
none-{0,1}.tar|braces in the name of an archive that are no range|train-{000..012}.tar
TABLE
echo "picture sources: all as expected"
