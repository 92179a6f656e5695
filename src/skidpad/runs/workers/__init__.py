"""Who computes a campaign: this process, local processes, or Ray."""
