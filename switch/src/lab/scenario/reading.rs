//! An item of traffic that is being read: its keys, and what their values refer to.

use wireyard_pipeline::diag::{Code, Files};
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::Node;
use wireyard_tables::time::Time;

use super::rate_control::Controls;
use super::sheets::Sheets;
use crate::lab::fabric::Fabric;

/// What values of an item refer to.
pub(super) struct Context<'a> {
    pub(super) fabric: &'a Fabric,
    /// The end of the run.
    pub(super) end: Time,
    /// Files of flows that it names.
    pub(super) sheets: &'a Sheets,
    pub(super) files: &'a Files,
    /// Rate controls that it names.
    pub(super) controls: &'a Controls,
}

/// The keys of an item.
pub(super) struct Reading<'r, 'd> {
    pub(super) decoder: &'r mut Decoder<'d>,
    pub(super) fields: &'r Fields<'r>,
    pub(super) context: &'r Context<'r>,
}

impl<'r> Reading<'r, '_> {
    pub(super) fn get(&self, key: &str) -> Option<&'r Node> {
        self.fields.get(key)
    }

    /// The value of a key, if it is given.
    pub(super) fn given<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Decoder<'_>, &Node) -> Option<T>,
    ) -> Option<Option<T>> {
        self.get(key).map_or(Some(None), |node| read(self.decoder, node).map(Some))
    }

    /// The value of a key, or `absent`.
    pub(super) fn given_or<T>(
        &mut self,
        key: &str,
        absent: T,
        read: impl FnOnce(&mut Decoder<'_>, &Node) -> Option<T>,
    ) -> Option<T> {
        self.given(key, read).map(|given| given.unwrap_or(absent))
    }

    /// Refuses the item as a whole.
    pub(super) fn refuse<T>(&mut self, code: Code, message: impl Into<String>) -> Option<T> {
        self.decoder.refuse(code, self.fields.span, message)
    }

    /// Refuses a key that excludes another.
    pub(super) fn exclude<T>(&mut self, one: &str, other: &str) -> Option<T> {
        self.decoder.exclude(self.fields, one, other);
        None
    }
}
