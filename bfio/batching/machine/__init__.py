"""The compiled machine of batching: flat tables, and the phases of a slot."""
