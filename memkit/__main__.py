"""``python -m memkit``."""

from memkit.cli import main

if __name__ == "__main__":
    main()
