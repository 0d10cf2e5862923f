"""Robots and what they are paid for: one small file a family, functions of the arrays of one world."""
