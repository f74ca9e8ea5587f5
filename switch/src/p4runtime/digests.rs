//! Digests: lists of messages that a controller configured and acknowledges (P4Runtime specification 1.5, section 9.6).
//!
//! A state machine without streams and clocks. Messages of a digest are sent in lists: when `max_list_size` wait, or
//! the oldest has waited for `max_timeout_ns`. Values that were sent are not sent again until their list is
//! acknowledged, or `ack_timeout_ns` has passed. Timeouts are in nanoseconds, as controllers write and read them.

use std::collections::{BTreeMap, HashSet};

use wireyard_pipeline::ids::{DigestId, Id};
use wireyard_pipeline::ir::{self, Program};
use wireyard_tables::time::{Deadline, Span, Time};

use crate::control::ControlError;

/// Maximum number of values of a digest that wait for an acknowledgement; more are sent without being stored.
const UNACKNOWLEDGED_MAX: usize = 1 << 16;
/// Maximum number of messages in a list, also where the controller sets none.
const LIST_MAX: usize = 1024;

/// The configuration of a digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Longest time that the first message of a list waits, in nanoseconds; 0 sends each message at once.
    pub max_timeout_ns: u64,
    /// Maximum number of messages in a list; 0 for the default.
    pub max_list_size: usize,
    /// Time without an acknowledgement after which values may be sent again, in nanoseconds.
    pub ack_timeout_ns: u64,
}

/// A list to be sent to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The digest.
    pub digest: DigestId,
    /// The number of the list.
    pub id: u64,
    /// The messages: one value for each field.
    pub messages: Vec<Vec<u128>>,
}

/// Outcomes of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigestCounts {
    /// Messages that wait for their list.
    pub waiting: u64,
    /// Messages that wait for an acknowledgement.
    pub unacknowledged: u64,
    /// Lists that were sent.
    pub lists: u64,
    /// Messages in these lists.
    pub sent: u64,
    /// Messages of acknowledged lists, of digests with an `ack_timeout_ns`: those of others are not stored.
    pub acknowledged: u64,
    /// Messages of lists that were not acknowledged in time.
    pub expired: u64,
    /// Messages of lists that no controller received.
    pub dropped: u64,
}

#[derive(Clone, Debug, Default)]
struct Digest {
    config: Config,
    waiting: Vec<Vec<u128>>,
    /// When the first of these was added.
    since: Time,
    /// Lists without an acknowledgement, with the time they were sent.
    sent: BTreeMap<u64, (Time, Vec<Vec<u128>>)>,
    /// The values in them.
    known: HashSet<Vec<u128>>,
    /// Counts that never decrease; `waiting` and `unacknowledged` are computed from the lists.
    counts: DigestCounts,
}

/// Digests that controllers configured.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    digests: BTreeMap<DigestId, Digest>,
    lists: u64,
}

type Result<T> = std::result::Result<T, ControlError>;

impl Digests {
    /// Sends messages of this digest from now on.
    ///
    /// # Errors
    /// [`ControlError::AlreadyExists`].
    pub fn insert(&mut self, digest: DigestId, config: Config) -> Result<()> {
        if self.digests.contains_key(&digest) {
            return Err(ControlError::AlreadyExists("the digest is configured already".into()));
        }
        self.digests.insert(digest, Digest { config, ..Digest::default() });
        Ok(())
    }

    /// Changes the configuration of this digest.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn modify(&mut self, digest: DigestId, config: Config) -> Result<()> {
        self.find(digest)?.config = config;
        Ok(())
    }

    /// Stops sending messages of this digest.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn delete(&mut self, digest: DigestId) -> Result<()> {
        self.find(digest)?;
        self.digests.remove(&digest);
        Ok(())
    }

    /// Continues after a program was replaced: digests of the same name and fields keep configuration and waiting
    /// messages; the others are not configured any more. A program has a digest of this name for each place that sends
    /// it: all places have the configuration, also where the new program has more of them.
    pub fn adopt(&mut self, old: &Program, new: &Program) {
        let is_same = |was: &ir::Digest, now: &ir::Digest| {
            let fields = |digest: &ir::Digest| -> Vec<_> {
                digest.fields.iter().map(|field| (field.name.clone(), field.bits)).collect()
            };
            now.name == was.name && fields(now) == fields(was)
        };
        let mut all = std::mem::take(&mut self.digests);
        let configs: Vec<_> = all.iter().map(|(id, digest)| (*id, digest.config)).collect();
        for (place, now) in new.digests.iter().enumerate() {
            let is_match = |id: DigestId| old.digests.get(id).is_some_and(|was| is_same(was, now));
            let next = all.keys().copied().find(|id| is_match(*id));
            let config = configs.iter().find(|(id, _)| is_match(*id)).map(|(_, config)| *config);
            let kept = next.and_then(|id| all.remove(&id));
            let kept = kept.or(config.map(|config| Digest { config, ..Digest::default() }));
            self.digests.extend(kept.map(|digest| (DigestId::new(place), digest)));
        }
    }

    /// Removes all configurations.
    pub fn clear(&mut self) {
        self.digests.clear();
    }

    fn find(&mut self, digest: DigestId) -> Result<&mut Digest> {
        let found = self.digests.get_mut(&digest);
        found.ok_or_else(|| ControlError::NotFound("the digest is not configured".into()))
    }

    /// The configured digests.
    pub fn configs(&self) -> impl Iterator<Item = (DigestId, Config)> + '_ {
        self.digests.iter().map(|(id, digest)| (*id, digest.config))
    }

    /// Counts of the configured digests.
    pub fn counts(&self) -> BTreeMap<DigestId, DigestCounts> {
        let of = |(id, one): (&DigestId, &Digest)| {
            let (waiting, unacknowledged) = (one.waiting.len() as u64, one.known.len() as u64);
            (*id, DigestCounts { waiting, unacknowledged, ..one.counts })
        };
        self.digests.iter().map(of).collect()
    }

    /// Counts a list that no controller received; nobody will acknowledge it, and its values may be sent again.
    pub fn dropped(&mut self, list: &List) {
        if let Some(one) = self.digests.get_mut(&list.digest) {
            one.counts.dropped += list.messages.len() as u64;
            if let Some((_, messages)) = one.sent.remove(&list.id) {
                messages.iter().for_each(|values| _ = one.known.remove(values));
            }
        }
    }

    /// Adds a message of the program for a list, unless its values wait or were sent and not acknowledged.
    pub fn add(&mut self, digest: DigestId, values: Vec<u128>, now: Time) {
        let Some(found) = self.digests.get_mut(&digest) else { return };
        found.expire(now);
        if found.known.contains(&values) || found.waiting.contains(&values) {
            return;
        }
        if found.waiting.is_empty() {
            found.since = now;
        }
        found.waiting.push(values);
    }

    /// Lists to be sent now.
    pub fn due(&mut self, now: Time) -> Vec<List> {
        let mut lists = Vec::new();
        for (id, digest) in &mut self.digests {
            digest.expire(now);
            let most = match digest.config.max_list_size {
                0 => LIST_MAX,
                size => size.min(LIST_MAX),
            };
            while digest.waiting.len() >= most || digest.next_due().is_by(now) {
                let rest = digest.waiting.split_off(most.min(digest.waiting.len()));
                let messages = std::mem::replace(&mut digest.waiting, rest);
                self.lists += 1;
                digest.counts.lists += 1;
                digest.counts.sent += messages.len() as u64;
                digest.await_acknowledgement(self.lists, &messages, now);
                lists.push(List { digest: *id, id: self.lists, messages });
            }
        }
        lists
    }

    /// When [`Digests::due`] returns a list next, if no message is added.
    pub fn next_due(&self) -> Deadline {
        self.digests.values().map(Digest::next_due).min().unwrap_or(Deadline::NEVER)
    }

    /// Acknowledges a list. Doing so twice has no effect.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: the digest is not configured.
    pub fn acknowledge(&mut self, digest: DigestId, list: u64) -> Result<()> {
        let found = self.find(digest)?;
        if let Some((_, messages)) = found.sent.remove(&list) {
            found.counts.acknowledged += messages.len() as u64;
            messages.iter().for_each(|values| _ = found.known.remove(values));
        }
        Ok(())
    }
}

impl Digest {
    /// When its messages are sent although their list is not full.
    fn next_due(&self) -> Deadline {
        match self.waiting.is_empty() {
            true => Deadline::NEVER,
            false => Deadline::at(self.since + Span::from_ns(self.config.max_timeout_ns)),
        }
    }

    fn await_acknowledgement(&mut self, list: u64, messages: &[Vec<u128>], now: Time) {
        if self.config.ack_timeout_ns == 0 || self.known.len() >= UNACKNOWLEDGED_MAX {
            return;
        }
        self.known.extend(messages.iter().cloned());
        self.sent.insert(list, (now, messages.to_vec()));
    }

    /// Removes values whose acknowledgement did not arrive in time, so that they may be sent again.
    fn expire(&mut self, now: Time) {
        let timeout = Span::from_ns(self.config.ack_timeout_ns);
        while let Some(first) = self.sent.first_entry() {
            if now < first.get().0 + timeout {
                return;
            }
            let (_, messages) = first.remove();
            self.counts.expired += messages.len() as u64;
            messages.iter().for_each(|values| _ = self.known.remove(values));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wireyard_pipeline::ids::Id;

    fn at(ns: u64) -> Time {
        Time::from_ns(ns)
    }

    fn configured(config: Config) -> (Digests, DigestId) {
        let (mut digests, id) = (Digests::default(), DigestId::new(0));
        digests.insert(id, config).unwrap();
        (digests, id)
    }

    #[test]
    fn a_list_goes_when_it_is_full_or_its_first_message_has_waited() {
        let config = Config { max_timeout_ns: 100, max_list_size: 2, ack_timeout_ns: 0 };
        let (mut digests, id) = configured(config);
        digests.add(id, vec![1], at(10));
        assert_eq!((digests.due(at(109)), digests.next_due()), (vec![], Deadline::at(at(110))));
        digests.add(id, vec![2], at(50));
        let lists = digests.due(at(50));
        assert_eq!(lists, [List { digest: id, id: 1, messages: vec![vec![1], vec![2]] }]);
        digests.add(id, vec![3], at(60));
        assert_eq!(digests.due(at(160))[0].messages, [[3]]);
        assert_eq!(digests.next_due(), Deadline::NEVER);
    }

    #[test]
    fn a_list_that_nobody_received_may_be_sent_again() {
        let config = Config { max_timeout_ns: 0, max_list_size: 1, ack_timeout_ns: 1000 };
        let (mut digests, id) = configured(config);
        digests.add(id, vec![1], at(0));
        let list = digests.due(at(0)).remove(0);
        digests.dropped(&list);
        assert_eq!((digests.counts()[&id].dropped, digests.counts()[&id].unacknowledged), (1, 0));
        digests.add(id, vec![1], at(10));
        assert_eq!(digests.due(at(10))[0].messages, [[1]]);
    }

    #[test]
    fn values_without_an_acknowledgement_are_not_sent_twice() {
        let config = Config { max_timeout_ns: 0, max_list_size: 1, ack_timeout_ns: 1000 };
        let (mut digests, id) = configured(config);
        digests.add(id, vec![1], at(0));
        let list = digests.due(at(0))[0].id;
        digests.add(id, vec![1], at(10));
        assert!(digests.due(at(10)).is_empty());
        digests.acknowledge(id, list).unwrap();
        digests.acknowledge(id, list).unwrap();
        digests.add(id, vec![1], at(20));
        assert_eq!(digests.due(at(20)).len(), 1, "after the acknowledgement it is news");
        digests.add(id, vec![1], at(1019));
        assert!(digests.due(at(1019)).is_empty());
        digests.add(id, vec![1], at(1021));
        assert_eq!(digests.due(at(1021)).len(), 1, "the acknowledgement did not come in time");
    }

    #[test]
    fn digests_that_nobody_asked_for_are_not_sent() {
        let (mut digests, id) = configured(Config::default());
        assert!(matches!(
            digests.insert(id, Config::default()),
            Err(ControlError::AlreadyExists(_))
        ));
        digests.delete(id).unwrap();
        digests.add(id, vec![1], at(0));
        assert!(digests.due(Time::MAX).is_empty());
        assert!(matches!(digests.delete(id), Err(ControlError::NotFound(_))));
        assert!(matches!(digests.modify(id, Config::default()), Err(ControlError::NotFound(_))));
        assert!(digests.acknowledge(id, 1).is_err());
    }

    /// Digests continue under their number in another program, with waiting messages; those that it does not have are
    /// removed.
    #[test]
    fn another_program_takes_over_what_it_has() {
        let program = |digests: &str| {
            let text = format!(
                "pipeline: p\ningress: [ std.egress_port = 1 ]\ndigests: {{ {digests} }}\n"
            );
            crate::program::from_text("p.yaml", &text).expect("a program").program
        };
        let (a, b) = ("a: { port: std.ingress_port }", "b: { port: std.ingress_port }");
        let (old, new) = (program(&format!("{a}, {b}")), program(b));
        let mut digests = Digests::default();
        let config = Config { max_timeout_ns: 100, ..Config::default() };
        for id in [0, 1] {
            digests.insert(DigestId::new(id), config).unwrap();
            digests.add(DigestId::new(id), vec![id as u128], at(0));
        }
        digests.adopt(&old, &new);
        let id = DigestId::new(0);
        assert_eq!(digests.configs().collect::<Vec<_>>(), [(id, config)]);
        assert_eq!(digests.due(at(100)), [List { digest: id, id: 1, messages: vec![vec![1]] }]);
    }

    /// Messages that wait are values in the order of the fields.
    #[test]
    fn a_digest_with_its_fields_in_another_order_begins_anew() {
        let program = |fields: &str| {
            let text = format!(
                "pipeline: p\nmetadata: {{ m: 16 }}\ningress: [ std.egress_port = 1 ]\n\
                 digests: {{ a: {{ {fields} }} }}\n"
            );
            crate::program::from_text("p.yaml", &text).expect("a program").program
        };
        let (one, other) =
            ("port: std.ingress_port, m: meta.m", "m: meta.m, port: std.ingress_port");
        for (next, stays) in [(one, 1), (other, 0)] {
            let mut digests = Digests::default();
            digests.insert(DigestId::new(0), Config::default()).unwrap();
            digests.adopt(&program(one), &program(next));
            assert_eq!(digests.configs().count(), stays, "{next}");
        }
    }

    /// A digest that several places send is one entry of controllers: all its places are configured afterwards, also
    /// where the new program has more of them.
    #[test]
    fn every_place_of_a_digest_keeps_the_configuration() {
        let text = "pipeline: p\ningress: [ std.egress_port = 1 ]\ndigests: { a: { port: std.ingress_port } }\n";
        let program = |places: usize| {
            let loaded = crate::program::from_text("p.yaml", text).expect("a program");
            let mut program = Program::clone(&loaded.program);
            let digest = program.digests[DigestId::new(0)].clone();
            program.digests = std::iter::repeat_n(digest, places).collect();
            program
        };
        let config = Config { max_list_size: 7, ..Config::default() };
        for (before, after) in [(1, 3), (2, 2), (3, 1)] {
            let mut digests = Digests::default();
            for place in 0..before {
                digests.insert(DigestId::new(place), config).unwrap();
            }
            digests.adopt(&program(before), &program(after));
            let configured: Vec<_> = digests.configs().collect();
            let wanted = (0..after).map(|place| (DigestId::new(place), config));
            assert_eq!(configured, wanted.collect::<Vec<_>>());
        }
    }
}
