"""The pages, one module each. Slow work is in plain functions, which the framework runs in threads."""
