#!/usr/bin/env bash
# device.gemm_tuning = auto, on a cuBLASLt whose third algorithm is the fastest by a fake clock: measured once, kept, taken by every later run,
# and by a resumed run from its own directory; what a kill, a ^C, a second process, another driver, a damaged file or a disk that takes nothing leave.
# ctest: part=4 tsan=leave asan_part=2 cost=1000
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
: "${FAKE_CUDA_DIR:?}" "${EMULATED_MODULE:?}" "${FAKE_CUBLASLT:?}"
export FAKE_REPORT=$scratch/report FTENGINE_CUDA_MODULE=$EMULATED_MODULE FTENGINE_CUBLASLT=$FAKE_CUBLASLT
export LD_LIBRARY_PATH=$FAKE_CUDA_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FAKE_CUDA=version=13000,memory=1073741824
unset FAKE_LT_FASTEST FAKE_LT_HOLD
cache=$XDG_CACHE_HOME/ftengine/gemm

# One micro-batch a text: of seven of eight it has five tokens, 105 in the run. Three a micro-batch have 15, most of them.
python3 - >same.tsv <<'PYTHON' || fail "no texts"
print("text\tlabel")
texts = {"food": "sour salt soup", "music": "bass opera loud", "travel": "border hotel map"}
for i in range(24):
    label = sorted(texts)[i % 3]
    print(texts[label] + (" " + texts[label].split()[0] if i % 8 == 3 else ""), label, sep="\t")
PYTHON
model=$scratch/model
cp -r "$here/model" "$model"
run="$here/follow.ini data.train=same.tsv model.path=$model data.cache_dir=none device.name=cuda train.batch_size=3 train.micro_batch=1
     train.max_steps=40 train.logging_steps=16 model.hidden_dropout=0.1 device.gemm_tuning=auto"

# trains DIR [OPTION...]: well, and without a call that is forbidden
trains() {
    local dir=$1
    shift
    rm -f report
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run output.dir="$dir" "$@"
    [[ " $* " == *" device.name=cpu "* ]] || clean report
}
clean() { grep -q '^driver 0 misuses, 0 left$' "$1" && grep -q '^cublasLt 0 misuses, 0 left$' "$1" || fail "$(cat "$1")"; }
# by_algorithm PATTERN [REPORT]: products of the first, second, third, fourth algorithm
by_algorithm() { grep -Eqx "cublasLt products by algorithm: $1" "${2:-report}" || fail "other algorithms: $(cat "${2:-report}")"; }
measured='[1-9][0-9]* [1-9][0-9]* [1-9][0-9]* [1-9][0-9]*' taken='[1-9][0-9]* 0 [1-9][0-9]* 0' proposed='[1-9][0-9]* 0 0 0'
files() { find "$cache" -type f ! -name '*.lock' 2>/dev/null | sort; }
count() { files | wc -l; }
# alike A B: the same choices, and the same bits
alike() {
    cmp "$1/gemm_tuning.json" "$2/gemm_tuning.json" || fail "$1 and $2 have other choices"
    cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$1 and $2 are other models"
    [ "$(json "$1/run.json" 'd["gemm_tuning"]')" = "$(json "$2/run.json" 'd["gemm_tuning"]')" ] || fail "$1 and $2 have other hashes"
}
# until WHAT COMMAND...: waits for it
until_is() {
    local what=$1
    shift
    for _ in $(seq 1 1200); do
        "$@" && return
        sleep 0.1
    done
    fail "$what: not within 120 s"
}
# begin NAME [OPTION...]: a run in the background, which is held while it measures
begin() {
    local name=$1
    shift
    rm -f hold.reached "$name.report"
    touch hold
    # shellcheck disable=SC2086
    FAKE_LT_HOLD=$scratch/hold FAKE_REPORT=$scratch/$name.report "$FTENGINE" train $run output.dir="$name" "$@" >"$name.out" 2>"$name.err" </dev/null &
    pid=$!
}
ended() { # ended CODE PID NAME
    wait "$2"
    local got=$?
    [ "$got" = "$1" ] || fail "$3: exit code $got instead of $1: $(cat "$3.err")"
}

# ---- measured once -----------------------------------------------------------------------------------------------------------
trains first
says "of micro-batches measured in"
by_algorithm "$measured"
[ "$(count)" = 1 ] || fail "not one file in the cache: $(files)"
file=$(files)
[ "$(json first/run.json 'd["gemm_tuning"]')" = "$(sha256sum first/gemm_tuning.json | cut -d' ' -f1)" ] || fail "run.json has another hash"
for member in memory planned; do
    json first/run.json "{k: v for k, v in d['$member'].items() if k != 'outside_allocator_bytes'}" >$member.txt
done
cmp memory.txt planned.txt || fail "planned and metered differ where products are measured"
python3 - "$file" first/gemm_tuning.json <<'PYTHON' || fail "the cache: $(head -c 600 "$file")"
import json, sys
cache, own = (json.load(open(path)) for path in sys.argv[1:])
for d in (cache, own): assert (d["chip"], d["cublaslt"]) == ("NVIDIA Fake 4096, sm_80", 130001) and d["driver"].startswith("13000"), d
assert [(s["tokens"], s["sequences"]) for s in cache["sizes"]] == [(5, 1)], cache["sizes"]
assert cache["products"] == own["products"] and len(own["products"]) > 10
for p in own["products"]: assert p["microseconds"] == 250 and p["first_microseconds"] == 500, p
PYTHON
cp "$file" first.json

# Every later run takes it: the same bits, those of a run without too, for the fake algorithms differ only in what they take.
trains second
by_algorithm "$taken"
alike first second
cmp "$file" first.json || fail "a run that measures nothing has written the cache"
trains without device.gemm_tuning=
by_algorithm "$proposed"
[ ! -e without/gemm_tuning.json ] || fail "a file of choices without any"
cmp first/model/model.safetensors without/model/model.safetensors || fail "measuring has changed the run"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=by_file device.gemm_tuning=first/gemm_tuning.json
cmp first/model/model.safetensors by_file/model/model.safetensors || fail "the file of a run serves no other"
[ "$(json by_file/run.json 'd["gemm_tuning"]')" = "$(json first/run.json 'd["gemm_tuning"]')" ] || fail "the file of a run has another hash elsewhere"

# Another run measures another size of the same model meanwhile: the first one's choices are what they were.
trains other train.micro_batch=3 train.max_steps=160
says "of micro-batches measured in"
[ "$(count)" = 1 ] && [ "$(json "$file" 'len(d["sizes"])')" -ge 2 ] || fail "the size of the other run is not in the file"
trains third
by_algorithm "$taken"
alike first third

# ---- where nothing is measured -----------------------------------------------------------------------------------------------
cp "$file" both.json
trains short train.max_steps=8
says "measures nothing for this run: none of its"
by_algorithm "$proposed"
trains cpu device.name=cpu
grep -q "gemm" err && fail "a run on the CPU speaks of products"
[ "$(json short/run.json 'd.get("gemm_tuning")') $(json cpu/run.json 'd.get("gemm_tuning")')" = "None None" ] || fail "a hash without choices"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $run --json
device_of() { json out '[{k: v for k, v in d["memory"].items() if k != "outside_allocator_bytes"}, d["sites"]]'; }
device_of >auto.plan
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $run --json device.gemm_tuning=
device_of | cmp - auto.plan || fail "another plan"
cmp "$file" both.json || fail "the cache was written"

# ---- resumed -----------------------------------------------------------------------------------------------------------------
# Killed behind a checkpoint. By then the cache says something else, and the run keeps what it began with.
# shellcheck disable=SC2086
"$FTENGINE" train $run output.dir=killed output.save_steps=8 >killed.out 2>killed.err </dev/null &
pid=$!
until_is "a checkpoint" compgen -G 'killed/checkpoints/step-*/state.json' >/dev/null
kill -9 $pid
wait $pid 2>/dev/null
rm -r "$cache"
FAKE_LT_FASTEST=1 trains changed
by_algorithm "$measured"
cmp -s "$file" first.json && fail "the cache is as it was"
cp -r killed damaged && cp -r killed lacking && cp -r killed elsewhere && cp -r killed to_cpu
trains killed output.exists=resume output.save_steps=8
by_algorithm '[0-9]* 0 [1-9][0-9]* 0'
alike first killed
trains fresh
by_algorithm '[1-9][0-9]* [1-9][0-9]* 0 0'
alike changed fresh
rm lacking/gemm_tuning.json
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=lacking output.exists=resume output.save_steps=8
one_error "cannot be resumed without its gemm_tuning"
sed -i '0,/"algorithm": "../s//"algorithm": "xy/' damaged/gemm_tuning.json
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=damaged output.exists=resume output.save_steps=8
one_error "products[0]: algorithm is no 128 hexadecimal digits"
FAKE_CUDA=version=13000,memory=1073741824,capability=89 trains elsewhere output.exists=resume output.save_steps=8
says "the run began with matrix products that were measured on NVIDIA Fake 4096, sm_80"
by_algorithm '[0-9]* 0 0 0'
trains to_cpu output.exists=resume output.save_steps=8 device.name=cpu
[ "$(json to_cpu/run.json 'd["gemm_tuning"]')" = "$(json first/run.json 'd["gemm_tuning"]')" ] || fail "the choices are not the run's any more on a CPU"
rm -r "$cache"
trains first_again
alike first first_again

# ---- another driver; damage --------------------------------------------------------------------------------------------------
FAKE_CUDA=version=13010,memory=1073741824 trains newer
by_algorithm "$measured"
[ "$(count)" = 2 ] || fail "a newer driver has no file of its own"
trains older
by_algorithm "$taken"
newer=$(files | grep -vxF "$file")
cp "$newer" "$file"
trains foreign
says "are not taken: its driver is another one"
by_algorithm "$measured"
cmp "$file" first.json || fail "it was not mended"
sed -i '0,/"algorithm": "../s//"algorithm": "77/' "$file"
cmp -s "$file" first.json && fail "the file was not damaged"
trains flipped
says "are not taken: its sum is another one"
[ "$(grep -c "are not taken" err)" = 1 ] || fail "said twice"
by_algorithm "$measured"
cmp "$file" first.json || fail "it was not mended"
head -c 1000 first.json >"$file"
trains cut
says "are not taken: "
by_algorithm "$measured"
alike first cut

# ---- nowhere to keep it ------------------------------------------------------------------------------------------------------
touch blocked
XDG_CACHE_HOME=$scratch/blocked trains unkept
says "measured matrix products cannot be kept, and cuBLASLt proposes them as without"
by_algorithm "$proposed"
[ "$(json unkept/run.json 'd.get("gemm_tuning")')" = None ] && [ ! -e unkept/gemm_tuning.json ] || fail "choices that nobody can repeat"
(
    unset XDG_CACHE_HOME HOME
    trains homeless
    says "no directory for caches"
    by_algorithm "$proposed"
) || exit 1
# It can be locked, and the file cannot be written.
mkdir -p full/ftengine/gemm && mkdir "full/ftengine/gemm/$(basename "$file")"
XDG_CACHE_HOME=$scratch/full trains full_disk
says "measured matrix products cannot be kept"
[ "$(json full_disk/run.json 'd.get("gemm_tuning")')" = None ] && [ ! -e full_disk/gemm_tuning.json ] || fail "choices that nobody can repeat"
cmp first/model/model.safetensors full_disk/model/model.safetensors || fail "measuring has changed the run"

# ---- a kill, a ^C, a second process ------------------------------------------------------------------------------------------
rm -r "$cache"
begin nine
until_is "measuring" test -e hold.reached
kill -9 "$pid"
wait "$pid" 2>/dev/null
rm hold
[ "$(count)" = 0 ] || fail "a kill has left something: $(files)"
trains after_nine
by_algorithm "$measured"
alike first after_nine

rm -r "$cache"
begin stopped
until_is "measuring" test -e hold.reached
kill -INT "$pid"
rm hold
ended 130 "$pid" stopped
grep -q "stopped while matrix products are measured" stopped.err || fail "stopped: $(cat stopped.err)"
[ "$(count)" = 0 ] && [ ! -e stopped ] || fail "a ^C has left something: $(files) $(ls stopped 2>/dev/null)"
clean stopped.report

# A device that breaks meanwhile is the device's error, and nobody blames the cache.
FAKE_BROKEN=device=0,how=healed,from=$scratch/broke begin breaks
until_is "measuring" test -e hold.reached
touch broke
rm hold
ended 1 "$pid" breaks
grep -q '^ftengine: error: .*ECC' breaks.err || fail "another error: $(cat breaks.err)"
grep -q "cannot be kept" breaks.err && fail "the cache is blamed: $(cat breaks.err)"
[ "$(count)" = 0 ] || fail "a broken device has left something: $(files)"

begin one
one=$pid
until_is "measuring" test -e hold.reached
FAKE_REPORT=$scratch/two.report
# shellcheck disable=SC2086
"$FTENGINE" train $run output.dir=two >two.out 2>two.err </dev/null &
two=$!
until_is "the second one to wait" grep -q "another process measures the matrix products of this model" two.err
[ "$(count)" = 0 ] || fail "somebody has written: $(files)"
# A third is stopped while it waits.
FAKE_REPORT=$scratch/three.report
# shellcheck disable=SC2086
"$FTENGINE" train $run output.dir=three >three.out 2>three.err </dev/null &
three=$!
until_is "the third one to wait" grep -q "another process measures the matrix products of this model" three.err
kill -TERM $three
ended 143 $three three
rm hold
ended 0 "$one" one
ended 0 $two two
FAKE_REPORT=$scratch/report
by_algorithm "$measured" one.report
by_algorithm "$taken" two.report
clean one.report
clean two.report
alike one two
alike first one

# ---- a study -----------------------------------------------------------------------------------------------------------------
# Two trials at a time, which the rate of learning alone tells apart: one of them measures, whichever, and all have the choices of a run alone.
rm -r "$cache"
(
    unset FAKE_REPORT # of one process
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" tune $run --study rates --trials 3 study.parallel=2 study.sampler=random "study.objective=minimize train.loss" \
        "space.train.learning_rate=float(0.001, 0.003)" --json
) || exit 1
mapfile -t trials < <(find . -path '*rates*' -name run.json)
[ "${#trials[@]}" = 3 ] || fail "${#trials[@]} trials"
for trial in "${trials[@]}"; do
    cmp first/gemm_tuning.json "$(dirname "$trial")/gemm_tuning.json" || fail "$trial has other choices"
    [ "$(json "$trial" 'd["gemm_tuning"]')" = "$(json first/run.json 'd["gemm_tuning"]')" ] || fail "$trial has another hash"
done
[ "$(cat "${trials[@]/run.json/train.log}" | grep -c 'measured in')" = 1 ] || fail "measured by other than one trial"

# ---- a product with its activation, its slope or a norm, in one kernel of ours, on compute capability 9.0 ----------------------------
# By the fake clock emulated kernels take no time, so that ours is the faster one wherever it may be measured.
rm -r "$cache"
nine() { FAKE_CUDA=version=13000,memory=1073741824,capability=90 FTENGINE_ATTENTION=mma trains "$@"; }
in_16=(train.precision=bf16 train.residual=16bit device.gemm_tuning=)
auto=(train.precision=bf16 train.residual=16bit)
products() { sed -n 's/^cublasLt products by algorithm: //p' report | tr ' ' '\n' | awk '{n += $1} END {print n}'; }
# A run that may not measure ours, or takes it unmeasured, leaves a file of its own behind: the next one measures all the same.
FTENGINE_PRODUCTS=cublaslt nine library "${auto[@]}"
FTENGINE_PRODUCTS=own nine ours "${auto[@]}"
[ "$(count)" = 2 ] || fail "not a file for each way: $(files)"
nine ways "${auto[@]}"
says "products with an activation, its slope or a norm are one kernel of our own, which was faster"
[ "$(count)" = 3 ] || fail "measured by another way is taken for measured: $(files)"
[ "$(for d in library ours ways; do json $d/run.json 'd["products"]'; done | tr '\n' ' ')" = "cublaslt own measured " ] || fail "run.json: other ways"
python3 - library ours ways <<'PYTHON' || fail "other choices: $(head -c 600 ways/gemm_tuning.json)"
import json, sys
library, ours, ways = (json.load(open(d + "/gemm_tuning.json")) for d in sys.argv[1:])
assert (library["format_version"], ours["format_version"], ways["format_version"]) == (1, 1, 4)
rows = [p for p in ways["products"] if "epilogue" in p]
assert rows and all((p["algorithm"], p["microseconds"]) == ("own", 0) for p in rows), rows
assert all(p["sum"] == "16 bits, dropout" if p["epilogue"] == "norm" else p["activation"] == "gelu" for p in rows), rows
assert {p["epilogue"] for p in rows} == {"activation", "slope", "norm"} and all(p["transposed"] == [False, p["epilogue"] != "slope"] for p in rows), rows
assert not any("epilogue" in p for p in library["products"] + ours["products"])
PYTHON
nine later "${auto[@]}"
alike ways later
# Another sum in front of its norms, or another activation: other products, which are not those that were measured.
nine dry "${auto[@]}" model.hidden_dropout=0
nine floats "${auto[@]}" train.residual=fp32
sed -i 's/"hidden_act": *"gelu"/"hidden_act": "relu"/' "$model/config.json"
nine relu "${auto[@]}"
sed -i 's/"hidden_act": *"relu"/"hidden_act": "gelu"/' "$model/config.json"
python3 - dry floats relu <<'PYTHON' || fail "choices of another sum or another activation"
import json, sys
kinds = [sorted({p.get("sum", p.get("activation")) for p in json.load(open(d + "/gemm_tuning.json"))["products"] if "epilogue" in p}) for d in sys.argv[1:]]
assert kinds == [["16 bits", "gelu"], ["gelu"], ["16 bits, dropout", "relu"]], kinds
PYTHON
# From a file, and as one that goes on: ours in every forward pass, also in one that is computed again, to the same bits.
nine plain "${in_16[@]}"
without=$(products)
nine file "${in_16[@]}" device.gemm_tuning=ways/gemm_tuning.json
saved=$((without - $(products)))
nine again_plain "${in_16[@]}" train.gradient_checkpointing=on
without=$(products)
nine again "${in_16[@]}" device.gemm_tuning=ways/gemm_tuning.json train.gradient_checkpointing=on
again=$((without - $(products)))
# Of two layers the first is computed again, with its three products of ours, in the 105 micro-batches of the size that was measured.
[ "$saved" -gt 0 ] && [ "$again" = $((saved + 3 * 105)) ] || fail "$saved products are ours, and $again where they are computed again"
cmp file/model/model.safetensors again/model/model.safetensors || fail "computed again, the model is another one"
# One that was written when there was none but for activations: ours there alone. Of a later form it is refused.
python3 - <<'PYTHON'
import json
ways = json.load(open("ways/gemm_tuning.json"))
ways["products"] = [p for p in ways["products"] if p.get("epilogue") not in ("slope", "norm")]
json.dump(ways | {"format_version": 2}, open("forward.json", "w"))
json.dump(ways | {"format_version": 5}, open("later.json", "w"))
PYTHON
nine plain_again "${in_16[@]}"
without=$(products)
nine forward "${in_16[@]}" device.gemm_tuning=forward.json
forward=$((without - $(products)))
[ "$forward" -gt 0 ] && [ "$forward" -lt "$saved" ] || fail "$forward products are ours forward, and $saved in all"
# shellcheck disable=SC2086
FAKE_CUDA=version=13000,memory=1073741824,capability=90 expect 2 "$FTENGINE" train $run output.dir=later_form "${in_16[@]}" device.gemm_tuning=later.json
one_error "format_version 5, this program reads 1 to 4"
# shellcheck disable=SC2086
FAKE_CUDA=version=13000,memory=1073741824,capability=90 FTENGINE_ATTENTION=mma "$FTENGINE" train $run "${auto[@]}" output.dir=resumed output.save_steps=8 \
    >resumed.out 2>resumed.err </dev/null &
pid=$!
until_is "a checkpoint" compgen -G 'resumed/checkpoints/step-*/state.json' >/dev/null
kill -9 $pid
wait $pid 2>/dev/null
rm -r "$cache"
nine resumed "${auto[@]}" output.exists=resume output.save_steps=8
alike ways resumed
# One that cannot be had is told, and the run goes on in two.
rm -rf "$XDG_CACHE_HOME/ftengine/checks"
SIMT_LOST=product_activation nine lost "${in_16[@]}" device.gemm_tuning=ways/gemm_tuning.json
says "products with an epilogue of our own are left alone on cuda:0"
[ "$(json lost/run.json 'd["products"]')" = cublaslt ] || fail "run.json names a kernel that is not taken"
sed 's/"algorithm": "own"/"algorithm": "owm"/' ways/gemm_tuning.json >bad.json
# shellcheck disable=SC2086
FAKE_CUDA=version=13000,memory=1073741824,capability=90 expect 2 "$FTENGINE" train $run output.dir=bad "${in_16[@]}" device.gemm_tuning=bad.json
one_error "algorithm of a product with an epilogue is in two or own"
sed 's/"sum": "16 bits, dropout"/"sum": "15 bits"/' ways/gemm_tuning.json >bad.json
# shellcheck disable=SC2086
FAKE_CUDA=version=13000,memory=1073741824,capability=90 expect 2 "$FTENGINE" train $run output.dir=bad "${in_16[@]}" device.gemm_tuning=bad.json
one_error "sum is 16 bits or fp32, with dropout or without"
exit 0
