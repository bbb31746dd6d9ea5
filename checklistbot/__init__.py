"""checklistbot: the gate in front of a self-hosted LLM."""

__version__ = "0.1.0"
