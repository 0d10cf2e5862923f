"""Environments: a table of them, and the engines that step them."""
