"""How much of a subject's neurons a campaign has exercised: criteria, profiles and mergeable state."""
