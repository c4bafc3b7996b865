"""``bfio worst``: output and refused input."""

import pytest

from tests.cli.conftest import Bfio


def test_the_command_prints_the_certificate(bfio: Bfio) -> None:
    """For people a table, for programs one document that holds the problem."""
    space = ("cache", "--requests", "4", "--memory", "6", "--convention", "A")
    done = bfio("worst", *space)
    assert done.status == 0
    assert "9/8" in done.out
    assert "proven largest" in done.out
    document = bfio("worst", *space, "--json").json
    assert document["ratio"] == "9/8"
    assert document["violations"] == {}
    assert document["problem"]["memory"] == 6


def test_the_command_of_barriers(bfio: Bfio) -> None:
    """Two short requests and a long one: 3/2 in steps, for any policy that never idles."""
    arguments = ("--policy", "br-0", "--requests", "3", "--prompt", "1", "--longest", "2")
    done = bfio("worst", "barrier", *arguments, "--criterion", "steps")
    assert done.status == 0
    assert "3/2" in done.out
    assert "0 on 0" in done.out


def test_an_optimum_of_zero_has_no_ratio(bfio: Bfio) -> None:
    """Which is said in words, and null in JSON."""
    arguments = ("--requests", "4", "--prompt", "1", "--longest", "2", "--criterion", "imbalance")
    assert "ratio none" in bfio("worst", "barrier", *arguments).out
    assert bfio("worst", "barrier", *arguments, "--json").json["ratio"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("cache", "--memory", "0"),
        ("cache", "--policy", "nobody"),
        ("barrier", "--criterion", "worst"),
        ("barrier", "--known", "some"),
        ("cache", "--method", "guess"),
        ("cache", "--steps", "0"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], bfio: Bfio) -> None:
    """And status 2."""
    done = bfio("worst", *arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("system", ["cache", "barrier"])
def test_each_system_has_help(system: str, bfio: Bfio) -> None:
    """It names what every command has."""
    done = bfio("worst", system, "--help")
    assert done.status == 0
    assert {"--json", "--seed", "--time-limit"} <= set(done.out.replace("[", " ").split())
    assert "(default " in done.out.partition("--policy NAME  ")[2].splitlines()[0]
