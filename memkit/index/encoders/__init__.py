"""One module per kind of encoder; `memkit.index.encode` is the door."""
