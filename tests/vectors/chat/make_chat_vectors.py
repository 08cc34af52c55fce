#!/usr/bin/env python3
"""What transformers 5.24 (jinja2 3.1.6) writes with chat templates: tests/vectors/chat/cases.jsonl.

    python tests/vectors/chat/make_chat_vectors.py
    python tests/vectors/chat/make_chat_vectors.py --check build/ftengine --templates DIR --cases 300     # others, against a built program

A line a case: "template" (a file of this folder) or "source"; "variables", as apply_chat_template hands them over; "text", which
came out, with "spans" (bytes that {% generation %} names), or "error": Python refuses. Templates are Qwen2.5's and Qwen3's, and
TRL's training variants of these and of Llama 3's, from TRL 1.16.0's chat_templates (Apache-2.0); Llama's own are checked with
--templates, and what they use of Jinja stands in SOURCES here, in words of our own. Messages are drawn at random, by seed.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers.utils.chat_template_utils import render_jinja_template

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = HERE
WORDS = ["hello", " world", "\n", "  ", "Stra\u00dfe", "\u4f60\u597d", "\U0001F600", "</think>", "<think>", "<tool_response>", "</tool_response>", "'quoted'", '"', "\\", "{{ x }}", "{% if %}", "\t",
         "<|im_end|>", "a", "B", "1", ".", "\u00a0", "\u2028", "\x1c", "\r\n", "e\u0301", "<&>"]
ROLES = ["user", "assistant", "system", "tool"]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The \"weather\" \u2602", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}}, "required": ["city"]}}},
         {"type": "function", "function": {"name": "f", "parameters": {}}}]


def text(draw):
    return "".join(draw.choice(WORDS) for _ in range(draw.randrange(0, 8)))


def message(draw, role):
    out = {"role": role, "content": text(draw)}
    if draw.randrange(12) == 0:
        del out["content"]
    if draw.randrange(16) == 0:
        out["content"] = [{"type": "text", "text": text(draw)}]
    if role == "assistant" and draw.randrange(4) == 0:
        call = {"name": draw.choice(["weather", "f"]), "arguments": draw.choice([{"city": "K\u00f6ln", "days": 2, "x": 1.5, "y": None, "z": [True, False, 1e-7, 1e22]}, {}, '{"city": "Oslo"}'])}
        out["tool_calls"] = [{"type": "function", "function": call} if draw.randrange(2) else call for _ in range(draw.randrange(1, 3))]
    if role == "assistant" and draw.randrange(5) == 0:
        out[draw.choice(["reasoning_content", "reasoning", "thinking"])] = draw.choice(["think\n", "\n\nwhy\n", ""])
    return out


def conversation(draw):
    roles = [] if draw.randrange(2) else ["system"]
    for i in range(draw.randrange(1, 7)):
        roles.append(draw.choice(ROLES) if draw.randrange(5) == 0 else ["user", "assistant"][i % 2])
    return [message(draw, role) for role in roles]


def variables(draw):
    out = {"messages": conversation(draw), "tools": TOOLS[:draw.randrange(1, 3)] if draw.randrange(6) == 0 else None, "documents": None,
           "add_generation_prompt": draw.randrange(2) == 0, "bos_token": "<|begin|>", "eos_token": "<|im_end|>", "date_string": "26 Jul 2024"}
    if draw.randrange(4) == 0:
        out["enable_thinking"] = draw.randrange(2) == 0
    return out


# One of everything that is known of Jinja, and what is refused when it is met. x, s, l, d are variables.
SOURCES = [
    "{{ s }}|{{ s | trim }}|{{ s|length }}|{{ l | length }}|{{ d|length }}|{{ nothing }}|{{ nothing|length }}",
    "{{ x + 1 }} {{ x - 10 }} {{ x * 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 1.5 + x }} {{ 2.0 }} {{ 1e3 if false else 3 }}",
    "{{ 's' ~ 1 ~ true ~ none ~ nothing ~ 1.5 }} {{ 'a' 'b' \"c\\n\\u00e9\\x41\\\\q\" }}",
    "{{ true }} {{ false }} {{ none }} {{ True and 1 }} {{ 0 or 'x' }} {{ not x }} {{ not nothing }} {{ '' and 1 }}|",
    "{{ x == 3 }} {{ x != 3.0 }} {{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' < 'b' }} {{ x >= 3 }} {{ true == 1 }} {{ none == none }} {{ l == [1, 'two', 3.5] }} {{ d == {'a': 1, 'b': 'z'} }} {{ nothing == nowhere }} {{ nothing == none }}",
    "{{ 'b' in s }} {{ 'two' in l }} {{ 4 not in l }} {{ 'a' in d }} {{ 1 in d }} {{ 'x' in nothing }} {{ 1.0 in l }} {{ '' in s }}",
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for k, v in d|items %}{{ k }}{{ v }}{% endfor %}{% for c in 'h\u00e9' %}[{{ c }}]{% endfor %}",
    "{% for i in nothing %}x{% else %}none{% endfor %}{% for i in l if i is string %}{{ i }}{{ loop.length }}{% else %}none{% endfor %}{% for i in [] %}{% else %}empty{% endfor %}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}{{ range(3)|join('-') }}{{ range(5, 0, -2)|join(',') }}",
    "{% set y = 1 %}{% for i in l %}{% set y = y + 1 %}{{ y }}{% endfor %}{{ y }}{% if true %}{% set y = 9 %}{% endif %}{{ y }}{% for i in l %}{% if loop.first %}{% set z = 'set' %}{% endif %}{{ z }}.{% endfor %}{{ z is defined }}",
    "{% set ns = namespace(n=0, t='') %}{% for i in l %}{% set ns.n = ns.n + 1 %}{% set ns.t = ns.t ~ i %}{% endfor %}{{ ns.n }} {{ ns.t }} {{ ns.missing is defined }} {{ ns['n'] }}",
    "{% set a, b = [1, 2] %}{{ a }}{{ b }}{% set t %}<{{ s }}>{% endset %}{{ t }}{% for a, b in [[1, 2], (3, 4)] %}{{ a + b }}{% endfor %}",
    "{% macro m(a, b='def', c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m('x', c=2) }}|{{ m(b=3, a=4) }}|{{ m() }}",
    "{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(5) }}",
    "{{ l[0] }}{{ l[-1] }}{{ l[9] }}{{ l[0:2]|join }}{{ l[::-1]|join }}{{ s[1] }}{{ s[-2:] }}{{ s[:2] }}{{ d['a'] }}{{ d.b }}{{ d.none }}{{ d['none'] }}{{ l.0 }}{{ (1, 2)[1] }}{{ l[:-1]|join }}{{ s[::2] }}{{ l[5:]|length }}",
    "{{ s.upper() }}{{ s.lower() }}{{ 'abC'.capitalize() }}{{ ' a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'a,b,c'.split(',')|join(';') }}|{{ ' a  b '.split()|join(';') }}|{{ 'a,b,c'.split(',', 1)|join(';') }}|{{ 'a b c'.split(none, 1)|join(';') }}",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'aXbX'.replace('X', 'yy') }}{{ 'aXbX'.replace('X', '', 1) }}{{ ','.join(['a', 'b']) }}{{ d.get('a') }}{{ d.get('q') }}{{ d.get('q', 5) }}{{ d.keys()|join }}{{ d.values()|join('/') }}",
    "{{ d | tojson }}{{ l|tojson }}{{ s|tojson }}{{ x|tojson }}{{ none|tojson }}{{ true|tojson }}{{ deep|tojson }}",
    "{{ deep | tojson(indent=2) }}|{{ d|tojson(indent=4) }}|{{ [] | tojson(indent=1) }}|{{ {} | tojson }}|{{ deep|tojson(ensure_ascii=False) }}",
    "{{ d | tojson(indent=0) }}|{{ l|tojson(indent=-2) }}|{{ d|tojson(indent=true) }}|{{ d|tojson(indent=false) }}|{{ d|tojson(indent=none) }}",
    "{{ nothing is defined }}{{ x is defined }}{{ nothing is undefined }}{{ none is none }}{{ s is string }}{{ x is number }}{{ x is integer }}{{ 1.5 is float }}{{ true is boolean }}{{ true is number }}{{ true is integer }}{{ d is mapping }}{{ l is sequence }}{{ s is iterable }}{{ x is iterable }}{{ 3 is odd }}{{ 4 is even }}{{ true is true }}{{ 0 is false }}{{ x is not string }}{{ x is eq 3 }}{{ x is equalto(3) }}{{ x is in [3] }}{{ x is gt 2 }}{{ x is not none }}{{ nothing is string }}",
    "{{ nothing | default('d') }}{{ '' | default('e', true) }}{{ none|default('f') }}{{ nothing|d }}{{ l|first }}{{ l|last }}{{ []|first }}{{ 'abc'|list|join('.') }}{{ 'abc'|reverse }}{{ l|reverse|list|join }}{{ 5|string + '6' }}{{ '12'|int + 1 }}{{ 'ab'|upper }}{{ 'x'|safe }}{{ '  y '|trim }}{{ '--y-'|trim('-') }}{{ 'aXa'|replace('a', 'b') }}",
    "{{ rows|map(attribute='n')|join(',') }}{{ ['a', 'b']|map('upper')|join }}{{ rows|selectattr('n', 'gt', 1)|map(attribute='n')|join }}{{ rows|selectattr('flag')|list|length }}{{ rows|rejectattr('flag')|list|length }}{{ rows|rejectattr('n', 'equalto', 1)|list|length }}{{ l|select('string')|join }}{{ l|reject('equalto', 1)|join(',') }}{{ ['', 'a']|select|join }}{{ rows|join(',', attribute='n') }}",
    "{{ 'yes' if x == 3 else 'no' }}{{ 'yes' if x == 4 }}|{{ 1 if 0 else 2 if 0 else 3 }}{% if x == 1 %}a{% elif x == 3 %}b{% else %}c{% endif %}{% if nothing %}d{% endif %}",
    "{%- if not date_string is defined %}{% set date_string = 'never' %}{% endif -%}{{ date_string }}{% if custom_tools is defined %}t{% endif %}{% if not tools is none and tools is defined %}T{% endif %}",
    "{%- if messages[0]['role'] == 'system' %}{%- set first = messages[0]['content']|trim %}{%- set messages = messages[1:] %}{%- else %}{%- set first = '' %}{%- endif %}{{- bos_token + first }}{%- for m in messages %}{{- '<h>' + m['role'] + '</h>\\n\\n' + m['content'] | trim + '<e>' }}{%- endfor %}",
    "{% for m in messages %}{% set content = '<' + m['role'] + '>\n'+ m['content'] | trim + '<e>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}",
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{{ m.role }}{% endfor %}",
    "{% for m in messages %}{% generation %}{{ m.role }}\u00e9{% endgeneration %}-{% endfor %}{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}",
    "a {# comment {{ x }} #} b\n{#- c -#}\n d\n  {# e #}\nf {#+ g +#}\n",
    "{{ {'a': [1, {'b': none}], 'c': 'x'} | tojson }}{{ {'k': 1}.k }}{{ [1, 2,][1] }}{{ (5) }}",
    "{{ dict(a=1, b='x') | tojson }}{% for i in d.items()|list %}{{ i[0] }}{{ i[1] }}{% endfor %}{{ l + [4] | length if false else 'n' }}{{ (l + [4])|length }}{{ not 1 == 2 }}{{ - 3 + 4 }}{{ -x|string if false else -x }}",
    "{{ nothing.member }}", "{{ nothing + 'a' }}", "{{ 'a' + 1 }}", "{{ 1 / 0 }}", "{{ raise_exception('no') }}", "{{ l < 1 }}", "{{ 5 | length }}", "{% for i in 5 %}{% endfor %}", "{{ nothing() }}", "{{ nothing['x'] }}", "{% set q.x = 1 %}", "{{ none | length }}",
    "{% if %}", "{% for x %}{% endfor %}", "{{ 'a }}", "{% if x %}", "{% endif %}", "{{ x | nofilter }}", "{{ x is notest }}", "{{ (1 }}", "{{ 1 2 }}", "{{ }}", "{% unknown %}", "{{ x. }}", "{# open",
    "\n\nlines\n\n", "x\r\ny\rz\r\n", "", "no tags", "{{ '}}' }}{{ '%}' }}{{ {'a': {}}.a|tojson }}",
]
VALUES = {"x": 3, "s": "aBcd", "l": [1, "two", 3.5], "d": {"a": 1, "b": "z"}, "tools": None, "documents": None, "add_generation_prompt": False, "bos_token": "<s>",
          "deep": {"list": [1, 2.5, "t\u00e9\n\"\x1f/", None, True, [], {}], "o": {"k": {"m": -1}}, "n": 1e16, "p": 1e-5, "q": 123456.789, "r": 0.1},
          "rows": [{"n": 1, "flag": True}, {"n": 2}, {"n": 3, "flag": False}],
          "messages": [{"role": "system", "content": " be kind \n"}, {"role": "user", "content": "hi \u00a0"}, {"role": "assistant", "content": "\tyes"}]}


def white_space(draw):
    """Tags with every sign, and white space of every kind between them."""
    out = ""
    for _ in range(draw.randrange(2, 9)):
        out += "".join(draw.choice([" ", "\n", "\t", "x", "\r\n", "\u00a0", "  "]) for _ in range(draw.randrange(0, 5)))
        left, right = draw.choice(["", "-", "+"]), draw.choice(["", "-"])
        plus = draw.choice(["", "-", "+"])
        out += draw.choice(["{%%%s set a = 1 %s%%}" % (left, plus), "{{%s 'v' %s}}" % (left, right), "{#%s c %s#}" % (left, plus), "{%%%s if x %s%%}y{%%%s endif %s%%}" % (left, plus, draw.choice(["", "-"]), plus)])
    return out + draw.choice(["", "\n", "\n\n", "  "])


def render(source, given):
    given = json.loads(json.dumps(given))
    chat, tools, documents, prompt = given.pop("messages"), given.pop("tools", None), given.pop("documents", None), given.pop("add_generation_prompt", False)
    chat = [{k: v for k, v in m.items() if v is not None} for m in chat]  # as apply_chat_template does
    try:
        (out,), marks = render_jinja_template([chat], tools=tools, documents=documents, chat_template=source, return_assistant_tokens_mask=True, add_generation_prompt=prompt, **given)
    except Exception as error:
        return {"error": str(error)[:60]}
    case = {"text": out}
    if marks[0]:
        case["spans"] = [[len(out[:a].encode()), len(out[:b].encode())] for a, b in marks[0]]
    return case


def plain(chat):
    """Messages as render_jinja_template hands them to the template: what our program does by itself."""
    out = []
    for m in chat:
        m = {k: v for k, v in m.items() if v is not None}
        reasoning = next((m[k] for k in ("reasoning_content", "thinking", "reasoning") if m.get(k) is not None), None)
        out.append({"thinking": reasoning, **m, "reasoning_content": reasoning} if reasoning is not None else m)
    return out


def make():
    cases, draw = [], random.Random(30)
    for name in sorted(f for f in os.listdir(OUT) if f.endswith(".jinja")):
        with open(os.path.join(OUT, name), encoding="utf-8", newline="") as f:
            source = f.read()
        for _ in range(24):
            given = variables(draw)
            case = render(source, given)
            if "[{'" in case.get("text", ""):
                case = {"error": "a list as Python writes it, which we refuse"}
            given["messages"] = plain(given["messages"])
            cases.append({"template": name, "variables": given, **case})
    cases += [{"source": s, **render(s, VALUES)} for s in SOURCES]
    cases += [{"source": s, **render(s, VALUES)} for s in (white_space(draw) for _ in range(150))]
    with open(os.path.join(OUT, "cases.jsonl"), "w", encoding="utf-8") as f:
        f.write(json.dumps({"values": VALUES}, ensure_ascii=False) + "\n")
        f.writelines(json.dumps(c, ensure_ascii=False) + "\n" for c in cases)
    print(len(cases), "cases,", sum("error" in c for c in cases), "refused")


def check(program, folder, count):
    """Templates of a folder, each in a model directory with a small tokenizer, rendered by `ftengine tokenize`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    bad = 0
    for name in sorted(f for f in os.listdir(folder) if f.endswith(".jinja")):
        with open(os.path.join(folder, name), encoding="utf-8", newline="") as f:
            source = f.read()
        draw, chats = random.Random(name), []
        while len(chats) < count:
            v = variables(draw)
            chats.append({"messages": v["messages"], "tools": v["tools"]})
        extra = {"bos_token": "<|begin|>", "eos_token": "<|im_end|>", "date_string": "26 Jul 2024"}
        expected = [render(source, {**c, **extra}) for c in chats]
        with tempfile.TemporaryDirectory() as d:
            t = Tokenizer(models.BPE({c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
            t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
            t.save(d + "/tokenizer.json")
            with open(d + "/tokenizer_config.json", "w") as f:
                json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>", "eos_token": "<|im_end|>", "chat_template": source}, f)
            same = refused = wrong = 0
            with open(d + "/chats.jsonl", "w", encoding="utf-8") as f:
                f.writelines(json.dumps(c, ensure_ascii=False) + "\n" for c in chats)
            run = subprocess.run([program, "tokenize", d, "--data", d + "/chats.jsonl", "--keep-going", "data.chat_variables=" + json.dumps({"date_string": "26 Jul 2024"})],
                                 capture_output=True, text=True)
            lines = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
            if len(lines) != len(chats):
                print(f"{name:40} not run: {run.stderr.strip().splitlines()[-1] if run.stderr else run.stdout[-200:]}")
                continue
            for e, line in zip(expected, lines):
                if "error" in line:
                    refused += "error" not in e
                    same += "error" in e
                elif e.get("text") == line["text"]:
                    same += 1
                else:
                    wrong += 1
                    if wrong == 1:
                        print(name, repr(e)[-300:], "\n   ", repr(line.get("text"))[-300:])
        bad += wrong
        print(f"{name:40} {same} of {count} the same, {refused} refused here alone, {wrong} different")
    sys.exit(bad > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", help="the program")
    parser.add_argument("--templates", default=OUT)
    parser.add_argument("--cases", type=int, default=200)
    args = parser.parse_args()
    check(args.check, args.templates, args.cases) if args.check else make()
