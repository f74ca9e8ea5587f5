//! Messages of a device: a text for people, and a topic with numbers for programs that read the log.

use std::fmt;

use super::notice::DeviceEvent;

use crate::ports::PortNumber;

/// The subject of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// An event, which is also sent to subscribers of the control handle.
    Event(DeviceEvent),
    /// A finding of a port.
    Port(PortNumber),
    /// An error of a port: it cannot send, receive or write.
    PortError(PortNumber),
    /// A capture cannot be written.
    Capture,
    /// A table has idle entries.
    IdleEntries,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its subject.
    pub topic: Topic,
    /// The text.
    pub text: String,
}

impl Message {
    pub(super) fn new(topic: Topic, text: String) -> Message {
        Message { topic, text }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::ops::Deref for Message {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq<&str> for Message {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}
