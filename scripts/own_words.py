#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""own_words.py TREE FILE...: is anything in our files the base's text?

The series is written from the specification and the interfaces. This finds
what is the same as in the base's own balloon and page reporting files: runs
of code lines, and strings of words in comments. Preprocessor lines do not
count, as names and values of an interface have to be the same.
"""

import re
import sys
from pathlib import Path

BASE_FILES = (
    "drivers/virtio/virtio_balloon.c",
    "include/uapi/linux/virtio_balloon.h",
    "include/linux/page_reporting.h",
    "mm/page_reporting.h",
    "mm/page_reporting.c",
)
CODE_RUN = 6
WORD_RUN = 8

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
LICENCE = re.compile(r"/\*[^/]*Redistribution.*?\*/", re.DOTALL)


def code_lines(text):
    """Lines of code with one space between words; no comments, no lone braces."""
    lines = (" ".join(line.split()) for line in COMMENT.sub("", text).splitlines())
    return [line for line in lines if re.search(r"\w", line) and not line.startswith("#")]


def comment_words(text):
    return re.findall(r"\w+", " ".join(COMMENT.findall(LICENCE.sub("", text))).lower())


def runs(items, length):
    return {tuple(items[i:i + length]) for i in range(len(items) - length + 1)}


def shared(items, theirs, length):
    """Return the runs of items that are in theirs, without overlaps."""
    found, start = [], 0
    while start + length <= len(items):
        run = tuple(items[start:start + length])
        if run in theirs:
            found.append(run)
            start += length
        else:
            start += 1
    return found


def main():
    tree = Path(sys.argv[1])
    theirs = [(tree / name).read_text(encoding="utf-8") for name in BASE_FILES
              if (tree / name).exists()]
    if not theirs:
        sys.exit(f"{tree} has none of the files to compare with")
    code = set().union(*(runs(code_lines(text), CODE_RUN) for text in theirs))
    words = set().union(*(runs(comment_words(text), WORD_RUN) for text in theirs))
    complaints = []
    for name in sys.argv[2:]:
        text = Path(name).read_text(encoding="utf-8")
        own_code = [] if name.startswith("include/uapi/") else code_lines(text)
        complaints += [f"{name}: code of the base: {' / '.join(run)}"
                       for run in shared(own_code, code, CODE_RUN)]
        complaints += [f"{name}: words of the base: {' '.join(run)}"
                       for run in shared(comment_words(text), words, WORD_RUN)]
    for line in complaints:
        print(line)
    return len(complaints) > 0


if __name__ == "__main__":
    sys.exit(main())
