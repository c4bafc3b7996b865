"""One module per command, each with a ``COMMAND``; found by looking through this folder."""
