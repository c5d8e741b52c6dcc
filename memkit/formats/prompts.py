"""Prompts of hosts: what a host shows its agent of the memories, beside the blocks that `ContextBuilder` fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any

from memkit.base.params import Param
from memkit.base.plugins import Plugins
from memkit.errors import ParameterError


@dataclass(frozen=True)
class Prompt:
    """How a host shows memories of its layout, as ``ContextBuilder(host=name)`` does then.

    Attributes
    ----------
    name : str
        The layout, and the value of ``host``.
    about : str
        What is shown, within a sentence.
    show : callable or str
        ``show(corpus, rows, moment, **params) -> Context``; `rows` are the memories of the layout, in order. As
        ``"module:function"`` it is imported when a prompt is shown.
    params : dict of str to Param
        Its parameters, which are `ContextBuilder`'s then.
    """

    name: str
    about: str
    show: Callable[..., Any] | str
    params: Mapping[str, Param] = field(default_factory=dict)

    def shown(self, *given: Any, **params: Any) -> Any:
        """What `show` returns."""
        show = EntryPoint(self.name, self.show, PROMPTS.group).load() if isinstance(self.show, str) else self.show
        return show(*given, **params)


def _checked(name: str, prompt: Any) -> Prompt:
    if not isinstance(prompt, Prompt) or prompt.name != name:
        raise ParameterError(f"expected a memkit.extend.Prompt with the name {name!r}. Got {prompt!r:.80}.")
    return prompt


PROMPTS = Plugins("memkit.prompts", _checked)
