"""A kernel in a process that was forked for it: `notebooks/conftest.py` runs this there."""

import os
import sys

import matplotlib
import pandas
from ipykernel.kernelapp import IPKernelApp

arguments, folder, environment = given  # noqa: F821  # runpy.run_path sets it

os.setsid()  # a group of its own, which is killed as a whole
os.chdir(folder)
os.environ.clear()
os.environ.update(environment)
# What was imported without a shell takes itself to be in a terminal: memkit shows no results there, pandas as many
# columns as are wide enough, and Matplotlib no picture.
sys.modules.pop("memkit", None)
pandas.set_option("display.max_columns", 20)
matplotlib.use("module://matplotlib_inline.backend_inline")
# The kernel ends with the process that it was forked from.
IPKernelApp.launch_instance([*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])
