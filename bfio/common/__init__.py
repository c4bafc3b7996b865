"""Parts shared by all simulators and commands: options, users' code, statistics, provenance."""
