#!/usr/bin/env python3
"""Tokenising speed on one core: bench_tokenizer beside the Hugging Face fast tokenizers, in turns.

    python benchmarks/speed/bench_tokenizer.py --bench BUILD/benchmarks/bench_tokenizer --data data/reviews/train.tsv

One tokenizer of each kind (WordPiece, byte-level BPE, Unigram as XLM-R has it, Unigram as DeBERTa-v2 has it) is trained on
the data itself, with the vocabulary's size capped by what that much text supports, and written as tokenizer.json. The library
runs encode_batch_fast (no offsets, its fastest call) with its thread pool of one, truncating at 512 as bench_tokenizer does.
Processor time on both sides; the ids of both are counted and must agree. Needs tokenizers and sentencepiece.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers


def word_piece(texts):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=30000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def byte_level(texts):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=30000, special_tokens=["<s>", "<pad>", "</s>"], show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return t


def sentence_pieces(texts):
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/text", "w", encoding="utf-8") as f:
            f.writelines(t + "\n" for t in texts)
        sentencepiece.SentencePieceTrainer.train(input=d + "/text", model_prefix=d + "/m", vocab_size=12000, hard_vocab_limit=False, minloglevel=3,
                                                 character_coverage=1.0)
        model = sentencepiece_model_pb2.ModelProto()
        with open(d + "/m.model", "rb") as f:
            model.ParseFromString(f.read())
    t = Tokenizer(models.Unigram([(p.piece, p.score) for p in model.pieces], unk_id=0))
    return t, normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap)


def unigram_xlm_roberta(texts):
    t, charsmap = sentence_pieces(texts)
    t.normalizer = charsmap
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    return t


def unigram_deberta_v2(texts):
    t, charsmap = sentence_pieces(texts)
    t.normalizer = normalizers.Sequence([normalizers.Strip(), charsmap, normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 1))
    return t


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True, help="the program bench_tokenizer")
    parser.add_argument("--data", required=True, help="tab-separated, a header, the text in the first column")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with open(args.data, encoding="utf-8", errors="replace", newline="\n") as f:
        texts = [line.rstrip("\n").split("\t")[0] for line in f][1:]
    out = {}
    for make in (word_piece, byte_level, unigram_xlm_roberta, unigram_deberta_v2):
        tokenizer, ours, theirs = make(texts), [], []
        with tempfile.TemporaryDirectory() as directory:
            tokenizer.save(directory + "/tokenizer.json")
            tokenizer.enable_truncation(512)
            for _ in range(args.rounds):
                result = subprocess.run([args.bench, directory, args.data, "9"], check=True, capture_output=True, text=True).stdout
                ids = int(re.search(r"(\d+) ids", result)[1])
                ours.append(float(re.search(r"best +([\d.]+) ms", result)[1]) / 1e3)
                start = time.process_time()
                encoded = tokenizer.encode_batch_fast(texts)
                theirs.append(time.process_time() - start)
        if sum(len(e.ids) for e in encoded) != ids:
            raise SystemExit(f"{make.__name__}: {ids} ids here, {sum(len(e.ids) for e in encoded)} there")
        best, usual = min(theirs) / min(ours), statistics.median(theirs) / statistics.median(ours)
        out[make.__name__] = {"vocabulary": tokenizer.get_vocab_size(), "ids": ids, "ftengine_s": min(ours), "tokenizers_s": min(theirs), "ratio": best}
        print(f"{make.__name__:20} {ids} ids; ftengine {1e3 * min(ours):.1f} ms, tokenizers {1e3 * min(theirs):.1f} ms; {best:.1f}x (medians {usual:.1f}x)")
    print(json.dumps(out))


if __name__ == "__main__":
    main()
