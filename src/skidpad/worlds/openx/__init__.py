"""Scenarios as OpenDRIVE and OpenSCENARIO files."""
