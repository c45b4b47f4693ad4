"""What a model that reviews data and signals answers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Issue", "ReviewReply"]


class Issue(BaseModel):
    """One thing that a model found."""

    model_config = ConfigDict(extra="ignore")

    severity: Literal["error", "warning", "info"]
    message: str


class ReviewReply(BaseModel):
    """All that it found; what else it says decides nothing."""

    model_config = ConfigDict(extra="ignore", title="Review")

    issues_found: list[Issue] = Field(default_factory=list)
