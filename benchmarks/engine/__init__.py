"""Speed, memory and growth of the decode engine, each measured in a fresh process."""
