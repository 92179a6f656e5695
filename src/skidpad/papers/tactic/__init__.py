"""TACTIC: critical conditions of learned weathers, the paper's tables beside ours."""
