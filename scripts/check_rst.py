#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Check reStructuredText files with docutils, without a Sphinx installation.

What only Sphinx knows (roles such as :c:func:, directives such as kernel-doc)
is accepted unseen. Exits non-zero when a file has a warning or an error.
"""

import sys

import docutils.core
import docutils.nodes
import docutils.utils
from docutils.parsers.rst import Directive, directives, roles

ROLES = ("c:func", "c:struct", "c:type", "c:macro", "doc", "ref")
DIRECTIVES = ("kernel-doc", "toctree")


class Unseen(Directive):
    """A directive of Sphinx: any argument, any option, any content."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = {name: directives.unchanged for name in
                   ("functions", "identifiers", "export", "internal", "doc",
                    "no-identifiers", "maxdepth", "caption", "numbered")}

    def run(self):
        return []


def check(path):
    """Return how grave the worst message about the file is; 2 is a warning."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    settings = {"report_level": 2, "halt_level": 5, "file_insertion_enabled": False}
    document = docutils.core.publish_doctree(text, source_path=path,
                                             settings_overrides=settings)
    return document.reporter.max_level


def main():
    for name in ROLES:
        roles.register_generic_role(name, docutils.nodes.literal)
    for name in DIRECTIVES:
        directives.register_directive(name, Unseen)
    return max((check(path) for path in sys.argv[1:]), default=0) >= 2


if __name__ == "__main__":
    sys.exit(main())
