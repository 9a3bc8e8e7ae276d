"""A private release as evidence about any model of the true counts."""
