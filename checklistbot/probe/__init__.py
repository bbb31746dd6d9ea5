"""The probe: canaries, limit-length prompts and the oracles that read the answers, against a live endpoint.

It sends what the pre-launch test of the incident left out, and judges what the answers say, not their status.
"""
