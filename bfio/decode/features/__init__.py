"""The features of the machine, a folder each; `bfio.decode.features.registry` lists them."""
