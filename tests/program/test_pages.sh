#!/usr/bin/env bash
# What is made from the tables of commands and options: the references in docs, manual pages, completions; and what `make install` puts
# where.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1

# ---- references ------------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" config --markdown
cmp out "$SOURCE_DIR/docs/reference/options.md" || fail "docs/reference/options.md is not what ftengine config --markdown prints"
expect 0 "$FTENGINE" help --markdown
cmp out "$SOURCE_DIR/docs/reference/commands.md" || fail "docs/reference/commands.md is not what ftengine help --markdown prints"
expect 2 "$FTENGINE" config --man train.epochs=1 && one_error "without a configuration"
expect 2 "$FTENGINE" completion tcsh && one_error "tcsh"
expect 2 "$FTENGINE" completion && one_error "give one shell"

for reference in configs/reference.ini docs/reference/options.md docs/reference/commands.md; do # made when the program is built
    cmp "$BUILD_DIR/pages/$reference" "$SOURCE_DIR/$reference" || fail "$reference is not what the build made: make reference"
done

# Programs type every command with --json: of those with subcommands every one. What they print: program/documents.
expect 0 "$FTENGINE" help --json && cp out help.json
[ "$(json help.json '[c["name"] for c in d["commands"] if "--json" not in c["usage"] and c["name"] != "study"]')" = "[]" ] ||
    fail "commands without --json: $(json help.json '[c["name"] for c in d["commands"] if "--json" not in c["usage"]]')"
for subcommand in $(grep -oE '^  [a-z]+ ' <("$FTENGINE" help study)); do
    ! "$FTENGINE" study "$subcommand" --json 2>&1 </dev/null | grep 'unknown option' || fail "study $subcommand takes no --json"
done

# ---- manual pages ----------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" help --man && cp out ftengine.1
expect 0 "$FTENGINE" config --man && cp out ftengine-config.5
for command in train eval predict compare report tune study plan devices tune-gemm pull config completion; do
    grep -q "^\.SS ${command//-/\\\\-}$" ftengine.1 || fail "ftengine.1 lacks $command"
done
[ "$(grep -c '^\.TP' ftengine-config.5)" = "$(grep -c '^[a-z_.0-9]* =' "$SOURCE_DIR/configs/reference.ini")" ] || fail "options are missing in ftengine-config.5"
if command -v groff >/dev/null; then
    for page in ftengine.1 ftengine-config.5; do
        groff -ww -man -z $page 2>groff.err && [ ! -s groff.err ] || fail "groff on $page: $(head -3 groff.err)"
    done
else
    echo "no groff: the manual pages were not set"
fi

# ---- completions -----------------------------------------------------------------------------------------------------------
"$FTENGINE" completion bash >complete.bash
# shellcheck disable=SC1091
. ./complete.bash
mkdir elsewhere && cd elsewhere && touch run.ini || exit 1
completes() { # completes EXPECTED WORD...: what the last word, as far as it is there, may become
    local expected=$1
    shift
    # shellcheck disable=SC2034
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _ftengine
    [ "${COMPREPLY[*]}" = "$expected" ] || fail "$* completes to '${COMPREPLY[*]}', not '$expected'"
}
completes "predict" ftengine pre
completes "tune tune-gemm" ftengine help tune
completes "--logits" ftengine predict --log
completes "--quiet" ftengine compare --q
completes "list" ftengine study li
completes "zsh" ftengine completion z
completes "train.precision=" ftengine train train.preci
completes "study.pruner=" ftengine tune study.pruner=
completes "bf16 bfloat16" ftengine train train.precision = b
completes "true" ftengine train eval.calibrate = t
completes "auto off run.ini" ftengine train memory.active_vocabulary =
completes "run.ini" ftengine train ru
cd ..
# A flag that a command takes is one that help and completion know.
grep -ohE '\{"--[a-z-]+"' "$SOURCE_DIR"/engine/commands/*.c "$SOURCE_DIR"/hpo/commands/*.c | grep -oE -- '--[a-z-]+' | sort -u >taken
sed -n '/^_ftengine()/,$p' complete.bash | grep -oE -- '--[a-z-]+' | sort -u >known
# --study, --trial and --directory of `ftengine worker` are between programs.
unknown=$(comm -23 taken known | grep -vxE -- '--(trial|directory|channel)' || true)
[ -z "$unknown" ] || fail "no help for $unknown"
[ "$(wc -l <taken)" -ge 25 ] || fail "only $(wc -l <taken) flags were found"
"$FTENGINE" completion zsh >_ftengine
"$FTENGINE" completion fish >ftengine.fish
for shell in zsh:_ftengine fish:ftengine.fish; do
    if command -v "${shell%%:*}" >/dev/null; then "${shell%%:*}" -n "${shell#*:}" || fail "${shell%%:*} does not read its completions"
    else echo "no ${shell%%:*}: its completions were not read"; fi
done

# What they offer, where there is such a shell.
if command -v fish >/dev/null; then
    fish_offers() { # fish_offers EXPECTED LINE
        [ "$(fish --no-config -c 'source ftengine.fish; complete -C $argv[1]' "$2" 2>&1 | cut -f 1 | tr '\n' ' ')" = "$1 " ] ||
            fail "fish makes of '$2': $(fish --no-config -c 'source ftengine.fish; complete -C $argv[1]' "$2" 2>&1 | head -5)"
    }
    fish_offers "predict" "ftengine pre"
    fish_offers "--watch" "ftengine devices --wa"
    fish_offers "train.precision=bf16 train.precision=bfloat16" "ftengine train train.precision=b"
    fish_offers "study.worker_trials=" "ftengine tune study.worker"
    fish_offers "list" "ftengine study li"
    fish_offers "plan predict pull" "ftengine help p"
    fish_offers "bash" "ftengine completion ba"
fi
if command -v zsh >/dev/null; then # its functions only say what they were asked to add
    cat >zsh_offers <<'ZSH'
compadd() { [[ $1 = -S ]] && shift 2; [[ $1 = -- ]] && shift; print -l -- $@ }
_describe() { print -l -- ${${(P)2}%%:*} }
_files() { print -l -- FILES }
compset() { : }
script=$1; shift
words=("$@") CURRENT=$#
. $script
ZSH
    zsh_offers() { # zsh_offers EXPECTED... -- WORD...: it offers all of these
        local wanted=()
        while [ "$1" != -- ]; do wanted+=("$1") && shift; done
        shift
        zsh -f zsh_offers ./_ftengine "$@" >out 2>err || fail "zsh: $(head -3 err)"
        [ -s err ] && fail "zsh says: $(head -3 err)"
        local word
        for word in "${wanted[@]}"; do grep -qxF -e "$word" out || fail "zsh does not offer $word for '$*': $(head -40 out)"; done
    }
    zsh_offers predict train help -- ftengine ''
    zsh_offers --watch --pick FILES -- ftengine devices ''
    zsh_offers --quiet train.precision= study.worker_trials= FILES -- ftengine tune ''
    zsh_offers bf16 fp32 -- ftengine train train.precision=
    zsh_offers list trials --top -- ftengine study ''
    zsh_offers predict plan -- ftengine help ''
    zsh_offers fish -- ftengine completion ''
fi

# ---- install ---------------------------------------------------------------------------------------------------------------
if [ -e "$BUILD_DIR/pages/share/man/man1/ftengine.1" ]; then
    cmake --install "$BUILD_DIR" --prefix "$scratch/prefix" >out 2>err || fail "cmake --install"
    for file in bin/ftengine share/man/man1/ftengine.1 share/man/man5/ftengine-config.5 share/bash-completion/completions/ftengine \
        share/zsh/site-functions/_ftengine share/fish/vendor_completions.d/ftengine.fish \
        share/doc/ftengine/{README.md,LICENSE,NOTICE,CHANGELOG.md,docs/tutorial.md} share/ftengine/configs/{reference.ini,priors/README.md,priors/encoder_classification.jsonl.gz}; do
        [ -s "prefix/$file" ] || fail "$file is not installed"
    done
    cmp prefix/share/man/man1/ftengine.1 ftengine.1 || fail "the installed page is another one"
    expect 0 env -i HOME="$scratch" PATH=/usr/bin:/bin "$scratch/prefix/bin/ftengine" config "$scratch/prefix/share/ftengine/configs/bert_base.ini"
fi
echo "all good"
