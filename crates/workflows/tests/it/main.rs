//! Workflows from outside: what a graph is, what is found wrong with it, and that nothing around it changes its shape.

mod checks;
mod stable;
mod surroundings;
