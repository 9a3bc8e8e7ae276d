"""Conjugate models, one file each: prior, update, posterior, and how much one record can move it."""
