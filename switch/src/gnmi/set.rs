//! The Set request: ports that are shut down or brought up, all of them or none.
//!
//! [`Management`] shuts ports and stores that, as for `wireyard port`; here requests are checked against the tree.

use tonic::Status;

use super::service::{PATHS_MAX, check_origin, text};
use super::tree::{self, Leaf, Tree};
use crate::control::ControlError;
use crate::management::service::Management;
use crate::p4runtime::proto::gnmi::typed_value::Value;
use crate::p4runtime::proto::gnmi::update_result::Operation;
use crate::p4runtime::proto::gnmi::{Path, SetRequest, Update, UpdateResult};
use crate::ports::PortNumber;

/// A port, and whether it is to be up.
pub(super) type Change = (PortNumber, bool);

/// The changes of a request in the order of gNMI, first `replace`, then `update`; and the result of each.
pub(super) fn changes(
    tree: &Tree,
    request: &SetRequest,
) -> Result<(Vec<Change>, Vec<UpdateResult>), Status> {
    if !request.delete.is_empty() || !request.union_replace.is_empty() {
        return Err(Status::unimplemented(
            "nothing is deleted by gNMI, and `union_replace` is not done: `replace` and `update` set interfaces/interface[name=..]/config/enabled",
        ));
    }
    if request.replace.len() + request.update.len() > PATHS_MAX {
        let text = format!("a request has at most {PATHS_MAX} paths");
        return Err(Status::invalid_argument(text));
    }
    let replace = request.replace.iter().map(|update| (update, Operation::Replace));
    let all = replace.chain(request.update.iter().map(|update| (update, Operation::Update)));
    let one = |(update, op): (&Update, Operation)| {
        let result = UpdateResult { path: update.path.clone(), op: op as i32 };
        Ok((change(request.prefix.as_ref(), update, tree)?, result))
    };
    all.map(one).collect()
}

/// The change that an update requests.
fn change(prefix: Option<&Path>, update: &Update, tree: &Tree) -> Result<Change, Status> {
    let path = update.path.clone().unwrap_or_default();
    check_origin(prefix, &path)?;
    let path = tree::join(prefix, &path);
    let place = text(&path);
    if let Some(entry) = tree::settable(&path, tree) {
        let value = update.val.as_ref().and_then(|val| val.value.as_ref());
        let is_up = match value {
            Some(Value::BoolVal(is_up)) => Some(*is_up),
            Some(Value::JsonVal(json) | Value::JsonIetfVal(json)) => {
                serde_json::from_slice(json).ok()
            }
            _ => None,
        };
        let wrong = || Status::invalid_argument(format!("{place} is true or false"));
        return Ok((entry.port, is_up.ok_or_else(wrong)?));
    }
    Err(match tree.under(&path).next().is_some() {
        true => Status::unimplemented(format!(
            "{place} is not set by gNMI: interfaces/interface[name=..]/config/enabled of one interface is, alone"
        )),
        false => Status::not_found(format!("{place} is not there")),
    })
}

/// Makes the changes; if one fails, the ports are set back to their previous state.
pub(super) fn make(
    management: &Management,
    tree: &Tree,
    changes: &[Change],
) -> Result<(), ControlError> {
    for (done, (port, is_up)) in changes.iter().enumerate() {
        if let Err(error) = management.shut_port(*port, !is_up) {
            let was_up = |port: PortNumber| {
                tree.entries()
                    .iter()
                    .any(|entry| entry.port == port && entry.leaf == Leaf::Flag(true))
            };
            for (port, _) in &changes[..done] {
                // The first error is reported already.
                let _ = management.shut_port(*port, !was_up(*port));
            }
            return Err(error);
        }
    }
    Ok(())
}
