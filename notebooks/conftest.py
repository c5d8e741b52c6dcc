"""Outputs are compared, and a progress bar says how busy the machine was."""

import os

os.environ["TQDM_DISABLE"] = "1"
