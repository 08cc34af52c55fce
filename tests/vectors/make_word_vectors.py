#!/usr/bin/env python3
"""Words as transformers tokenises them (is_split_into_words, of byte-level BPE with add_prefix_space), in windows: words.jsonl.

    python tests/vectors/make_word_vectors.py

A line is {"tokenizer", "words", "max_length", "stride", "windows": [[ids]], "words_of": [[index of the word, -1 of special tokens]]}. The
tokenizers are those of tests/vectors: bert (tokenizer_wordpiece/vocab.txt), roberta, xlm-roberta and deberta-v2 (tokenizer_families; by the
rules of transformers).
"""

import json
import os
import random
import shutil
import tempfile

import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = os.path.join(HERE, "tokenizer_families")
TOKENIZERS = {
    "bert": ({"vocab.txt": os.path.join(HERE, "tokenizer_wordpiece", "vocab.txt")}, "BertTokenizer", {}),
    "roberta": (
        {"vocab.json": os.path.join(FAMILIES, "bpe_vocab.json"), "merges.txt": os.path.join(FAMILIES, "bpe_merges.txt")},
        "RobertaTokenizer",
        {"add_prefix_space": True},
    ),
    "xlm-roberta": ({"sentencepiece.bpe.model": os.path.join(FAMILIES, "xlm_roberta.spm")}, "XLMRobertaTokenizer", {}),
    "deberta-v2": ({"spm.model": os.path.join(FAMILIES, "deberta.spm")}, "DebertaV2Tokenizer", {}),
}
WORDS = (
    "The quick brown fox jumps over it 's n't U.S. Müller São ﬁne 東京 don't naïve-façade 1,234.5 ... ( ) \" ! ¿Qué? e-mail@x.org "
    "unbelievably I İstanbul ΑΣ 𝒜𝓃 a\u0301 \u00ad \u200b 🙂 re-elected ½ ǅ ß [SEP] <s> hel\u00adlo"
).split(" ")


def main():
    rng = random.Random(5)
    with open(os.path.join(HERE, "words.jsonl"), "w", encoding="utf-8") as out:
        for name, (files, cls, options) in TOKENIZERS.items():
            with tempfile.TemporaryDirectory() as directory:
                for file, source in files.items():
                    shutil.copy(source, os.path.join(directory, file))
                with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as config:
                    json.dump({"tokenizer_class": cls}, config)
                tokenizer = getattr(transformers, cls).from_pretrained(directory, **options)
                for n in [1, 1, 2, 3, 5, 8, 13, 21, 34, 60, len(WORDS)]:
                    words = WORDS if n == len(WORDS) else [rng.choice(WORDS) for _ in range(n)]
                    for length, stride in ((400, 0), (12, 3), (9, 0), (10, 7), (33, 8)):
                        e = tokenizer(words, is_split_into_words=True, truncation=True, max_length=length, stride=stride,
                                      return_overflowing_tokens=True)
                        of = [[-1 if w is None else w for w in e.word_ids(k)] for k in range(len(e["input_ids"]))]
                        out.write(json.dumps({"tokenizer": name, "words": words, "max_length": length, "stride": stride,
                                              "windows": e["input_ids"], "words_of": of}, ensure_ascii=False,
                                             separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
