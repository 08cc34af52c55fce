#!/usr/bin/env python3
"""Golden vectors of the WordPiece tokenizer, made with transformers 5.23 (tokenizers 0.23.3).

    python tests/vectors/make_tokenizer_vectors.py [--minilm DIRECTORY]

Writes tests/vectors/tokenizer_wordpiece/:

vocab.txt       a made-up vocabulary: ASCII, every character some other one decomposes or lower-cases to (so that a wrong
                table entry shows), and made-up words; each character also as a ## piece.
variants.json   settings under which the lines are encoded, in the order of expect.bin
expect.bin      little-endian uint32: number of variants; for each the number of lines and per line the FNV-1a hash of its ids
readable.txt    the ids of the first lines of the first random variant, so that a failure can be read
files.json      small model directories (special tokens in every file that may hold them, odd vocab.txt, tokenizer.json
                run as it is or through BERT's class), texts, and their ids

The lines themselves are not stored: tests/text/test_tokenizer.c makes them with the same generator as lines() here.
"""
import argparse
import json
import os
import random
import shutil
import struct
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import tokenizers
from tokenizers import normalizers
from transformers import AutoTokenizer, BertTokenizer

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer_wordpiece")
RANDOM_LINES, READABLE, TEXTS = 12000, 200, 24
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
SPECIAL = ["[SEP]", "[CLS]", "[MASK]", "[PAD]", "[UNK]", "[sep]", "[SEP", "##ing", "[CLS][SEP]", "[ SEP ]"]
RANGES = [(0x20, 0x250), (0x300, 0x370), (0x370, 0x590), (0x590, 0x900), (0x900, 0xE80), (0xE80, 0x2000), (0x2000, 0x2E80),
          (0x2E80, 0xAC00), (0xAC00, 0xD7A4), (0xE000, 0x10000), (0x10000, 0x20000), (0x1F300, 0x1FB00), (0xE0000, 0xE0100)]
MARKS = [0x1D165, 0x16FF0, 0x302E, 0x302F, 0x903, 0x1D16D, 0x301, 0x93C, 0x1133B, 0x20D0, 0x10F46, 0x1E2EC, 0x01, 0x00, 0x1AC0, 0x323,
         0x941]
MIXED = ["\u0130", "\u03a3", "\u03c2", "\u00df", "\ufb01", "\u4e2d", "\ud55c", "\uac01", "\U0001F600", "e\u0301", "\u212b", "\u3000", "\u00a0",
         "\u0085", "\u200b", "\ufffd", "\U0001F469\u200d\U0001F467", "\U0002B820", "\u166d"]
MASK = (1 << 64) - 1


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


def random_line(index):
    d, out = Draw(index * 1000003 + 17), b""
    for _ in range(1 + d.below(40)):
        kind = d.below(12)
        if kind < 4:
            for _ in range(1 + d.below(10)):
                letter = 97 + d.below(26)
                out += bytes([letter - 32 if d.below(8) == 0 else letter])
        elif kind == 4:
            out += b" "
        elif kind == 5:
            out += SPECIAL[d.below(len(SPECIAL))].encode()
        elif kind == 6:
            low, high = RANGES[d.below(len(RANGES))]
            out += chr(low + d.below(high - low)).encode()
        elif kind == 7:
            for _ in range(1 + d.below(4)):
                out += bytes([d.below(256)])
        elif kind == 8:
            for _ in range(1 + d.below(4)):
                out += chr(MARKS[d.below(len(MARKS))]).encode()
        elif kind == 9:
            out += MIXED[d.below(len(MIXED))].encode()
        elif kind == 10:
            out += b" " + bytes([33 + d.below(94)])
        elif d.below(10) == 0:
            letter = ("x", "\u00e9")[d.below(2)].encode()
            out += letter * (90 + d.below(20))
        else:
            out += b"##"
    return out


def code_point_line(index):
    out = ""
    for c in range(64 * index, 64 * index + 64):
        if not 0xD800 <= c <= 0xDFFF:
            t = chr(c)
            out += "a" + t + "b " + t + " " + t + t + "e" + t + "\u0301 "
    return out.encode()


def lines(kind):
    if kind == "random":
        return [random_line(i) for i in range(RANDOM_LINES)]
    return [code_point_line(i) for i in range(0x110000 // 64)]


def make_vocabulary():
    nfd, lower = normalizers.NFD().normalize_str, normalizers.BertNormalizer(False, False, False, True).normalize_str
    wanted = {chr(c) for c in range(0x21, 0x7F)}
    for c in CODE_POINTS:
        t = chr(c)
        for form in (nfd(t), lower(t), lower(nfd(t))):
            if form != t:
                wanted |= set(form)
    wanted |= {chr(c) for c in MARKS if c > 0x20}
    wanted |= {chr(c) for low, high in ((0x3B1, 0x3CA), (0x430, 0x450), (0x5D0, 0x5EB), (0x627, 0x64B), (0x905, 0x940), (0xE01, 0xE50),
                                        (0x3041, 0x3097), (0x4E00, 0x4F00), (0x1100, 0x1113), (0x1F600, 0x1F640)) for c in range(low, high)}
    characters = sorted(t for t in wanted if t.strip())
    d, words = Draw(7), []
    for _ in range(700):
        word = "".join(chr(97 + d.below(26)) for _ in range(2 + d.below(2)))
        words += [word, "##" + word]
    pieces = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + characters + ["##" + t for t in characters] + words
    return list(dict.fromkeys(pieces))


def component_file(**changes):
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": False},
            "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}}
    return {**base, **changes}


BERT_PROCESSING = {"type": "BertProcessing", "sep": ["[SEP]", 4], "cls": ["[CLS]", 3]}
VARIANTS = [  # tokenizer.json gets the vocabulary put into "model" by the test
    dict(name="uncased", lines="random", config={}),
    dict(name="uncased 17", lines="random", config={}, max_length=17),
    dict(name="cased", lines="random", config={"do_lower_case": False}),
    dict(name="lower with accents", lines="random", config={"do_lower_case": True, "strip_accents": False}),
    dict(name="cased without accents", lines="random", config={"do_lower_case": False, "strip_accents": True}),
    dict(name="no CJK spacing", lines="random", config={"tokenize_chinese_chars": False}),
    dict(name="tokenizer.json alone", lines="random", tokenizer=component_file(post_processor=BERT_PROCESSING), max_length=40),
    dict(name="not cleaned, 8 characters", lines="random", tokenizer=component_file(
        normalizer={"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": True, "strip_accents": True, "lowercase": True},
        model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 8})),
    dict(name="code points uncased", lines="code points", config={}),
    dict(name="code points lower with accents", lines="code points", config={"do_lower_case": True, "strip_accents": False}),
    dict(name="code points cased, no CJK spacing", lines="code points",
         config={"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}),
    dict(name="MiniLM", lines="random", minilm=True),
    dict(name="MiniLM 128", lines="random", minilm=True, max_length=128),
]


def write_directory(files):
    directory = tempfile.mkdtemp()
    for name, content in files.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8", newline="") as f:
            f.write(content if isinstance(content, str) else json.dumps(content))
    return directory


def encoder(directory, config, alone):
    """The library as the engine reads a directory: tokenizer.json alone is run as it is, by the tokenizers library."""
    if alone:
        backend = tokenizers.Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))

        def run(texts, limit):
            backend.enable_truncation(limit) if limit else backend.no_truncation()
            return [e.ids for e in backend.encode_batch(texts)]
        return run
    kind = AutoTokenizer if (config or {}).get("tokenizer_class") in ("PreTrainedTokenizerFast", "TokenizersBackend") else BertTokenizer
    tokenizer = kind.from_pretrained(directory)
    return lambda texts, limit: tokenizer(texts, truncation=bool(limit), max_length=limit or None)["input_ids"]


def fnv(ids):
    h = 0x811C9DC5
    for b in struct.pack("<%di" % len(ids), *ids):
        h = (h ^ b) * 0x01000193 & 0xFFFFFFFF
    return h


# ---- small directories ---------------------------------------------------------------------------------------------
BASE = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\nab\n"
SMALL = {k: i for i, k in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "A", "##a", "bb"])}
PARTS = ["a", "b", "A", "ab", "abb", " ", "  ", "\t", "\u3000", "[CLS]", "[SEP]", "[MASK]", "[cls]", "[mask]", "[UNK]", "[E1]", "[E2]", "[e1]",
         "[FOO]", "[foo]", "Zed", "zed", "ZED", "[X]", "[Y]", "[y]", "\u4e2d", "\u00e9", "_", "-", "1", "\u0301", "<s>", "</s>", "<unk>", "yy",
         "yyy", "y y", "[M]", "\u00b7"]


def token(content, **flags):
    return {"content": content, "__type": "AddedToken", **flags}


def full(content, identity=None, **flags):
    out = dict(content=content, special=False, normalized=True, single_word=False, lstrip=False, rstrip=False)
    return {**({"id": identity} if identity is not None else {}), **out, **flags}


def small(**changes):
    file = component_file(**{k: v for k, v in changes.items() if k not in ("prefix", "longest", "untagged")})
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": changes.get("prefix", "##"),
             "max_input_chars_per_word": changes.get("longest", 100), "vocab": SMALL}
    if changes.get("untagged"):
        del model["type"]
    return {**file, "model": model}


def directories():
    def lines_case(name, config, vocabulary=BASE, **more):
        return name, {"vocab.txt": vocabulary, **({"tokenizer_config.json": config} if config is not None else {}), **more}
    template = {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2, 7], "tokens": ["[CLS]", "x"]}, "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}}
    bert = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    stm = "special_tokens_map.json"
    yield lines_case("vocab.txt alone", None)
    yield lines_case("CRLF", {}, BASE.replace("\n", "\r\n"))
    yield lines_case("blank lines", {"foo_token": "[FOO]"}, BASE + "\n\nc\n\n[Z]\n")
    yield lines_case("white space behind tokens", {}, BASE + "c \n d\n_\u3000\n")
    yield lines_case("no newline at the end", {}, BASE + "_")
    yield lines_case("no mask, no padding", {}, BASE.replace("[MASK]\n", "").replace("[PAD]\n", ""))
    yield lines_case("odd separators", {}, BASE + "x\u2028y\n\x0bz\n\x85\n")
    yield lines_case("role matched in normalised text", {"cls_token": token("[CLS]", normalized=True), "mask_token": token("[MASK]", normalized=False, lstrip=True)})
    yield lines_case("roles with flags", {"cls_token": token("[CLS]"), "mask_token": token("[MASK]", rstrip=True, lstrip=True), "sep_token": token("[SEP]", single_word=True)})
    yield lines_case("other names", {"cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}, "<pad>\n<unk>\n<s>\n</s>\na\nb\n##b\n")
    yield lines_case("additional tokens", {"additional_special_tokens": ["[E1]", "[E2]"], "foo_token": "[FOO]", "bos_token": "[X]"})
    yield lines_case("extra tokens", {"extra_special_tokens": ["[E1]", token("[E2]", lstrip=True, special=True), token("[Y]", lstrip=True)], "additional_special_tokens": ["[X]"]})
    yield lines_case("extra tokens by name", {"extra_special_tokens": {"foo_token": "[E1]"}})
    yield lines_case("map over configuration", {"cls_token": "[CLS]"}, **{stm: {"cls_token": "[SEP]", "additional_special_tokens": ["[Y]"], "mask_token": {"content": "[M]", "lstrip": True, "normalized": True}}})
    yield lines_case("map beside configuration", {"additional_special_tokens": ["[E1]"]}, **{stm: {"additional_special_tokens": ["[Y]"], "foo_token": "[FOO]", "mask_token": {"content": "[M]", "lstrip": True}}})
    yield lines_case("map with extra tokens", {"extra_special_tokens": ["[E1]"]}, **{stm: {"extra_special_tokens": ["[Y]", {"content": "[X]", "rstrip": True}], "foo_token": "[FOO]"}})
    yield lines_case("added_tokens.json", {}, **{"added_tokens.json": {"[Y]": 9, "Zed": 10}})
    yield lines_case("added_tokens.json, special", {"additional_special_tokens": ["[Y]"]}, **{"added_tokens.json": {"[Y]": 9, "Zed": 10}})
    yield lines_case("null roles", {"mask_token": None, "pad_token": None})
    yield lines_case("decoder", {"added_tokens_decoder": {"0": full("[PAD]", special=True, normalized=False), "9": full("Zed", single_word=True), "10": full("yy", lstrip=True, rstrip=True, normalized=False), "11": full("y", normalized=False), "12": full("y y", normalized=False)}, "extra_special_tokens": ["[E1]", "Zed"]})
    yield lines_case("decoder, normalised", {"added_tokens_decoder": {"9": full("Zed"), "10": full("ED", special=True), "11": full("[Y]"), "12": full("\u4e2d", lstrip=True)}})
    yield lines_case("decoder, roles normalised", {"added_tokens_decoder": {"2": full("[CLS]"), "4": full("[MASK]", special=True, lstrip=True)}})
    yield lines_case("decoder hides the map", {"added_tokens_decoder": {}}, **{stm: {"mask_token": "[M]"}})
    yield lines_case("both files disagree", {"tokenizer_class": "BertTokenizer"}, **{"tokenizer.json": small(added_tokens=[full("[MASK]", 4, special=True, lstrip=True, normalized=False), full("Zed", 11)])})
    yield "options of tokenizer_config.json win", {"tokenizer.json": small(added_tokens=[full("Zed", 11)]), "tokenizer_config.json": {"do_lower_case": False, "strip_accents": True}}
    yield "decoder over tokenizer.json", {"tokenizer.json": small(added_tokens=[full("Zed", 11)]), "tokenizer_config.json": {"do_lower_case": False, "added_tokens_decoder": {"11": full("[Y]")}}}
    forms = [("plain", small()), ("BertProcessing", small(post_processor=bert)), ("no normaliser", small(normalizer=None, post_processor=bert)), ("no type", small(untagged=True)),
             ("no prefix, 2 characters", small(prefix="", longest=2)), ("letter as prefix", small(prefix="b")),
             ("not cleaned", small(normalizer={"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": True, "lowercase": False})),
             ("template", small(post_processor=template, added_tokens=[full("[MASK]", 4, lstrip=True, special=True, normalized=False), full("Zed", 11), full("[Y]", 12, special=True)]))]
    for name, file in forms:
        yield "as it is: " + name, {"tokenizer.json": file}
        yield "class says so: " + name, {"tokenizer.json": file, "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"}}
        yield "with roles: " + name, {"tokenizer.json": file, "tokenizer_config.json": {
            "tokenizer_class": "TokenizersBackend", "mask_token": "[M]", "unk_token": "[UNK]", "pad_token": "[PAD]",
            "added_tokens_decoder": {"4": full("[MASK]", rstrip=True, special=True, normalized=False)}, "extra_special_tokens": ["[E1]"]}}


def make_files():
    out = []
    for number, (name, files) in enumerate(directories()):
        d = random.Random(number)
        texts = ["".join(d.choice(PARTS) for _ in range(d.randrange(1, 14))) for _ in range(TEXTS)] + [""]
        config = files.get("tokenizer_config.json")
        directory = write_directory(files)
        run = encoder(directory, config, "tokenizer.json" in files and config is None)
        out.append({"name": name, "files": files, "texts": texts, "ids": run(texts, 0), "ids_6": run(texts, 6)})
        shutil.rmtree(directory)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minilm", help="directory with MiniLM's vocab.txt, tokenizer.json and tokenizer_config.json", required=True)
    minilm = parser.parse_args().minilm
    os.makedirs(OUT, exist_ok=True)
    vocabulary = make_vocabulary()
    listing = "".join(piece + "\n" for piece in vocabulary)
    with open(os.path.join(OUT, "vocab.txt"), "w", encoding="utf-8", newline="") as f:
        f.write(listing)
    texts = {kind: [t.decode("utf-8", "replace") for t in lines(kind)] for kind in ("random", "code points")}
    packed = struct.pack("<I", len(VARIANTS))
    for number, v in enumerate(VARIANTS):
        if v.get("minilm"):
            run = encoder(minilm, {}, False)
        elif "tokenizer" in v:
            file = {**v["tokenizer"], "model": {**v["tokenizer"]["model"], "vocab": {p: i for i, p in enumerate(vocabulary)}}}
            run = encoder(write_directory({"tokenizer.json": file}), None, True)
        else:
            run = encoder(write_directory({"vocab.txt": listing, "tokenizer_config.json": v["config"]}), v["config"], False)
        ids = run(texts[v["lines"]], v.get("max_length", 0))
        packed += struct.pack("<I", len(ids)) + struct.pack("<%dI" % len(ids), *map(fnv, ids))
        if number == 0:
            with open(os.path.join(OUT, "readable.txt"), "w", encoding="ascii") as f:
                f.writelines(" ".join(map(str, i)) + "\n" for i in ids[:READABLE])
        print(v["name"], len(ids))
    with open(os.path.join(OUT, "expect.bin"), "wb") as f:
        f.write(packed)
    for name, content in (("variants.json", VARIANTS), ("files.json", make_files())):
        with open(os.path.join(OUT, name), "w", encoding="ascii") as f:
            f.write("[\n" + ",\n".join(json.dumps(item) for item in content) + "\n]\n")


if __name__ == "__main__":
    main()
