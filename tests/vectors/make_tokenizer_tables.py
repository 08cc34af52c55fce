#!/usr/bin/env python3
"""Character tables of byte-level BPE and SentencePiece tokenizers, made by asking the tokenizers library (0.23.3).

    python tests/vectors/make_tokenizer_tables.py        writes engine/text/unicode/text_tables.inc    (a few minutes)

What make_unicode_tables.py does not cover: letters, numbers and spaces as the GPT-2 pattern sees them; what StripAccents
drops (not what BERT's normaliser does); grapheme clusters, by which the Precompiled normaliser walks; compatibility
decompositions and compositions (NFKD, NFC).
Grapheme classes are seen through a charsmap, compiled by sentencepiece, that deletes a few characters: the library applies
it to a cluster as a whole where the cluster is short enough. The regex module names the candidates only; what the library
does with them decides (its Unicode is older than regex's).
"""
import os
import tempfile

import regex
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, normalizers, pre_tokenizers

OUTPUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "engine", "text", "text_tables.inc")
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
BLOCK = 128
CLASSES = ["OTHER", "CR", "LF", "CONTROL", "EXTEND", "EXTEND_INDIC", "LINKER", "ZWJ", "SPACING", "PREPEND", "L", "V", "T", "LV", "LVT",
           "REGIONAL", "PICTOGRAPH", "CONSONANT"]
LETTER, NUMBER, SPACE = 1, 2, 3


def charsmap(rules):
    """A precompiled charsmap with these (from, to) pairs."""
    with tempfile.TemporaryDirectory() as directory:
        with open(directory + "/rules.tsv", "w") as f:
            f.writelines(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n" for a, b in rules)
        with open(directory + "/text", "w") as f:
            f.write("a b c d e f g\nhello world\n" * 50)
        sentencepiece.SentencePieceTrainer.train(input=directory + "/text", model_prefix=directory + "/m", vocab_size=24, hard_vocab_limit=False,
                                                 normalization_rule_tsv=directory + "/rules.tsv", minloglevel=3)
        model = sentencepiece_model_pb2.ModelProto()
        with open(directory + "/m.model", "rb") as f:
            model.ParseFromString(f.read())
    return model.normalizer_spec.precompiled_charsmap


def probe_graphemes():
    keys = "x\u00a9\u0915\u1161\u11a8"  # none of them extends a cluster that is no Hangul
    cut = normalizers.Precompiled(charsmap([(k, "") for k in keys])).normalize_str
    mark = normalizers.Precompiled(charsmap([("\u0301", "")])).normalize_str
    named = {k: set() for k in ("Extend", "ZWJ", "SpacingMark", "Prepend", "Control", "CR", "LF", "L", "V", "T", "LV", "LVT", "Regional_Indicator")}
    text = "".join(map(chr, CODE_POINTS))
    for k in named:
        named[k] = set(regex.findall(r"\p{GCB=%s}" % k, text))
    pictographs = set(regex.findall(r"\p{Extended_Pictographic}", text))
    consonants = set(regex.findall(r"\p{InCB=Consonant}", text))
    indic = set(regex.findall(r"\p{InCB=Linker}|\p{InCB=Extend}", text))
    fixed = {t: k for k in ("CR", "LF", "ZWJ", "L", "V", "T", "LV", "LVT") for t in named[k]} | {t: "REGIONAL" for t in named["Regional_Indicator"]}
    A, B = "\u0301", "\u0302"
    classes, odd = {}, []
    for c in CODE_POINTS:
        t = chr(c)
        joins = t not in keys and cut("x" + t) == ""
        if t in fixed:
            kind = fixed[t]
        elif mark(t + A + B) == t and t != A:
            kind = "CONTROL"
        elif joins:
            linker = t in indic and not cut("\u0915" + t + "\u0915" + B).count(B) == (1 if t == B else 0)
            between = t in indic and not cut("\u0915\u094d" + t + "\u0915" + B).endswith("\u094d" + t)
            extend = cut("\u00a9" + t + "\u200d\u00a9" + B).endswith(B)
            kind = "LINKER" if linker else "EXTEND_INDIC" if between else "EXTEND" if extend else "SPACING"
            if (linker or between) and not extend:
                odd.append((hex(c), kind))
        else:
            kind = "OTHER"
        if kind == "OTHER" and t in consonants and cut(t + "\u094d\u0915" + B) != t + "\u094d":
            kind = "CONSONANT"
        if kind == "OTHER" and t in pictographs and cut(t + "\u200d\u00a9" + B) != t + "\u200d":
            kind = "PICTOGRAPH"
        if kind == "OTHER" and t in named["Prepend"] and cut(t + "\u0915" + B).endswith(B):
            kind = "PREPEND"
        if joins and kind == "OTHER":
            odd.append((hex(c), kind))
        classes[c] = CLASSES.index(kind)
    # Hangul, as the library joins it: a syllable block before a vowel or a final consonant.
    for t, kind in fixed.items():
        vowel, final = cut(t + "\u1161" + B).endswith(B), cut(t + "\u11a8" + B).endswith(B)
        expected = {"L": (True, False), "V": (True, True), "LV": (True, True), "T": (False, True), "LVT": (False, True)}.get(kind, (False, False))
        assert (vowel, final) == expected or t in "\u1161\u11a8", (hex(ord(t)), kind)
    assert not odd, odd
    return classes


def probe_pattern():
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    space = pre_tokenizers.Split(Regex(r"\s"), "isolated").pre_tokenize_str
    out = {}
    for c in CODE_POINTS:
        t = chr(c)
        if len(split("a" + t + "a")) == 1:
            out[c] = LETTER
        elif len(split("1" + t + "1")) == 1:
            out[c] = NUMBER
        elif len(split("!" + t + "!")) == 1:
            assert len(space("a" + t + "a")) == 1, hex(c)
        else:
            assert len(space("a" + t + "a")) == 3, hex(c)
            out[c] = SPACE
    return out


def probe_forms():
    nfd, nfkd, nfc, nfkc = (k().normalize_str for k in (normalizers.NFD, normalizers.NFKD, normalizers.NFC, normalizers.NFKC))
    strip = normalizers.StripAccents().normalize_str
    compat, pairs = {}, {}
    for c in CODE_POINTS:
        t = chr(c)
        canonical, full = nfd(t), nfkd(t)
        if full != canonical:
            compat[c] = [ord(x) for x in full]
        if 0xAC00 <= c <= 0xD7A3 or canonical == t or nfc(t) != t:
            continue
        first, last = nfc(canonical[:-1]), canonical[-1]
        assert len(first) == 1 and nfc(first + last) == t, hex(c)
        pairs[ord(first), ord(last)] = c
    marks = set()
    for c in CODE_POINTS:
        t = chr(c)
        assert nfkc(t) == nfc(nfkd(t)), hex(c)
        if strip(t) == "":
            marks.add(c)
        else:
            assert strip(t) == t, hex(c)
    return compat, pairs, marks


def array(file, kind, name, items):
    file.write(f"static const {kind} {name}[{len(items)}] = {{\n")
    line = ""
    for item in items:
        text = str(item) + ","
        if len(line) + len(text) > 118:
            file.write(line + "\n")
            line = ""
        line += text
    file.write(line + "\n};\n")


def main():
    graphemes, pattern = probe_graphemes(), probe_pattern()
    compat, pairs, marks = probe_forms()
    flags = [0] * 0x110000
    for c in CODE_POINTS:
        flags[c] = graphemes[c] | pattern.get(c, 0) << 5 | (c in marks) << 7
    pages, blocks, known = [], [], {}
    for start in range(0, 0x110000, BLOCK):
        block = tuple(flags[start:start + BLOCK])
        if block not in known:
            known[block] = len(known)
            blocks += block
        pages.append(known[block])
    pool, entries = [], []
    for c in sorted(compat):
        entries.append("{0x%X,%d,%d}" % (c, len(pool), len(compat[c])))
        pool += compat[c]
    with open(OUTPUT, "w", encoding="ascii") as f:
        f.write(f"// Made by tests/vectors/make_tokenizer_tables.py from tokenizers {tokenizers.__version__}; do not edit.\n")
        f.write("// Of a code point: grapheme class in the low five bits (FT_GRAPHEME_...), then 1 letter, 2 number,\n"
                "// 3 space in two bits; the highest bit: StripAccents drops it.\n")
        f.write(f"enum {{ TEXT_BLOCK = {BLOCK}, TEXT_GRAPHEME_CLASSES = {len(CLASSES)} }};\n")
        array(f, "uint16_t" if len(known) > 256 else "uint8_t", "text_pages", pages)
        array(f, "uint8_t", "text_classes", blocks)
        f.write("typedef struct text_decomposition {\n    uint32_t code;\n    uint16_t start;\n    uint16_t length;\n} text_decomposition;\n")
        f.write("// full compatibility decompositions, where they differ from the canonical ones\n")
        array(f, "text_decomposition", "text_decompositions", entries)
        array(f, "uint32_t", "text_parts", ["0x%X" % c for c in pool])
        f.write("typedef struct text_composition {\n    uint32_t first, second, code;\n} text_composition;\n")
        array(f, "text_composition", "text_compositions", ["{0x%X,0x%X,0x%X}" % (a, b, pairs[a, b]) for a, b in sorted(pairs)])
    counts = {k: sum(1 for v in graphemes.values() if v == i) for i, k in enumerate(CLASSES)}
    print(f"{len(known)} blocks, {counts}, {len(entries)} compatibility decompositions (longest {max(map(len, compat.values()))}), {len(pairs)} "
          f"compositions, {os.path.getsize(OUTPUT)} bytes")


if __name__ == "__main__":
    main()
