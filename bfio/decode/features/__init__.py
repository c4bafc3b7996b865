"""The optional features of the machine, listed in `bfio.decode.features.registry`."""
