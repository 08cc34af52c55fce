#!/usr/bin/env python3
"""ONNX Runtime's side of predict_vs_onnxruntime.py: exports a classifier, and predicts texts with it. Prints JSON.

    predict_onnxruntime.py export --model DIRECTORY --output DIRECTORY
    predict_onnxruntime.py predict --graphs DIRECTORY --model DIRECTORY --data FILE --form fp32 --threads 2 --batch-sizes 1,8,32

export: torch.onnx of transformers' model, as it is and after onnxruntime.transformers.optimizer (attention, GELU and LayerNorm become one node
each); of both quantize_dynamic with int8 weights, a step a tensor (the default) and a step a channel.
predict: texts sorted by length, so that hardly anything is padded; tokenised by the fast tokenizer inside the clock, loading outside, the best
of both graphs and of the batch sizes. Answers are in the order of the file.
"""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import read_tsv  # noqa: E402

FORMS = {"fp32": None, "int8": False, "int8-channel": True}  # per_channel


def export(arguments):
    import torch
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(arguments.model, dtype=torch.float32, attn_implementation="eager").eval()
    config = model.config
    os.makedirs(arguments.output, exist_ok=True)
    plain, fused = (os.path.join(arguments.output, f"{name}-fp32.onnx") for name in ("plain", "fused"))

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).logits

    ids = torch.randint(1000, 2000, (2, 7))
    names, axes = ["input_ids", "attention_mask"], {0: "batch", 1: "length"}
    torch.onnx.export(
        Logits(), (ids, torch.ones_like(ids)), plain, input_names=names, output_names=["logits"], opset_version=17, dynamo=False,
        dynamic_axes={name: axes for name in names} | {"logits": {0: "batch"}},
    )
    optimised = optimizer.optimize_model(plain, model_type="bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size)
    optimised.save_model_to_file(fused)
    for name in ("plain", "fused"):
        for form, channel in FORMS.items():
            if channel is not None:
                path = os.path.join(arguments.output, name)
                options = {"DefaultTensorType": TensorProto.FLOAT}  # of what comes out of nodes that no shape inference knows
                quantize_dynamic(f"{path}-fp32.onnx", f"{path}-{form}.onnx", per_channel=channel, weight_type=QuantType.QInt8, extra_options=options)
    return {"fused": optimised.get_fused_operator_statistics()}


def predict(arguments):
    import numpy as np
    import onnxruntime
    from transformers import AutoTokenizer

    texts = [text for text, _ in read_tsv(arguments.data)]
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    tokenizer.model_max_length = arguments.max_length
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    rates, labels, best = {}, None, 0

    def run(session, size, first, last):
        found = []
        for at in range(first, last, size):
            rows = [texts[i] for i in order[at : at + size]]
            batch = tokenizer(rows, padding=True, truncation=True, return_tensors="np")
            inputs = {name: batch[name].astype(np.int64) for name in ("input_ids", "attention_mask")}
            found.append(session.run(["logits"], inputs)[0])
        return np.concatenate(found)

    for graph in ("plain", "fused"):
        session = onnxruntime.InferenceSession(
            os.path.join(arguments.graphs, f"{graph}-{arguments.form}.onnx"), options, providers=["CPUExecutionProvider"]
        )
        for size in map(int, arguments.batch_sizes.split(",")):
            run(session, size, 0, 2 * size)
            start = time.monotonic()
            logits = run(session, size, 0, len(texts))
            rate = len(texts) / (time.monotonic() - start)
            rates[f"{graph}, {size}"] = rate
            if rate > best:
                best, labels = rate, [0] * len(texts)
                for i, row in zip(order, logits):
                    labels[i] = int(row.argmax())
    return {"texts": len(texts), "best": best, "texts_per_second": rates, "labels": labels, "version": onnxruntime.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("export")
    command.add_argument("--model", required=True)
    command.add_argument("--output", required=True)
    command = commands.add_parser("predict")
    command.add_argument("--graphs", required=True)
    command.add_argument("--model", required=True)
    command.add_argument("--data", required=True)
    command.add_argument("--form", choices=FORMS, required=True)
    command.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    command.add_argument("--max-length", type=int, default=512)
    command.add_argument("--batch-sizes", default="1,4,8,16,32")
    arguments = parser.parse_args()
    print(json.dumps(export(arguments) if arguments.command == "export" else predict(arguments)))


if __name__ == "__main__":
    main()
