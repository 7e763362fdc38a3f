from crewai.tools import BaseTool


class Tickets(BaseTool):
    name: str = "tickets"
    description: str = "Tells what a sight costs."

    def _run(self, sight: str) -> str:
        return f"{sight} costs 5"
