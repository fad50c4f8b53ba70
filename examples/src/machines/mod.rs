//! The machines that the techniques are compared with: a simulated chip, an out-of-order core, the testbed of
//! the pirate; and what is known of the machine at hand.

pub mod chip;
pub mod host;
pub mod ooo;
mod random;
pub mod resctrl;
pub mod testbed;
