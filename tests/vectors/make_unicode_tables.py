#!/usr/bin/env python3
"""Character tables of the WordPiece tokenizer, made by asking the tokenizers library (0.23.3) about every code point.

    python tests/vectors/make_unicode_tables.py        writes engine/text/unicode/unicode_tables.inc

The library mixes Unicode versions (categories of version 8, decompositions and lower case of a current one) and has slips
of its own in the list of CJK blocks. So nothing here comes from Python's or ICU's tables: each property is what the
library was seen to do. unicodedata serves only to pick one representative per combining class; that the representatives
order as they should, and that every class met is among them, is checked against the library too.
"""
import os
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

OUTPUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "engine", "text", "unicode", "unicode_tables.inc")
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
BLOCK = 128
WHITE, PUNCTUATION, DROPPED, SPACE, CJK, MARK, MAPPED, REORDERED = (1 << i for i in range(8))


def bert(**options):
    base = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**base, **options}).normalize_str


def hangul(c):
    s = c - 0xAC00
    parts = [0x1100 + s // 588, 0x1161 + s % 588 // 28]
    return parts + ([0x11A7 + s % 28] if s % 28 else [])


def probe_flags():
    clean, cjk, strip, lower = bert(clean_text=True), bert(handle_chinese_chars=True), bert(strip_accents=True), bert(lowercase=True)
    nfd, split = normalizers.NFD().normalize_str, pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    flags, decompositions, lower_cases = [0] * 0x110000, {}, {}
    for c in CODE_POINTS:
        t = chr(c)
        cleaned, spaced = clean("a" + t + "b"), cjk(t)
        if cleaned == "ab":
            flags[c] |= DROPPED
        elif cleaned == "a b":
            flags[c] |= SPACE
        else:
            assert cleaned == "a" + t + "b", hex(c)
        if spaced != t:
            assert spaced == " " + t + " ", hex(c)
            flags[c] |= CJK
        pieces = [piece for piece, _ in split("a" + t + "b")]
        if pieces == ["a", "b"]:
            flags[c] |= WHITE
        elif pieces == ["a", t, "b"]:
            flags[c] |= PUNCTUATION
        else:
            assert pieces == ["a" + t + "b"], hex(c)
        parts = [ord(x) for x in nfd(t)]
        if 0xAC00 <= c <= 0xD7A3:
            assert parts == hangul(c), hex(c)
            flags[c] |= MAPPED
        elif parts != [c]:
            assert len(parts) <= 4
            decompositions[c] = parts
            flags[c] |= MAPPED
        elif strip(t) == "":
            flags[c] |= MARK
        small = [ord(x) for x in lower(t)]
        if small != [c]:
            assert len(small) <= 2
            lower_cases[c] = small
            flags[c] |= MAPPED
    for c in CODE_POINTS:
        kept = [p for p in (decompositions.get(c) or [c]) if not flags[p] & MARK]
        if not 0xAC00 <= c <= 0xD7A3:
            assert strip(chr(c)) == "".join(map(chr, kept)), hex(c)
            assert normalizers.Lowercase().normalize_str(chr(c)) == "".join(map(chr, lower_cases.get(c, [c])))
    return flags, decompositions, lower_cases


def probe_combining(decompositions):
    """Rank (1, 2, ...) of every non-starter in the order NFD sorts them by."""
    nfd = normalizers.NFD().normalize_str
    representatives = {}
    for c in CODE_POINTS:
        k = unicodedata.combining(chr(c))
        if k and k not in representatives and c not in decompositions:
            t, low, high = chr(c), "\u0334", "\u0345"  # classes 1 and 240; a character too new for the library does not move
            if nfd(t + low) != t + low or nfd(high + t) != high + t:
                representatives[k] = t
    order = [representatives[k] for k in sorted(representatives)]
    for i, a in enumerate(order):
        for j, b in enumerate(order):
            assert nfd(b + a) == (a + b if i < j else b + a), (i, j)
    first, last = order[0], order[-1]
    ranks = {}
    for c in CODE_POINTS:
        if c in decompositions or 0xAC00 <= c <= 0xD7A3:
            continue
        t = chr(c)
        if t != first and nfd(t + first) == t + first and nfd(last + t) == last + t:
            # Neither moves: a starter, or of the first or last class, which a third mark tells.
            if nfd(t + order[1]) == nfd(order[1] + t):
                ranks[c] = 1
            elif nfd(t + order[-2]) == nfd(order[-2] + t):
                ranks[c] = len(order)
            continue
        below = [i for i, r in enumerate(order) if nfd(t + r) != t + r]  # classes that go before this one
        above = [i for i, r in enumerate(order) if nfd(r + t) != r + t]
        rank = len(order) - len(above)
        assert below == list(range(rank - 1)) and above == list(range(rank, len(order))), hex(c)
        ranks[c] = rank
    return ranks, len(order)


def probe_words(flags):
    """Word characters as the single_word option sees them; white space as lstrip and rstrip see it must equal WHITE."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "Q": 1, "S": 2}, unk_token="[UNK]"))
    tokenizer.add_tokens([AddedToken("Q", single_word=True, normalized=False), AddedToken("S", lstrip=True, normalized=False)])
    words = set()
    for start in range(0, len(CODE_POINTS), 65536):
        some = CODE_POINTS[start:start + 65536]
        for c, e in zip(some, tokenizer.encode_batch([chr(c) + "Q" for c in some])):
            if 1 not in e.ids or c in map(ord, "QS"): # these two are found as what they are added as
                words.add(c)
        for c, e in zip(some, tokenizer.encode_batch(["x" + chr(c) + "S" for c in some])):
            stripped = e.offsets[e.ids.index(2)][0] == 1
            assert stripped == bool(flags[c] & WHITE) or c == ord("S"), hex(c)
    return words


def ranges(mapping):
    out = []
    for c in sorted(mapping):
        if out and out[-1][1] == c - 1 and out[-1][2] == mapping[c]:
            out[-1][1] = c
        else:
            out.append([c, c, mapping[c]])
    return out


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
    flags, decompositions, lower_cases = probe_flags()
    ranks, classes = probe_combining(decompositions)
    words = probe_words(flags)
    for c in ranks:
        flags[c] |= REORDERED
    pages, blocks, known = [], [], {}
    for start in range(0, 0x110000, BLOCK):
        block = tuple(flags[start:start + BLOCK])
        if block not in known:
            known[block] = len(known)
            blocks += block
        pages.append(known[block])
    assert len(known) <= 256
    pool, entries = [], []
    for c in sorted(decompositions):
        entries.append("{0x%X,%d,%d}" % (c, len(pool), len(decompositions[c])))
        pool += decompositions[c]
    with open(OUTPUT, "w", encoding="ascii") as f:
        f.write(f"// Made by tests/vectors/make_unicode_tables.py from tokenizers {tokenizers.__version__}; do not edit.\n")
        f.write("// Flags of a code point: 1 white space, 2 punctuation, 4 dropped and 8 made a space by cleaning, 16 CJK,\n"
                "// 32 dropped with the accents, 64 has a decomposition or a lower case, 128 is reordered by NFD.\n")
        f.write(f"enum {{ UNICODE_BLOCK = {BLOCK}, UNICODE_RANKS = {classes} }};\n")
        array(f, "uint8_t", "unicode_pages", pages)
        array(f, "uint8_t", "unicode_flags", blocks)
        f.write("typedef struct unicode_decomposition {\n    uint32_t code;\n    uint16_t start;\n    uint16_t length;\n} unicode_decomposition;\n")
        array(f, "unicode_decomposition", "unicode_decompositions", entries)
        array(f, "uint32_t", "unicode_parts", ["0x%X" % c for c in pool])
        f.write("typedef struct unicode_lower {\n    uint32_t code, first, second; // second: 0 for all but U+0130\n} unicode_lower;\n")
        array(f, "unicode_lower", "unicode_lowers",
              ["{0x%X,0x%X,0x%X}" % (c, s[0], s[1] if len(s) > 1 else 0) for c, s in sorted(lower_cases.items())])
        f.write("typedef struct unicode_range {\n    uint32_t first, last;\n    uint32_t value;\n} unicode_range;\n")
        f.write("// value: place of the combining class in NFD's order, from 1\n")
        array(f, "unicode_range", "unicode_combining", ["{0x%X,0x%X,%d}" % tuple(r) for r in ranges(ranks)])
        f.write("// characters of words, as the single_word option of added tokens sees them\n")
        array(f, "unicode_range", "unicode_words", ["{0x%X,0x%X,%d}" % tuple(r) for r in ranges({c: 1 for c in words})])
    print(f"{len(known)} blocks, {len(entries)} decompositions, {len(lower_cases)} lower cases, {len(ranks)} combining in "
          f"{classes} classes, {len(words)} word characters, {os.path.getsize(OUTPUT)} bytes")


if __name__ == "__main__":
    main()
