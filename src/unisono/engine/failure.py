"""One failure of a plug-in, and what stands for its answer in verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from unisono.engine.answers import Reason, Refusal
from unisono.engine.verdict import Cause


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a plug-in.

    Attributes:
        plugin, hook: which.
        subject: what it was asked about, such as ``job ns/train``.
        error: the error in one short sentence.
        closed: what it was asked about was refused for that.

    """

    plugin: str
    hook: str
    subject: str
    error: str
    closed: bool

    def message(self, subject: str = "") -> str:
        """One sentence; ``subject`` in place of the failure's own."""
        about = subject or self.subject
        return f"plug-in {self.plugin} failed in {self.hook}{f' for {about}' if about else ''}: {self.error}"

    def refusal(self) -> Refusal:
        """The answer of a gate or a quota, also to other jobs than the one that was asked about as an example."""
        return Refusal(self.message(self.subject.partition(" of job ")[0]), Cause.PLUGIN_FAILED)

    def reason(self) -> Reason:
        """The answer of a filter."""
        return Reason(f"plug-in {self.plugin} failed in {self.hook}", unresolvable=True, cause=Cause.PLUGIN_FAILED)
