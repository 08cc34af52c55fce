#!/usr/bin/env bash
# `ftengine plan` of a configuration with a search space, from outside: the space's document against a sweep of the same points, exit codes
# as verdicts, what it is said of, policies, texts, pictures, and what is refused.
# ctest: asan_part=2
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
holds() { [ "$(json "$1" "$2")" = True ] || fail "not so in $1: $2"; }
config() { # config NAME LINE...: a small model with a space of these lines
    local name=$1
    shift
    printf '[model]\npath = prajjwal1/bert-tiny\n[train]\nmax_steps = 4\n[data]\nmax_length = 128\n[space]\ntrain.learning_rate = float(1e-6, 1e-3, log)\n' >"$name"
    printf '%s\n' "$@" >>"$name"
}
space() { # space CODE FILE ARGUMENT...: its plan as JSON, in space.json
    local code=$1
    shift
    expect "$code" "$FTENGINE" plan "$@" --json
    python3 -c 'import json; json.dump(json.load(open("out"))["space"], open("space.json", "w"))'
}

# ---- the same points as a sweep ------------------------------------------------------------------------------------------
config grid.ini 'train.batch_size = choice(8, 64, 256)' 'data.max_length = int(32, 128, step=32)' 'train.gradient_checkpointing = choice(off, on)' 'train.weight_decay = float(0, 0.1)'
for limit in 96MiB 200MiB 600MiB 8GiB; do
    sweep=(--sweep train.batch_size=8,64,256 --sweep data.max_length=32,64,96,128 --sweep train.gradient_checkpointing=off,on --memory $limit --json)
    "$FTENGINE" plan grid.ini "${sweep[@]}" >sweep.json 2>/dev/null
    code=$?
    space $code grid.ini --memory $limit
    python3 - <<'PY' || fail "the space and the sweep of $limit differ: $(cat space.json)"
import json
space, rows = json.load(open("space.json")), json.load(open("sweep.json"))["rows"]
kind = lambda r: "never" if not r["fits"] else "refit" if r["autofit"] else "fit"
asked = lambda r: r["autofit"]["ideal"]["peak_reserved_bytes"] if r["autofit"] else r["peak_reserved_bytes"]
assert space["exhaustive"] and space["points"] == len(rows) == 24
for k in ("fit", "refit", "never"):
    assert space[k] == sum(kind(r) == k for r in rows), k
    assert abs(space["share"][k] - space[k] / 24) < 1e-12
assert space["worst"]["peak_reserved_bytes"] == max(map(asked, rows))
worst = [r for r in rows if asked(r) == space["worst"]["peak_reserved_bytes"]]
assert any(all(str(v) == space["worst"]["options"][k] for k, v in r["options"].items()) for r in worst)
assert [p["name"] for p in space["parameters"]] == ["train.batch_size", "data.max_length", "train.gradient_checkpointing"]
for p in space["parameters"]:
    for v in p["values"]:
        own = [r for r in rows if str(r["options"][p["name"]]) == v["value"]]
        assert own and v["peak_reserved_bytes"] == max(map(asked, own))
        for k in ("fit", "refit", "never"):
            assert abs(v["share"][k] - sum(kind(r) == k for r in own) / len(own)) < 1e-12
assert space["no_byte_depends_on"] == ["train.learning_rate", "train.weight_decay"]
PY
done
# For people the same, behind the plan of the configuration itself; as CSV the worst.
expect 0 "$FTENGINE" plan grid.ini --memory 200MiB
head -1 out | grep -q '^fits: ' || fail "the plan of the configuration is not in front: $(head -1 out)"
grep -q '^space  *24 points, all of them planned' out && grep -q '^ *no byte depends on train.learning_rate, train.weight_decay$' out || fail "for people: $(cat out)"
[ "$(grep -cE '^(train.batch_size|data.max_length|train.gradient_checkpointing)? +[^ ]+ +[0-9.]+% +[0-9.]+% +[0-9.]+%' out)" = 9 ] || fail "by parameter: $(cat out)"
expect 0 "$FTENGINE" plan grid.ini --memory 8GiB --csv && grep -q '^space,worst,[0-9]*$' out || fail "as CSV: $(cat out)"

# ---- the exit code is the space's verdict ----------------------------------------------------------------------------------
space 3 grid.ini --memory 20MiB && one_error "none of 24 points" && says "the smallest takes"
space 4 grid.ini --gpu t4 && one_error "not supported"
holds space.json 'd["not_supported"] == d["points"] == 24 and d["worst"]["verdict"] == "not_supported"'
space 0 grid.ini --gpu t4 device.name=cpu
# The configuration itself may not fit, and the space does; the other way round nothing of it is a study.
printf '[model]\npath = prajjwal1/bert-tiny\n[train]\nbatch_size = 512\nmicro_batch = 512\ngradient_checkpointing = off\n[space]\ntrain.batch_size = choice(2, 4)\ntrain.micro_batch = 1\n' >small.ini
expect 0 "$FTENGINE" plan small.ini --memory 128MiB
head -1 out | grep -q '^does not fit: ' && [ ! -s err ] || fail "the verdict of the space is not that of its configuration: $(cat out)"
config large.ini 'train.batch_size = choice(400, 512)' 'train.micro_batch = 400' 'train.gradient_checkpointing = off'
space 3 large.ini --memory 200MiB && holds space.json 'd["never"] == 2'
expect 0 "$FTENGINE" plan large.ini --memory 200MiB --sweep train.batch_size=8 && says "[space] is left out of a sweep"
expect 0 "$FTENGINE" plan large.ini --memory 200MiB --table && says "[space] is left out of a table"

# ---- a model that only the space has, and policies -----------------------------------------------------------------------
printf '[space]\nmodel.path = choice(prajjwal1/bert-tiny, prajjwal1/bert-mini)\ntrain.batch_size = choice(8, 16) if model.path = bert-mini\n' >models.ini
space 0 models.ini --memory 8GiB
holds space.json 'd["points"] == 3 and d["parameters"][0]["values"][1]["value"] == "bert-mini" and d["parameters"][1]["name"] == "train.batch_size"'
expect 0 "$FTENGINE" plan models.ini --memory 8GiB --json && holds out '"memory" not in d and "space" in d'
printf '[space]\nmodel.path = choice(prajjwal1/bert-tny)\n' >nothing.ini
expect 2 "$FTENGINE" plan nothing.ini
one_error "no model given" # which the configuration is told of first
expect 2 "$FTENGINE" plan grid.ini model.path=bert-tny && one_error "no such model directory" && [ ! -s out ] || fail "output beside an error"
config policy.ini 'train.batch_size = choice(8, 256)'
for policy in fit prune constrain; do
    space 0 policy.ini --memory 200MiB study.memory_policy=$policy # what is at auto counts as what a trial would like best
    holds space.json 'd["fit"] == 1 and d["refit"] == 1 and d["memory_policy"] == "'$policy'"'
    expect 0 "$FTENGINE" plan policy.ini --memory 200MiB study.memory_policy=$policy
    [ "$(grep -c "not with study.memory_policy=$policy" out)" = "$([ $policy = fit ] && echo 0 || echo 1)" ] || fail "$policy: $(cat out)"
done

# ---- values that do not go together -----------------------------------------------------------------------------------------
config invalid.ini 'data.max_length = choice(64, 4096)'
space 0 invalid.ini --memory 8GiB
holds space.json 'd["invalid"] == 1 and d["fit"] == 1 and "4096 tokens" in d["invalid_because"]'
config broken.ini 'train.batch_size = choise(1, 2)'
expect 2 "$FTENGINE" plan broken.ini && one_error "there is no choise()" && [ ! -s out ] || fail "a space that is none"

# ---- with texts, whose order a seed decides; with what is not here, of full length ---------------------------------------
python3 - "$here" <<'PY' >uneven.tsv
import sys
labels = sorted({line.rsplit("\t")[-1] for line in open(sys.argv[1] + "/train.tsv").read().splitlines()[1:]})
print("text\tlabel")
for i in range(400): print("w " * (120 if i % 7 == 0 else 1) + "\t" + labels[i % len(labels)])
PY
printf '[model]\npath = %s\n[data]\ntrain = uneven.tsv\nmax_length = 48\n[train]\nbatch_size = 64\nmax_steps = 1\n[space]\ntrain.seed = int(1, 4)\n' "$here/model" >seeds.ini
space 0 seeds.ini --memory 1GiB
for seed in 1 2 3 4; do
    expect 0 "$FTENGINE" plan seeds.ini --memory 1GiB train.seed=$seed --json
    json out 'd["memory"]["peak_reserved_bytes"]'
done >one-by-one
[ "$(sort -n one-by-one | tail -1)" = "$(json space.json 'd["worst"]["peak_reserved_bytes"]')" ] || fail "seeds: $(cat one-by-one space.json)"
holds space.json 'd["points"] == 4 and "texts_missing" not in d'
space 0 seeds.ini --memory 1GiB data.train=nowhere.tsv
holds space.json 'd["points"] == 1 and "nowhere.tsv" in d["texts_missing"]'

# ---- more than can be planned one by one ---------------------------------------------------------------------------------
config wide.ini 'train.batch_size = int(1, 1000)' 'data.max_length = int(4, 128)'
[ -n "${FT_SANITIZE:-}" ] || {
    expect 0 "$FTENGINE" plan wide.ini --memory 8GiB && grep -q '^worst .* train.batch_size=1000$' out && grep -q '^space  *too many points to plan all: a sample of 1000 random draws, and all 4 corners' out ||
        fail "it is not said that it is a sample: $(cat out)"
}

# ---- a picture ------------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" plan grid.ini --memory 200MiB --svg space.svg
python3 - <<'PY' || fail "the picture"
import xml.etree.ElementTree as tree
root = tree.parse("space.svg").getroot()
texts = ["".join(x.itertext()) for x in root.iter() if x.tag.endswith("}text")]
titles = ["".join(x.itertext()) for x in root.iter() if x.tag.endswith("}title")]
assert "How much of the search space fits" in texts and all(name in texts for name in ("train.batch_size", "data.max_length", "train.gradient_checkpointing"))
assert any(t.startswith("train.batch_size = 256: ") for t in titles) and len(titles) >= 9
PY
expect 1 "$FTENGINE" plan grid.ini --memory 200MiB --svg nowhere/space.svg && one_error nowhere
expect 2 "$FTENGINE" plan model.path=bert-base-uncased --svg plain.svg && one_error "--svg is the picture of a --table, a --sweep or a [space]"
echo "all good"
