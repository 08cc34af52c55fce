#!/usr/bin/env python3
"""What TRL's SFTTrainer (1.16) and transformers (5.24) make of texts, prompts with completions, and chats: tests/vectors/language/cases.jsonl.

    python tests/vectors/language/make_language_vectors.py

A line a row: "model" (a folder of ../decoder_tokenizers), "template" (a file of ../chat, or null), "row" of a JSON lines file, "all" (every token is
learned), "max_length" (0: none), "tail" (of a longer one the end stays), "ids", and "learned": which tokens are. Text and completion end with the
EOS token; a completion begins where its tokens and the prompt's differ; a chat is apply_chat_template's ids. Whose text is the assistant's is
found here in another way than in the engine: by a regular expression for each template's marks, or, where the template has {% generation %}, by
transformers' return_assistant_tokens_mask.
"""
import json
import os
import random
import re

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers import AutoTokenizer

OUT = os.path.dirname(os.path.abspath(__file__))
HERE = os.path.dirname(OUT)
CHATML, LLAMA = r"<\|im_start\|>assistant\n(.*?<\|im_end\|>)", r"<\|start_header_id\|>assistant<\|end_header_id\|>\n\n(.*?<\|eot_id\|>)"
SOURCES = {"qwen2_5.jinja": CHATML, "qwen3.jinja": CHATML, "qwen2_5_training.jinja": None, "qwen3_training.jinja": None, "llama3_training.jinja": None, "llama3.jinja": LLAMA}
WORDS = ["the", " movie", " was", " great", "\n", "\n\n", " 1234", " don't", " caf\u00e9", " e\u0301", " \u4f60\u597d", "  ", "!", " </think>", " <|im", " x", ".", " \U0001F600"]
LLAMA3 = """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' %}{% if loop.first %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""


def text(draw, least=0):
    return "".join(draw.choice(WORDS) for _ in range(draw.randrange(least, 9)))


def chat(draw):
    out = [{"role": "system", "content": text(draw, 1)}] if draw.randrange(2) else []
    for _ in range(draw.randrange(1, 4)):
        out += [{"role": "user", "content": "Q" + text(draw)}, {"role": "assistant", "content": "A" + text(draw).replace("</think>", "")}]
    return out[:-1] if draw.randrange(8) == 0 else out


def spans(tokenizer, template, rendered, messages):
    return [m.span(1) for m in re.finditer(SOURCES[template], rendered, re.S)]


def learned_of_chat(tokenizer, template, messages, first):
    """Token indices of what the assistant says from message `first` on."""
    source = open(os.path.join(HERE, "chat", template), encoding="utf-8").read()
    rendered = tokenizer.apply_chat_template(messages, chat_template=source, tokenize=False)
    encoding = tokenizer(rendered, add_special_tokens=False)
    if SOURCES[template] is None:
        out = tokenizer.apply_chat_template(messages, chat_template=source, return_dict=True, return_assistant_tokens_mask=True)
        assert list(out["input_ids"]) == encoding["input_ids"] and first == 0
        return encoding["input_ids"], [i for i, m in enumerate(out["assistant_masks"]) if m]
    turns = [m["role"] == "assistant" for m in messages]
    found = spans(tokenizer, template, rendered, messages)
    assert len(found) == sum(turns), (rendered, messages)
    before = sum(turns[:first])
    learned = []
    for a, b in found[before:]:
        learned += [i for i, (x, y) in enumerate(encoding.encodings[0].offsets) if x < b and y > a and y > x or (x == y and a < x < b)]
    return encoding["input_ids"], sorted(set(learned))


def one(tokenizer, draw, name):
    everything, most = draw.randrange(4) == 0, draw.choice([0, 0, 0, 8, 20])
    case = {"model": name, "template": None, "all": everything, "max_length": most, "tail": draw.randrange(4) == 0}
    kind, eos = draw.randrange(6), tokenizer.eos_token
    if kind == 0:
        t = text(draw) + (eos if draw.randrange(5) == 0 else "")
        case["row"] = {"text": t}
        ids = tokenizer(t if t.endswith(eos) else t + eos)["input_ids"]
        learned = range(len(ids))
    elif kind == 1:
        prompt, completion = text(draw), text(draw) + (eos if draw.randrange(5) == 0 else "")
        case["row"] = {"prompt": prompt, "completion": completion}
        ids, alone = tokenizer(prompt + (completion if completion.endswith(eos) else completion + eos))["input_ids"], tokenizer(prompt)["input_ids"]
        common = next((i for i, (a, b) in enumerate(zip(ids, alone)) if a != b), min(len(ids), len(alone)))
        learned = range(common, len(ids))
    else:
        case["template"] = draw.choice([t for t in SOURCES if ("llama" in t) == (name == "llama3")])
        messages, first = chat(draw), 0
        if kind == 2 and SOURCES[case["template"]] is not None:
            first = max(1, len(messages) - draw.randrange(1, 3))
            case["row"] = {"prompt": messages[:first], "completion": messages[first:]}
        else:
            case["row"] = {"messages": messages}
        ids, learned = learned_of_chat(tokenizer, case["template"], messages, first)
    learned = list(range(len(ids))) if everything else list(learned)
    begin = max(0, len(ids) - most) if most and case["tail"] else 0
    ids = ids[begin:begin + most] if most else ids
    case["ids"] = ids
    case["learned"] = [i - begin for i in learned if 0 < i - begin < len(ids)]  # nothing stands in front of the first one
    return case


def main():
    draw, cases = random.Random(31), []
    with open(os.path.join(HERE, "chat", "llama3.jinja"), "w", encoding="utf-8") as f:
        f.write(LLAMA3)
    for name in ("qwen", "llama3"):
        tokenizer = AutoTokenizer.from_pretrained(os.path.join(HERE, "decoder_tokenizers", name))
        cases += [one(tokenizer, draw, name) for _ in range(150)]
    with open(os.path.join(OUT, "cases.jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps(c, ensure_ascii=False, separators=(",", ":")) + "\n" for c in cases)
    print(len(cases), "cases,", sum(not c["learned"] for c in cases), "without anything to learn")


if __name__ == "__main__":
    main()
