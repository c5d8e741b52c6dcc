"""What a writer of a layout is written with: ``write(job)``, which `memkit.export` then reads back and compares.

A layout of pages is ``write = pages(head)``, where ``head(group, job)`` is the front matter of one page. Any other
goes through ``job.groups`` by itself, and fills ``job.out``: files, places, and what it refused with its reason.
"""

from memkit.base import room

__all__, __getattr__ = room(__name__, __file__)
