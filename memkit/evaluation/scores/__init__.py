"""What one search, or two, is worth: hits against judgements, and what a few users allow to conclude."""
