"""One file per question: each assembles the layers below into a Result."""
