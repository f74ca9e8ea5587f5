//! Notices of a switch as documents: digests, packets to the CPU port, idle entries and events.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tonic::Status;
use wireyard_pipeline::trace::names::{hex, value};

use super::show;
use crate::control::{
    Control, ControlError, DeviceEvent, Entity, Interest, Notice, NoticeKind, Stream,
};
use crate::p4runtime::proto::wireyard::v1 as wire;

/// Maximum number of notices of each worker that wait for a client; more are lost and counted.
const WAITING_MAX: usize = 4096;
/// Number of documents in one message.
const TOGETHER: usize = 256;

/// Subscribes to notices.
///
/// # Errors
/// The request selects nothing, or the device has ended.
pub fn listen(control: &Control, wanted: &wire::WatchRequest) -> Result<Stream, ControlError> {
    let wire::WatchRequest { events, digests, packets, idle } = *wanted;
    let interest = Interest { digests, packets, idle, events };
    if interest == Interest::default() {
        return Err(ControlError::invalid("the request asks for nothing"));
    }
    control.subscribe(interest, WAITING_MAX)
}

/// A notice as a document.
fn document(notice: &Notice) -> Value {
    let mut shown = json!({ "time_ns": notice.time.as_ns(), "worker": notice.worker });
    match &notice.kind {
        NoticeKind::Digest(digest) => {
            let declared = digest.program.digests.get(digest.digest);
            let fields = declared.iter().flat_map(|digest| &digest.fields).zip(&digest.values);
            let fields: Map<String, Value> = fields
                .map(|(field, v)| (field.name.clone(), value(field.display, field.bits, *v).into()))
                .collect();
            shown["digest"] = declared.map(|digest| digest.name.clone()).into();
            shown["fields"] = fields.into();
        }
        NoticeKind::Packet(packet) => {
            shown["packet"] = packet.reason.clone().into();
            shown["ingress_port"] = packet.ingress_port.0.into();
            shown["bytes"] = hex(&packet.bytes).into();
        }
        NoticeKind::Idle(idle) => {
            let entry = Entity::TableEntry(idle.entry());
            shown["idle"] = show::entity(&idle.program, &entry).into();
            shown["removed"] = idle.idle.removed.into();
        }
        NoticeKind::Event(event) => self::event(&mut shown, event),
    }
    shown
}

fn event(shown: &mut Value, event: &DeviceEvent) {
    shown["event"] = event.name().into();
    match event {
        DeviceEvent::Link { port, state } => {
            (shown["port"], shown["link"]) = (port.0.into(), state.name().into());
        }
        DeviceEvent::PauseStorm { port, queue, over } => {
            (shown["port"], shown["queue"]) = (port.map(|port| port.0).into(), (*queue).into());
            shown["over"] = (*over).into();
        }
        DeviceEvent::TableFull { table, over } => {
            (shown["table"], shown["over"]) = (table.clone().into(), (*over).into());
        }
        DeviceEvent::Program { name } => {
            shown["program"] = name.clone().into();
        }
    }
}

/// Passes on notices until the client disconnects, the device ends, or the client reads none of the waiting ones for
/// `patience`.
pub async fn pass_on(
    mut stream: Stream,
    to: mpsc::Sender<Result<wire::Documents, Status>>,
    patience: Duration,
) {
    let mut lost = 0;
    loop {
        let notice = tokio::select! {
            notice = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)) => notice,
            () = to.closed() => return,
        };
        let Some(notice) = notice else { return };
        let mut json = vec![document(&notice).to_string()];
        while json.len() < TOGETHER
            && let Some(notice) = stream.try_next()
        {
            json.push(document(&notice).to_string());
        }
        if stream.lost() > lost {
            json.push(json!({ "lost": stream.lost() - lost }).to_string());
            lost = stream.lost();
        }
        let sent = tokio::time::timeout(patience, to.send(Ok(wire::Documents { json }))).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}
