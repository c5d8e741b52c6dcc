"""Texts: terms, chunks, sentences, snippets, dates and statements; this room knows neither corpora nor search."""
