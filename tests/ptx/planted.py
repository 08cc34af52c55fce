#!/usr/bin/env python3
# Plants each fault of planted.txt into the kernels' texts, or their sources, and runs the case that it names: without a fault it must be good, with
# it bad, in the way that the table says. PLANTED=texts: rows whose text is edited; sources: those whose source is.
# Environment: CASES (planted_cases), MACHINE (libptx_machine.so), TEXTS (a folder of .ptx), TABLE, SOURCE_DIR, NVCC (a command that takes a source, -o
# and a text; where sources are planted).
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

FIELDS = ('name', 'case', 'entry', 'statement', 'which', 'edit', 'way', 'caught_by')
# Texts of a chip of 10.0 lie beside those of 9.0.
def texts_for(case):
    texts = os.environ['TEXTS']
    return os.path.join(os.path.dirname(texts), '100a') if 'tensor-memory' in case else texts


NOTHING = {'entry': '', 'statement': ''}


def rows(path, wanted):
    for number, line in enumerate(open(path), 1):
        line = line.rstrip('\n')
        if not line or line.startswith('#'):
            continue
        fields = line.split(' | ')
        if len(fields) != len(FIELDS):
            sys.exit(f'{path}:{number}: {len(fields)} fields, not {len(FIELDS)}')
        row = dict(zip(FIELDS, fields))
        if wanted == ('sources' if row['statement'] == 'source' else 'texts'):
            yield row


# A folder of texts, of which one comes from the changed source.
def texts_of(row, folder):
    root = os.environ['SOURCE_DIR']
    shutil.copytree(os.path.join(root, 'kernels'), os.path.join(folder, 'kernels'))
    source = os.path.join(folder, 'kernels', 'cuda', row['entry'])
    text = open(source).read()
    old, new = row['edit'].split(' => ')
    if old not in text:
        return None
    open(source, 'w').write(text.replace(old, new, 1))
    name = row['entry'].replace('/', '_').replace('.cu', '.ptx')
    for other in os.listdir(os.environ['TEXTS']):
        if other.endswith('.ptx') and other != name:
            os.symlink(os.path.join(os.environ['TEXTS'], other), os.path.join(folder, other))
    subprocess.run([*shlex.split(os.environ['NVCC']), '-I' + folder, '-I' + root, source, '-o', os.path.join(folder, name)], check=True)
    return folder


def run(row):
    order, timing = row['way'].split('-')
    environment = dict(os.environ, SIMT_EXECUTOR=os.environ['MACHINE'], LD_PRELOAD=os.environ['MACHINE'], FT_PTX=texts_for(row['case']),
                       FT_PTX_TIMING=timing)
    with tempfile.TemporaryDirectory() as folder:
        if row['statement'] == 'source':
            environment['FT_PTX'] = texts_of(row, folder)
            if environment['FT_PTX'] is None:
                return 1, 'not planted: no such text in the source', 0
        elif row['statement']:
            environment['FT_PTX_PLANT'] = ' | '.join(row[field] for field in FIELDS[2:6])
        begun = time.monotonic()
        done = subprocess.run([os.environ['CASES'], row['case'], order], env=environment, capture_output=True, text=True, errors='replace')
    return done.returncode, done.stdout + done.stderr, time.monotonic() - begun


# What is wrong with how it went, or None.
def judged(code, said, caught_by):
    if 'not planted' in said:
        return 'the table is out of date'
    if code == 0:
        return 'nobody saw it'
    if code < 0:
        return f'it ended by signal {-code}'
    is_fault = 'simt: ' in said
    if (caught_by == 'figures') == is_fault or (is_fault and caught_by not in said):
        return f'not by "{caught_by}"'
    return None


def main():
    os.environ.pop('FT_PTX_PLANT', None)
    table = list(rows(os.environ['TABLE'], os.environ['PLANTED']))
    if not table:
        sys.exit('an empty table')
    bad = []
    for case, way in sorted({(row['case'], row['way']) for row in table}):
        code, said, seconds = run(dict(NOTHING, case=case, way=way))
        print(f'{seconds:5.1f} s  {case} {way}, nothing planted', flush=True)
        if code != 0:
            bad.append(case)
            print(said[-2000:])
    for row in table:
        code, said, seconds = run(row)
        wrong = judged(code, said, row['caught_by'])
        print(f'{seconds:5.1f} s  {row["name"]}: {"caught" if wrong is None else wrong.upper()}', flush=True)
        if wrong is not None:
            bad.append(row['name'])
            print(said[-2000:])
    print(f'{len(table)} faults planted; wrong: {bad if bad else "none"}')
    sys.exit(1 if bad else 0)


main()
