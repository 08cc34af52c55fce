#!/usr/bin/env python3
"""Golden vectors of the byte-level BPE and Unigram tokenizers (RoBERTa, XLM-R, DeBERTa v1-v3, CamemBERT, ALBERT), of MPNet's
WordPiece, of BPE over characters (Gemma's, which mmBERT has), of the patterns of Llama 3 and Qwen2, and of odd pipelines.

    python tests/vectors/make_tokenizer_family_vectors.py
    python tests/vectors/make_tokenizer_family_vectors.py --lines 100000 --expect FILE      FT_TOKENIZER_EXPECT of the test: nothing else is written

Made with tokenizers 0.23.3, transformers 5.23 and sentencepiece 0.2.3. Writes tests/vectors/tokenizer_families/:

bpe_vocab.json, bpe_merges.txt    a small byte-level BPE, with RoBERTa's and DeBERTa's special tokens
deberta.spm                       a small Unigram model as DeBERTa's (special tokens in front, nmt_nfkc)
xlm_roberta.spm                   another as XLM-R's, with a made-up character map: clusters, deletions, expansions
albert.spm                        a third as ALBERT's, with pieces of digits and a comma
gemma.json                        vocabulary and merges of a BPE over characters as Gemma's, with tokens of bytes
mpnet.txt                         a WordPiece vocabulary as MPNet's
variants.json                     per line of the tests: directory (files by name; "@x" is a file of this folder, in a
                                  tokenizer.json "@charsmap x" a map and "@..." a model put in by the test), rules, kind of lines
expect.bin                        little-endian uint32: number of variants; for each the number of blocks and per block of 16
                                  lines the FNV-1a hash of ids and types

Lines are not stored: tests/text/tokenizer_lines.h makes them with the same generator as lines() here. Line i is encoded
alone, alone cut, and as a pair with line i + 1, cut by longest_first and only_first, in turns (run() here).

Which reference: rules "transformers" is the class of transformers 5.23. Rules "files" is a tokenizer.json run by the
tokenizers library, or for importers what transformers' own converters make of the model files, as 4.x did; the one
exception are XLM-R, CamemBERT and ALBERT, whose published tokenizer.json split on white space first.
"""
import argparse
import base64
import json
import os
import shutil
import struct
import tempfile
from types import SimpleNamespace

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (AlbertTokenizer, CamembertTokenizer, DebertaTokenizer, DebertaV2Tokenizer, MPNetTokenizer, PreTrainedTokenizerFast, RobertaTokenizer,
                          XLMRobertaTokenizer)
from transformers.convert_slow_tokenizer import (AlbertConverter, CamembertConverter, DebertaConverter, DebertaV2Converter, RobertaConverter,
                                                 XLMRobertaConverter)

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "tokenizer_families")
LINES, BLOCK, TRAINING = 20000, 16, 3000
MASK = (1 << 64) - 1
WORDS = ["the", "of", "movie", "film", "Great", "don", "WORLD", "tokenizer", "a", "I", "was", "not", "running", "Stra\u00dfe", "na\u00efve",
         "caf\u00e9", "\u00c5ngstr\u00f6m", "\u0434\u043e\u0431\u0440\u044b\u0439", "\u041c\u043e\u0441\u043a\u0432\u0430", "\u03ba\u03cc\u03c3\u03bc\u03bf\u03c2", "\u0645\u0631\u062d\u0628\u0627",
         "\u05e9\u05c1\u05dc\u05d5\u05dd", "\u4f60\u597d", "\u4e16\u754c", "\u6771\u4eac\u90fd", "\u3053\u3093\u306b\u3061\u306f", "\u30ab\u30bf\u30ab\u30ca", "\ud55c\uad6d\uc5b4",
         "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u10e5\u10d0\u10e0\u10d7\u10e3\u10da\u10d8", "Vi\u1ec7t", "i\u0307stanbul", "\U0001F600", "\U0001D400\U0001D401"]
SPECIAL = ["<s>", "</s>", "<mask>", "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "\u2581", "\u0120", "</s", "<ud>", "[mask]"]
ODD = ["\uff21", "\uff11\uff12", "\ufb01", "\u00a0", "\u337f", "\u00bd", "\u2460", "\uff76\uff9e", "e\u0301", "\u1e9b\u0323", "\u200b", "\ufeff", "\u00ad", "\t", "\n", "\r",
       "\r\n", "\u2028", "\u3000", "\u0000", "\u0007", "x\u0301\u0302", "\u0915\u094d\u0915\u0301", "\u0915\u094d\u0937\u093f", "\u0600x", "\u1100\u1161\u11a8", "\u1100\u1161\u0301",
       "\U0001F469\u200d\U0001F467\u0301", "\u00a9\u200d\u00a9\u0301", "\U0001F1E6\U0001F1E7\U0001F1E8", "\u00a9\u0301", "\u0085", "\u1112\u1161\u11ab", "\u09c7\u09be", "a\u0323\u0307",
       "\u212b", "\u2126", "\u0344", "\u0f73", "\u00c5", "A\u030a", "\u3099", "\u304b\u3099", "  ", "   ", "\u2003", "\u1680", "A\u0301", "\u0041\u0327\u0301"]
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "''", "'l", "'", "\u2019s"]
MARKS = [0x301, 0x302, 0x307, 0x323, 0x327, 0x345, 0x591, 0x64B, 0x93C, 0x94D, 0x302A, 0x1D165, 0xFE0F, 0x200D, 0x20D0, 0x300]
RANGES = [(0x20, 0x250), (0x300, 0x370), (0x370, 0x590), (0x590, 0x900), (0x900, 0xE80), (0xE80, 0x2000), (0x2000, 0x2E80), (0x2E80, 0xAC00),
          (0xAC00, 0xD7A4), (0xE000, 0x10000), (0x10000, 0x20000), (0x1F300, 0x1FB00), (0xE0000, 0xE0100)]


class Draw:
    """splitmix64, as in the C test."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return (z ^ (z >> 31)) % n


def mixed_line(index):
    d, out = Draw(index * 1000003 + 71), b""
    for _ in range(1 + d.below(24)):
        kind = d.below(20)
        if kind < 7:
            out += WORDS[d.below(len(WORDS))].encode()
        elif kind == 7:
            for _ in range(1 + d.below(9)):
                out += bytes([97 + d.below(26)])
        elif kind == 8:
            out += b" "
        elif kind < 11:
            out += ODD[d.below(len(ODD))].encode()
        elif kind == 11:
            for _ in range(1 + d.below(5)):
                out += bytes([48 + d.below(10)])
        elif kind == 12:
            out += CONTRACTIONS[d.below(len(CONTRACTIONS))].encode()
        elif kind == 13:
            for _ in range(1 + d.below(3)):
                out += bytes([33 + d.below(15)])
        elif kind == 14:
            out += SPECIAL[d.below(len(SPECIAL))].encode()
        elif kind == 15:
            low, high = RANGES[d.below(len(RANGES))]
            out += chr(low + d.below(high - low)).encode()
        elif kind == 16:
            for _ in range(1 + d.below(3)):
                out += bytes([d.below(256)])
        elif kind == 17:
            for _ in range(1 + d.below(3)):
                out += chr(MARKS[d.below(len(MARKS))]).encode()
        elif kind == 18 and d.below(20) == 0:
            letter = (b"x", "\u6c34".encode())[d.below(2)]
            out += letter * (40 + d.below(200))
        if d.below(2) == 0:
            out += b" "
    return out


def code_point_line(index):
    out = ""
    for c in range(64 * index, 64 * index + 64):
        if not 0xD800 <= c <= 0xDFFF:
            t = chr(c)
            out += "a" + t + "b " + t + " 1" + t + t + "1" + t + "\u0301 !" + t + "!\u0915" + t + "\u0301 "
    return out.encode()


def lines(kind):
    if kind == "mixed":
        return [mixed_line(i) for i in range(LINES + 1)]
    return [code_point_line(i) for i in range(0x110000 // 64)] + [b""]


# ---- models --------------------------------------------------------------------------------------------------------
def make_models():
    training = [mixed_line(10 ** 6 + i).decode("utf-8", "replace").replace("\0", "") for i in range(TRAINING)]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = ["<s>", "<pad>", "</s>", "<unk>", "[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    bpe.train_from_iterator(training, trainers.BpeTrainer(vocab_size=1400, special_tokens=specials, show_progress=False,
                                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(bpe.to_str())["model"]
    vocabulary = {**model["vocab"], "[MASK]": len(model["vocab"]), "<mask>": len(model["vocab"]) + 1}
    with open(os.path.join(OUT, "bpe_vocab.json"), "w", encoding="utf-8") as f:
        json.dump(vocabulary, f, ensure_ascii=False)
    with open(os.path.join(OUT, "bpe_merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in model["merges"]))
    rules = [("x\u0301", "X"), ("\u0301", ""), ("\u0302", ""), ("\u00a9", "(c)"), ("\u0915", "k"), ("\ufb01", "fi"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "),
             ("\r", " "), ("\u200b", ""), ("\ufeff", ""), ("\u337f", "\u682a\u5f0f\u4f1a\u793e"), ("\uff76\uff9e", "\u30ac"), ("e\u0301", "\u00e9"), ("A", "a"), ("B", "b"), ("\u1161", ""),
             ("\u0085", " "), ("\u2028", " "), ("\u1100\u1161", "\uac00"), ("\u0600", "#")] + [(chr(c), chr(c - 0xFEE0)) for c in range(0xFF01, 0xFF5F)]
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/rules.tsv", "w") as f:
            f.writelines(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n" for a, b in rules)
        with open(d + "/text", "w", encoding="utf-8") as f:
            f.writelines(t.replace("\n", " ").replace("\r", " ") + "\n" for t in training)
        common = dict(input=d + "/text", vocab_size=1200, character_coverage=0.98, hard_vocab_limit=False, minloglevel=3, num_threads=1)
        sentencepiece.SentencePieceTrainer.train(
            model_prefix=d + "/deberta", pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]",
            user_defined_symbols=["<ud>"], normalization_rule_name="nmt_nfkc", **common)
        sentencepiece.SentencePieceTrainer.train(model_prefix=d + "/xlm_roberta", normalization_rule_tsv=d + "/rules.tsv", **common)
        albert = [t.lower() + " 1,234, 20, 7,5" for t in training]
        with open(d + "/text", "w", encoding="utf-8") as f:
            f.writelines(t.replace("\n", " ").replace("\r", " ") + "\n" for t in albert)
        sentencepiece.SentencePieceTrainer.train(
            model_prefix=d + "/albert", pad_id=0, unk_id=1, bos_id=2, eos_id=3, pad_piece="<pad>", unk_piece="<unk>", bos_piece="[CLS]", eos_piece="[SEP]",
            control_symbols=["[MASK]"], normalization_rule_name="nmt_nfkc", split_by_number=False, **common)
        for name in ("deberta", "xlm_roberta", "albert"):
            model = sentencepiece_model_pb2.ModelProto()
            with open(f"{d}/{name}.model", "rb") as f:
                model.ParseFromString(f.read())
            model.trainer_spec.input[:] = []  # the training file's name
            model.trainer_spec.model_prefix = ""
            with open(os.path.join(OUT, name + ".spm"), "wb") as f:
                f.write(model.SerializeToString())


def make_characters():
    """Gemma's: characters of text whose spaces are U+2581, few of them, so that others fall back to bytes."""
    training = [mixed_line(10 ** 6 + i).decode("utf-8", "replace").replace("\0", "") for i in range(TRAINING)]
    bpe = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    bpe.normalizer = normalizers.Replace(" ", "\u2581")
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")  # as SentencePiece trains: no token is more than a word
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"] + ["<0x%02X>" % b for b in range(256)]
    bpe.train_from_iterator(training, trainers.BpeTrainer(vocab_size=1500, limit_alphabet=140, special_tokens=specials, show_progress=False))
    model = json.loads(bpe.to_str())["model"]
    with open(os.path.join(OUT, "gemma.json"), "w", encoding="utf-8") as f:
        json.dump({"vocab": model["vocab"], "merges": model["merges"]}, f, ensure_ascii=False)


def make_word_pieces():
    """MPNet's: RoBERTa's special tokens around BERT's vocabulary."""
    training = [mixed_line(10 ** 6 + i).decode("utf-8", "replace").replace("\0", "") for i in range(TRAINING)]
    pieces = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    pieces.normalizer = normalizers.BertNormalizer(lowercase=True)
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.train_from_iterator(training, trainers.WordPieceTrainer(vocab_size=1300, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "[UNK]"], show_progress=False))
    words = sorted(pieces.get_vocab().items(), key=lambda item: item[1])
    with open(os.path.join(OUT, "mpnet.txt"), "w", encoding="utf-8") as f:
        f.writelines(word + "\n" for word in [w for w, _ in words] + ["<mask>"])


def proto(name):
    model = sentencepiece_model_pb2.ModelProto()
    with open(os.path.join(OUT, name + ".spm"), "rb") as f:
        model.ParseFromString(f.read())
    return model


def charsmap(name):
    return proto(name).normalizer_spec.precompiled_charsmap


# ---- references ----------------------------------------------------------------------------------------------------
ROBERTA = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", sep_token="</s>", pad_token="<pad>", cls_token="<s>")
DEBERTA = dict(bos_token="[CLS]", eos_token="[SEP]", unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]", cls_token="[CLS]")

ALBERT = dict(bos_token="[CLS]", eos_token="[SEP]", unk_token="<unk>", sep_token="[SEP]", pad_token="<pad>", cls_token="[CLS]")


def mask(content):
    return AddedToken(content, lstrip=True, special=True, normalized=False)


def converted(directory, config):
    """What transformers' converters make of model files: RoBERTa, DeBERTa, DeBERTa-v2."""
    name = config["tokenizer_class"]
    if name in ("RobertaTokenizer", "DebertaTokenizer"):
        with open(directory + "/vocab.json", encoding="utf-8") as f:
            vocabulary = json.load(f)
        with open(directory + "/merges.txt", encoding="utf-8") as f:
            ranks = {tuple(m.split()): i for i, m in enumerate(f.read().split("\n")[1:-1])}
        roberta = name == "RobertaTokenizer"
        old = SimpleNamespace(encoder=vocabulary, bpe_ranks=ranks, add_prefix_space=config.get("add_prefix_space", False), cls_token="<s>", sep_token="</s>",
                              cls_token_id=vocabulary["<s>"], sep_token_id=vocabulary["</s>"], convert_tokens_to_ids=vocabulary.get)
        backend = (RobertaConverter if roberta else DebertaConverter)(old).converted()
        return PreTrainedTokenizerFast(tokenizer_object=backend, **(ROBERTA if roberta else DEBERTA), mask_token=mask("<mask>" if roberta else "[MASK]"))
    words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    if name == "AlbertTokenizer":
        old = SimpleNamespace(vocab_file=directory + "/spiece.model", do_lower_case=config.get("do_lower_case", True), keep_accents=config.get("keep_accents", False),
                              convert_tokens_to_ids={"[CLS]": 2, "[SEP]": 3}.get)
        backend = AlbertConverter(old).converted()
        backend.pre_tokenizer = words
        return PreTrainedTokenizerFast(tokenizer_object=backend, **ALBERT, mask_token=mask("[MASK]"))
    if name == "CamembertTokenizer":
        backend = CamembertConverter(SimpleNamespace(vocab_file=directory + "/sentencepiece.bpe.model", convert_tokens_to_ids={"<s>": 5, "</s>": 6}.get)).converted()
        backend.normalizer = normalizers.Precompiled(charsmap("xlm_roberta"))
        backend.pre_tokenizer = words
        return PreTrainedTokenizerFast(tokenizer_object=backend, **ROBERTA, mask_token=mask("<mask>"))
    if name == "MPNetTokenizer":  # its converter makes of the class what the class is by itself
        return MPNetTokenizer.from_pretrained(directory)
    if name == "DebertaV2Tokenizer":
        old = SimpleNamespace(vocab_file=directory + "/spm.model", do_lower_case=config.get("do_lower_case", False), split_by_punct=config.get("split_by_punct", False),
                              convert_tokens_to_ids={"[CLS]": 1, "[SEP]": 2}.get)
        if "add_prefix_space" in config:
            old.add_prefix_space = config["add_prefix_space"]
        return PreTrainedTokenizerFast(tokenizer_object=DebertaV2Converter(old).converted(), **DEBERTA, mask_token="[MASK]")
    old = SimpleNamespace(vocab_file=directory + "/sentencepiece.bpe.model", convert_tokens_to_ids={"<s>": 0, "</s>": 2}.get)
    backend = XLMRobertaConverter(old).converted()
    backend.normalizer = normalizers.Precompiled(charsmap("xlm_roberta"))
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    return PreTrainedTokenizerFast(tokenizer_object=backend, **ROBERTA, mask_token=mask("<mask>"))


CLASSES = {"RobertaTokenizer": RobertaTokenizer, "DebertaTokenizer": DebertaTokenizer, "DebertaV2Tokenizer": DebertaV2Tokenizer,
           "XLMRobertaTokenizer": XLMRobertaTokenizer, "AlbertTokenizer": AlbertTokenizer, "CamembertTokenizer": CamembertTokenizer,
           "MPNetTokenizer": MPNetTokenizer}


def reference(variant):
    """The tokenizers.Tokenizer that decides."""
    directory = write_directory(variant["files"])
    config = variant["files"].get("tokenizer_config.json", {})
    name = config.get("tokenizer_class")
    if variant["rules"] == "transformers":
        tokenizer = CLASSES[name].from_pretrained(directory)
    elif "tokenizer.json" in variant["files"]:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(directory)
    else:
        tokenizer = converted(directory, config)
    shutil.rmtree(directory)
    return tokenizer._tokenizer


def expand(value):
    """Stand-ins in variants.json, as the test puts them in."""
    if isinstance(value, dict):
        return {k: expand(v) for k, v in value.items()}
    if isinstance(value, list):
        return [expand(v) for v in value]
    if isinstance(value, str) and value.startswith("@charsmap "):
        return base64.b64encode(charsmap(value.split()[1])).decode()
    if value == "@bpe_vocab":
        return json.load(open(os.path.join(OUT, "bpe_vocab.json"), encoding="utf-8"))
    if value == "@bpe_merges":
        return open(os.path.join(OUT, "bpe_merges.txt"), encoding="utf-8").read().split("\n")[1:-1]
    if isinstance(value, str) and value.startswith("@gemma "):
        with open(os.path.join(OUT, "gemma.json"), encoding="utf-8") as f:
            return json.load(f)[value.split()[1]]
    if isinstance(value, str) and value.startswith("@pieces "):
        return [[p.piece, p.score] for p in proto(value.split()[1]).pieces]
    return value


def write_directory(files):
    directory = tempfile.mkdtemp()
    for name, content in files.items():
        path = os.path.join(directory, name)
        if isinstance(content, str):
            shutil.copyfile(os.path.join(OUT, content[1:]), path)
        else:
            with open(path, "w", encoding="utf-8") as f:
                json.dump(expand(content), f)
    return directory


def run(backend, kind, texts, index):
    """Line `index` of a variant, encoded in one of eight ways (code points: alone); None where the library refuses."""
    turn = index % 8 if kind == "mixed" else 0
    limit = 6 + index // 8 % 60
    backend.no_truncation()
    if turn in (1, 5):
        backend.enable_truncation(limit)
    elif turn in (3, 7):
        backend.enable_truncation(limit, strategy="longest_first" if turn == 3 else "only_first")
    try:
        e = backend.encode(texts[index], texts[index + 1] if turn in (2, 3, 7) else None)
    except Exception as error:
        assert "too short" in str(error), error
        return None
    return e.ids, e.type_ids


# ---- variants ------------------------------------------------------------------------------------------------------
BPE_FILES = {"vocab.json": "@bpe_vocab.json", "merges.txt": "@bpe_merges.txt"}


def token(content, identity, **flags):
    return {"id": identity, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **flags}


def file_of(model, **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None, **parts, "model": model}


def bpe_model(**changes):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "ignore_merges": False, "vocab": "@bpe_vocab", "merges": "@bpe_merges", **changes}


def sequence(kind, *items):
    return {"type": "Sequence", kind: list(items)}


def byte_level(prefix=False, expression=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": expression}


def metaspace(scheme="always", split=True):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}


def split(behavior="Isolated", invert=False, **pattern):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def llama(digits):
    return "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" + digits + "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"


def gemma_model(**changes):
    return bpe_model(**{"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": "@gemma vocab", "merges": "@gemma merges", **changes})


def gemma_frame(types=(0, 1)):
    bos, eos = {"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"SpecialToken": {"id": "<eos>", "type_id": 0}}
    texts = [{"Sequence": {"id": "AB"[i], "type_id": types[i]}} for i in range(2)]
    return {"type": "TemplateProcessing", "single": [bos, texts[0], eos], "pair": [bos, texts[0], eos, texts[1], eos],
            "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in (("<bos>", 2), ("<eos>", 1))}}


SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
# Merges that join words, and characters that nothing stands for: bytes 0xC3 and 0xCC alone have tokens.
JOINED = ["<unk>", "\u2581"] + list("abcdefghijklmnopqrstuvwxyz") + ["<0xC3>", "<0xCC>", "<0x81>", "<0xA9>"]
JOINS = [("e", "\u2581"), ("t", "h"), ("\u2581", "m"), ("e\u2581", "a"), ("o", "f"), ("th", "e\u2581"), ("\u2581", "\u2581"), ("i", "n"), ("\u2581", "of"), ("x", "x"), ("xx", "xx")]
JOINED = {piece: i for i, piece in enumerate(JOINED + [a + b for a, b in JOINS])}


TEMPLATE = {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "</s>", "type_id": 2}},
                     {"SpecialToken": {"id": "</s>", "type_id": 1}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2, 1], "tokens": ["</s>", "<s>"]}}}
UNIGRAM = {"type": "Unigram", "unk_id": 3, "byte_fallback": False, "vocab": "@pieces deberta"}
DEBERTA_ADDED = [token("[PAD]", 0), token("[CLS]", 1), token("[SEP]", 2), token("[UNK]", 3, normalized=True), token("<ud>", 4, special=False)]
# Characters and the forms they may take, as words of their own and inside words.
LETTERS = {c: i for i, c in enumerate(["[UNK]"] + [p + c for p in ("", "##") for c in sorted(set(
    "abcdefghijklmnopqrstuvwxyz0123456789!'\u00e9\u00e1\u1ea1\u00e5\u1e69\u0301\u0302\u0307\u0323\u0327\u0915\u094d\u0921\u093c\u0958\uac01\u1100\u1161\u11a8\u30ac\u304c\u304b\u3099"
    "\u682a\u5f0f\u4f1a\u793e\u2044\u03c9\u03a9\u212b\u0308\u0344\u0f71\u0f72\u4f60\u597d\u0434\u043e\u043c\u03c3\u03c2\u0456\u0130"))])}
LETTER_MODEL = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": LETTERS}


def variants():
    def add(name, files, rules="files", kind="mixed"):
        out.append({"name": name, "rules": rules, "lines": kind, "files": files})

    def configured(files, name, **config):
        return {**files, "tokenizer_config.json": {"tokenizer_class": name, **config}}

    out, spm, xlm = [], {"spm.model": "@deberta.spm"}, {"sentencepiece.bpe.model": "@xlm_roberta.spm"}
    add("roberta", configured(BPE_FILES, "RobertaTokenizer"))
    add("roberta with a prefix", configured(BPE_FILES, "RobertaTokenizer", add_prefix_space=True))
    add("roberta, transformers", configured(BPE_FILES, "RobertaTokenizer"), "transformers")
    add("roberta, tokenizer.json", {"tokenizer.json": file_of(
        bpe_model(unk_token="<unk>"), pre_tokenizer=byte_level(True), post_processor={"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
                                                                   "trim_offsets": True, "add_prefix_space": True},
        added_tokens=[token("<s>", 0, normalized=True), token("<mask>", 1401, lstrip=True)])})
    add("deberta", configured(BPE_FILES, "DebertaTokenizer"))
    add("deberta, transformers", configured(BPE_FILES, "DebertaTokenizer"), "transformers")
    add("xlm-roberta", configured(xlm, "XLMRobertaTokenizer"))
    add("xlm-roberta, transformers", configured(xlm, "XLMRobertaTokenizer"), "transformers")
    add("deberta-v2", configured(spm, "DebertaV2Tokenizer"))
    add("deberta-v2, lower, punctuation", configured(spm, "DebertaV2Tokenizer", do_lower_case=True, split_by_punct=True))
    add("deberta-v2, transformers", configured(spm, "DebertaV2Tokenizer"), "transformers")
    add("deberta-v2, transformers, lower, punctuation", configured(spm, "DebertaV2Tokenizer", do_lower_case=True, split_by_punct=True), "transformers")
    add("deberta-v2, transformers, no prefix", configured(spm, "DebertaV2Tokenizer", add_prefix_space=False), "transformers")
    strip, squeeze = {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    add("deberta-v2, tokenizer.json", {"tokenizer.json": file_of(
        UNIGRAM, normalizer=sequence("normalizers", strip, {"type": "Precompiled", "precompiled_charsmap": "@charsmap xlm_roberta"}, squeeze),
        pre_tokenizer=sequence("pretokenizers", metaspace()), post_processor=TEMPLATE, added_tokens=DEBERTA_ADDED)})
    add("first word", {"tokenizer.json": file_of(
        UNIGRAM, normalizer=sequence("normalizers", {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Replace", "pattern": {"String": "th"}, "content": "\u00fe "}),
        pre_tokenizer=sequence("pretokenizers", {"type": "Punctuation", "behavior": "Isolated"}, metaspace("first")), added_tokens=DEBERTA_ADDED)})
    add("undivided", {"tokenizer.json": file_of(UNIGRAM, normalizer={"type": "NFKC"}, pre_tokenizer=metaspace("always", False), added_tokens=DEBERTA_ADDED)})
    add("modernbert", {"tokenizer.json": file_of(
        bpe_model(), normalizer={"type": "NFC"}, pre_tokenizer=byte_level(), post_processor=TEMPLATE, added_tokens=[token("[MASK]", 1400, lstrip=True), token("<s>", 0, rstrip=True)])})
    add("ignored merges", {"tokenizer.json": file_of(
        bpe_model(ignore_merges=True, fuse_unk=True), normalizer={"type": "NFD"}, pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"}, byte_level(True, False)),
        post_processor=sequence("processors", byte_level(), TEMPLATE))})
    albert = {"spiece.model": "@albert.spm"}
    add("albert", configured(albert, "AlbertTokenizer"))
    add("albert, cased", configured(albert, "AlbertTokenizer", do_lower_case=False, keep_accents=True))
    add("albert, transformers", configured(albert, "AlbertTokenizer"), "transformers")
    add("camembert", configured(xlm, "CamembertTokenizer"))
    add("camembert, transformers", configured(xlm, "CamembertTokenizer"), "transformers")
    add("mpnet", configured({"vocab.txt": "@mpnet.txt"}, "MPNetTokenizer"))
    add("mpnet, cased", configured({"vocab.txt": "@mpnet.txt"}, "MPNetTokenizer", do_lower_case=False))
    add("letters, NFKC", {"tokenizer.json": file_of(
        LETTER_MODEL, normalizer=sequence("normalizers", {"type": "NFKC"}, {"type": "Lowercase"}), pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"}, {"type": "Punctuation"}))})
    add("letters, NFKD", {"tokenizer.json": file_of(
        LETTER_MODEL, normalizer=sequence("normalizers", {"type": "NFKD"}, {"type": "StripAccents"}), pre_tokenizer={"type": "BertPreTokenizer"})})
    add("letters, accents", {"tokenizer.json": file_of(
        LETTER_MODEL, normalizer=sequence("normalizers", {"type": "StripAccents"}, {"type": "NFD"}), pre_tokenizer={"type": "Punctuation"})})
    for name in ("roberta", "xlm-roberta", "albert", "mpnet", "deberta-v2", "modernbert", "deberta-v2, transformers", "undivided"):
        base = next(v for v in out if v["name"] == name)
        add("code points: " + name, base["files"], base["rules"], "code points")
    gemma_added = [token("<pad>", 0), token("<eos>", 1), token("<bos>", 2), token("<unk>", 3), token("<mask>", 4, lstrip=True),
                   token("\u2581\u2581", 1500, special=False), token("\n\n", 1501, special=False)]
    with_next = split("MergedWithNext", String="e")
    for name, model, normalizer, splitter in (
            ("mmbert", {}, SPACES, split("MergedWithPrevious", String=" ")),
            ("gemma, words with spaces", {"fuse_unk": False}, sequence("normalizers", {"type": "NFC"}, SPACES), metaspace("first")),
            ("gemma, whole", {"ignore_merges": True}, {"type": "NFKC"}, metaspace("always", False)),
            ("llama 2", {}, sequence("normalizers", {"type": "Prepend", "prepend": "\u2581"}, SPACES), None),
            ("characters, no bytes", {"byte_fallback": False}, SPACES, sequence("pretokenizers", split("Removed", String="th"), split("Isolated", String="o"))),
            ("characters, no bytes, apart", {"byte_fallback": False, "fuse_unk": False, "unk_token": "<unk>"}, SPACES, sequence("pretokenizers", with_next, {"type": "Punctuation", "behavior": "Isolated"})),
            ("characters that vanish", {"byte_fallback": False, "unk_token": None}, None, split("MergedWithPrevious", String="\u2581")),
            ("joined words", {"vocab": JOINED, "merges": [list(m) for m in JOINS]}, SPACES, split("MergedWithPrevious", String=" ")),
            ("joined words, apart", {"vocab": JOINED, "merges": [list(m) for m in JOINS], "fuse_unk": False}, SPACES, None)):
        joined = "vocab" in model
        add(name, {"tokenizer.json": file_of(gemma_model(**model), normalizer=normalizer, pre_tokenizer=splitter,
                                             post_processor=None if joined else gemma_frame(), added_tokens=[] if joined else gemma_added)})
    for name, digits, normalizer, splitter in (("llama 3", "{1,3}", None, {}), ("qwen2", "", {"type": "NFC"}, {}), ("inverted", "", None, {"behavior": "Removed", "invert": True})):
        add(name, {"tokenizer.json": file_of(
            bpe_model(ignore_merges=name == "llama 3"), normalizer=normalizer, post_processor=sequence("processors", byte_level(), TEMPLATE),
            pre_tokenizer=sequence("pretokenizers", split(Regex=llama(digits), **splitter), byte_level(False, False)))})
    for name in ("mmbert", "llama 3"):
        add("code points: " + name, next(v for v in out if v["name"] == name)["files"], "files", "code points")
    # ModernBERT's own: runs of 2 to 24 spaces are tokens of normalised text, [CLS] A [SEP] B [SEP] without types.
    runs = [token(" " * n, 1402 + 24 - n, normalized=True, special=False) for n in range(24, 1, -1)]
    framed = {"type": "TemplateProcessing",
              "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
              "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                       {"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
              "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in (("[CLS]", 5), ("[SEP]", 6))}}
    add("modernbert, added tokens", {
        "tokenizer.json": file_of(bpe_model(), normalizer={"type": "NFC"}, pre_tokenizer=byte_level(), post_processor=framed, added_tokens=[
            token("[PAD]", 4), token("[CLS]", 5), token("[SEP]", 6), token("[UNK]", 7), token("[MASK]", 1400, lstrip=True), *runs,
            token("|||EMAIL_ADDRESS|||", 1425, normalized=True, special=False), token("[unused0]", 1426, normalized=True, special=False)]),
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192}})
    return out


def fnv(h, numbers):
    for b in struct.pack("<%di" % len(numbers), *numbers):
        h = (h ^ b) * 0x01000193 & 0xFFFFFFFF
    return h


def main():
    global LINES
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=LINES, help="hard lines a variant, a multiple of 16")
    parser.add_argument("--expect", help="write what is expected there, and no variants.json")
    parser.add_argument("--only", nargs="+", help="variants, by name: nothing is expected of others")
    options = parser.parse_args()
    LINES = options.lines
    if LINES % BLOCK != 0 or ((LINES != 20000 or options.only) and options.expect is None):
        parser.error("--lines takes a multiple of 16, and --expect a file for other than 20,000, or not all variants")
    os.makedirs(OUT, exist_ok=True)
    # Trainers are not the same everywhere: a model that is there stays, and with it what is expected of it. Delete it to train it anew.
    for file, make in (("bpe_vocab.json", make_models), ("mpnet.txt", make_word_pieces), ("gemma.json", make_characters)):
        if not os.path.exists(os.path.join(OUT, file)):
            make()
    texts = {kind: [t.decode("utf-8", "replace") for t in lines(kind)] for kind in ("mixed", "code points")}
    everything = variants()
    packed = struct.pack("<I", len(everything))
    for v in everything:
        if options.only and v["name"] not in options.only:
            packed += struct.pack("<I", 0)
            continue
        backend, some, blocks = reference(v), texts[v["lines"]], []
        for i in range(len(some) - 1):
            if i % BLOCK == 0:
                blocks.append(0x811C9DC5)
            result = run(backend, v["lines"], some, i)
            for part in result if result is not None else ([-1],):
                blocks[-1] = fnv(blocks[-1], [len(part), *part])
        packed += struct.pack("<I", len(blocks)) + struct.pack("<%dI" % len(blocks), *blocks)
        print(v["name"], len(some) - 1, flush=True)
    with open(options.expect or os.path.join(OUT, "expect.bin"), "wb") as f:
        f.write(packed)
    if options.expect is not None:
        return
    with open(os.path.join(OUT, "variants.json"), "w", encoding="ascii") as f:
        f.write("[\n" + ",\n".join(json.dumps(v) for v in everything) + "\n]\n")


if __name__ == "__main__":
    main()
