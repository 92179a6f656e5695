"""`skidpad duel`: an adversary in front that learns to make the ego crash, and an ego that learns back."""
