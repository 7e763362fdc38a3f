"""Starts the crew. Run it in this folder."""

from crew import PriceWatch

if __name__ == "__main__":
    report = PriceWatch().crew().kickoff(inputs={"product": "kettles", "shops": 3, "currency": "EUR"})
    print(report)
