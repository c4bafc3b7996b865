"""What the toolkit loads when nothing is served."""

from tests.processes import python

#: Packages of the extra `serve`.
SERVERS = ("starlette", "uvicorn", "uvloop", "httptools", "prometheus_client")


def test_other_commands_load_no_server() -> None:
    """Nor do the library, all commands' arguments, and a simulation."""
    code = (
        "import sys, bfio; from bfio.cli import main; from bfio.cli.command import commands\n"
        "bfio.simulate(bfio.synthetic('demo', 3, seed=1), 'fcfs', bfio.Cluster(workers=2))\n"
        "from bfio.cli.command import OneLineParser\n"
        "[c.add_arguments(OneLineParser()) for c in commands().values()]\n"
        f"print([name for name in {SERVERS} if name in sys.modules])"
    )
    done = python("-c", code)
    assert done.stdout == "[]\n"
