"""python -m ftengine: the program."""

import os
import sys

from ._library import program

path = program()
if path is None:
    sys.exit("ftengine: error: the program is not installed")
os.execv(path, [path, *sys.argv[1:]])
