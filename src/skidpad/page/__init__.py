"""One page for every kind of campaign, and its writers: HTML, terminal, Markdown, JUnit."""
