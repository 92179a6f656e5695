"""The crash-safe run folder: records, findings, resume and replay."""
