"""Tuned parameters together with the evidence for them."""
