"""A document in each form that people and tools take: markdown, HTML, SARIF, JUnit, a step summary. May import words, plots and cards."""
