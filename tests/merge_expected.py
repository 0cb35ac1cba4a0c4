#!/usr/bin/env python3
"""Prints expect.json of bad files (tests/reference/README.md) for a folder to which another's files were added.

    tests/merge_expected.py OURS THEIRS      what both have is as OURS says
"""
import json
import pathlib
import sys

ours, theirs = (json.loads(pathlib.Path(path).read_text()) for path in sys.argv[1:])
links = {**theirs.get("links", {}), **ours.get("links", {})}
print(json.dumps({**theirs, **ours, "links": links}, indent=1))
