"""OfflineVsOnline offline and online testing (ICST 2020): RQ0, RQ1 and what lies beyond them."""
