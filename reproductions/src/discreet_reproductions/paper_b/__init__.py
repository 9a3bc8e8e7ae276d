"""B: notes on the exponential mechanism with global, local and smooth sensitivity."""
