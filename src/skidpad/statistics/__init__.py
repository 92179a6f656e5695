"""Tests of difference, effect sizes, intervals and distances; every result is a value with names."""
