#!/usr/bin/env python3
"""Windows of long texts as the tokenizers library makes them: long_text.txt.

    /opt/ref/bin/python tests/vectors/make_long_text_vectors.py

Texts are letters, each a token of its own; a line is "first second max_length stride : windows", where first and second count
letters (second -1: no pair) and a window is written with its special tokens as C (class) and S (separator). Windows of pairs
are of the longer text (of equally long ones the second), where the other one takes at most half the room.
"""
import os

from tokenizers import Tokenizer, models, pre_tokenizers, processors

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def main():
    t = Tokenizer(models.WordLevel({name: i for i, name in enumerate(["S", "C", "U", *LETTERS])}, unk_token="U"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.post_processor = processors.BertProcessing(("S", 0), ("C", 1))

    def windows(first, second, length, stride):
        # The pair's letters run from the end of the alphabet, so that the texts can be told apart.
        a, b = " ".join(LETTERS[:first]), " ".join(LETTERS[::-1][: max(second, 0)])
        strategy = "longest_first" if second < 0 else "only_first" if first > second else "only_second"
        t.enable_truncation(length, stride=stride, strategy=strategy)
        e = t.encode(a) if second < 0 else t.encode(a, b)
        return " ".join("".join(w.tokens) for w in [e, *e.overflowing])

    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "long_text.txt"), "w", encoding="utf-8") as f:
        for length in (4, 5, 8, 12):
            for stride in (0, 1, 2, 5):
                if stride >= length - 2:
                    continue
                for count in (*range(1, 16), 26):
                    f.write(f"{count} -1 {length} {stride} : {windows(count, -1, length, stride)}\n")
        for length in (7, 10):
            for stride in (0, 1):
                for first, second in ((1, 9), (2, 10), (9, 1), (10, 2), (1, 1), (2, 2), (2, 4), (3, 12), (12, 3), (4, 3)):
                    room = length - 3
                    if first + second > room and min(first, second) > room // 2:
                        continue
                    f.write(f"{first} {second} {length} {stride} : {windows(first, second, length, stride)}\n")


if __name__ == "__main__":
    main()
