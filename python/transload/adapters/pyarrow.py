"""Adapters for pyarrow."""
