"""The kinds of campaigns, a folder each: settings, records, work, page, replay, shrinking, evidence."""
