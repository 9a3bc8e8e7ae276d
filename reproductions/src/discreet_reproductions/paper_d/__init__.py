"""Papers D: notes on local sensitivity, the exponential mechanism that uses it, sliding and dilation."""
