"""The graphs: one file, one strategy."""
