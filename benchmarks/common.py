"""What the benchmark scripts share: data, measured processes, the machine, statistics. Standard library only."""

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, "benchmarks", "results")
HF_TRAIN = os.path.join(ROOT, "benchmarks", "speed", "hf_train.py")
TREC = os.path.join(os.path.dirname(ROOT), "shared", "data", "trec")


def read_tsv(path):
    """(text, label) of a file with a header; text and label are its columns of these names, else the first two."""
    with open(path, encoding="utf-8", errors="replace", newline="") as f:
        lines = f.read().replace("\r\n", "\n").rstrip("\n").split("\n")
    header = lines[0].split("\t")
    text = next((header.index(name) for name in ("sentence", "text") if name in header), 0)
    label = header.index("label") if "label" in header else 1
    return [(fields[text], fields[label]) for fields in (line.split("\t") for line in lines[1:])]


def read_conll(path):
    """(words, tags) of a file with a word and its tag a line, and a line without any behind every sentence."""
    with open(path, encoding="utf-8") as f:
        sentences = [[line.split("\t") for line in part.split("\n")] for part in f.read().strip("\n").split("\n\n")]
    return [tuple(map(list, zip(*lines))) for lines in sentences]


def read_folder(path):
    """(path, label) of the pictures in a folder a class, in the order of their names."""
    return [
        (os.path.join(path, name, file), name)
        for name in sorted(os.listdir(path), key=os.fsencode)
        for file in sorted(os.listdir(os.path.join(path, name)), key=os.fsencode)
    ]


def label_names(labels):
    """Label names in the order of their ids: ftengine's rule, so that both sides number them alike."""
    names = set(labels)
    if names == {str(i) for i in range(len(names))}:
        return [str(i) for i in range(len(names))]
    return sorted(names, key=lambda name: name.encode())


def processor_seconds():
    """Of all cores since boot: busy (any process), and stolen by the host of a virtual machine."""
    with open("/proc/stat", encoding="utf-8") as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, steal / tick


def measured(command, log=None, cwd=ROOT):
    """Runs a command to its end. Its standard output, and what the kernel says of it: wall seconds, peak resident
    bytes, and the shares of all cores' time that other processes used and that the host withheld meanwhile."""
    with tempfile.TemporaryFile() as out, open(log, "ab") if log else tempfile.TemporaryFile() as err:
        start, (busy, stolen) = time.monotonic(), processor_seconds()
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=cwd)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - start
        busy_after, stolen_after = processor_seconds()
        out.seek(0)
        text = out.read().decode()
        if process.returncode != 0:
            if not log:
                err.seek(0)
                sys.stderr.write(err.read().decode(errors="replace")[-2000:])
            sys.exit(f"{' '.join(command)}: exit code {process.returncode}" + (f" (see {log})" if log else ""))
    available = seconds * os.cpu_count()
    others = busy_after - busy - usage.ru_utime - usage.ru_stime
    return text, {
        "process_seconds": seconds,
        "resident_bytes": usage.ru_maxrss * 1024,
        "others_share": max(0.0, others / available),
        "stolen_share": (stolen_after - stolen) / available,
    }


def build_probe(program):
    """The FMA probe is no part of the default build."""
    build = os.path.dirname(os.path.dirname(program))
    if not os.path.exists(program):
        measured(["cmake", "--build", build, "--target", os.path.basename(program)])


def fma_peak(program):
    """GFLOP/s of independent multiply-adds on all cores, now."""
    return float(measured([program])[0])


def title_lines(document, title):
    machine = document["machine"]
    where = f"{machine['cores']} cores of {machine['cpu']} ({', '.join(machine['isa'])})"
    when = f"{document['date']}, commit {document['commit']}"
    return [f"# {title}", "", f"{when}, {where}", "", f"    {document['command']}", ""]


def machine():
    cpu, flags = platform.processor(), ""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                cpu = value.strip()
            elif key.strip() == "flags":
                flags = value.split()
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "isa": [f for f in ("avx2", "fma", "avx512f") if f in flags],
        "kernel": platform.release(),
    }


def provenance():
    git = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    # A result must be repeatable from what stands in it.
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": git.stdout.strip(),
        "command": " ".join(["python3", os.path.relpath(sys.argv[0], ROOT)] + sys.argv[1:]),
        "machine": machine(),
    }


def add_lora_options(parser):
    """Both sides train a low-rank adapter beside a frozen model, with the same settings."""
    parser.add_argument("--lora-r", type=int, default=0, help="LoRA (PEFT's on the other side) of this rank in place of all parameters")
    parser.add_argument("--lora-alpha", type=float, default=16.0)
    parser.add_argument("--lora-dropout", type=float, default=0.0)
    parser.add_argument("--lora-all", action="store_true", help="on all linear layers, else on queries and values")


def lora_of_trainer(options):
    if options.lora_r == 0:
        return []
    words = ["--lora-r", str(options.lora_r), "--lora-alpha", str(options.lora_alpha), "--lora-dropout", str(options.lora_dropout)]
    return words + (["--lora-all"] if options.lora_all else [])


def lora_of_ftengine(options):
    if options.lora_r == 0:
        return []
    words = ["adapter.type=lora", f"adapter.r={options.lora_r}", f"adapter.alpha={options.lora_alpha}", f"adapter.dropout={options.lora_dropout}"]
    return words + (["adapter.targets=all-linear"] if options.lora_all else [])


def write_results(output, document, markdown):
    os.makedirs(os.path.dirname(output), exist_ok=True)
    with open(output + ".json", "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)
        f.write("\n")
    with open(output + ".md", "w", encoding="utf-8") as f:
        f.write(markdown)
    sys.stdout.write(markdown)
    print(f"\nwritten: {output}.json, {output}.md")


def mean(values):
    return sum(values) / len(values)


def median(values):
    values = sorted(values)
    n = len(values)
    return (values[(n - 1) // 2] + values[n // 2]) / 2


def variance(values):
    m = mean(values)
    return sum((v - m) ** 2 for v in values) / (len(values) - 1)


# Student's t, two-sided 95%, by degrees of freedom from 1.
T95 = [
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
]


def t95(degrees):
    return T95[min(max(int(degrees), 1), len(T95)) - 1]  # rounded down: the wider interval


def welch(a, b):
    """Difference of means a - b and its 95% half-width, samples taken as independent."""
    va, vb = variance(a) / len(a), variance(b) / len(b)
    if va + vb == 0:
        return mean(a) - mean(b), 0.0
    degrees = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return mean(a) - mean(b), t95(degrees) * (va + vb) ** 0.5


def paired(a, b):
    """The same for pairs."""
    d = [x - y for x, y in zip(a, b)]
    return mean(d), t95(len(d) - 1) * (variance(d) / len(d)) ** 0.5
