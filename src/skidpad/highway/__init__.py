"""The two-vehicle highway: engine, opponents, rewards, learners, avoidability."""
