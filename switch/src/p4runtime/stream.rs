//! The stream of messages to each controller.
//!
//! Each stream has a bounded queue of messages to its controller. A controller that does not read loses packets and
//! notices, which the sender counts; if it would lose an arbitration update, its stream is closed: it is then no
//! primary any more, and finds the end behind the messages that wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tonic::Status;

use super::arbitration::{Notice, Standing, StreamId, without_primary};
use super::device::election_message;
use super::proto::google::rpc::Status as RpcStatus;
use super::proto::p4::v1 as p4;
use crate::sync;
use p4::stream_message_response::Update;

/// Maximum number of messages that wait for a controller.
pub const WAITING_MAX: usize = 4096;

/// A message to a controller, or the status that ends its stream.
pub type Message = Result<p4::StreamMessageResponse, Status>;

/// An open stream.
#[derive(Debug)]
struct Open {
    sender: Sender<Message>,
    /// Notified when a message was lost that its controller needs.
    closed: Arc<Notify>,
}

/// All open streams.
#[derive(Debug, Default)]
pub struct Streams {
    open: Mutex<BTreeMap<StreamId, Open>>,
}

impl Streams {
    fn open(&self) -> MutexGuard<'_, BTreeMap<StreamId, Open>> {
        sync::lock(&self.open)
    }

    /// Adds a new stream. It is to be closed when the returned value is notified.
    pub fn add(&self, id: StreamId, sender: Sender<Message>) -> Arc<Notify> {
        let closed = Arc::<Notify>::default();
        self.open().insert(id, Open { sender, closed: Arc::clone(&closed) });
        closed
    }

    /// Removes a stream that ended.
    pub fn remove(&self, id: StreamId) {
        self.open().remove(&id);
    }

    /// Sends these notices to their controllers, in order.
    pub fn notify(&self, device: u64, notices: Vec<Notice>) {
        let mut open = self.open();
        for notice in notices {
            let stream = notice.stream;
            let Some(Open { sender, closed }) = open.get(&stream) else { continue };
            if sender.try_send(Ok(arbitration(device, notice))).is_err() {
                closed.notify_one();
                open.remove(&stream);
            }
        }
    }

    /// Sends a message that may be lost: false if the queue is full or the stream is closed.
    pub fn send(&self, id: StreamId, update: Update) -> bool {
        let open = self.open();
        let Some(Open { sender, .. }) = open.get(&id) else { return false };
        sender.try_send(Ok(p4::StreamMessageResponse { update: Some(update) })).is_ok()
    }
}

/// The message with the standing of a controller. For a primary the status is OK, which is also the meaning of a
/// message without a status.
fn arbitration(device_id: u64, notice: Notice) -> p4::StreamMessageResponse {
    let status = |code: tonic::Code, message: String| {
        Some(RpcStatus { code: code as i32, message, details: Vec::new() })
    };
    let status = match notice.standing {
        Standing::Primary => None,
        Standing::Backup => {
            status(tonic::Code::AlreadyExists, "another controller is primary".into())
        }
        Standing::BackupWithoutPrimary => {
            status(tonic::Code::NotFound, without_primary(notice.election, &notice.role))
        }
    };
    let role = (!notice.role.is_empty())
        .then(|| p4::Role { name: notice.role.clone(), ..Default::default() });
    let update = p4::MasterArbitrationUpdate {
        device_id,
        role,
        election_id: election_message(notice.election),
        status,
    };
    p4::StreamMessageResponse { update: Some(Update::Arbitration(update)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_would_lose_a_notice_is_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(closed_when_full());
    }

    async fn closed_when_full() {
        let streams = Streams::default();
        let (sender, mut messages) = tokio::sync::mpsc::channel(1);
        let stream = StreamId(1);
        let notice = || {
            let (role, standing) = (String::new(), Standing::Backup);
            vec![Notice { stream, role, standing, election: None }]
        };
        let closed = streams.add(stream, sender);
        streams.notify(1, notice());
        // The queue is full.
        streams.notify(1, notice());
        let patience = std::time::Duration::from_secs(20);
        tokio::time::timeout(patience, closed.notified()).await.unwrap();
        assert!(messages.recv().await.is_some());
        assert!(messages.recv().await.is_none(), "nothing sends to it any more");
    }
}
