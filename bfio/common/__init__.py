"""What all simulators and commands share: options, users' code, statistics, provenance."""
