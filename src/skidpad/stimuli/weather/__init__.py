"""Weather learned from pictures: translation networks after UNIT and MUNIT, their training, and their files."""
