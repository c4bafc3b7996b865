"""``bfio emulate``: a fleet of workers in lockstep behind the OpenAI-compatible API."""

import argparse

from bfio.cli import so_far
from bfio.cli.command import DONE, Command
from bfio.common.options import add_options, from_namespace
from bfio.decode.cluster import Cluster
from bfio.live.options import EmulateOptions
from formulations.errors import InputError

_SUMMARY = "serve an emulated fleet of decode workers over HTTP"
_DESCRIPTION = """\
Serve a fleet of workers in lockstep, the machine of bfio simulate, with the routes, streams, usage
and metric names of vLLM. Header X-data-parallel-rank chooses the worker, or each has its own port.
Needs: pip install 'bfio[serve]'.

  bfio emulate --workers 8 --slots 24
  curl localhost:8100/v1/completions -d '{"prompt": "a b c", "max_tokens": 5, "stream": true}'
  curl localhost:8100/bfio/faults -d '{"worker": 3, "fault": "die"}'

A prompt is as long as its words or its token ids; max_tokens is the output length. Nothing is
computed. docs/live.md has routes, faults and clocks.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser.add_argument_group("machine"), Cluster)
    add_options(parser.add_argument_group("service"), EmulateOptions)


def _run(args: argparse.Namespace) -> int:
    cluster, options = from_namespace(Cluster, args), from_namespace(EmulateOptions, args)
    try:
        from bfio.live.emulator import serve
    except ModuleNotFoundError as error:
        what = f"{error.name} is not installed"
        raise InputError("emulate", what, "pip install 'bfio[serve]'") from None

    def announce(urls: list[str]) -> None:
        where = urls[0] if len(urls) == 1 else f"{urls[0]} to {urls[-1]}"
        print(f"{cluster.shape} fleet at {where}; Ctrl-C ends it", flush=True)

    so_far.serves()
    serve(cluster, options, announce)
    return DONE


COMMAND = Command("emulate", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
