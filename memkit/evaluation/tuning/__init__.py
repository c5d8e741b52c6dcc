"""The choice of a setting among many, with selective inference on its gain."""
