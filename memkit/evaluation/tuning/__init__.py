"""The best of many settings, and what luck cannot buy."""
