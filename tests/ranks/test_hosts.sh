#!/usr/bin/env bash
# More of test_mpi.sh: models and precisions, two ranks on two hosts, ranks of different builds; and KILLS=5 times a rank is killed at a moment drawn by chance:
# the others end within seconds, and the run that goes on each time has in the end the bits of one that nothing happened to.
# ctest: label=full_size timeout=3600 sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/mpi_hosts.sh" || exit 1

one whole
hosts two a:1,b:1 2
same whole two
hosts turns a:2,b:2 4 train.micro_batch=1
same whole turns
# Sums beside the gradients: DeBERTa's projections of positions. Adapters, 16 bits.
mkdir deberta && cp "$here/model/vocab.txt" deberta && echo '{"tokenizer_class": "BertTokenizer"}' >deberta/tokenizer_config.json
python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1])) | {"vocab_size": len(open(sys.argv[2]).readlines())}, open(sys.argv[3], "w"))' \
    "$SOURCE_DIR/tests/vectors/deberta_v3/config.json" "$here/model/vocab.txt" deberta/config.json || fail "no config.json"
# shellcheck disable=SC2034 # by their names
small="model.path=deberta model.init=random data.max_length=16 train.micro_batch=3"
# shellcheck disable=SC2034
lora="adapter.type=lora adapter.r=4 adapter.dropout=0.1 train.learning_rate=1e-3 train.precision=bf16 model.ignore_mismatched_sizes=true"
for form in small lora; do
    # shellcheck disable=SC2086
    {
        one $form-1 ${!form}
        hosts $form-3 a:2,b:1 3 ${!form}
    }
    same $form-1 $form-3
done


# A rank that is killed ends all within seconds, and the run goes on, to the same end.
long="train.max_steps=$((${KILLS:-5} * 60)) eval.steps=100 output.save_steps=10"
# shellcheck disable=SC2086
one calm $long
rank_of() { pgrep -f "ftengine train .*output.dir=dies" | while read -r pid; do tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$pid"; done | head -1; }
RANDOM=${KILL_SEED:-$$}
echo "seed ${KILL_SEED:-$$}"
killed=0
for turn in $(seq 1 "${KILLS:-5}"); do
    # shellcheck disable=SC2086
    timeout 600 $mpi --host a:1,b:2 -n 3 "$FTENGINE" train $common $long output.dir=dies output.exists=resume >out 2>err </dev/null &
    mpirun=$!
    rank=$((RANDOM % 3)) victim=
    while kill -0 $mpirun 2>/dev/null && [ -z "$victim" ]; do victim=$(rank_of $rank); done
    sleep "$((RANDOM % 4)).$((RANDOM % 10))"
    [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null && killed=$((killed + 1))
    start=$(date +%s)
    wait $mpirun
    code=$?
    took=$(($(date +%s) - start))
    [ "$took" -lt 60 ] || fail "turn $turn: the others did not end"
    [ $code != 124 ] || fail "turn $turn hangs"
    for _ in $(seq 1200); do pgrep -f "ftengine train .*output.dir=dies" >/dev/null || break; sleep 0.05; done
    pgrep -f "ftengine train .*output.dir=dies" >/dev/null && fail "turn $turn: a rank outlived its run"
    [ $code = 0 ] || [ -n "$victim" ] || fail "turn $turn: nobody was killed, and it ended with $code"
    echo "turn $turn: exit code $code, $took s after the kill, at $(ls dies/checkpoints 2>/dev/null | tail -1)"
done
# shellcheck disable=SC2086
hosts dies a:1,b:1 2 $long output.exists=resume
same calm dies
echo "$killed ranks were killed: the same bits"

cp "$FTENGINE" other && echo >>other
export FTENGINE_MPI_MODULE=$BUILD_DIR/libftengine_mpi.so
refused "rank 1 on $(hostname) has another build of ftengine than rank 0" "$PWD/other" ""
refused "none.tsv" "$FTENGINE" data.train=none.tsv
exit 0
