"""Is a changed picture still the same scene, and one that a camera could take?"""
