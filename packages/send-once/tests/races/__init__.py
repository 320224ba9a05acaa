"""Races between real processes and threads for the same keys."""
