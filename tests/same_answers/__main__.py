"""Record the answers of sixty commands, or compare two records.

    python -m tests.same_answers record OUT.json [--bfio PATH]
    python -m tests.same_answers compare BEFORE.json AFTER.json

Before a refactoring, record with the ``bfio`` of that checkout; compare after it.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

from tests.same_answers.answers import differences, load_list, record


def main() -> int:
    """Run what was asked for; 1 if answers differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.same_answers", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    recorder = actions.add_parser("record", help="run all commands and keep their answers")
    recorder.add_argument("file", type=Path)
    recorder.add_argument("--bfio", default=f"{shlex.quote(sys.executable)} -m bfio")
    comparer = actions.add_parser("compare", help="compare two records")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    args = parser.parse_args()
    if args.action == "record":
        answers = record(load_list(), shlex.split(args.bfio), print)
        args.file.write_text(json.dumps(answers, indent=1), encoding="utf-8")
        return 0
    before, after = (json.loads(path.read_text("utf-8")) for path in (args.before, args.after))
    different = differences(before, after, load_list().renamed)
    print("\n".join(different))
    print(f"{len(before)} commands, {len(different)} differences")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
