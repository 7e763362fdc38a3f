"""A support agent: it reads a customer's message, looks up the order, and asks a person before it refunds."""
