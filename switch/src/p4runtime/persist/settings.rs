//! Settings of queues and ports made at run time, in the form of the store.
//!
//! The store has the text of the request (`kmin=100KB`), by port and queue, not its effect: it has the same meaning
//! with a changed configuration. [`crate::management::queues`] interprets it.

use std::collections::{BTreeMap, BTreeSet};

use super::record;
use crate::control::Change;
use crate::ports::PortNumber;

/// Stands for the whole port in place of a queue.
const PORT: u8 = u8::MAX;
/// Pairs of names of which one replaces the other.
const INSTEAD: [(&str, &str); 2] = [("alpha", "limit"), ("xon_at", "xon_below_xoff")];
/// The name of the setting of a port that is shut down by command.
pub const SHUT: &str = "shut";

/// Settings of a port or queue, as `NAME=VALUE`.
pub type OfPlace = (PortNumber, Option<u8>, Vec<String>);

/// Settings by port and queue, each by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    kept: BTreeMap<(PortNumber, u8), BTreeMap<String, String>>,
    /// Settings that could not be applied: they are kept for a configuration to which they apply.
    idle: BTreeSet<(PortNumber, u8, String)>,
}

/// Name and value of a setting.
fn parts(setting: &str) -> Option<(&str, &str)> {
    setting.split_once('=').map(|(name, value)| (name.trim(), value.trim()))
}

impl Settings {
    /// Adds the settings of a record; false if it cannot be read.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> bool {
        let place = <[u8; 3]>::try_from(key).ok();
        let names = serde_json::from_slice(value).ok();
        let read = place.zip(names);
        let is_read = read.is_some();
        if let Some(([high, low, queue], names)) = read {
            self.kept.insert((PortNumber(u16::from_be_bytes([high, low])), queue), names);
        }
        is_read
    }

    /// Sets these settings, as `NAME=VALUE`, of a queue or a port; an empty value removes one. Returns the change to
    /// store.
    pub fn set(&mut self, port: PortNumber, queue: Option<u8>, settings: &[String]) -> Change {
        let queue = queue.unwrap_or(PORT);
        let names = self.kept.entry((port, queue)).or_default();
        for (name, value) in settings.iter().filter_map(|setting| parts(setting)) {
            self.idle.remove(&(port, queue, name.to_owned()));
            for (one, other) in INSTEAD {
                if name == one {
                    names.remove(other);
                } else if name == other {
                    names.remove(one);
                }
            }
            match value {
                "" => _ = names.remove(name),
                value => _ = names.insert(name.to_owned(), value.to_owned()),
            }
        }
        let text = (!names.is_empty()).then(|| serde_json::to_vec(names).unwrap_or_default());
        if text.is_none() {
            self.kept.remove(&(port, queue));
        }
        let [high, low] = port.0.to_be_bytes();
        record::settings(&[high, low, queue], text)
    }

    /// Removes the settings of a removed port and its queues. Returns the changes to store.
    pub fn forget(&mut self, port: PortNumber) -> Vec<Change> {
        let of_port = (port, 0)..=(port, PORT);
        let gone: Vec<(PortNumber, u8)> =
            self.kept.range(of_port).map(|(place, _)| *place).collect();
        for place in &gone {
            self.kept.remove(place);
        }
        self.idle.retain(|(of, ..)| *of != port);
        let [high, low] = port.0.to_be_bytes();
        gone.into_iter().map(|(_, queue)| record::settings(&[high, low, queue], None)).collect()
    }

    /// Notes whether these settings could be applied.
    pub fn note_made(&mut self, (port, queue, settings): &OfPlace, is_made: bool) {
        for (name, _) in settings.iter().filter_map(|setting| parts(setting)) {
            let place = (*port, queue.unwrap_or(PORT), name.to_owned());
            match is_made {
                true => self.idle.remove(&place),
                false => self.idle.insert(place),
            };
        }
    }

    /// All settings: port, queue, and settings in their original text.
    pub fn all(&self) -> Vec<OfPlace> {
        self.those(|_| true)
    }

    /// The settings that are in force, or else those that could not be applied.
    pub fn in_force(&self, are_in_force: bool) -> Vec<OfPlace> {
        self.those(|place| self.idle.contains(place) != are_in_force)
    }

    fn those(&self, is_one: impl Fn(&(PortNumber, u8, String)) -> bool) -> Vec<OfPlace> {
        let of_place = |(&(port, queue), names): (&(PortNumber, u8), &BTreeMap<String, String>)| {
            let wanted = names.iter().filter(|(name, _)| is_one(&(port, queue, (*name).clone())));
            let texts: Vec<String> =
                wanted.map(|(name, value)| format!("{name}={value}")).collect();
            let queue = (queue != PORT).then_some(queue);
            (!texts.is_empty()).then_some((port, queue, texts))
        };
        self.kept.iter().filter_map(of_place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: PortNumber = PortNumber(2);
    const THREE: PortNumber = PortNumber(3);
    const FOUR: PortNumber = PortNumber(4);

    #[test]
    fn settings_are_those_of_the_last_request_for_each_name() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut settings = Settings::default();
        settings.set(TWO, Some(3), &words("kmin=10KB alpha=1/8 xon_at=5KB"));
        settings.set(TWO, Some(3), &words("limit=1MB xon_below_xoff=1KB"));
        let (key, value) = settings.set(TWO, None, &words("rate=1Gbit/s"));
        let all = settings.all();
        let expected = words("kmin=10KB limit=1MB xon_below_xoff=1KB");
        assert_eq!(all, [(TWO, Some(3), expected), (TWO, None, words("rate=1Gbit/s"))]);
        let mut read = Settings::default();
        assert!(read.add(&key[1..], &value.unwrap()));
        assert_eq!(read.all(), [(TWO, None, words("rate=1Gbit/s"))]);
        settings.set(FOUR, None, &words("shut=true rate=1Gbit/s"));
        settings.note_made(&(FOUR, None, words("rate=1Gbit/s")), false);
        assert_eq!(settings.in_force(true).last(), Some(&(FOUR, None, words("shut=true"))));
        assert_eq!(settings.in_force(false), [(FOUR, None, words("rate=1Gbit/s"))]);
        settings.set(FOUR, None, &words("rate=2Gbit/s"));
        assert_eq!(settings.in_force(false), []);
        settings.set(FOUR, None, &words("rate="));
        assert_eq!(settings.set(FOUR, None, &words("shut=")).1, None);
        assert_eq!(settings.all().len(), 2);
        settings.set(THREE, Some(0), &words("kmin=10KB"));
        let gone = settings.forget(TWO);
        assert!(gone.iter().all(|(_, value)| value.is_none()), "{gone:?}");
        assert_eq!(
            gone.iter().map(|(key, _)| &key[1..]).collect::<Vec<_>>(),
            [[0, 2, 3], [0, 2, PORT]]
        );
        assert_eq!(settings.all(), [(THREE, Some(0), words("kmin=10KB"))]);
        assert!(!read.add(b"x", b"{}"));
        assert!(!read.add(&[0, 1, 2], b"no"));
        assert_eq!(read.all().len(), 1);
    }
}
