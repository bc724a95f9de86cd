"""Results that are kept day by day: the file, what is read from it, and when to raise an alarm."""
