//! Wall-clock time, for data that leaves the process: captures, notices to controllers. Devices have a clock of their
//! own.

use std::time::SystemTime;

/// Nanoseconds since 1970; 0 if the machine's clock is before that.
pub(crate) fn now_ns() -> u64 {
    let day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(day.as_nanos()).unwrap_or(u64::MAX)
}

/// The same, in the type of the messages of P4Runtime and gNMI.
pub(crate) fn signed_ns() -> i64 {
    i64::try_from(now_ns()).unwrap_or(i64::MAX)
}
