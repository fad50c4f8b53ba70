//!
fn main() {}
