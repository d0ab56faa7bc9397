"""Evaluations: recorded runs, environments, scorers, and tables."""
