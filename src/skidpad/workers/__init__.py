"""Who computes: this process, local processes or a Ray cluster, behind one interface and with one result."""
