"""Tests of the specialised exact step solver."""
