"""The parts of the warm runner. They know no engine: what is imported ahead is named when it is started."""
