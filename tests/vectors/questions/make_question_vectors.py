#!/usr/bin/env python3
"""Questions and passages as transformers tokenises them in run_qa: windows.jsonl.

    python tests/vectors/questions/make_question_vectors.py

A line is {"tokenizer", "question", "context", "max_length", "stride", "windows": [[ids]], "offsets": [[[begin, end] or null]]}: offsets are those of
the library in characters of the context, without the white space at their ends, null for what is none of the context's. The tokenizers are
those of tests/vectors (tokenizer_wordpiece, tokenizer_families), by the rules of transformers; ModernBERT's way is roberta's vocabulary with NFC in
front and offsets that nobody trims.
"""

import json
import os
import random
import shutil
import tempfile

import tokenizers
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
VECTORS = os.path.dirname(HERE)
FAMILIES = os.path.join(VECTORS, "tokenizer_families")
BPE = {"vocab.json": os.path.join(FAMILIES, "bpe_vocab.json"), "merges.txt": os.path.join(FAMILIES, "bpe_merges.txt")}
TOKENIZERS = {
    "bert": ({"vocab.txt": os.path.join(VECTORS, "tokenizer_wordpiece", "vocab.txt")}, "BertTokenizer", {}),
    "bert-cased": ({"vocab.txt": os.path.join(VECTORS, "tokenizer_wordpiece", "vocab.txt")}, "BertTokenizer", {"do_lower_case": False}),
    "roberta": (BPE, "RobertaTokenizer", {}),
    "xlm-roberta": ({"sentencepiece.bpe.model": os.path.join(FAMILIES, "xlm_roberta.spm")}, "XLMRobertaTokenizer", {}),
    "deberta-v2": ({"spm.model": os.path.join(FAMILIES, "deberta.spm")}, "DebertaV2Tokenizer", {}),
    "modernbert": (BPE, "PreTrainedTokenizerFast", {}),
}
PIECES = (
    "The quick brown fox|jumps over|it's|isn't|U.S.|Müller|Mu\u0308ller|São Paulo|ﬁne|東京タワー|don't|naïve-façade|1,234.5|...|( )|¿Qué?|e-mail@x.org|"
    "unbelievably|İstanbul|ΑΣΣ|𝒜𝓃|a\u0301\u0323|hel\u00adlo|\u200b|🙂|👩\u200d🚀|½|ǅ|ß|[SEP]|<s>|  |\t|\n|\u00a0|\u3000|\u0301x|각|\u1100\u1161|नमस्ते|กำ|\ufeff|``|''|Å|Ａ|"
    "e\u0301|\u0007|[MASK] |x\ufffdy"
).split("|")
QUESTIONS = ["Who jumps?", "  What does the fox do in São Paulo?", "\u3000Où ?", "x", ""]


def make(directory, files, cls, options):
    for file, source in files.items():
        shutil.copy(source, os.path.join(directory, file))
    if cls == "PreTrainedTokenizerFast":
        t = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(*(os.path.join(directory, f) for f in ("vocab.json", "merges.txt"))))
        t.normalizer = tokenizers.normalizers.NFC()
        t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True)
        t.add_special_tokens(["<s>", "</s>"])
        first, last = t.token_to_id("<s>"), t.token_to_id("</s>")
        t.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", first), ("</s>", last)])
        t.save(os.path.join(directory, "tokenizer.json"))
        for file in files:
            os.remove(os.path.join(directory, file))
        os.makedirs(os.path.join(HERE, "tokenizer_modernbert"), exist_ok=True)
        shutil.copy(os.path.join(directory, "tokenizer.json"), os.path.join(HERE, "tokenizer_modernbert", "tokenizer.json"))
        return transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(directory, "tokenizer.json"))
    with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as config:
        json.dump({"tokenizer_class": cls, **options}, config)
    return getattr(transformers, cls).from_pretrained(directory)


def trimmed(text, begin, end):
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    return [begin, end]


def drifts(name, tokenizer, context, ids, offsets):
    """The library loses count where a map drops a character: then a token of plain letters does not stand where it says."""
    for token, place in zip(tokenizer.convert_ids_to_tokens(ids), offsets):
        plain = token.lstrip("\u2581\u0120").removeprefix("##")
        if name == "xlm-roberta" and set(context) & set("\u200b\ufeff\u00ad\u0007"):
            return True
        if place is not None and plain.isascii() and plain.isalnum() and len(plain) > 1:
            there = context[slice(*place)]
            if there.isascii() and there.lower() != plain.lower():
                return True
    return False


def main():
    rng = random.Random(11)
    with open(os.path.join(HERE, "windows.jsonl"), "w", encoding="utf-8") as out:
        for name, (files, cls, options) in TOKENIZERS.items():
            with tempfile.TemporaryDirectory() as directory:
                tokenizer = make(directory, files, cls, options)
                contexts = ["", " ", "fox", "The quick brown fox jumps over it.", " ".join(PIECES), "".join(PIECES)]
                contexts += ["".join(rng.choice(PIECES) + rng.choice([" ", " ", "", ", "]) for _ in range(rng.randint(1, 25))) for _ in range(25)]
                for context in contexts:
                    question = rng.choice(QUESTIONS)
                    for length, stride in ((600, 0), (rng.choice([40, 50, 64]), rng.choice([0, 1, 5, 9]))):
                        e = tokenizer([question.lstrip()], [context], truncation="only_second", max_length=length, stride=stride,
                                      return_overflowing_tokens=True, return_offsets_mapping=True)
                        offsets = [[trimmed(context, *o) if s == 1 else None for o, s in zip(e["offset_mapping"][k], e.sequence_ids(k))]
                                   for k in range(len(e["input_ids"]))]
                        if any(drifts(name, tokenizer, context, *window) for window in zip(e["input_ids"], offsets)):
                            print(f"{name}: left out, offsets of the library that are not where they say")
                            continue
                        out.write(json.dumps({"tokenizer": name, "question": question, "context": context, "max_length": length,
                                              "stride": stride, "windows": e["input_ids"], "offsets": offsets},
                                             separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
