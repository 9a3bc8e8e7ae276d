"""Geumlek, Song and Chaudhuri (2017), Rényi Differential Privacy Mechanisms for Posterior Sampling."""
