"""Command lines and files to start from: those of docs, tests, studies and shared traces."""

import ast
import contextlib
import gzip
import importlib
import json
import pkgutil
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import formulations
from formulations.errors import InputError
from formulations.problem_data import ProblemData
from tests.fuzz.surface import is_parsed, surface_of, surfaces
from tests.places import DOCS, ROOT
from tests.same_answers.answers import load_list

#: Lines kept of a trace.
_TRACE_LINES = 60
_BLOCK = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
_LINE = re.compile(r"^\s*(?:\$ )?bfio (.+)$", re.MULTILINE)
#: A word of a command line that names a file.
FILE_NAME = re.compile(r"[\w./-]+\.(?:jsonl?|toml|csv|csv\.gz|jsonl\.gz|sqlite|gz)$")

#: User modules that commands load, mostly with errors.
MINE = '''
import math


class Raiser:
    """Whatever is asked of it raises."""

    def __getattr__(self, name):
        raise RuntimeError("no\\nidea: " + name)

    def __call__(self, *words, **options):
        raise KeyError("line one\\nline two")


class Junk:
    """Whatever is asked of it is of no kind that anyone expects."""

    horizon = "three"
    name = 7
    FORMAT = unit = None

    def __call__(self, *words, **options):
        return object()

    def statistics(self):
        return ["not", "a", "mapping"]


class Mute:
    """Its text cannot be had."""

    def __repr__(self):
        raise ValueError("mute")

    def __call__(self, state):
        return [0] + [None] * (state.num_waiting - 1)

    def statistics(self):
        raise OverflowError("too\\nmuch")


class Late:
    """Fails in its twentieth call, with what only some catch."""

    calls = 0

    def __call__(self, state):
        self.calls += 1
        if self.calls > 20:
            raise SystemExit(7)
        return [None] * state.num_waiting


def raises(*words, **options):
    raise ZeroDivisionError


def leaves(*words, **options):
    raise SystemExit("bye")


def nothing(*words, **options):
    return None


def nan(*words, **options):
    return math.nan


def text(*words, **options):
    return "\\u2028text\\x1b[31m"


def huge(*words, **options):
    return 10 ** 400


def itself(*words, **options):
    return itself


def chatty(state):
    print("hello")
    return [0] + [None] * (state.num_waiting - 1)


number = 7
empty = {}
raiser, junk = Raiser(), Junk()
'''


@cache
def files() -> dict[str, bytes]:
    """Return content of files by name."""
    found = {name: text.encode() for name, text in load_list().files.items()}
    for page in sorted([*DOCS.glob("*.md"), ROOT / "README.md"]):
        found |= {name: text.encode() for name, text in _BLOCK.findall(page.read_text("utf-8"))}
    for study in sorted((ROOT / "benchmarks").rglob("*.toml")):
        found[f"{study.parent.name}-{study.name}"] = _at_hand(study.read_text("utf-8"))
    for k, document in enumerate(_documents_of_tests()):
        found[f"test{k}.json"] = json.dumps(document).encode()
    return found | _traces() | {"mine.py": MINE.encode()}


@cache
def good_lines() -> tuple[tuple[str, ...], ...]:
    """Return the command lines of docs, and of the commands whose answers are compared."""
    lines = [tuple(c["words"].split()) for c in load_list().commands]
    lines += [tuple(c["then"].split()) for c in load_list().commands if "then" in c]
    for page in sorted([*DOCS.glob("*.md"), ROOT / "README.md"]):
        lines += [_words(line) for line in _LINE.findall(page.read_text("utf-8"))]
    return _parsed(lines)


@cache
def command_lines() -> tuple[tuple[str, ...], ...]:
    """Return the command lines of docs and tests; the latter may fail."""
    return _parsed((*good_lines(), *_lines_of_tests()))


def _parsed(lines: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted({line for line in lines if line and surface_of(line) and is_parsed(line)}))


@cache
def counterexamples() -> dict[str, bytes]:
    """Return the small stored counterexamples, by file name."""
    folder = ROOT / "proofs_checks" / "counterexamples"
    return {p.name: p.read_bytes() for p in sorted(folder.glob("*.json"))}


@cache
def values() -> dict[str, tuple[str, ...]]:
    """Return the values that seeds give to each flag."""
    found: dict[str, set[str]] = {}
    for line in command_lines():
        for flag, value in pairwise(line):
            if flag.startswith("--"):
                found.setdefault(flag, set()).add(value)
    return {flag: tuple(sorted(some)) for flag, some in found.items()}


@cache
def store() -> bytes:
    """Return a store with the rows of ``runs.toml``."""
    from bfio.studies.runner import plan
    from bfio.studies.store import open_for_writing
    from bfio.studies.study_file import find_study
    from bfio.studies.supervisor import finished
    from bfio.studies.worker import Order, computed_row

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "runs.toml").write_bytes(files()["runs.toml"])
        with open_for_writing(folder / "runs.sqlite") as opened:
            for task in plan(find_study(str(folder / "runs.toml"))):
                opened.add(finished(computed_row(Order(task, name)), attempts=1))
        return (folder / "runs.sqlite").read_bytes()


def named_in(text: str) -> set[str]:
    """Return the known files that a text names."""
    return {name for name in re.findall(r"[\w.-]+", text) if name in files()}


def _at_hand(study: str) -> bytes:
    """Return a study whose files lie beside it."""
    return re.sub(r"[\w./-]*/shared/data/([\w.-]+?)(?:\.gz)?(?=[\"'])", r"\1", study).encode()


def _words(line: str) -> tuple[str, ...]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return ()
    end = next((k for k, word in enumerate(words) if word in ("|", ">", "&&", ";")), None)
    return tuple(word for word in words[:end] if not word.startswith("["))


def _traces() -> dict[str, bytes]:
    """Return heads of the shared traces, where they are at hand, and one that always is."""
    rows = "".join(f"{k / 2},{5 + 7 * k % 40},{1 + 3 * k % 11}\n" for k in range(_TRACE_LINES))
    found = {"trace.csv": f"arrival_time_s,prompt_tokens,output_tokens\n{rows}".encode()}
    folder = ROOT.parent / "shared" / "data"
    for path in sorted([*folder.glob("*.csv.gz"), *folder.glob("raw_excerpts/*")]):
        if path.is_file():
            found[path.name.removesuffix(".gz")] = _head(path)
    return found


def _head(path: Path) -> bytes:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return b"".join(text.splitlines(keepends=True)[:_TRACE_LINES])


@cache
def _constants() -> tuple[Any, ...]:
    """Return the literal lists, mappings and texts of the tests."""
    return tuple(_all_constants())


def _all_constants() -> Iterator[Any]:
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                words = [a for a in node.args if not isinstance(a, ast.Starred)]
                yield [a.value if isinstance(a, ast.Constant) else None for a in words]
            elif isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Constant):
                try:
                    yield ast.literal_eval(node)
                except (ValueError, TypeError):
                    continue


def _lines_of_tests() -> Iterator[tuple[str, ...]]:
    """Yield lists of words that begin with a command; what is computed stands as a file."""
    commands = {surface.words[0] for surface in surfaces()}
    for value in _constants():
        if isinstance(value, str):
            text = value.removeprefix("bfio ")
            if "\n" in value or text.partition(" ")[0] not in commands:
                continue
            words = _words(text)
        elif isinstance(value, list | tuple):
            words = tuple("data.json" if item is None else str(item) for item in value)
        else:
            continue
        if len(words) > 1 and words[0] in commands and all(len(word) < 200 for word in words):
            yield words


def _documents_of_tests() -> Iterator[dict[str, Any]]:
    """Yield the mappings that are problems."""
    for value in _constants():
        document = value
        if isinstance(value, str) and value[:1] == "{":
            try:
                document = json.loads(value)
            except (ValueError, RecursionError):
                continue
        if isinstance(document, dict) and _is_problem(document):
            yield document


@cache
def _kinds() -> tuple[type[ProblemData], ...]:
    """Return the sorts of problems that commands read."""
    for _, name, _ in pkgutil.iter_modules(formulations.__path__, "formulations."):
        importlib.import_module(name)
    return tuple(ProblemData.__subclasses__())


def _is_problem(document: dict[Any, Any]) -> bool:
    for kind in _kinds():
        with contextlib.suppress(InputError, NotImplementedError):
            kind.from_mapping(document)
            json.dumps(document)
            return True
    return False
