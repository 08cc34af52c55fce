"""JSON files as `datasets` reads them: tests/vectors/json_files/*.json and expect.json, {file: [[text, label], ...]}.

    python3 tests/vectors/json_files/make_json_vectors.py        (datasets 5.2, pandas 3.1, pyarrow 26)
"""
import json
import os
import tempfile

import datasets

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = [("A fine film.", "good"), ("it said: \"}],[{\" \\ and\nwent on", "bad"), ("naïve 😀 \u2028 café", "good"), ("", "bad"), ("[1, 2]", "3")]
OBJECTS = [{"text": text, "label": label} for text, label in ROWS]
TURNED = [OBJECTS[0], {"label": "bad", "text": "the other way round"}, {"text": "with more", "label": "good", "extra": {"a": [1, "]"]}}]

FILES = {
    "list.json": json.dumps(OBJECTS),
    "list_indented.json": json.dumps(OBJECTS, indent=2, ensure_ascii=False) + "\n",
    "list_tabs.json": json.dumps(OBJECTS, indent="\t").replace("\n", "\r\n"),
    "list_lines.json": "[\n" + ",\n".join(json.dumps(o) for o in OBJECTS) + "\n]\n",
    "list_turned.json": json.dumps(TURNED, indent=4),
    "texts.json": json.dumps([text for text, _ in ROWS], indent=2),
    "indented.json": json.dumps(OBJECTS[0], indent=2) + "\n",
    "indented_many.json": "\n".join(json.dumps(o, indent=2) for o in OBJECTS) + "\n",
    "lines.json": "\n".join(json.dumps(o) for o in OBJECTS) + "\n",
}


def main():
    expect = {}
    os.makedirs(HERE, exist_ok=True)
    for name, content in FILES.items():
        path = os.path.join(HERE, name)
        with open(path, "w", encoding="utf-8", newline="") as out:
            out.write(content)
        with tempfile.TemporaryDirectory() as cache:
            table = datasets.load_dataset("json", data_files=path, split="train", cache_dir=cache)
        expect[name] = [[row["text"], row.get("label")] for row in table]
    with open(os.path.join(HERE, "expect.json"), "w", encoding="utf-8") as out:
        json.dump({"datasets": datasets.__version__, "files": expect}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
