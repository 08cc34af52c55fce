#!/usr/bin/env python3
"""One rival of ftengine in training, as a program that is asked for pieces of work: gpu_steps.py starts it. Needs torch and
transformers, two of the rivals a package of their own.

    gpu_rival.py --rival NAME [--device cuda|cpu] [--precision bf16|fp16|fp32]

One JSON document a line, as it is asked on standard input:
    {"open": {"config": path of a config.json}}    a model with random weights: what it is, or {"absent": why}
    {"prepare": {"batches": [[length, ...], ...], "seconds": most, "dynamic": do lengths change}}    warm-up, untimed
    {"run": {"batches": ..., "seconds": most}}     the timed steps: tokens that are real, tokens computed, steps, seconds, loss
    {"count": {"batches": ...}}                    floating-point operations of one step as PyTorch counts them
    {"release": {}}                              gives the memory of activations back to the driver
What goes wrong is {"failed": why}, and the program ends.

All rivals take the same step: autocast as the Trainer's bf16=True, clipped gradients, fused AdamW, weights in fp32, texts as
long as asked. Padded ones have their texts in one rectangle, padding-free ones (fa2, disentangled-flash) end to end.
"""

import argparse
import gc
import importlib.metadata
import json
import os
import sys
import time

import torch
import torch.nn.functional as F
import transformers
from transformers import AutoConfig, AutoModelForSequenceClassification

LABELS, FIRST_WORD = 3, 5


class Absent(Exception):
    """This rival cannot be had here."""


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


class Padded:
    """transformers as it is."""

    def __init__(self, config, attention):
        self.what = f"transformers {transformers.__version__}, attention {attention}"
        self.network = AutoModelForSequenceClassification.from_config(config, attn_implementation=attention)
        self.call = self.network

    def batch(self, lengths, vocabulary):
        longest = max(lengths)
        ids = torch.randint(FIRST_WORD, vocabulary, (len(lengths), longest))
        mask = (torch.arange(longest)[None, :] < torch.tensor(lengths)[:, None]).long()
        return {"input_ids": ids * mask, "attention_mask": mask}

    def logits(self, batch):
        return self.call(**batch).logits

    def prepare(self, dynamic):
        pass


class Compiled(Padded):
    def __init__(self, config, attention):
        super().__init__(config, attention)
        self.what += ", torch.compile"
        self.dynamic = None

    def prepare(self, dynamic):
        if dynamic == self.dynamic:
            return
        self.dynamic = dynamic
        torch._dynamo.reset()
        self.call = torch.compile(self.network, dynamic=True if dynamic else None)


class PaddingFree:
    """Texts end to end; the head takes the first row of each."""

    def batch(self, lengths, vocabulary):
        starts = torch.tensor([0] + lengths).cumsum(0)
        return {
            "ids": torch.randint(FIRST_WORD, vocabulary, (1, sum(lengths))),
            "positions": torch.cat([torch.arange(n) for n in lengths])[None],
            "cu": starts.int(),
            "starts": starts[:-1],
            "longest": max(lengths),
            "lengths": lengths,
        }

    def prepare(self, dynamic):
        pass

    def head(self, rows):
        network = self.network
        pooler = network.bert.pooler if hasattr(network, "bert") else network.pooler
        return network.classifier(network.dropout(pooler(rows[:, None])))


class FlashAttention2(PaddingFree):
    """BERT on FlashAttention-2's kernels for texts of several lengths: of the package where it is, else PyTorch's own copy."""

    def __init__(self, config, _):
        if config.model_type != "bert":
            raise Absent("FlashAttention-2 has no disentangled attention")
        try:
            from flash_attn import flash_attn_varlen_func as kernel

            self.what = version("flash_attn")
        except ImportError:
            kernel, self.what = None, f"FlashAttention-2 of torch {torch.__version__} (aten::_flash_attention_forward)"
        self.what += ", padding-free"
        self.at = None

        def attention(module, query, key, value, mask, dropout=0.0, scaling=None, **_):
            q, k, v = (t[0].transpose(0, 1) for t in (query, key, value))
            cu, longest, lengths = self.at["cu"], self.at["longest"], self.at["lengths"]
            if not q.is_cuda:  # a check of the packing, not a rival
                parts = [t.split(lengths) for t in (q, k, v)]
                out = [F.scaled_dot_product_attention(*(t.transpose(0, 1) for t in p), dropout_p=dropout, scale=scaling) for p in zip(*parts)]
                return torch.cat([o.transpose(0, 1) for o in out])[None], None
            if kernel is not None:
                return kernel(q, k, v, cu, cu, longest, longest, dropout_p=dropout, softmax_scale=scaling)[None], None
            of_torch = torch.ops.aten._flash_attention_forward
            return of_torch(q, k, v, cu, cu, longest, longest, dropout, False, False, scale=scaling)[0][None], None

        transformers.AttentionInterface.register("padding_free", attention)
        transformers.AttentionMaskInterface.register("padding_free", lambda *_, **__: None)
        self.network = AutoModelForSequenceClassification.from_config(config, attn_implementation="padding_free")

    def logits(self, batch):
        self.at = batch
        rows = self.network.bert(input_ids=batch["ids"], position_ids=batch["positions"]).last_hidden_state[0]
        return self.head(rows[batch["starts"]])


class DisentangledFlash(PaddingFree):
    """disentangled-flash on packed texts, which is its fastest path."""

    def __init__(self, config, device):
        if config.model_type != "deberta-v2":
            raise Absent("disentangled-flash is for DeBERTa v2 and v3")
        try:
            from disentangled_flash import optimize_deberta_training, pack_padded_with_info
        except ImportError as error:
            raise Absent(f"disentangled-flash cannot be imported: {error}") from error
        backend = "triton" if device == "cuda" else "torch"  # on the CPU a check of the packing, not a rival
        self.what = version("disentangled-flash") + f", packed, {backend}"
        self.pack = pack_padded_with_info
        self.network = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").to(device)
        optimize_deberta_training(self.network.deberta, backend=backend)

    def logits(self, batch):
        deberta = self.network.deberta
        ids = batch["ids"]
        rows = deberta.embeddings(input_ids=ids, mask=torch.ones_like(ids))[0]
        if "info" not in batch:
            mask = torch.arange(batch["longest"])[None, :] < torch.tensor(batch["lengths"])[:, None]
            batch["info"] = self.pack(torch.empty(*mask.shape, 1), mask)[2]
        out = deberta.encoder.forward_packed(rows, batch["cu"], batch["longest"], output_hidden_states=False, packed_info=batch["info"])
        return self.head(out.last_hidden_state[batch["starts"]])


class FlashDeberta(Padded):
    def __init__(self, config, device):
        if config.model_type != "deberta-v2":
            raise Absent("FlashDeBERTa is for DeBERTa v2 and v3")
        try:
            from flashdeberta import FlashDebertaV2ForSequenceClassification, FlashDisentangledSelfAttention
        except Exception as error:  # written for other releases of transformers: more than ImportError can come
            raise Absent(f"flashdeberta cannot be imported: {type(error).__name__}: {error}") from error
        if device != "cuda":
            raise Absent("FlashDeBERTa needs a GPU")
        self.what = version("flashdeberta") + ", which has no dropout of attention"
        self.network = self.call = FlashDebertaV2ForSequenceClassification(config)
        # Under another release of transformers its kernels could be passed by without a word.
        if not isinstance(self.network.deberta.encoder.layer[0].attention.self, FlashDisentangledSelfAttention):
            raise Absent("flashdeberta does not put its own attention into this transformers' model")


def compiled(config, _):
    return Compiled(config, "sdpa" if config.model_type == "bert" else "eager")


def sdpa(config, _):
    if config.model_type != "bert":
        raise Absent("transformers' DeBERTa has no SDPA")
    return Padded(config, "sdpa")


RIVALS = {
    "eager": lambda config, _: Padded(config, "eager"),
    "sdpa": sdpa,
    "compile": compiled,
    "fa2": FlashAttention2,
    "disentangled-flash": DisentangledFlash,
    "flashdeberta": FlashDeberta,
}


def spread(batches):
    """The largest first, so that memory grows once, the smallest, and then what lies in the middle of every gap: wherever it is
    broken off, short and long ones have been there."""
    ordered = sorted(batches, key=lambda row: -max(row) * len(row))
    gap = last = len(ordered) - 1
    order = dict.fromkeys((0, last))
    while gap > 1:
        gap = (gap + 1) // 2
        order |= dict.fromkeys(range(0, last, gap))
    return [ordered[i] for i in order]


class Side:
    """A rival's model and optimizer."""

    def __init__(self, arguments, config):
        with open(config, encoding="utf-8") as f:
            numbers = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
        self.config = AutoConfig.for_model(numbers.pop("model_type"), **numbers, num_labels=LABELS)
        self.device = arguments.device
        self.type = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": None}[arguments.precision]
        if self.device == "cuda" and not torch.cuda.is_available():
            raise Absent("torch sees no GPU")
        torch.manual_seed(42)
        with torch.device(self.device):
            self.rival = RIVALS[arguments.rival](self.config, self.device)
        self.network = self.rival.network.to(self.device).train()
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=2e-5, weight_decay=0.01, fused=True)
        self.scaler = torch.amp.GradScaler(self.device, enabled=arguments.precision == "fp16")

    def batches(self, lengths):
        """In the memory of the host, as a data loader has them."""
        made = []
        for row in lengths:
            batch = self.rival.batch(row, self.config.vocab_size) | {"labels": torch.arange(len(row)) % LABELS}
            if self.device == "cuda":
                batch = {k: v.pin_memory() if torch.is_tensor(v) else v for k, v in batch.items()}
            made.append(batch)
        return made

    def step(self, batch):
        batch = {k: v.to(self.device, non_blocking=True) if torch.is_tensor(v) else v for k, v in batch.items()}
        labels = batch.pop("labels")
        with torch.autocast(self.device, dtype=self.type, enabled=self.type is not None):
            loss = F.cross_entropy(self.rival.logits(batch).float(), labels)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def prepare(self, batches, seconds, dynamic):
        self.rival.prepare(dynamic)
        started, steps = time.monotonic(), 0
        for batch in self.batches(spread(batches)):
            self.step(batch)
            self.wait()
            steps += 1
            if time.monotonic() - started > seconds and steps >= 3:
                break
        return {"steps": steps, "seconds": time.monotonic() - started}

    def run(self, batches, seconds):
        """Timed in pieces, so that a slow rival ends after `seconds` without a wait in every step."""
        made, tokens, computed, steps = self.batches(batches), 0, 0, 0
        piece = max(3, len(made) // 8)
        self.wait()
        started = time.monotonic()
        for i, batch in enumerate(made):
            loss = self.step(batch)
            tokens += sum(batches[i])
            computed += max(batches[i]) * len(batches[i]) if isinstance(self.rival, Padded) else sum(batches[i])
            steps += 1
            if steps % piece == 0:
                self.wait()
                if time.monotonic() - started > seconds:
                    break
        self.wait()
        took = time.monotonic() - started
        if not torch.isfinite(loss):
            raise RuntimeError(f"the loss is {float(loss)}")
        return {"tokens": tokens, "computed_tokens": computed, "steps": steps, "seconds": took, "loss": float(loss)}

    def count(self, batches):
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            self.step(self.batches(batches[:1])[0])
        return {"flops": counter.get_total_flops()}

    def release(self):
        if self.device == "cuda":
            torch.cuda.empty_cache()
        return {"released": True}


class Program:
    def __init__(self, arguments):
        self.arguments, self.side, self.config = arguments, None, None

    def open(self, config):
        """The same model again stays as it is, compiled code included."""
        if config != self.config:
            self.side = None
            gc.collect()
            self.side, self.config = Side(self.arguments, config), config
            self.side.release()
        return {"what": self.side.rival.what, "torch": torch.__version__, "transformers": transformers.__version__}

    def answer(self, question):
        (name, keywords), *_ = question.items()
        return self.open(**keywords) if name == "open" else getattr(self.side, name)(**keywords)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", choices=list(RIVALS), required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--precision", default="bf16", choices=["bf16", "fp16", "fp32"])
    arguments = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")  # what libraries print belongs to the log
    os.dup2(2, 1)

    def say(document):
        print(json.dumps(document), file=out, flush=True)

    program = Program(arguments)
    for line in sys.stdin:
        try:
            say(program.answer(json.loads(line)))
        except Absent as why:
            say({"absent": str(why)})
        except Exception as error:  # out of memory, or a kernel that does not build: of this rival alone
            return say({"failed": f"{type(error).__name__}: {error}"[:300]})
    return None


if __name__ == "__main__":
    main()
