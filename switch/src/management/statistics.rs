//! The counters of a switch, in one document.

use serde_json::Value;

use crate::control::{Control, ControlError};
use crate::core::EntriesShown;
use crate::p4runtime::device::Device;
use crate::p4runtime::proto::wireyard::v1 as wire;

/// All counters, as `run --json` prints them, except those of the kernel synchronisation (`linux`); with a device also
/// those of its controllers and store.
///
/// # Errors
/// A worker does not respond.
pub fn read(
    control: &Control,
    device: Option<&Device>,
    request: &wire::StatisticsRequest,
) -> Result<Value, ControlError> {
    let internal = |error: serde_json::Error| ControlError::Internal(error.to_string());
    let mut counted = control.statistics()?;
    device.into_iter().for_each(|device| device.report(&mut counted));
    let mut all = serde_json::to_value(counted).map_err(internal)?;
    all["time_ns"] = control.now().as_ns().into();
    all["waits"] = serde_json::to_value(control.waits()?).map_err(internal)?;
    if request.entries > 0 {
        let shown = EntriesShown::Most(request.entries as usize);
        all["entry_counters"] =
            serde_json::to_value(control.entry_counters(shown)).map_err(internal)?;
    }
    if request.clear_watermarks {
        control.clear_watermarks()?;
    }
    Ok(all)
}
