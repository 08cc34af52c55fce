#!/usr/bin/env python3
"""Documents do what they say: their commands run, their output is compared, their links and option names exist.

A fenced block of README.md and docs/ is one of
  console   lines "$ COMMAND", each followed by what it prints (both streams). A number stands for any other, whatever its unit;
            "..." in a line stands for anything, a line "..." for any lines.
  sh        commands alone
  ini       a configuration that `ftengine config` accepts
  python    a script for the module, where it has a line "import ftengine"
  c         a program for the library
All blocks of a page run one after the other in one directory, in which MODELS, DATA and CONFIGS below are. In front of a block may stand
  <!-- docs: file=NAME -->      it is written to that file;  append=NAME: behind what is there
  <!-- docs: exit=N -->         the exit code of its last command
  <!-- docs: not-run=WHY -->    it cannot run here, for a reason of NOT_RUN below, which counts them
  <!-- docs: run COMMAND -->    what a reader has done already
"""
# ctest: timeout=900 cost=900 sanitize=leave

import csv
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(os.environ["SOURCE_DIR"])
PROGRAM = os.environ["FTENGINE"]
VECTORS = SOURCE / "tests/vectors/trainer"
MODELS = {"models/all-MiniLM-L6-v2": VECTORS / "model", "models/bert-mini": VECTORS / "model"}
DATA = {"reviews.csv": "train.tsv", "test.csv": "validation.tsv", "unlabelled.csv": "validation.tsv"}
CLASSES = {"food": "negative", "music": "positive", "travel": "positive"}
DECODER = "models/Qwen2.5-0.5B-Instruct"  # a configuration, a tokenizer and a template, without weights
CONFIGS = SOURCE / "configs"
LIBRARY = Path(os.environ["BUILD_DIR"]) / "libftengine.so"
# Blocks that need what a test machine lacks: a block more is a decision, made here.
NOT_RUN = {"gpu": 3, "network": 0, "cluster": 2, "build": 3, "long": 0, "other-tools": 3}
WORKS_WITH = {"console", "sh", "ini", "json", "python", "c"}
SECTIONS = "model|data|train|eval|memory|device|distributed|output|track|notify|study"


class Block:
    """One fenced block: its language, its lines and the marks in front of it."""

    def __init__(self, page, line, language, marks):
        self.page, self.line, self.language, self.marks, self.lines = page, line, language, marks, []

    def where(self):
        return f"{self.page.relative_to(SOURCE)}:{self.line}"


def blocks_of(page):
    """The blocks of a page, in order, those without a language too."""
    block, marks, found = None, [], []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = re.match(r"```(\S*)", line)
        if block is None and fence:
            block = Block(page, number, fence[1], marks)
            marks = []
        elif fence:
            found.append(block)
            block = None
        elif block is not None:
            block.lines.append(line)
        elif mark := re.fullmatch(r"<!-- docs: (.*) -->", line):
            if mark[1].startswith("run "):
                found.append(Block(page, number, "sh", []))
                found[-1].lines.append(mark[1][4:])
            else:
                marks.append(mark[1])
        elif line.strip():
            if marks:
                raise ValueError(f"{page}:{number}: a mark that no block follows")
    if block is not None:
        raise ValueError(f"{block.where()}: a block without an end")
    return found


NUMBER = re.compile(r"(?:\d+[dhms])+\b|[-+]?\d[\d.,]*(?:e[-+]?\d+)?(?:[KMGT]i?B|B\b|%|ms\b|[smhdM]\b)?") # 1m18s is one, too


def plain(line):
    """A line for comparison: a number, with its unit, is like any other, and blanks do not count."""
    return " ".join(NUMBER.sub("#", line).split())


def pattern(line):
    """What a line of a document stands for: "..." is anything."""
    return re.compile(".*".join(re.escape(plain(part)) for part in line.split("...")))


def matches(expected, got):
    """Do the lines `got` look like the lines `expected`? The first line that does not is returned, or None."""
    got = [plain(line) for line in got]
    at, loose = 0, False
    for line in expected:
        if line.strip() == "...":
            loose = True
            continue
        want = pattern(line)
        while at < len(got) and not want.fullmatch(got[at]) and loose:
            at += 1
        if at == len(got) or not want.fullmatch(got[at]):
            return line
        at, loose = at + 1, False
    return None if loose or at == len(got) else f"(nothing more, but there is: {got[at]})"


def lengthen(model, positions=512):
    """Makes a tiny classifier what a user begins with: without a head, with the positions of a real model (rows over and over)."""
    config = json.loads((model / "config.json").read_text())
    config["max_position_embeddings"] = positions
    for key in ("id2label", "label2id"):
        config.pop(key, None)
    (model / "config.json").write_text(json.dumps(config))
    data = (model / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    out = b""
    for name, tensor in header.items():
        if name == "__metadata__" or name.startswith("classifier"):
            continue
        begin, end = tensor["data_offsets"]
        rows = body[begin:end]
        if name.endswith("position_embeddings.weight"):
            row_bytes = len(rows) // tensor["shape"][0]
            rows = (rows * positions)[: positions * row_bytes]
            tensor["shape"][0] = positions
        tensor["data_offsets"] = [len(out), len(out) + len(rows)]
        out += rows
    text = json.dumps({name: tensor for name, tensor in header.items() if not name.startswith("classifier")}).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + out)


def set_up_decoder(directory):
    """A tiny decoder in front of a tokenizer of 1,500 tokens, chats and prompts."""
    vectors = VECTORS.parent
    model = directory / DECODER
    model.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(vectors / "decoder_tokenizers/qwen" / name, model)
    shutil.copy(vectors / "chat/qwen2_5.jinja", model / "chat_template.jinja")
    config = json.loads((vectors / "causal_lm/qwen2/config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"vocab_size": 1500, "max_position_embeddings": 1024}))
    with open(VECTORS / "train.tsv", newline="") as lines, open(directory / "chats.jsonl", "w") as chats, open(directory / "prompts.jsonl", "w") as prompts:
        for text, label in list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:41]:
            asked = {"role": "user", "content": text}
            chats.write(json.dumps({"messages": [asked, {"role": "assistant", "content": label}]}) + "\n")
            prompts.write(json.dumps({"messages": [asked]}) + "\n")


def set_up(directory):
    set_up_decoder(directory)
    for name, model in MODELS.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(model, directory / name)
        lengthen(directory / name)
    for name, source in DATA.items():
        with open(VECTORS / source, newline="") as lines, open(directory / name, "w", newline="") as out:
            for text, label in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                csv.writer(out, lineterminator="\n").writerow([text, CLASSES.get(label, label)])
    (directory / "configs").symlink_to(CONFIGS)
    (directory / "bin").mkdir()
    (directory / "bin/ftengine").symlink_to(PROGRAM)


def run(command, directory):
    environment = dict(os.environ, PATH=f"{directory}/bin:{os.environ['PATH']}", FTENGINE_LEDGER_DIR=f"{directory}/ledger",
                       XDG_CACHE_HOME=f"{directory}/cache", HF_HUB_OFFLINE="1", COLUMNS="120", NO_COLOR="1", PYTHONPATH=str(SOURCE / "python"),
                       FTENGINE_LIBRARY=str(LIBRARY), FTENGINE_PROGRAM=PROGRAM)
    done = subprocess.run(["bash", "-c", command], cwd=directory, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=300, check=False)
    return done.returncode, done.stdout.decode(errors="replace").splitlines()


def commands_of(block):
    """(command, expected lines or None) of a block; a command goes on behind a backslash."""
    if block.language == "sh":
        return [("\n".join(block.lines), None)]
    if block.language == "python":
        return [("python3 - <<'END-OF-BLOCK'\n" + "\n".join(block.lines) + "\nEND-OF-BLOCK", None)] if "import ftengine" in block.lines else []
    if block.language == "c":
        return [(f"cc -I '{SOURCE}/library' -o program -xc - -xnone '{LIBRARY}' -Wl,-rpath,'{LIBRARY.parent}' <<'END-OF-BLOCK' && ./program\n"
                 + "\n".join(block.lines) + "\nEND-OF-BLOCK", None)]
    found = []
    for line in block.lines:
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1][0] += "\n" + line
        elif found:
            found[-1][1].append(line)
        else:
            raise ValueError(f"{block.where()}: output without a command")
    return found


def check_block(block, directory, problems):
    marks = dict(mark.partition("=")[::2] for mark in block.marks)
    name = marks.get("file") or marks.get("append")
    if name:
        with open(directory / name, "a" if "append" in marks else "w") as out:
            out.write("\n".join(block.lines) + "\n")
    if block.language == "json":
        json.loads("\n".join(block.lines))
        return 0
    if block.language == "ini":
        (directory / "fragment.ini").write_text("\n".join(block.lines) + "\n")
        code, said = run(f"ftengine config {name or 'fragment.ini'} >/dev/null", directory)
        if code != 0:
            problems.append(f"{block.where()}: " + "\n    ".join(said))
        return 1
    commands = commands_of(block)
    for index, (command, expected) in enumerate(commands):
        want = int(marks.get("exit", 0)) if index == len(commands) - 1 else 0
        code, said = run(command, directory)
        shown = "\n    ".join(said[-20:])
        if code != want:
            problems.append(f"{block.where()}: exit code {code} instead of {want}: {command}\n    {shown}")
        elif expected is not None and (missing := matches(expected, said)):
            problems.append(f"{block.where()}: {command}\n  has no line as\n    {missing}\n  it said\n    {shown}")
    return len(commands)


def check_page(page, problems, not_run):
    count, broken = 0, False
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        set_up(directory)
        for block in blocks_of(page):
            why = [mark.partition("=")[2] for mark in block.marks if mark.startswith("not-run")]
            if why:
                not_run[why[0]] = not_run.get(why[0], 0) + 1
            elif block.language in WORKS_WITH and not broken:
                before = len(problems)
                count += check_block(block, directory, problems)
                broken = len(problems) > before # what follows builds on it
            elif any("ftengine " in line for line in block.lines):
                problems.append(f"{block.where()}: a block with commands says neither console nor sh nor why it is not run")
    return count


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"`", "", heading).lower()).replace(" ", "-") for heading in headings}


def check_links(page, problems):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    count = 0
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        count += 1
        if not file.exists():
            problems.append(f"{page.relative_to(SOURCE)}: no {target}")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            problems.append(f"{page.relative_to(SOURCE)}: no heading for {target}")
    return count


def check_options(page, options, problems):
    for name in re.findall(rf"`((?:{SECTIONS})\.[a-z_]+(?:\.[a-z_]+)*)", page.read_text()):
        if name not in options and not name.endswith((".db", ".log", ".safetensors", ".tsv", ".csv")):
            problems.append(f"{page.relative_to(SOURCE)}: no option {name}")


def check_messages(problems):
    """Headings of the page of messages are messages: what stands between its "..." is in the text of one message of the sources."""
    page, texts = SOURCE / "docs/troubleshooting.md", []
    for floor in ("base", "engine", "hpo", "kernels"):
        for source in (SOURCE / floor).rglob("*.c"):
            joined = re.sub(r'"\s*\n\s*"', "", source.read_text()) # a message in several pieces
            texts += [text.replace('\\"', '"') for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined)]
    def is_there(heading):
        pieces = [piece.strip() for piece in heading.split("...")]
        wanted = re.compile(".*%.*".join(re.escape(piece).replace("%", "%%") for piece in pieces))
        return any(wanted.search(text) for text in texts)
    assert is_there("unknown option ...") and not is_there("unknown opinion ...") and not is_there("... is nowhere needed of ...")
    headings = re.findall(r"^### `(.*)`$", page.read_text(), flags=re.M)
    for heading in headings:
        if not is_there(heading):
            problems.append(f"docs/troubleshooting.md: no message in the sources is: {heading}")
    for heading in re.findall(r"^### ([^`].*)$", page.read_text(), flags=re.M):
        problems.append(f"docs/troubleshooting.md: a heading that is no message: {heading}")
    return len(headings)


def check_paths(page, problems):
    """Files and folders of the source that a page names are there."""
    for path in re.findall(r"`((?:base|engine|hpo|kernels|tests|tools|benchmarks|configs|docs)/[\w./-]*)`", page.read_text()):
        if "NAME" not in path and not (SOURCE / path).exists():
            problems.append(f"{page.relative_to(SOURCE)}: no {path} in the source")


def check_readme(problems):
    """A page: 6 to 8 KB; its picture is what the command beside it draws."""
    size = len((SOURCE / "README.md").read_bytes())
    if not 6000 <= size <= 8192:
        problems.append(f"README.md: {size} bytes are not a page, which has 6000 to 8192")
    with tempfile.TemporaryDirectory() as scratch:
        drawn = Path(scratch) / "plan.svg"
        subprocess.run([PROGRAM, "plan", "model.path=bert-large-uncased", "--gpu", "4090", "--table", "--svg", str(drawn)], check=True,
                       stdout=subprocess.DEVNULL)
        if drawn.read_bytes() != (SOURCE / "docs/images/plan.svg").read_bytes():
            problems.append("docs/images/plan.svg: ftengine plan model.path=bert-large-uncased --gpu 4090 --table --svg draws another picture")


def option_names():
    said = subprocess.run([PROGRAM, "config"], stdout=subprocess.PIPE, check=True, text=True).stdout
    names, section = set(), ""
    for line in said.splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading[1]
        elif key := re.match(r"([\w.]+) =", line):
            names.add(f"{section}.{key[1]}")
    return names


def check_runner():
    """The comparison itself can fail."""
    assert matches(["loss 0.5  best", "...", "end"], ["loss 7e-2 best", "x", "y", "end"]) is None
    assert matches(["a ... c"], ["a b c"]) is None and matches(["a", "b"], ["a"]) == "b"
    assert matches(["loss 1"], ["less 1"]) and matches(["a"], ["a", "b"]) and matches(["...", "z"], ["a"])


def main():
    check_runner()
    pages = sorted([SOURCE / "README.md", *(SOURCE / "docs").rglob("*.md")])
    problems, not_run, commands, links = [], {}, 0, 0
    options = option_names()
    for page in pages:
        if page.read_text().startswith("<!-- Made by"):
            continue # of the program's own help (test_pages.sh)
        commands += check_page(page, problems, not_run)
        check_options(page, options, problems)
        check_paths(page, problems)
    messages = check_messages(problems)
    check_readme(problems)
    tracked = subprocess.run(["git", "-C", str(SOURCE), "ls-files", "*.md"], stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    for page in {*pages, *(SOURCE / name for name in tracked if (SOURCE / name).exists())}:
        links += check_links(page, problems)
    for why in sorted(set(NOT_RUN) | set(not_run)):
        if NOT_RUN.get(why) != not_run.get(why, 0):
            problems.append(f"{not_run.get(why, 0)} blocks are not run because of {why}; NOT_RUN says {NOT_RUN.get(why)}")
    print(f"{len(pages)} pages, {commands} commands run, {sum(not_run.values())} blocks not run {not_run}, {links} links, {messages} messages")
    if problems:
        print("\n".join(["FAILED:", *problems]), file=sys.stderr)
        sys.exit(1)
    assert commands > 0 and links > 0


if __name__ == "__main__":
    main()
