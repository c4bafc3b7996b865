"""The barrier-synchronised decode engine: state, phases, metrics, energy."""
