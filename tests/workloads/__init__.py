"""Tests of trace readers, writers, generators and statistics."""
