"""A paged-KV server with switchable faults that speaks the OpenAI API: what the probe, gateways and dashboards are tried on.

KV pages are not zeroed between requests and the "model" answers only from the slots that a request can see, so a hand-off of
one page out of thousands really answers from other tenants' text. Nothing here reads the real time or real randomness.
"""
