//! Converts entities of P4Runtime to and from those of the control handle. It accesses no device.

pub mod action;
pub mod entry;
pub mod objects;
pub mod replication;

use super::value::{ValueError, number};
use crate::control::{ControlError, invalid};

/// The result of a translation.
pub type Result<T> = std::result::Result<T, ControlError>;

/// A number from a bytestring of a width; `what` names it in the error.
pub(super) fn bits(bytes: &[u8], bits: u32, what: impl FnOnce() -> String) -> Result<u128> {
    number(bytes, bits)
        .map_err(|error: ValueError| ControlError::OutOfRange(format!("{}: {error}", what())))
}

/// A number that must not be negative; `what` names it in the error.
fn unsigned(value: i64, what: &str) -> Result<u64> {
    u64::try_from(value).or_else(|_| invalid(format!("{what} is {value}; it cannot be negative")))
}
