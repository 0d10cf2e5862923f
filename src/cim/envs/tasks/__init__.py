"""Robots and what they are paid for: one file a family, functions of one world's arrays."""
