//! The stream of messages to each controller.
//!
//! Each stream has a bounded queue of messages to its controller. A controller that does not read loses packets and
//! notices, which the sender counts; if it would lose an arbitration update, its stream is closed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::mpsc::Sender;
use tonic::Status;

use super::arbitration::{Notice, Standing, StreamId};
use super::device::election_message;
use super::proto::google::rpc::Status as RpcStatus;
use super::proto::p4::v1 as p4;
use crate::sync;
use p4::stream_message_response::Update;

/// Maximum number of messages that wait for a controller.
pub const WAITING_MAX: usize = 4096;

/// A message to a controller, or the status that ends its stream.
pub type Message = Result<p4::StreamMessageResponse, Status>;

/// All open streams.
#[derive(Debug, Default)]
pub struct Streams {
    senders: Mutex<BTreeMap<StreamId, Sender<Message>>>,
}

impl Streams {
    fn senders(&self) -> MutexGuard<'_, BTreeMap<StreamId, Sender<Message>>> {
        sync::lock(&self.senders)
    }

    /// Adds a new stream.
    pub fn add(&self, id: StreamId, sender: Sender<Message>) {
        self.senders().insert(id, sender);
    }

    /// Removes a stream that ended.
    pub fn remove(&self, id: StreamId) {
        self.senders().remove(&id);
    }

    /// Sends these notices to their controllers, in order.
    pub fn notify(&self, device: u64, notices: Vec<Notice>) {
        let mut senders = self.senders();
        for notice in notices {
            let stream = notice.stream;
            let Some(sender) = senders.get(&stream) else { continue };
            if sender.try_send(Ok(arbitration(device, notice))).is_err() {
                senders.remove(&stream);
            }
        }
    }

    /// Sends a message that may be lost: false if the queue is full or the stream is closed.
    pub fn send(&self, id: StreamId, update: Update) -> bool {
        let senders = self.senders();
        let Some(sender) = senders.get(&id) else { return false };
        sender.try_send(Ok(p4::StreamMessageResponse { update: Some(update) })).is_ok()
    }
}

/// The message with the standing of a controller. For a primary the status is OK, which is also the meaning of a
/// message without a status.
fn arbitration(device_id: u64, notice: Notice) -> p4::StreamMessageResponse {
    let status = |code: tonic::Code, message: &str| {
        Some(RpcStatus { code: code as i32, message: message.into(), details: Vec::new() })
    };
    let status = match notice.standing {
        Standing::Primary => None,
        Standing::Backup => status(tonic::Code::AlreadyExists, "another controller is primary"),
        Standing::BackupWithoutPrimary => status(tonic::Code::NotFound, "no controller is primary"),
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
