"""Stores that each break one rule, as stores in the wild do; the contract must refuse every one of them."""
