"""The features of the machine: `bfio.decode.features.registry` finds each folder and module."""
