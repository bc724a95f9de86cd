"""Words: sentences, headlines, numbers and notes as people read them."""
