#!/usr/bin/env python3
"""Golden vectors of decoders' tokenizers: Qwen2.5's and Qwen3's, and Llama 3's, ids and text again.

    python tests/vectors/decoder_tokenizers/make_decoder_tokenizer_vectors.py
    python tests/vectors/decoder_tokenizers/make_decoder_tokenizer_vectors.py --characters    # BPE over characters alone
    python tests/vectors/decoder_tokenizers/make_decoder_tokenizer_vectors.py --compare BENCH_DIR/ftengine --lines 100000     # line by line, with a built program

Made with tokenizers 0.23.3 and transformers 5.24. Each family's own pattern, normaliser, special tokens and post-processor, with a
vocabulary trained by `tokenizers` on made-up lines. Writes tests/vectors/decoder_tokenizers/:

NAME/tokenizer.json, tokenizer_config.json   qwen (NFC), llama3 (ignore_merges, a BOS in front)
expect.bin                                   little-endian uint32: for qwen, llama3 and qwen_files (qwen's vocab.json and merges.txt alone, by
                                             the class of transformers) per block of 16 lines the FNV-1a hashes of ids, of the text that they are
                                             decoded to, of the same without special tokens, and of the text of ids that make no sense

llama2/, expect_characters.bin                the same of BPE over characters, 2,400 lines each: as Llama 2 has it (bytes for unknown characters, a space in front), as
                                             Gemma has it (without that space), and with Metaspace (no bytes); the latter two are made of the first (variant())

Lines are not stored: tests/text/tokenizer_lines.h makes them with the same generator as mixed_line() of
make_tokenizer_family_vectors.py; framed() here puts special tokens around every fourth.
"""
import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

OUT = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(OUT))
from make_tokenizer_family_vectors import Draw, mixed_line

LINES, BLOCK, TRAINING = 6000, 16, 3000
PATTERN = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}%s| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|vision_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<think>", "</think>"]
LLAMA = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>", "<|im_start|>"]


def framed(index):
    line = mixed_line(index)
    if index % 4 == 1:
        return b"<|im_start|>user\n" + line + b"<|im_end|>\n<|im_start|>assistant\n"
    if index % 4 == 3:
        return b"<|start_header_id|>user<|end_header_id|>\n\n" + line + b"<|eot_id|></think> <tool_call>"
    return line


def text_of(line):
    return line.decode("utf-8", "replace")


def train(digits, nfc, ignore_merges, specials, first_free):
    t = Tokenizer(models.BPE())
    if nfc:
        t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN % digits), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    texts = [text_of(mixed_line(10 ** 6 + i)) for i in range(TRAINING)]
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1400, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    document = json.loads(t.to_str())
    document["model"]["ignore_merges"] = ignore_merges
    t = Tokenizer.from_str(json.dumps(document))
    t.add_tokens([AddedToken(s, normalized=False, special=s not in first_free) for s in specials])
    return t


def make_tokenizers():
    qwen = train("", True, False, CHATML, ("<tool_call>", "</tool_call>", "<think>", "</think>"))
    qwen.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    llama = train("{1,3}", False, True, LLAMA, ())
    bos = llama.token_to_id("<|begin_of_text|>")
    llama.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", special_tokens=[("<|begin_of_text|>", bos)])])
    configs = {"qwen": {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "add_prefix_space": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
                        "unk_token": None, "errors": "replace", "split_special_tokens": False, "clean_up_tokenization_spaces": False, "model_max_length": 131072,
                        "additional_special_tokens": CHATML[1:5]},
               "llama3": {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "clean_up_tokenization_spaces": True,
                          "model_input_names": ["input_ids", "attention_mask"], "model_max_length": 1000000000000000019884624838656}}
    for name, tokenizer in (("qwen", qwen), ("llama3", llama)):
        os.makedirs(f"{OUT}/{name}", exist_ok=True)
        document = json.loads(tokenizer.to_str())
        with open(f"{OUT}/{name}/tokenizer.json", "w", encoding="utf-8") as f:
            json.dump(document, f, ensure_ascii=False, separators=(",", ":"))
        if name == "qwen":
            configs[name]["added_tokens_decoder"] = {str(a["id"]): {k: v for k, v in a.items() if k != "id"} for a in document["added_tokens"]}
        with open(f"{OUT}/{name}/tokenizer_config.json", "w", encoding="utf-8") as f:
            json.dump(configs[name], f, ensure_ascii=False, indent=1)
            f.write("\n")


def fnv(hashed, data):
    for byte in data:
        hashed = (hashed ^ byte) * 0x01000193 & 0xFFFFFFFF
    return hashed


def words(numbers):
    return struct.pack(f"<{len(numbers) + 1}I", len(numbers), *numbers)


def run(backend, index):
    """Of a line the ids, their text, that without special tokens, and the text of ids drawn at random."""
    ids = backend.encode(text_of(framed(index))).ids
    draw = Draw(index * 7919 + 5)
    odd = [draw.below(backend.get_vocab_size()) for _ in range(draw.below(12))]
    return (words(ids),) + tuple(backend.decode(i, skip_special_tokens=s).encode() + b"\n" for i, s in ((ids, False), (ids, True), (odd, False)))


def files_alone():
    """Qwen's vocabulary and merges without a tokenizer.json."""
    directory = tempfile.mkdtemp()
    model = json.load(open(f"{OUT}/qwen/tokenizer.json", encoding="utf-8"))["model"]
    json.dump(model["vocab"], open(directory + "/vocab.json", "w", encoding="utf-8"), ensure_ascii=False)
    with open(directory + "/merges.txt", "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join((m if isinstance(m, str) else " ".join(m)) + "\n" for m in model["merges"]))
    shutil.copy(f"{OUT}/qwen/tokenizer_config.json", directory)
    return directory


def make():
    make_tokenizers()
    alone = files_alone()
    out = b""
    for directory in (f"{OUT}/qwen", f"{OUT}/llama3", alone):
        tokenizer = AutoTokenizer.from_pretrained(directory)
        backend = tokenizer._tokenizer
        assert tokenizer.decode(backend.encode("a .b 's").ids, skip_special_tokens=True) in ("a .b 's", "a.b's"), "transformers tidies"
        for block in range(0, LINES, BLOCK):
            hashes = [0x811C9DC5] * 4
            for i in range(block, block + BLOCK):
                hashes = [fnv(h, data) for h, data in zip(hashes, run(backend, i))]
            out += struct.pack("<4I", *hashes)
    shutil.rmtree(alone)
    with open(f"{OUT}/expect.bin", "wb") as f:
        f.write(out)
    print(len(out), "bytes")


LINES_OF_CHARACTERS = 2400


def make_llama2():
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    first = ["<unk>", "<s>", "</s>"]
    texts = [text_of(mixed_line(10 ** 6 + i)).replace("\0", "") for i in range(TRAINING)]
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1000, limit_alphabet=180, show_progress=False, special_tokens=first + [f"<0x{b:02X}>" for b in range(256)]))
    document = json.loads(t.to_str())
    document["model"] |= {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
    document["added_tokens"] = [a for a in document["added_tokens"] if a["content"] in first]
    document["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    document["pre_tokenizer"] = None
    document["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    t = Tokenizer.from_str(json.dumps(document))
    t.add_tokens([AddedToken("<tool_call>", normalized=False, special=False), AddedToken("<|im_end|>", normalized=False, special=True)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    os.makedirs(f"{OUT}/llama2", exist_ok=True)
    with open(f"{OUT}/llama2/tokenizer.json", "w", encoding="utf-8") as f:
        json.dump(json.loads(t.to_str()), f, ensure_ascii=False, separators=(",", ":"))
    with open(f"{OUT}/llama2/tokenizer_config.json", "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "clean_up_tokenization_spaces": False}, f, indent=1)
        f.write("\n")


def variant(document, name):
    """As placed_variant() of tests/text/test_decoder_tokenizers.c."""
    if name == "gemma":
        del document["normalizer"]["normalizers"][0]
        del document["decoder"]["decoders"][3]
    if name == "metaspace":
        document["normalizer"] = None
        document["pre_tokenizer"] = document["decoder"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
        document["model"]["byte_fallback"] = False
    return document


def make_characters():
    make_llama2()
    out = b""
    for name in ("llama2", "gemma", "metaspace"):
        with open(f"{OUT}/llama2/tokenizer.json", encoding="utf-8") as f:
            backend = Tokenizer.from_str(json.dumps(variant(json.load(f), name)))
        for block in range(0, LINES_OF_CHARACTERS, BLOCK):
            hashes = [0x811C9DC5] * 4
            for i in range(block, block + BLOCK):
                hashes = [fnv(h, data) for h, data in zip(hashes, run(backend, i))]
            out += struct.pack("<4I", *hashes)
    with open(f"{OUT}/expect_characters.bin", "wb") as f:
        f.write(out)
    print(len(out), "bytes")


def compare(program, lines):
    """`ftengine tokenize` beside the library, id for id, and the pieces' text."""
    different = 0
    for name in ("qwen", "llama3", "llama2"):
        backend = AutoTokenizer.from_pretrained(f"{OUT}/{name}")._tokenizer
        texts = [text_of(framed(10 ** 7 + i)).replace("\0", "") for i in range(lines)]
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
            f.writelines(json.dumps({"text": t}) + "\n" for t in texts)
            f.flush()
            ours = subprocess.Popen([program, "tokenize", f"{OUT}/{name}", "--data", f.name], stdout=subprocess.PIPE, text=True, encoding="utf-8")
            ids = bad = 0
            for text, line in zip(texts, ours.stdout):
                expected = backend.encode(text).ids
                got = json.loads(line)
                ids += len(expected)
                bad += got["ids"] != expected or got["decoded"] != backend.decode(expected, skip_special_tokens=False)
            if ours.wait() != 0:
                raise SystemExit(1)
        print(f"{name}: {lines} lines, {ids} ids, {bad} lines differ")
        different += bad
    sys.exit(different > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compare", help="the program")
    parser.add_argument("--characters", action="store_true")
    parser.add_argument("--lines", type=int, default=100000)
    args = parser.parse_args()
    compare(args.compare, args.lines) if args.compare else make_characters() if args.characters else make()
