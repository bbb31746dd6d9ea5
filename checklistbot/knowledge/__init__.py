"""Data that a domain expert edits without Python, and its typed readers. One advisory a file; the registry is the folder."""

from __future__ import annotations

from checklistbot.knowledge.advisory import LANGUAGES, Advisory, Tier, advisories

__all__ = ["LANGUAGES", "Advisory", "Tier", "advisories"]
