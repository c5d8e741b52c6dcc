"""What search cannot show of a corpus, without labels."""
