"""Commands of ``bfio``, one module each; `bfio.cli.command` loads every module's ``COMMAND``."""
