"""Beyond the papers: their settings with better mechanisms and the limit, and a study of real columns."""
