"""The pages, one module each. What takes time is in plain functions, which the framework runs in threads."""
