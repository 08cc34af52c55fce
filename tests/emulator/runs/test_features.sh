#!/usr/bin/env bash
# The head alone on features, with device.name=cuda on the emulator: beside the CPU's run, in the memory that was planned, rows made and
# rows found; what one device made is not read by the other.
# ctest: part=3 tsan=leave
steps=4
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1

families="modernbert deberta_v2_conv roberta" # the mean of rows; tables that layers share; positions behind the padding
[ -z "${FT_SANITIZE:-}" ] || families=modernbert
for family in $families; do
    model "$family" "$family" initializer_range=0.1,hidden_size=64,num_attention_heads=2,pooler_hidden_size=64
    for precision in fp32 bf16; do
        probe="train.parameters=classifier train.precision=$precision train.learning_rate=0.001 data.feature_cache=$scratch/kept-$family"
        tolerance=2e-5
        [ $precision = bf16 ] && tolerance=3e-2
        for run_of in cpu:cpu cuda:cuda cuda:found; do
            # shellcheck disable=SC2086
            trained "$family-$precision-${run_of#*:}" "$family" "${run_of%:*}" $probe
        done
        # shellcheck disable=SC2086
        trained "$family-$precision-off" "$family" cuda $probe data.feature_cache=off
        for other in cuda off; do beside $tolerance "$family-$precision-cpu" "$family-$precision-$other"; done
        for file in model/model.safetensors predictions.jsonl; do
            cmp -s "$family-$precision-cuda/$file" "$family-$precision-found/$file" || fail "$family in $precision: $file of rows that were found"
        done
        for one in cpu:False cuda:False found:True; do
            [ "$(json "$family-$precision-${one%:*}/run.json" 'd["features"]["from_cache"]')" = "${one#*:}" ] || fail "$family in $precision: ${one%:*} is not $one"
        done
    done
done
exit 0
