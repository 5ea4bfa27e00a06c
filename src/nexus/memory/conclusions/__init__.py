"""What is concluded from facts: observations and mental models, in versions, each with what it rests on."""
