"""The ways to run a DeepTest campaign that `campaign.py` compares, each written as its users would write it."""
