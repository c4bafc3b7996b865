"""``bfio measure``: measure the times of decode steps of a GPU."""

import argparse

from bfio.calibration.measure import MeasureOptions, measure_steps
from bfio.cli.command import Command
from bfio.cli.options import add_by_usage, add_common
from bfio.cli.output import print_answer, progress_bar
from bfio.common.options import add_options, from_namespace
from formulations.words import counted

_SUMMARY = "measure decode step times of a GPU, as input of bfio fit"
_DESCRIPTION = """\
Time decode steps of a transformer with random weights over KV caches of chosen lengths, and write
them as a file that bfio fit reads. Needs PyTorch: pip install 'bfio[gpu]'.

  bfio measure steps.csv && bfio fit steps.csv --plot steps.png
  bfio measure steps.csv --device cuda:1 --batch 32 --lengths 512,1024,4096,8192
  bfio measure steps.csv --device cpu --layers 2 --hidden 256 --heads 4 --kv-heads 2 --mlp 512

The times are those of one worker: reading weights and KV cache, and kernel launches. They exclude
waiting for other workers, sampling and the network (docs/fit.md).
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_by_usage(parser, {"file OUT": "file to write (.csv)"})
    add_options(parser.add_argument_group("measured configuration"), MeasureOptions)
    add_by_usage(parser, {"--overwrite": "replace an existing file"})
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    options = from_namespace(MeasureOptions, args, seed=args.seed)
    number = options.repeats * len(options.cache_lengths)
    with progress_bar() as bar:
        task = bar.add_task("steps", total=number)
        device = measure_steps(
            args.file, options, overwrite=args.overwrite, on_step=lambda: bar.advance(task)
        )
    document = {"file": args.file, "steps": number, "device": device}
    text = f"{args.file}: {counted(number, 'step')} on {device}; next: bfio fit {args.file}"
    return print_answer(args, document, lambda: print(text))


COMMAND = Command("measure", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
