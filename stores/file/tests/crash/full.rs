//! A disk that is full, for a process that goes on: a limit on the size of its
//! files, which its parent lifts.
