"""What changes a picture before a network sees it."""
