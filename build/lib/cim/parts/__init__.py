"""Bricks that two or more files use."""
