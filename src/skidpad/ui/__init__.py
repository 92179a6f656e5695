"""The local page over a folder of runs: look, filter, compare, tag; and the realism questionnaire."""
