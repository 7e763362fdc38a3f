"""What a person sees before a start: the plan, the findings, and what is redacted."""
