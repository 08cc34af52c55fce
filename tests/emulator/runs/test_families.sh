#!/usr/bin/env bash
# Every family of tests/vectors trained with device.name=cuda, on the emulator: two steps beside the CPU's, in the memory that
# was planned. What a family alone has (positions counted from the padding, a factorised embedding, one term of positions, none,
# a convolution in groups) reaches CUDA's kernels here.
# ctest: part=4 tsan=leave timeout=1500
steps=2
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1

families=
for config in "$SOURCE_DIR"/tests/vectors/*/config.json; do
    family=$(basename "$(dirname "$config")")
    case $family in # bert_old_names is bert_gelu, edges_* ask for more than these texts have, others are BERT or RoBERTa by another name
    bert_old_names | edges_* | camembert | data2vec_text | ernie) continue ;;
    esac
    [ -f "$SOURCE_DIR/tests/vectors/$family/model.safetensors" ] && families="$families $family"
done
[ "$(echo "$families" | wc -w)" -ge 27 ] || fail "only these families: $families"
wide_families="albert gte mpnet eurobert qwen2 qwen3 llama xlm_roberta_xl deberta_v1 deberta_v2_conv deberta_v1_talking deberta_v2_conv_one modernbert modernbert_cls" precisions="bf16 fp16"
# The kernels are those of test_deberta.sh and test_training.sh: what sanitizers have not seen there is the convolution in groups.
[ -z "${FT_SANITIZE:-}" ] || families="distilbert deberta_v2_conv_groups albert_groups" wide_families=deberta_v2_conv precisions=fp16
digits=$SOURCE_DIR/tests/vectors/pictures/digits # for models of pictures

for family in $families; do
    model "$family" "$family" initializer_range=0.3
    data=()
    [ -f "$family/preprocessor_config.json" ] && data=("data.train=$digits/train" "data.validation=$digits/val" data.max_length=auto)
    for device in cpu cuda; do trained "$family-$device" "$family" $device "${data[@]}"; done
    beside 2e-5 "$family-cpu" "$family-cuda"
done

losses() { sed 's/.*"loss":\([^,}]*\).*/\1/' "$1/metrics.jsonl"; }
# 16 bits, where heads of 32 go through tensor cores.
for family in $wide_families; do
    range=0.1
    case $family in modernbert_cls | gte | eurobert | qwen3) range=0.05 ;; esac # a text stands at the edge of one of eval_ece's bins, or of a class, else
    [ "$family" = xlm_roberta_xl ] && range=0.3 # with small numbers some texts differ by rounding alone
    [ "$family" = deberta_v1_talking ] && range=0.3 # heads mixed by small numbers: all texts would be nearly alike, and their order rounding
    model "wide-$family" "$family" initializer_range=$range,hidden_size=64,num_attention_heads=2,pooler_hidden_size=64,num_key_value_heads=1,head_dim=32
    for precision in $precisions; do
        for device in cpu cuda; do
            trained "$family-$precision-$device" "wide-$family" $device train.precision=$precision train.learning_rate=0.001
        done
        tolerance=3e-3
        [ $precision = bf16 ] && tolerance=3e-2
        beside $tolerance "$family-$precision-cpu" "$family-$precision-cuda"
        # The same with 16 bits between layers: a stream, one that begins in front of the first norm, norms of heads, a convolution, a mean of rows.
        case $family in modernbert | gte | qwen3 | llama | deberta_v2_conv | mpnet) ;; *) continue ;; esac
        for device in cpu cuda; do
            trained "$family-$precision-narrow-$device" "wide-$family" $device train.precision=$precision train.residual=16bit train.learning_rate=0.001
        done
        beside $tolerance "$family-$precision-narrow-cpu" "$family-$precision-narrow-cuda"
        cmp -s <(losses "$family-$precision-cuda") <(losses "$family-$precision-narrow-cuda") && fail "$family: train.residual changes nothing"
        # And with our own products on 9.0, the sum in front of a norm among them: of the stream's type, or of 16 bits.
        case $family-$precision in modernbert-bf16 | qwen3-bf16 | mpnet-bf16) ;; *) continue ;; esac
        for residual in 16bit fp32; do
            of=$family-$precision$([ $residual = fp32 ] || echo -narrow)
            FAKE_CUDA=$FAKE_CUDA,capability=90 FTENGINE_ATTENTION=mma FTENGINE_PRODUCTS=own \
                trained "$of-own" "wide-$family" cuda train.precision=$precision train.residual=$residual train.learning_rate=0.001
            beside $tolerance "$of-cpu" "$of-own"
        done
    done
done

[ -z "${FT_SANITIZE:-}" ] || exit 0
# Attention's backward by one owner, on a chip of 99 KB with three multiprocessors: texts of more than the 128 keys behind which it has slabs,
# in the memory that was planned with them, with the bits of the two passes.
model long bert_gelu initializer_range=0.1,hidden_size=64,num_attention_heads=2,max_position_embeddings=200
python3 - "$here/train.tsv" long.tsv <<'PYTHON' || fail "no long texts"
import sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
column = rows[0].index("text") if "text" in rows[0] else 0
for row in rows[1:]: row[column] = " ".join([row[column]] * 30)
open(sys.argv[2], "w").writelines("\t".join(row) + "\n" for row in rows)
PYTHON
for path in mma owner; do
    FTENGINE_ATTENTION=$path FAKE_CUDA=$FAKE_CUDA,capability=89,multiprocessors=3 \
        trained "long-$path" long cuda train.precision=bf16 "data.train=$scratch/long.tsv" data.max_length=180 train.batch_size=4 train.learning_rate=0.001
done
without_rates() { sed 's/,"tokens_per_second":[^,}]*//' "$1"; }
cmp <(without_rates long-mma/metrics.jsonl) <(without_rates long-owner/metrics.jsonl) || fail "the owner adds up in another order than the passes"

# Queries and keys whose scores overflow fp16 (products of 1e5 by the hundred, before they are scaled; what becomes of them in a naive
# attention is in test_disentangled_types.c): the step is taken, with the CPU's loss in fp32. A softmax of such scores is a choice of
# one key, but for scores that are as good as equal: a choice that 16 bits make otherwise is a part of the loss, and all of a gradient.
model made deberta_v3 initializer_range=0.1,hidden_size=64,num_attention_heads=2,pooler_hidden_size=64
trained made-cpu made cpu
cp -r made steep
python3 - made-cpu/model/model.safetensors steep/model.safetensors <<'PYTHON' || fail "no steep weights"
import array, json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
head = struct.unpack_from("<Q", data)[0]
scaled = 0
for name, tensor in json.loads(data[8:8 + head]).items():
    if not name.endswith(("query_proj.weight", "key_proj.weight")): continue
    assert tensor["dtype"] == "F32"
    begin, end = (8 + head + offset for offset in tensor["data_offsets"])
    data[begin:end] = array.array("f", [200 * x for x in array.array("f", bytes(data[begin:end]))]).tobytes()
    scaled += 1
assert scaled == 4, scaled
open(sys.argv[2], "wb").write(data)
PYTHON
trained steep-cpu steep cpu model.init=pretrained train.max_steps=1
trained steep-cuda steep cuda model.init=pretrained train.max_steps=1 train.precision=fp16
python3 - <<'PYTHON' || fail "scores beyond fp16: another loss, or no step"
import json, math
cpu, cuda = ([json.loads(line) for line in open(f"steep-{device}/metrics.jsonl")] for device in ("cpu", "cuda"))
assert cuda[0]["skipped_steps"] == 0 and math.isfinite(cuda[0]["grad_norm"]) and cuda[0]["grad_norm"] > 0, cuda
assert abs(cpu[0]["loss"] - cuda[0]["loss"]) <= 2e-3, (cpu, cuda)
PYTHON
exit 0
