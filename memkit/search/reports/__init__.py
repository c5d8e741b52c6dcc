"""What users see of a question: hits, trace, a sentence, a picture."""
