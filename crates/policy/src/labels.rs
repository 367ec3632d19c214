//! Information-flow labels: where data came from, and where it must not go unseen.
