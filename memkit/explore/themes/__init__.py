"""What a corpus is about: its topics (`memkit.topics`), and what it says on a theme over time (`memkit.timeline`)."""
