"""Figures of the literature, regenerated: a package per paper, a function of explicit settings per figure."""
