"""Many sessions at once: the account's arithmetic compiled with numba, equal to one session at a time."""
