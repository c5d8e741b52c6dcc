"""Tuned numbers, kept with the evidence for them."""
