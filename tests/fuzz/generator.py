"""Make the k-th input of a seed: a known command line and its files, spoiled here and there."""

from collections.abc import Mapping
from functools import cache
from random import Random

from tests.fuzz import mutations, seeds
from tests.fuzz.case import Case, Content
from tests.fuzz.process import POSIX
from tests.fuzz.surface import Parameter, Surface, surface_of, surfaces

#: Share of inputs that go to commands that take seconds even when all is well, and to some of
#: them more often than to the others.
_SLOW_SHARE = 0.08
_SLOW = {"demo": 1, "doctor": 1, "prepare": 1, "check": 12, "study run": 8}
_CHECK = ("check",)
#: What keeps a run small; given to each command that knows the flag and was not given it.
_SMALL = {
    "--requests": ("1", "20", "60", "300"),
    "--workers": ("1", "2", "3"),
    "--slots": ("1", "2", "5"),
    "--pool": ("1", "6", "12"),
    "--steps": ("3", "50"),
    "--jobs": ("1",),
    "--effort": ("quick",),
    "--time-limit": ("0.001", "0.1", "0.5", "1"),
}
#: Most that known lines keep of a size.
_MOST = {"--requests": "120", "--time-limit": "1", "--workers": "4", "--jobs": "1"}
_OFF = ("--no-plots", "--smoke")
#: Values that many options take.
_WHOLE = ("1", "2", "3", "5", "0", "10", "100")
_PLAIN = ("1", "2", "3", "5", "0", "0.5", "10", "1/2", "100", "0.01")
#: How often the small value of a flag is given where the seed has none.
_SMALL_SHARE = {"--steps": 0.3, "--time-limit": 0.6, "--workers": 0.7, "--slots": 0.7}


def make(seed: int, index: int) -> Case:
    """Return an input; the same for the same numbers, docs and tests."""
    rng = Random(f"{seed}:{index}")
    # The first inputs go through all commands.
    surface = surfaces()[index] if index < len(surfaces()) else _command(rng)
    if surface.words == _CHECK and rng.random() < 0.8:
        return _damaged_claim(rng)
    words = _begun(rng, surface)
    words = _filled(rng, words, surface)
    words = _small(rng, words, surface)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        words = _spoiled(rng, words, surface)
    files = _files(rng, words, surface)
    if rng.random() < 0.5 and "--json" not in words:
        words.append("--json")
    return Case(
        argv=tuple(word.replace("\0", "") for word in words),
        files=files,
        stdin=_stdin(rng, words, files),
        encoding=_encoding(rng, words),
    )


def _command(rng: Random) -> Surface:
    """Choose a command: those that take more, more often; those that take long, rarely."""
    slow = [s for s in surfaces() if " ".join(s.words) in _SLOW]
    if rng.random() < _SLOW_SHARE:
        return rng.choices(slow, [_SLOW[" ".join(s.words)] for s in slow])[0]
    others = [s for s in surfaces() if s not in slow]
    return rng.choices(others, [len(s.parameters) ** 0.5 for s in others])[0]


def _begun(rng: Random, surface: Surface) -> list[str]:
    """Return a known line of a command, its small sizes included, or only its name."""
    way = rng.random()
    known = seeds.good_lines() if way < 0.5 else seeds.command_lines() if way < 0.65 else ()
    lines = [line for line in known if surface_of(line) == surface]
    words = list(rng.choice(lines)) if lines else list(surface.words)
    for flag, most in _MOST.items():
        if flag in words[:-1] and rng.random() < 0.9:
            place = words.index(flag) + 1
            words[place] = min(words[place], most, key=_size)
    return words


def _size(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return 0.0


def _filled(rng: Random, words: list[str], surface: Surface) -> list[str]:
    """Give a bare command what it cannot do without, and some options."""
    if len(words) > len(surface.words):
        return words
    for parameter in surface.positionals:
        if not parameter.is_optional or rng.random() < 0.5:
            words.append(_positional(rng, parameter, surface))
    if surface.option("--store") and rng.random() < 0.7:
        words += ["--store", "runs.sqlite"]
    for parameter in surface.options:
        if rng.random() < 2 / len(surface.options):
            words += _given(rng, parameter)
    return words


def _positional(rng: Random, parameter: Parameter, surface: Surface) -> str:
    if parameter.metavar.startswith(("FILE", "TRACE")):
        if surface.option("--store") and rng.random() < 0.6:
            return "runs.toml"
        return rng.choice(_fitting(surface))
    if parameter.metavar.startswith(("OUT", "PLACE")):
        return rng.choice(("out/made.csv", "made.csv.gz", "out"))
    known = [line[len(surface.words)] for line in seeds.command_lines()
             if surface_of(line) == surface and len(line) > len(surface.words)]  # fmt: skip
    return rng.choice(known or ["x"])


def _given(rng: Random, parameter: Parameter) -> list[str]:
    """Return an option with a value that may well be good."""
    flag = rng.choice(parameter.flags)
    if not parameter.takes_value:
        return [flag]
    way, known = rng.random(), seeds.values().get(flag, ())
    if parameter.kind and way < 0.9:
        return [flag, rng.choice(_WHOLE if parameter.kind == "int" else _PLAIN)]
    if known and way < 0.8:
        return [flag, rng.choice(known)]
    return [flag, rng.choice(parameter.words or _PLAIN)]


def _small(rng: Random, words: list[str], surface: Surface) -> list[str]:
    for flag, choices in _SMALL.items():
        if (
            surface.option(flag)
            and flag not in words
            and rng.random() < _SMALL_SHARE.get(flag, 0.97)
        ):
            words += [flag, rng.choice(choices)]
    return words + [f for f in _OFF if surface.option(f) and f not in words and rng.random() < 0.9]


def _spoiled(rng: Random, words: list[str], surface: Surface) -> list[str]:
    """Change one thing of a command line."""
    first = len(surface.words)
    places = [k for k in range(first, len(words)) if words[k].startswith("--")]
    way = rng.random()
    if way < 0.4 and places:
        return _other_value(rng, words, rng.choice(places), surface)
    if way < 0.75 and surface.options:
        parameter = rng.choice(surface.options)
        given = _given(rng, parameter)
        if parameter.takes_value and rng.random() < 0.3:
            given[1] = mutations.spoil_value(rng, given[1], parameter.words)
        return words + given
    if way < 0.82 and places:
        place = rng.choice(places)
        return words[:place] + words[place + rng.choice((1, 2)) :]
    if way < 0.87 and places:
        place = rng.choice(places)
        return words + words[place : place + 2]
    if way < 0.9 and places:
        place = rng.choice(places)
        return [*words[:place], words[place][:-1], *words[place + 1 :]]
    place = rng.randrange(first, len(words) + 1)
    if way < 0.96 and place < len(words):
        return [*words[:place], _place_or_value(rng, words[place]), *words[place + 1 :]]
    return [*words[:place], rng.choice(mutations.TEXTS), *words[place:]]


def _other_value(rng: Random, words: list[str], place: int, surface: Surface) -> list[str]:
    parameter = surface.option(words[place])
    if parameter is None or not parameter.takes_value or place + 1 >= len(words):
        return words[:place] + words[place + 1 :]
    pool = (*seeds.values().get(words[place], ()), *parameter.words)
    value = words[place + 1]
    spoil = _place_or_value(rng, value) if _is_place(parameter) else None
    new = spoil if spoil is not None else mutations.spoil_value(rng, value, pool)
    glued = [f"{words[place]}={new}"] if rng.random() < 0.2 else [words[place], new]
    return [*words[:place], *glued, *words[place + 2 :]]


def _is_place(parameter: Parameter) -> bool:
    return parameter.metavar.split(".")[0] in ("FILE", "DIR", "PATH", "TRACE", "OUT", "PLACE")


def _place_or_value(rng: Random, value: str) -> str:
    return (
        rng.choice(mutations.PLACES) if rng.random() < 0.7 else mutations.spoil_value(rng, value)
    )


def _files(rng: Random, words: list[str], surface: Surface) -> Mapping[str, Content]:
    """Return the files that the words name, some of them spoiled, and some odd places."""
    text = " ".join(words)
    found: dict[str, Content] = {}
    for word in words:
        for name in (word, *word.replace("=", " ").split()):
            if seeds.FILE_NAME.match(name) and not name.startswith(("/", "missing", "..")):
                found[name] = _content(rng, name, surface)
                found |= _beside(found[name])
    if "mine" in text:
        found["mine.py"] = seeds.files()["mine.py"]
    if "loop" in words:
        found["loop"] = "loop"
    if "folder" in words:
        found["folder"] = None
    if "empty.csv" in words:
        found["empty.csv"] = b""
    for name in ("made.csv", "out/made.csv"):
        if name in found:
            del found[name]
    return found


def _beside(content: Content) -> dict[str, Content]:
    """Return the files that a study names."""
    if not isinstance(content, bytes) or b"question" not in content:
        return {}
    names = seeds.named_in(content.decode("utf-8", "replace"))
    return {name: seeds.files()[name] for name in sorted(names)}


def _content(rng: Random, name: str, surface: Surface) -> Content:
    """Return what a file holds: what docs and tests put there or in one like it, or else."""
    if name.endswith(".sqlite"):
        spoiled = rng.random() < 0.6
        return mutations.spoil_file(rng, name, seeds.store()) if spoiled else seeds.store()
    known = seeds.files()
    fitting = [
        f for f in _fitting(surface) if f.split(".", 1)[1] == name.split("/")[-1].split(".", 1)[1]
    ]
    own = known.get(name) or known.get(name.split("/")[-1])
    if own is None or rng.random() < 0.2:
        own = known[rng.choice(fitting or _fitting(surface))]
    if rng.random() < 0.03:
        return None
    if rng.random() < 0.45:
        own = mutations.spoil_file(rng, name.removesuffix(".gz"), own)
    return own


@cache
def _fitting(surface: Surface) -> tuple[str, ...]:
    """Return the names of known files of the sort that seeds give to a command."""
    used = {
        word
        for line in seeds.command_lines()
        if surface_of(line) == surface
        for word in line
        if word in seeds.files()
    }
    ends = {"." + name.split(".", 1)[1] for name in used} or _ends(surface)
    keys = {key for name in used for key in _keys(name)}
    return tuple(
        name
        for name, data in sorted(seeds.files().items())
        if any(name.endswith(end) for end in ends)
        and (not name.endswith(".json") or not keys or keys & _keys(name))
    ) or ("trace.csv",)


def _ends(surface: Surface) -> set[str]:
    return {".toml"} if surface.words[0] == "study" else {".csv", ".jsonl"}


@cache
def _keys(name: str) -> frozenset[str]:
    """Return the telling keys of a JSON document."""
    telling = {"capacity", "memory", "workers", "classes"}
    text = seeds.files()[name].decode("utf-8", "replace")
    found = frozenset(key for key in telling if f'"{key}":' in text)
    return frozenset({"classes"}) if "classes" in found else found


def _stdin(rng: Random, words: list[str], files: Mapping[str, Content]) -> bytes:
    if "-" not in words:
        return b""
    data = [content for content in files.values() if isinstance(content, bytes)]
    return rng.choice(data or [b'{"capacity": [1], "base": [[1]], "contribution": [[2]]}'])


def _encoding(rng: Random, words: list[str]) -> str:
    """Choose an encoding; a program of its own could reach the network."""
    if rng.random() < 0.85:
        return "utf-8"
    return "ascii" if rng.random() < 0.9 or {"fetch", "--cluster"} & set(words) else POSIX


def _damaged_claim(rng: Random) -> Case:
    """Return a claim's command with a damaged counterexample in the place of the stored one."""
    name = rng.choice(sorted(seeds.counterexamples()))
    damaged = mutations.spoil_file(rng, name, seeds.counterexamples()[name])
    words = ["check", name.removesuffix(".json"), "--jobs", "1"]
    words += ["--json"] if rng.random() < 0.5 else []
    return Case(tuple(words), counterexamples={name: damaged})
