"""Start-up logs and live endpoints → facts."""
