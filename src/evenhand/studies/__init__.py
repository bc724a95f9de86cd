"""The seeds' studies, rerun: what each paper states beside what comes out here, also where it does not."""
