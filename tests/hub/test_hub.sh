#!/usr/bin/env bash
# ftengine pull against a server that behaves like the hub (hub_server.py), faults included; model.path=NAME from the cache;
# and the cache shared with huggingface_hub, where a Python that has it is found (FT_REFERENCE_PYTHON).
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
unset HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE \
    HF_HUB_DISABLE_IMPLICIT_TOKEN http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy
torch=$SOURCE_DIR/tests/vectors/torch_files

# ---- repositories ---------------------------------------------------------------------------------------------------
mkdir -p hub/org/small/main/onnx hub/org/sharded/main hub/org/pickled/main hub/bert-base-uncased/main hub/org/bare/main hub/org/secret/main
cp "$here"/model/* hub/org/small/main
cp "$torch/plain.bin" hub/org/small/main/pytorch_model.bin
for f in README.md tf_model.h5 model.onnx onnx/model.onnx .gitattributes training_args.bin; do echo "not needed" >"hub/org/small/main/$f"; done
cp -r hub/org/small/main hub/org/small/v2
echo '{"model_max_length": 40}' >hub/org/small/v2/tokenizer_config.json
mkdir -p hub/org/other && cp -r hub/org/small/main hub/org/other/main
cp "$here"/model/{config.json,vocab.txt} hub/org/sharded/main
python3 - "$here/model/model.safetensors" hub/org/sharded/main <<'PY'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8 : 8 + n]), data[8 + n :]
names, where = sorted(k for k in header if k != "__metadata__"), {}
for part in range(3):
    out, blob = {}, b""
    for name in names[part::3]:
        first, last = header[name]["data_offsets"]
        out[name] = {**header[name], "data_offsets": [len(blob), len(blob) + last - first]}
        blob += body[first:last]
        where[name] = "model-%05d-of-00003.safetensors" % (part + 1)
    text = json.dumps(out).encode()
    open(sys.argv[2] + "/model-%05d-of-00003.safetensors" % (part + 1), "wb").write(struct.pack("<Q", len(text)) + text + blob)
json.dump({"metadata": {}, "weight_map": where}, open(sys.argv[2] + "/model.safetensors.index.json", "w"))
PY
cp "$here"/model/{config.json,vocab.txt} hub/org/pickled/main && cp "$torch/trainer.bin" hub/org/pickled/main/pytorch_model.bin
cp "$here"/model/{config.json,vocab.txt,model.safetensors} hub/bert-base-uncased/main
cp "$here"/model/config.json hub/org/bare/main
cp "$here"/model/* hub/org/secret/main

python3 "$SOURCE_DIR/tests/hub/hub_server.py" hub ports >server.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$scratch"' EXIT
for _ in $(seq 2400); do [ -s ports ] && break; sleep 0.05; done
[ -s ports ] || { cat server.log >&2; fail "the server did not start"; }
read -r hub storage <ports
export HF_ENDPOINT=http://127.0.0.1:$hub/ HF_HOME=$scratch/home
# One request to the server by bash alone: a program for each of a hundred would take most of this test's time.
ask() { # ask METHOD PATH BODY
    exec 3<>"/dev/tcp/127.0.0.1/$hub" || fail "the server is gone"
    printf '%s /control/%s HTTP/1.1\r\nHost: hub\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' "$1" "$2" "${#3}" "$3" >&3
    sed '1,/^\r$/d' <&3
    exec 3>&-
}
control() { ask PUT "$1" "$2" >/dev/null; }
faults() { control faults "[$1]"; }
requests() { ask GET log "" >log; }
fresh() { rm -rf home && requests; }
pull() { expect 0 "$FTENGINE" pull "$@" && directory=$(cat out); }
small=$scratch/home/hub/models--org--small
# What is in the cache is what is in the repository, each file once, and nothing else.
whole() { # whole DIRECTORY REPOSITORY FILE...
    local got=$1 from=$2
    shift 2
    [ "$(cd "$got" && echo *)" = "$(printf '%s\n' "$@" | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')" ] || fail "the snapshot has $(cd "$got" && echo *)"
    for f in "$@"; do
        cmp "$got/$f" "$from/$f" || fail "$f differs"
        case $(readlink "$got/$f") in ../../blobs/????????????????????????????????????????*) ;; *) fail "$f is no link to a blob" ;; esac
    done
    if find "$(dirname "$got")/.." -name '*.incomplete' | grep -q .; then fail "something incomplete is left"; fi
}
files=(config.json vocab.txt model.safetensors)

# ---- what is fetched, and where to ------------------------------------------------------------------------------------
fresh
pull org/small
whole "$directory" hub/org/small/main "${files[@]}"
[ "$directory" = "$small/snapshots/$(cat "$small/refs/main")" ] || fail "printed $directory"
[ "$(stat -c %s "$small/refs/main")" = 40 ] || fail "refs/main is no bare commit"
[ -e "$small/blobs/$(sha256sum hub/org/small/main/model.safetensors | cut -d' ' -f1)" ] || fail "the weights' blob has another name"
[ -e "$small/blobs/$(git hash-object hub/org/small/main/config.json 2>/dev/null || python3 -c 'import hashlib,sys; d=open(sys.argv[1],"rb").read(); print(hashlib.sha1(b"blob %d\0"%len(d)+d).hexdigest())' hub/org/small/main/config.json)" ] || fail "config.json's blob has another name"
requests
[ "$(grep -c '"server": "storage"' log)" = 1 ] || fail "not exactly one file came from the storage: $(cat log)"
grep -E 'README|tf_model|onnx|pytorch_model|training_args' log && fail "files that nobody needs were asked for"
# Again: nothing but the list. A revision with another file: only that one.
pull org/small@main
says "in the cache already"
requests
grep -q resolve log && fail "files were fetched twice"
expect 0 "$FTENGINE" pull org/small@main --json && is_document pull
[ "$(json out '(d["name"], d["directory"], d["files"], d["fetched_files"], d["fetched_bytes"], d["commit"] in d["directory"])')" = "('org/small@main', '$directory', 3, 0, 0, True)" ] ||
    fail "the pull as JSON: $(cat out)"
pull org/small@v2
whole "$directory" hub/org/small/v2 "${files[@]}" tokenizer_config.json
requests
[ "$(grep -c resolve log)" = 1 ] || fail "v2 took $(grep -c resolve log) files"
pull "org/small@$(basename "$directory")"
[ ! -e "$small/refs/$(basename "$directory")" ] || fail "a commit became a ref"
# A sentence-transformers model with what its modules.json names, and no other directory; one that is named and not there is no mistake, and a
# name that leads out of the repository is none of its directories.
mkdir -p hub/org/sentence/main/{1_Pooling,2_Dense,onnx}
cp "$here"/model/* hub/org/sentence/main
sentence=$SOURCE_DIR/tests/vectors/sentences/cls_dense
python3 -S - "$here/model/config.json" "$sentence" hub/org/sentence/main <<'PY'
import json, shutil, struct, sys
hidden, out = json.load(open(sys.argv[1]))["hidden_size"], sys.argv[3]
kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Normalize", "3_Normalize")]
json.dump([{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind} for i, (kind, path) in enumerate(kinds)],
          open(out + "/modules.json", "w"))
json.dump({"pooling_mode": "mean"}, open(out + "/1_Pooling/config.json", "w"))
json.dump({"in_features": hidden, "out_features": 3, "bias": False, "activation_function": "torch.nn.modules.linear.Identity"},
          open(out + "/2_Dense/config.json", "w"))
text = json.dumps({"linear.weight": {"dtype": "F32", "shape": [3, hidden], "data_offsets": [0, 12 * hidden]}}).encode()
open(out + "/2_Dense/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + struct.pack(f"<{3 * hidden}f", *range(3 * hidden)))
shutil.copy(out + "/2_Dense/model.safetensors", out + "/2_Dense/pytorch_model.bin")
PY
echo "not needed" >hub/org/sentence/main/onnx/config.json
requests
pull org/sentence
requests
grep -E 'onnx|3_Normalize|pytorch_model' log && fail "files that nobody needs were asked for"
for f in modules.json 1_Pooling/config.json 2_Dense/config.json 2_Dense/model.safetensors; do
    cmp "$directory/$f" "hub/org/sentence/main/$f" || fail "$f is not there"
done
case $(readlink "$directory/2_Dense/config.json") in ../../../blobs/*) ;; *) fail "a file of a directory is no link to a blob" ;; esac
[ "$(find "$directory" -type d | wc -l)" = 3 ] || fail "there are other directories: $(find "$directory" -type d)"
echo "good" >one.txt
expect 0 "$FTENGINE" embed org/sentence --data one.txt --format text
[ "$(python3 -S -c 'import json; print(len(json.load(open("out"))["embedding"]))')" = 3 ] || fail "embed of a model by its name"
pull org/sentence
requests
grep -q resolve log && fail "files of directories were fetched twice"
sed -i 's/"1_Pooling"/"..\/..\/small\/main"/' hub/org/sentence/main/modules.json
pull org/sentence
[ ! -e "$directory/1_Pooling" ] || fail "a directory that is not named was fetched"
expect 2 "$FTENGINE" embed org/sentence --data one.txt --format text
pull org/sharded
whole "$directory" hub/org/sharded/main config.json vocab.txt model.safetensors.index.json model-0000{1,2,3}-of-00003.safetensors
pull org/pickled
whole "$directory" hub/org/pickled/main config.json vocab.txt pytorch_model.bin
expect 2 "$FTENGINE" pull org/bare
one_error "no model.safetensors and no pytorch_model.bin"
[ ! -e home/hub/models--org--bare/refs/main ] || fail "a model without weights was noted"
# HF_HUB_CACHE wins over HF_HOME.
HF_HUB_CACHE=$scratch/elsewhere pull bert-base-uncased
[ "$directory" = "$(echo "$scratch"/elsewhere/models--bert-base-uncased/snapshots/*)" ] || fail "HF_HUB_CACHE: $directory"

# ---- model.path=NAME ----------------------------------------------------------------------------------------------------
short="$here/follow.ini train.max_steps=1 eval.strategy=no data.validation="
requests
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $short model.path=org/small output.dir=by_name
says "model      org/small: from the cache"
# A mistyped path that ends as the name does is not the name, wherever it leads; a relative one that could be a name is.
for path in /org/small "$scratch/org/small" "$scratch/none/org/small" ./org/small "$scratch/../org/small" "~/org/small" none/org/small; do
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $short model.path="$path" output.dir=no
    one_error "no such model"
    expect 2 "$FTENGINE" predict "$path" --data "$here/validation.tsv"
    [ "$path" = "~/org/small" ] || one_error "no such"
done
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $short output.dir=by_path
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $short model.path=org/sharded@main output.dir=by_shards
[ "$(json by_name/run.json 'd["resolved"]["model_directory"]')" = "$small/snapshots/$(cat "$small/refs/main")" ] || fail "run.json does not say which snapshot"
cmp by_name/model/model.safetensors by_path/model/model.safetensors || fail "the model of the cache is another one"
cmp by_shards/model/model.safetensors by_path/model/model.safetensors || fail "the model in three files is another one"
expect 0 "$FTENGINE" train by_name/config.ini output.dir=again
cmp again/model/model.safetensors by_path/model/model.safetensors || fail "config.ini leads to another model"
expect 0 "$FTENGINE" plan model.path=org/small data.max_length=32
search="$here/follow.ini train.max_steps=1 eval.strategy=epoch data.validation=$here/validation.tsv space.train.seed=int(1,9) study.objective=eval.loss --trials 1"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune $search model.path=org/small --study by_name
# shellcheck disable=SC2086
expect 2 "$FTENGINE" tune $search model.path=org/absent --study no
one_error "no such model in the cache" && says "hint: ftengine pull org/absent"
expect 0 "$FTENGINE" eval org/small --data "$here/validation.tsv"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $short model.path=org/pickled output.dir=by_pickle
cmp by_pickle/model/model.safetensors by_path/model/model.safetensors || fail "the model in a pickle is another one"
peaks='d["memory"]["peak_allocated_bytes"], d["memory"]["peak_reserved_bytes"], d["memory"]["phases"]'
[ "$(json by_pickle/run.json "$peaks")" = "$(json by_path/run.json "$peaks")" ] || fail "loading from a pickle takes other memory"
cp -rL "$(ls -d "$scratch"/home/hub/models--org--pickled/snapshots/*)" odd && cp "$torch/views.bin" odd/pytorch_model.bin
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $short model.path=odd output.dir=no
one_error "is missing" && says "odd/pytorch_model.bin"
cp "$torch/code.bin" odd/pytorch_model.bin
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $short model.path=odd output.dir=no
one_error "nothing was run" && says "odd/pytorch_model.bin: data.pkl, byte "
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $short model.path=org/absent output.dir=no
one_error "no such model in the cache" && says "hint: ftengine pull org/absent"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $short model.path=microsoft/deberta-v3-base output.dir=no
one_error "no such model in the cache" && says "hint: ftengine pull microsoft/deberta-v3-base"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $short model.path=bert-base-uncased@v9 output.dir=no
says "hint: ftengine pull bert-base-uncased@v9"
rm "$(dirname "$(echo "$small"/snapshots/*/tokenizer_config.json)")/model.safetensors"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $short model.path=org/small@v2 output.dir=no
one_error "no weights" && says "hint: ftengine pull org/small@v2"
[ ! -e no ] || fail "a refused run left a directory"
requests
[ ! -s log ] || fail "train, plan or eval used the network: $(cat log)"

# ---- faults that pass -----------------------------------------------------------------------------------------------------
fresh # the connection breaks twice in the weights: each time it goes on where it ended
faults '{"path": "model.safetensors", "server": "storage", "do": "cut", "after": 10000, "times": 2}'
pull org/small
whole "$directory" hub/org/small/main "${files[@]}"
requests
[ "$(grep -o '"range": "[^"]*"' log | tr '\n' ' ')" = '"range": "bytes=10000-" "range": "bytes=10000-" "range": "bytes=20000-" "range": "bytes=20000-" ' ] ||
    fail "ranges: $(grep -o '"range": [^,]*' log)"
fresh
faults '{"path": "revision", "do": "status", "code": 503}, {"path": "tree", "do": "status", "code": 500}, {"path": "vocab", "do": "status", "code": 429, "headers": {"Retry-After": "1"}}'
pull org/small
says "the answer was 429 (org/small: vocab.txt); again in 1.0 s"
whole "$directory" hub/org/small/main "${files[@]}"
fresh # until a time that is over
faults '{"path": "vocab", "do": "status", "code": 429, "headers": {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}}'
pull org/small
says "again in 0.0 s"
fresh # storage says that the signed address is too old
faults '{"path": "model.safetensors", "server": "storage", "do": "status", "code": 403}'
pull org/small
whole "$directory" hub/org/small/main "${files[@]}"
fresh # a server that cannot do ranges starts anew
faults '{"path": "vocab", "do": "cut", "after": 100}, {"path": "vocab", "do": "no_range"}'
pull org/small
whole "$directory" hub/org/small/main "${files[@]}"
fresh # what an earlier process left is wrong in its content, or too long: once more from the beginning
weights=$(sha256sum hub/org/small/main/model.safetensors | cut -d' ' -f1)
mkdir -p "$small/blobs" && head -c 5000 /dev/zero >"$small/blobs/$weights.incomplete"
pull org/small
says "once more from the beginning"
whole "$directory" hub/org/small/main "${files[@]}"
fresh
mkdir -p "$small/blobs" && head -c 9000000 /dev/zero >"$small/blobs/$weights.incomplete"
pull org/small
whole "$directory" hub/org/small/main "${files[@]}"
requests
grep -q '"range": "' log && fail "it went on behind the end of the file"
fresh # a blob that is cut off is no blob
pull org/small
truncate -s 100 "$small/blobs/$weights"
pull org/small
whole "$directory" hub/org/small/main "${files[@]}"
fresh # renamed repositories redirect within the hub
faults '{"path": "/api/models/org/old/", "do": "redirect", "to": "/api/models/org/small/revision/main", "code": 307}, {"path": "/api/models/org/old/tree", "do": "redirect", "to": "/api/models/org/small/tree/main", "times": 9}, {"path": "org/old/resolve/[0-9a-f]*/config", "do": "redirect", "to": "/org/small/resolve/main/config.json"}, {"path": "org/old/resolve/[0-9a-f]*/vocab", "do": "redirect", "to": "/org/small/resolve/main/vocab.txt"}, {"path": "org/old/resolve", "do": "redirect", "to": "/org/small/resolve/main/model.safetensors"}'
pull org/old
whole "$directory" hub/org/small/main "${files[@]}"

# ---- faults that do not -----------------------------------------------------------------------------------------------------
refused() { # refused CODE TEXT NAME: nothing of the faulty file stays
    expect "$1" "$FTENGINE" pull "$3"
    one_error "$2"
    [ ! -e "$small/refs/main" ] || fail "a failed pull was noted: $2"
    if find home -name '*.incomplete' 2>/dev/null | grep -q .; then fail "left something incomplete: $2"; fi
}
fresh; faults '{"path": "model.safetensors", "server": "storage", "do": "corrupt", "at": 50000}'
refused 1 "wrong checksum" org/small
[ ! -e "$small/blobs/$weights" ] || fail "a wrong content is in blobs/"
fresh; faults '{"path": "vocab", "do": "corrupt", "at": 5}'; refused 1 "wrong checksum" org/small
fresh; faults '{"path": "vocab", "do": "short", "by": 3}'; refused 1 "wrong length" org/small
fresh; faults '{"path": "vocab", "do": "longer", "by": 3}'; refused 1 "wrong length" org/small
fresh; faults '{"path": "vocab", "do": "cut", "after": 100}, {"path": "vocab", "do": "wrong_range"}'; refused 1 "begins at byte 101 instead of 100" org/small
fresh; faults '{"path": "revision", "do": "text", "text": "<html>log in</html>"}'; refused 1 "org/small" org/small; says "is HF_ENDPOINT right"
fresh; faults '{"path": "tree", "do": "text", "text": "[{\"type\": \"file\", \"path\": \"config.json\", \"oid\": \"../../../x\", \"size\": 3}]"}'
refused 1 "no size and checksum" org/small
fresh; faults '{"path": "revision", "do": "text", "text": "{\"sha\": \"../../x\"}"}'; refused 1 "names no commit" org/small
fresh; faults '{"path": "vocab", "do": "redirect", "to": "{path}", "times": 99}'; refused 1 "more than 10 redirects" org/small
fresh; faults '{"path": "vocab", "do": "redirect", "to": "file:///etc/passwd"}'; refused 1 "" org/small
fresh; faults '{"path": "revision", "do": "status", "code": 429, "headers": {"Retry-After": "4000"}}'; refused 1 "come back in 4000 seconds" org/small
fresh; faults '{"path": "vocab", "do": "status", "code": 404}'; refused 2 "does not have this file (404)" org/small
fresh; faults ''
refused 2 "shows nobody without a token a model org/absent (401)" org/absent; says "HF_TOKEN"
refused 2 "has no revision v9" org/small@v9
expect 2 "$FTENGINE" pull ../x && one_error "not the name of a model"
expect 2 "$FTENGINE" pull org/small@../x && one_error "a branch, a tag or a commit"
expect 2 "$FTENGINE" pull && one_error "one name"
HF_ENDPOINT=http://127.0.0.1:1 expect 1 "$FTENGINE" pull org/small && one_error "cannot be reached" && says "tried 3 times"
HF_HUB_OFFLINE=1 expect 2 "$FTENGINE" pull org/small && one_error "must not be used"
HF_ENDPOINT=ftp://x expect 2 "$FTENGINE" pull org/small && one_error "HF_ENDPOINT"

# ---- the token --------------------------------------------------------------------------------------------------------------
token=hf_ThisIsASecret
control need "{\"token\": \"$token\", \"repos\": [\"org/secret\"]}"
fresh
expect 2 "$FTENGINE" pull org/secret && one_error "there is none, or it is private"
HF_TOKEN=hf_wrong expect 2 "$FTENGINE" pull org/secret && one_error "has no model org/secret"
faults '{"path": "revision", "do": "status", "code": 401}'
HF_TOKEN=hf_wrong expect 2 "$FTENGINE" pull org/secret && one_error "does not accept the token (401)"
grep -q hf_wrong err && fail "the token is in a message"
faults '{"path": "revision", "do": "status", "code": 403, "headers": {"X-Error-Code": "GatedRepo"}}'
HF_TOKEN=$token expect 2 "$FTENGINE" pull org/secret && one_error "org/secret is gated"
faults '{"path": "revision", "do": "status", "code": 403}'
HF_TOKEN=$token expect 2 "$FTENGINE" pull org/secret && one_error "denies access to org/secret (403)"
fresh
HF_TOKEN=" $token
" pull org/secret --verbose
grep -rq "$token" home err out && fail "the token is in a file or a message"
requests
grep '"server": "hub"' log | grep -vq "Bearer $token" && fail "a request to the hub lacks the token"
grep '"server": "storage"' log | grep -q "Bearer" && fail "the storage got the token"
[ "$(grep -c '"server": "storage"' log)" = 1 ] || fail "the storage was not asked"
# Nor does it come back into the chain that left the hub.
fresh
faults '{"path": "model.safetensors", "server": "storage", "do": "redirect", "to": "http://127.0.0.1:{hub}/org/small/resolve/main/model.safetensors"}'
HF_TOKEN=$token pull org/secret
requests
grep 'org/small/resolve' log | grep -q Bearer && fail "the token came back by way of another server"
[ "$(grep -c 'org/small/resolve' log)" = 1 ] || fail "the detour was not taken"
# From the file that `hf auth login` writes; not with HF_HUB_DISABLE_IMPLICIT_TOKEN; never with a line's end in it.
fresh
mkdir -p home && echo "$token" >home/token
pull org/secret
HF_HUB_DISABLE_IMPLICIT_TOKEN=1 expect 2 "$FTENGINE" pull org/secret
HF_TOKEN=$'a\r\nX-Evil: 1' expect 2 "$FTENGINE" pull org/small && one_error "characters that no token has"
control need '{}'

# ---- Ctrl-C, and two at once ------------------------------------------------------------------------------------------------
fresh
faults '{"path": "model.safetensors", "server": "storage", "do": "slow", "pause": 0.05}'
"$FTENGINE" pull org/small >out 2>err &
pid=$!
for _ in $(seq 2400); do [ "$(stat -c %s "$small/blobs/$weights.incomplete" 2>/dev/null || echo 0)" -gt 3000 ] && break; sleep 0.05; done
kill -INT $pid
wait $pid
[ $? = 130 ] || fail "Ctrl-C did not end it with 130"
says "stopped; the same command goes on"
[ -s "$small/blobs/$weights.incomplete" ] && [ ! -e "$small/refs/main" ] || fail "Ctrl-C left no part to go on with"
requests
pull org/small
whole "$directory" hub/org/small/main "${files[@]}"
requests
grep -q '"range": "bytes=' log || fail "it did not go on where Ctrl-C ended it"
fresh
faults '{"path": "model.safetensors", "server": "storage", "do": "slow", "pause": 0.005, "times": 9}'
"$FTENGINE" pull org/small >out1 2>err1 &
first=$!
"$FTENGINE" pull org/small >out2 2>err2 &
wait $first || fail "the first of two failed: $(cat err1)"
wait $! || fail "the second of two failed: $(cat err2)"
cmp out1 out2 || fail "two at once: $(cat out1 out2)"
whole "$(cat out1)" hub/org/small/main "${files[@]}"
requests
[ "$(grep -c '"server": "storage"' log)" = 1 ] || fail "two at once fetched the weights $(grep -c '"server": "storage"' log) times"
faults ''

# ---- with huggingface_hub -----------------------------------------------------------------------------------------------------
python=${FT_REFERENCE_PYTHON:-/opt/ref/bin/python}
if "$python" -c 'import huggingface_hub' 2>/dev/null; then
    export HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_PROGRESS_BARS=1
    fresh
    pull org/small
    pull org/sharded
    # It finds ours without the network ...
    HF_HUB_OFFLINE=1 "$python" - "$(dirname "$directory")" >py 2>&1 <<'PY' || { cat py; fail "huggingface_hub does not find what ftengine pulled"; }
import huggingface_hub as h
assert open(h.hf_hub_download("org/small", "config.json", local_files_only=True)).read()
assert h.try_to_load_from_cache("org/small", "model.safetensors")
h.snapshot_download("org/sharded", local_files_only=True)
info = h.scan_cache_dir()
assert not info.warnings, info.warnings
assert {r.repo_id for r in info.repos} == {"org/small", "org/sharded"}, info
assert all(rev.refs == {"main"} for r in info.repos for rev in r.revisions)
PY
    # ... and does not fetch again what is there; and we find its.
    requests
    "$python" -c 'import huggingface_hub as h; h.hf_hub_download("org/small", "model.safetensors"); h.hf_hub_download("org/small", "vocab.txt")' >py 2>&1 ||
        { cat py; fail "huggingface_hub fails beside what ftengine pulled"; }
    requests
    grep -q '"method": "GET".*resolve' log && fail "huggingface_hub fetched again: $(cat log)"
    fresh
    "$python" -c 'import huggingface_hub as h; [h.hf_hub_download("org/small", f) for f in ("config.json", "vocab.txt", "model.safetensors")]' >py 2>&1 ||
        { cat py; fail "huggingface_hub cannot use the test's server"; }
    requests
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $short model.path=org/small output.dir=theirs
    pull org/small
    says "in the cache already"
    requests
    grep -q resolve log && fail "ftengine fetched again what huggingface_hub had fetched"
    # Whoever fetches a file holds the same lock: we wait for it.
    fresh
    mkdir -p "home/hub/.locks/models--org--small"
    "$python" - "home/hub/.locks/models--org--small/$weights.lock" <<'PY' &
import sys, time, filelock
with filelock.FileLock(sys.argv[1]):
    open("held", "w").close()
    time.sleep(2)
    open("released", "w").close()
PY
    for _ in $(seq 2400); do [ -e held ] && break; sleep 0.05; done
    pull org/small
    says "another program is fetching it"
    [ -e released ] || fail "the lock of another program was not waited for"
    wait $!
else
    echo "skipped: no Python with huggingface_hub ($python)"
fi
exit 0
