"""Error messages for unknown commands, options and values."""

import pytest

from bfio.cli import main


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("comparee", "unknown command comparee; did you mean compare? see bfio --help"),
        (
            "--json compare",
            "unknown option --json; put options after the command name; see bfio --help",
        ),
        (
            "compare --polices=x",
            "unknown option --polices; did you mean --policies? see bfio comp",
        ),
        ("study run f.toml --jbs 2", "unknown option --jbs; did you mean --jobs? see bfio study"),
        ("study rn f.toml", "unknown action rn; did you mean run? see bfio study --help"),
        ("compare more", "unknown argument more; see bfio compare --help"),
        (
            "compare --workers x",
            "argument --workers: 'x' is not an integer; see bfio compare --help",
        ),
        ("compare --params x", "argument --params: 'x' is not a number; see bfio compare --help"),
        (
            "solve f --time-limit x",
            "argument --time-limit: 'x' is not a number of seconds > 0; see",
        ),
        ("study report f --format htm", "--format: 'htm' is unknown; did you mean html? see bfio"),
    ],
)
def test_what_is_unknown_is_told_with_what_is_near(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, in words of the command line and not of Python."""
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: command line: ")
    assert words in line


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("--jobs 0", "error: --jobs: 0 is out of range; use 1 <= value <= 1024"),
        ("--token-time nan", "error: --token-time: nan s is out of range; give"),
        ("--drift foo", "error: --drift: 'foo' is not a drift; use one of llm, constant, a rate"),
        ("--predictor oracl", "error: --predictor: 'oracl' is unknown; did you mean oracle? use"),
    ],
)
def test_options_are_refused_before_anything_runs(
    command: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor are kernels compiled first."""
    assert main(["compare", "--policies", "bf-io", "--no-plots", *command.split()]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(line)
