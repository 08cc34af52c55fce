#!/usr/bin/env bash
# `ftengine plan --devices`: the share of one of several GPUs is the plan of a run with that batch, less NCCL's memory; state that is dealt out
# adds up; sums of gradients take as long as bytes and link say; wrong words are named.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
large=(plan model.path=bert-large-uncased data.max_length=512 train.precision=bf16 memory.active_vocabulary=off)
holds() { [ "$(json "$1" "$2")" = True ] || fail "not so in $1: $2"; }

expect 0 "$FTENGINE" "${large[@]}" --gpu H200 train.batch_size=32 --json
mv out alone.json
expect 0 "$FTENGINE" "${large[@]}" --gpu H200 train.batch_size=256 --devices 8 --json
mv out eight.json
for key in resolved autofit model; do
    [ "$(json eight.json "d[\"$key\"]")" = "$(json alone.json "d[\"$key\"]")" ] || fail "a share of 32 sequences is another plan: $key"
done
# A rank has the losses of all sequences, in an evaluation the rows of all ranks, and which words a step has: three quarters of the table at most.
words=$((30522 / 4 * 3 * 4))
more=$(($(json eight.json 'd["memory"]["peak_requested_bytes"]') - $(json alone.json 'd["memory"]["peak_requested_bytes"]')))
[ $more -ge $((224 * 4 + words)) ] && [ $more -lt $((65536 + words)) ] || fail "a share takes $more bytes more than one GPU with that batch"
expect 0 "$FTENGINE" "${large[@]}" --gpu H200 train.batch_size=256 "device.name=cuda:0,1,2,3,4,5,6,7" --json
[ "$(json out 'd["memory"], d["budget_bytes"]')" = "$(json eight.json 'd["memory"], d["budget_bytes"]')" ] || fail "--devices is another plan than device.name"
holds eight.json 'd["ranks"]["count"] == 8 and d["ranks"]["runs"] and d["ranks"]["communication_bytes"] == 16 * 12 * 2**20'
[ $(($(json alone.json 'd["budget_bytes"]') - $(json eight.json 'd["budget_bytes"]'))) = $((192 << 20)) ] || fail "NCCL's memory is not off the budget"
# bf16 with tails: 2 + 2 bytes a weight, 4 a gradient, 8 of moments; 335 million parameters, and 2 (N - 1) / N of their gradients over the link.
cat >check.py <<'P'
import json, sys
d, n = json.load(open(sys.argv[1])), int(sys.argv[2])
r = d["ranks"]
s, t, trained = r["state_bytes"], r["seconds"], d["model"]["trained_parameters"]
elements = s["none"] // 16
assert s["none"] % 16 == 0 and trained <= elements < trained + 64 * 400, (trained, elements)
assert r["gradient_bytes"] == 4 * elements
part, rest = divmod(s["optimizer"] - 6 * elements, 10)
assert rest == 0 and part % 64 == 0 and elements <= n * part < elements + n * 64 * 8, part
w = r["words"]
room = min(30522 // 4 * 3, 32 * n * 512)  # of rows that are summed alone
assert w["rows"] == 30522 and w["assumed"] and w["by_row"] and 0 < w["in_step"] <= room, w
# Two pieces, one of them the table, and its rows.
assert 4 * (30522 + room) * 1024 + 25 * 2**20 <= s["gradients"] - 2 * elements - 14 * part < 4 * (30522 + room) * 1024 + 100e6, s
least = 2 * (n - 1) / n * (r["gradient_bytes"] - 4 * 1024 * (w["rows"] - w["in_step"])) / r["link"]["bytes_per_second"]
assert least < t["reduce"] < 1.2 * least + 1e-3, (least, t)
assert t["dealt"] == t["spread"] == 0 and abs(t["step"] - t["alone"] - t["exposed"] - t["slowed"]) < 1e-9 and abs(r["efficiency"] - t["alone"] / t["step"]) < 1e-9
words = 4 * 1024 * w["in_step"]  # rows of the table, which come last, are summed behind all else
assert t["exposed"] >= 2 * (n - 1) / n * words / r["link"]["bytes_per_second"], t
print(s["gradients"] / s["none"], r["efficiency"], t["exposed"] / t["step"])
P
python3 check.py eight.json 8 >ratios || fail "eight ranks do not add up"
read -r _ efficiency exposed <ratios
awk "BEGIN { exit !($efficiency >= 0.95 && $exposed < 0.03) }" || fail "BERT large on eight H200: $(cat ratios)"
# DeBERTa's rows are summed while positions are computed, and all that these complete is one sum.
base=(plan model.path=microsoft/deberta-v3-base data.max_length=512 train.precision=bf16 memory.active_vocabulary=off --gpu H200 train.batch_size=256 --devices 8 --json)
expect 0 "$FTENGINE" "${base[@]}"
mv out base.json
holds base.json 'd["ranks"]["efficiency"] >= 0.95 and d["ranks"]["seconds"]["exposed"] < 0.03 * d["ranks"]["seconds"]["step"]'
holds base.json 'd["ranks"]["words"]["rows"] == 128100 and 0.1 < d["ranks"]["words"]["in_step"] / 128100 < 0.15'
# Moments that are dealt out leave an eighth of the update, and new weights of 16 bits travel behind it.
expect 0 "$FTENGINE" "${base[@]}" distributed.shard=optimizer
python3 - base.json out <<'P' || fail "what dealing out costs and saves"
import json, sys
a, b = (json.load(open(path))["ranks"] for path in sys.argv[1:])
s, t = a["seconds"], b["seconds"]
assert abs(s["alone"] - t["alone"]) < 0.01 * s["alone"], (s, t)
assert abs(t["dealt"] - 7 / 8 * 7 * a["gradient_bytes"] / (0.9 * 4800e9)) < 0.01 * t["dealt"], t
assert 0 < t["spread"] - a["gradient_bytes"] / 2 / 370e9 < 1e-4, t
assert abs(t["step"] - t["alone"] - t["exposed"] - t["slowed"] + t["dealt"] - t["spread"]) < 1e-9, t
P
expect 0 "$FTENGINE" "${large[@]}" --gpu H200 train.batch_size=128 --devices 4 --json
python3 check.py out 4 >ratios || fail "four ranks do not add up"
awk '{ exit !($1 <= 0.45) }' ratios || fail "model state of four ranks: $(cat ratios)"
# What is planned is what a run takes: the same of its allocations. auto: as little dealt out as fits.
short=(train.batch_size=32 data.max_length=128 --devices 4 --gpu H200 --json)
expect 0 "$FTENGINE" "${large[@]}" "${short[@]}" distributed.shard=auto
mv out none.json
for limit in 5GiB 2500MiB; do
    expect 0 "$FTENGINE" "${large[@]}" "${short[@]}" distributed.shard=auto memory.limit=$limit
    mv out "$limit.json"
done
python3 - none.json 5GiB.json 2500MiB.json <<'P' || fail "what auto deals out"
import json, sys
plans = [json.load(open(path)) for path in sys.argv[1:]]
assert [p["ranks"]["shard"] for p in plans] == ["none", "optimizer", "gradients"], [p["ranks"]["shard"] for p in plans]
assert plans[0]["autofit"] is None and all(p["fits"] and p["autofit"]["choice"]["shard"] == p["ranks"]["shard"] for p in plans[1:])
none, optimizer, gradients = (sum(p["memory"]["at_peak"][part] for part in ("weights", "gradients", "optimizer")) for p in plans)
assert gradients <= 0.45 * none and 0.5 < optimizer / none < 0.55, (none, optimizer, gradients)
P
# A slower link hides less; channels take memory.
expect 0 "$FTENGINE" "${large[@]}" --gpu H200 train.batch_size=256 --devices 8 --link-speed 20GB --channels 4 --json
holds out 'd["ranks"]["link"]["bytes_per_second"] == 20e9 and d["ranks"]["communication_bytes"] == 48 * 2**20 and d["ranks"]["efficiency"] < 0.9'
# For people; and shares that are not equal are planned as the larger.
expect 0 "$FTENGINE" "${large[@]}" --gpu H200 train.batch_size=250 --devices 8
grep -q '^ranks  *8 of H200, train.batch_size 250 shared out: 32 sequences each' out || fail "people are not told: $(cat out)"
expect 0 "$FTENGINE" "${large[@]}" --gpu H200 train.batch_size=32 --devices 1 --json
[ "$(json out 'd["memory"]')" = "$(json alone.json 'd["memory"]')" ] || fail "one device is another plan"

refused() { expect 2 "$FTENGINE" plan model.path=bert-base-uncased "${@:2}"; one_error "$1"; }
CUDA_VISIBLE_DEVICES="" refused "of what" --devices 2
refused "of what" --devices 2 --gpu H200 device.name=cpu
refused "whole number" --devices 0 --gpu H200
refused "4 sequences for 8 devices" --devices 8 --gpu H200 train.batch_size=4
refused "unknown link" --devices 8 --gpu H200 --link-speed nvlink44
refused "nothing is known" --devices 8 --gpu T4
refused "give --devices" --gpu H200 --link-speed nvlink4
refused "for one plan" --devices 8 --gpu H200 --table
refused "one run" --devices 8 --gpu H200 "space.train.learning_rate=float(1e-5, 1e-4)"
