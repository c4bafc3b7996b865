"""Ties around a run: its words."""

from bfio.decode.features.feature import Feature
from bfio.decode.options import Ties

TIES = Feature(
    "ties",
    setting=lambda _, options: "" if options.ties is Ties.LOWEST else f"{options.ties} ties",
)
