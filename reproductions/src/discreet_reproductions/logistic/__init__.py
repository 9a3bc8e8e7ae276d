"""What the paper on Rényi posterior sampling is compared with: exact draws, and its baselines."""
