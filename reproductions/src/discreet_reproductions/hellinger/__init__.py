"""Expected Hellinger errors of mechanisms, the least that any private one can have, and plans by them."""
