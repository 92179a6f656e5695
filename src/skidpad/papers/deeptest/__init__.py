"""DeepTest's five research questions on a given subject and drive."""
