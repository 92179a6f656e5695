"""The worst look of a learned weather, searched for: `skidpad weather search` (TACTIC)."""
