#!/usr/bin/env python3
"""What telling others of a run costs it: the same training without trackers, with TensorBoard's files, with MLflow on a server of this
machine (tests/track/tracker_server.py: MLflow's API and refusals, without its Python) and with one that is not there; in turn, so that
what else the machine does meets all of them.

    python3 benchmarks/speed/tracking_cost.py --model models/all-MiniLM-L6-v2 --train reviews.csv --turns 7 --write

Two figures of each: seconds of training as run.json has them (what a step was kept from), and seconds until the command has ended, which
waits for what is still to be told. The aim: training is longer by less than 0.5% with a local server, by nothing with a dead one.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import common  # noqa: E402

FIXTURE = os.path.join(common.ROOT, "tests", "vectors", "trainer")


def start_server(directory):
    place = os.path.join(directory, "port")
    process = subprocess.Popen([sys.executable, "-S", os.path.join(common.ROOT, "tests", "track", "tracker_server.py"), place],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(place) or os.path.getsize(place) == 0:
        if process.poll() is not None:
            sys.exit("the server does not start")
        time.sleep(0.02)
    with open(place, encoding="ascii") as f:
        return process, f"http://127.0.0.1:{f.read().strip()}"


def one(options, directory, words):
    out = os.path.join(directory, "run")
    shutil.rmtree(out, ignore_errors=True)
    command = [options.ftengine, "train", f"model.path={options.model}", f"data.train={options.train}", f"train.max_steps={options.steps}",
               "train.batch_size=16", "data.max_length=48", "train.logging_steps=1", "eval.strategy=no", "data.validation_split=0.1", f"output.dir={out}", *words]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_") and "_proxy" not in k.lower()}
    began = time.monotonic()
    run = subprocess.run(command, capture_output=True, text=True, env=dict(environment, FTENGINE_LEDGER_DIR=os.path.join(directory, "ledger")), check=False)
    wall = time.monotonic() - began
    if run.returncode != 0:
        sys.exit(run.stderr[-2000:])
    with open(os.path.join(out, "run.json"), encoding="utf-8") as f:
        return json.load(f)["seconds"]["train"], wall


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ftengine", default=os.path.join(common.ROOT, "build", "ftengine"))
    parser.add_argument("--model", default=os.path.join(FIXTURE, "model"))
    parser.add_argument("--train", default=os.path.join(FIXTURE, "train.tsv"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="results go to benchmarks/results/tracking_cost.json and .md")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="tracking-")
    server, uri = start_server(directory)
    ways = {"nobody": [], "TensorBoard": ["track.tensorboard=true"], "MLflow, a local server": [f"track.mlflow={uri}"],
            "MLflow, nobody there": ["track.mlflow=http://127.0.0.1:9"]}
    seconds = {way: [] for way in ways}
    try:
        one(options, directory, [])  # files are read once
        for _ in range(options.turns):
            for way, words in ways.items():
                seconds[way].append(one(options, directory, words))
    finally:
        server.kill()
        shutil.rmtree(directory, ignore_errors=True)
    document = dict(common.provenance(), steps=options.steps, turns=options.turns, load_average_after=round(os.getloadavg()[0], 1),
                    seconds={way: [[round(x, 4) for x in pair] for pair in pairs] for way, pairs in seconds.items()})
    lines = common.title_lines(document, "What trackers cost a run")
    lines += [f"{options.steps} steps, every one logged, {options.turns} turns, medians. Load average {document['load_average_after']}.", "",
              "| told | training s | longer by | until the command ends s |", "|---|---|---|---|"]
    plain = statistics.median(pair[0] for pair in seconds["nobody"])
    for way, pairs in seconds.items():
        train, wall = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        lines.append(f"| {way} | {train:.3f} | {100 * (train / plain - 1):+.2f}% | {wall:.3f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        common.write_results(os.path.join(common.RESULTS, "tracking_cost"), document, text)


if __name__ == "__main__":
    main()
