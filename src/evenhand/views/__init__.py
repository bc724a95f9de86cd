"""Dataframe in, roles checked, lazy table out. Only columns that a role names go further, under names of our own."""
