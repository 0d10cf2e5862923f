"""A run folder -> figures, PNG and PDF."""
