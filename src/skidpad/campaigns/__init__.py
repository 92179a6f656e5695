"""The jobs, composed from the parts."""
