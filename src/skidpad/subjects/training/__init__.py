"""Training networks of the zoo on drives."""
