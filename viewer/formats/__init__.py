"""Numbers, sizes, money, durations and times as texts, each in one format, in the language of the reader."""
