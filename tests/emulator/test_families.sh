#!/usr/bin/env bash
# Every family of tests/vectors trained with device.name=cuda, on the emulator: two steps beside the CPU's, in the memory that
# was planned. What a family alone has (positions counted from the padding, a factorised embedding, one term of positions, none,
# a convolution in groups) reaches CUDA's kernels here.
steps=2
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/emulated_runs.sh" || exit 1

families=
for config in "$SOURCE_DIR"/tests/vectors/*/config.json; do
    family=$(basename "$(dirname "$config")")
    case $family in # bert_old_names is bert_gelu, edges_* ask for more than these texts have
    bert_old_names | edges_*) continue ;;
    esac
    [ -f "$SOURCE_DIR/tests/vectors/$family/model.safetensors" ] && families="$families $family"
done
[ "$(echo "$families" | wc -w)" -eq 18 ] || fail "only these families: $families"
wide_families="deberta_v1 deberta_v2_conv" precisions="bf16 fp16"
# The kernels are those of test_deberta.sh and test_training.sh: what sanitizers have not seen there is the convolution in groups.
[ -z "${FT_SANITIZE:-}" ] || families="distilbert deberta_v2_conv_groups" wide_families=deberta_v2_conv precisions=fp16

for family in $families; do
    model "$family" "$family" initializer_range=0.3
    for device in cpu cuda; do trained "$family-$device" "$family" $device; done
    beside 2e-5 "$family-cpu" "$family-cuda"
done

# 16 bits, where heads of 32 go through tensor cores.
for family in $wide_families; do
    model "wide-$family" "$family" initializer_range=0.1,hidden_size=64,num_attention_heads=2,pooler_hidden_size=64
    for precision in $precisions; do
        for device in cpu cuda; do
            trained "$family-$precision-$device" "wide-$family" $device train.precision=$precision train.learning_rate=0.001
        done
        tolerance=3e-3
        [ $precision = bf16 ] && tolerance=3e-2
        beside $tolerance "$family-$precision-cpu" "$family-$precision-cuda"
    done
done
exit 0
