//! The ports of a device: their numbers, ledgers, backlogs and links.
//!
//! A port has a slot, which stays when the port is removed: packets received by it may still be inside, and its ledger
//! continues. What a port does with frames is in [`ports`](crate::ports); its queues are in the traffic manager.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::os::fd::RawFd;

use wireyard_pipeline::exec::Descriptor;
use wireyard_tables::time::Time;

use super::error::DeviceError;
use super::manager::{port_id, slot_of};
use super::message::{Message, Topic};
use super::notice::DeviceEvent;
use super::slot::{PortPlace, PortState, Slot};
use crate::bit_set::BitSet;
use crate::config::is_port;
use crate::ports::{LinkState, Port, PortError, PortNumber};
use crate::stats::{Ledger, ReasonIndex};
use crate::tm::PortId;

/// Frames that wait for a port without room; more are dropped as `tx_full`. The limit is lower where packet memory has
/// less for each port, so that ports that accept nothing do not use up the memory of the others.
const BACKLOG_MAX: usize = 1024;
const BACKLOG_LEAST: usize = 16;

/// The ports of a device, by slot, with their ledgers, backlogs and messages. Fields that every packet uses come first,
/// together.
#[repr(C)]
pub struct Ports {
    slots: Vec<Slot>,
    /// Slot by port number; `u16::MAX` for none.
    slot_of: Vec<u16>,
    /// Ports with a backlog.
    pub(super) active: BitSet,
    /// Ports whose descriptors are readable, during [`super::Core::poll_readable`].
    pub(super) readable: BitSet,
    /// Packets of the control plane.
    pub(super) cpu: Ledger,
    /// Maximum number of frames that wait for each port.
    pub(super) backlog_max: usize,
    /// Numbers of the present ports, in slot order.
    numbers: Vec<PortNumber>,
    /// How often the set of ports changed.
    pub(super) changes: u64,
    /// Configured source addresses of the ports' own frames.
    macs: BTreeMap<PortNumber, [u8; 6]>,
    pub(super) messages: Vec<Message>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ports").field("numbers", &self.numbers).finish_non_exhaustive()
    }
}

impl Default for Ports {
    fn default() -> Ports {
        Ports {
            slots: Vec::new(),
            slot_of: Vec::new(),
            active: BitSet::default(),
            readable: BitSet::default(),
            cpu: Ledger::default(),
            backlog_max: BACKLOG_MAX,
            numbers: Vec::new(),
            changes: 0,
            macs: BTreeMap::new(),
            messages: Vec::new(),
        }
    }
}

impl Index<usize> for Ports {
    type Output = Slot;

    #[inline]
    fn index(&self, slot: usize) -> &Slot {
        &self.slots[slot]
    }
}

impl IndexMut<usize> for Ports {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut Slot {
        &mut self.slots[slot]
    }
}

/// The address of a port without a configured one: locally administered, derived from its number.
fn own_mac(number: PortNumber) -> [u8; 6] {
    let [high, low] = number.0.to_be_bytes();
    [0x02, b'w', b'y', 0, high, low]
}

/// The ingress port of a packet.
#[inline]
pub(super) fn ingress_of(packet: &Descriptor) -> PortNumber {
    PortNumber(packet.ingress_port)
}

/// The egress port of a packet.
#[inline]
pub(super) fn egress_of(packet: &Descriptor) -> PortNumber {
    PortNumber(packet.egress_port)
}

impl Ports {
    /// The port itself.
    pub fn port(&mut self, number: PortNumber) -> Option<&mut dyn Port> {
        let slot = self.find(number)?;
        Some(self.slots[slot].port.as_mut())
    }

    /// The traffic manager's number of a port.
    pub fn traffic_port(&self, number: PortNumber) -> Option<PortId> {
        self.find(number).map(port_id)
    }

    /// The port with this number in the traffic manager; `None` for the CPU port.
    pub fn port_of_traffic(&self, id: PortId) -> Option<PortNumber> {
        self.slots.get(slot_of(id)?).map(|slot| slot.number)
    }

    /// The worker that owns a port; `me` is this worker.
    pub(crate) fn worker_of(&self, number: PortNumber, me: usize) -> Option<usize> {
        let slot = self.find(number)?;
        Some(self.slots[slot].worker.map_or(me, usize::from))
    }

    /// The worker that owned a port before it was removed; `me` is this worker.
    pub(crate) fn former_worker_of(&self, number: PortNumber, me: usize) -> Option<usize> {
        let slot = self.removed(number)?;
        Some(self.slots[slot].worker.map_or(me, usize::from))
    }

    /// Ports of other workers of which this worker serves a queue.
    pub(crate) fn served(&self) -> Vec<PortNumber> {
        let served = self.slots.iter().filter(|slot| slot.present && slot.has_queue);
        served.map(|slot| slot.number).collect()
    }

    /// The ports that this worker owns.
    fn owned(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.is_owned())
    }

    /// Numbers of the ports that this worker owns, in slot order.
    pub(crate) fn owned_numbers(&self) -> Vec<PortNumber> {
        self.owned().map(|slot| slot.number).collect()
    }

    /// Link states of the ports that this worker owns, as of the last check.
    pub(crate) fn link_states(&self) -> Vec<(PortNumber, LinkState)> {
        self.owned().map(|slot| (slot.number, slot.last_state())).collect()
    }

    /// The state of the ports that this worker, `me`, owns.
    pub(crate) fn states(&self, me: usize) -> Vec<PortState> {
        self.owned().map(|slot| slot.state(me)).collect()
    }

    /// The Ethernet ports that this worker, `me`, owns, for clients outside of the device.
    pub(crate) fn places(&self, me: usize) -> Vec<PortPlace> {
        let place = |slot: &Slot| PortPlace {
            number: slot.number,
            mac: self.own_address(slot),
            mtu_bytes: slot.port.caps().mtu_bytes,
            up: !slot.link_is_down(),
            worker: me,
        };
        self.owned().filter(|slot| slot.is_ethernet()).map(place).collect()
    }

    /// Number of slots, with those of removed ports.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Slot> {
        self.slots.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Slot> {
        self.slots.iter_mut()
    }

    /// The slot of a present port.
    #[inline]
    pub(super) fn find(&self, number: PortNumber) -> Option<usize> {
        let slot = *self.slot_of.get(usize::from(number.0))?;
        (slot != u16::MAX).then_some(slot as usize)
    }

    /// The slot of a removed port.
    pub(super) fn removed(&self, number: PortNumber) -> Option<usize> {
        self.slots.iter().position(|slot| slot.number == number && !slot.present)
    }

    /// The slot whose ledger counts the packets received by a port; `None` for the control plane.
    pub(super) fn ledger_of(&self, number: PortNumber) -> Option<usize> {
        self.find(number).or_else(|| self.removed(number))
    }

    /// Numbers of the present ports, in slot order.
    pub(super) fn numbers(&self) -> &[PortNumber] {
        &self.numbers
    }

    /// True for a port that this worker owns.
    #[inline]
    pub(super) fn is_here(&self, slot: usize) -> bool {
        self.slots[slot].worker.is_none()
    }

    /// True for a port that this worker owns or serves a queue of.
    pub(super) fn is_served_here(&self, slot: usize) -> bool {
        self.slots[slot].worker.is_none() || self.slots[slot].has_queue
    }

    /// The slot that is charged in this worker's buffer for a packet of this ingress port; `None`, for the CPU port,
    /// also for ports of other workers, whose groups are charged there.
    #[inline]
    pub(super) fn charged_slot(&self, ingress_port: PortNumber) -> Option<usize> {
        self.find(ingress_port).filter(|slot| self.is_here(*slot))
    }

    /// Checks that a new port may have this number.
    pub(super) fn check_number(&self, number: PortNumber) -> Result<(), DeviceError> {
        if !is_port(number) {
            return Err(DeviceError::PortNumber(number));
        }
        if self.find(number).is_some() {
            return Err(DeviceError::PortTaken(number));
        }
        Ok(())
    }

    /// Adds a port whose number was checked, in the former slot of its number or in a new one; `chunks` is the number
    /// of chunks for all backlogs.
    pub(super) fn add(&mut self, number: PortNumber, port: Box<dyn Port>, chunks: usize) -> usize {
        let slot = match self.removed(number) {
            Some(slot) => {
                self.slots[slot].put_back(port);
                slot
            }
            None => {
                self.slots.push(Slot::new(number, port));
                self.slots.len() - 1
            }
        };
        let place = usize::from(number.0);
        if self.slot_of.len() <= place {
            self.slot_of.resize(place + 1, u16::MAX);
        }
        self.slot_of[place] = slot as u16;
        self.list_numbers(chunks);
        self.active.grow(slot + 1);
        self.readable.grow(slot + 1);
        slot
    }

    /// Removes a port; its slot stays.
    pub(super) fn remove(&mut self, slot: usize, chunks: usize) {
        self.slots[slot].present = false;
        let number = self.slots[slot].number;
        self.slot_of[usize::from(number.0)] = u16::MAX;
        self.list_numbers(chunks);
    }

    /// Updates the list of present ports, and the limit of their backlogs.
    fn list_numbers(&mut self, chunks: usize) {
        self.changes += 1;
        self.numbers.clear();
        let there = self.slots.iter().filter(|slot| slot.present);
        self.numbers.extend(there.map(|slot| slot.number));
        let each = chunks / self.numbers.len().max(1);
        self.backlog_max = each.clamp(BACKLOG_LEAST, BACKLOG_MAX);
    }

    /// Updates the ledger for a packet received by this port.
    #[inline]
    pub(super) fn account(&mut self, number: PortNumber, entry: impl FnOnce(&mut Ledger)) {
        match self.ledger_of(number) {
            Some(slot) => entry(&mut self.slots[slot].ledger),
            None => entry(&mut self.cpu),
        }
    }

    /// Counts the drop of a packet received by this port.
    pub(super) fn account_drop(&mut self, number: PortNumber, reason: ReasonIndex) {
        self.account(number, |ledger| ledger.drop(reason));
    }

    /// The sum of all ledgers.
    pub fn ledger(&self) -> Ledger {
        let mut total = self.cpu.clone();
        self.slots.iter().for_each(|slot| total.merge(&slot.ledger));
        total
    }

    /// Sets the source address of the frames that a port itself sends; the port may be added later.
    pub fn set_mac(&mut self, number: PortNumber, mac: [u8; 6]) {
        self.macs.insert(number, mac);
    }

    /// The address of a router's interface at this port: the configured one, or one derived from that of the interface
    /// below, so that no other switch on its link has it. The interface's own address cannot be used: its kernel would
    /// take packets for the router as its own.
    pub(super) fn own_address(&self, slot: &Slot) -> [u8; 6] {
        let derived = |[first, rest @ ..]: [u8; 6]| {
            let [a, b, c, d, e] = rest;
            [(first | 0x02) ^ 0x40, a, b, c, d, e]
        };
        let below = slot.port.interface_mac().map(derived);
        let configured = self.macs.get(&slot.number).copied();
        configured.or(below).unwrap_or_else(|| own_mac(slot.number))
    }

    /// The source address of the frames that a port itself sends.
    pub(super) fn mac(&self, number: PortNumber) -> [u8; 6] {
        self.macs.get(&number).copied().unwrap_or_else(|| own_mac(number))
    }

    /// The name of a slot in messages.
    pub(super) fn name(&self, slot: Option<usize>) -> String {
        match slot.and_then(|slot| self.slots.get(slot)) {
            Some(slot) => format!("port {} ({})", slot.number, slot.port.name()),
            None => "the CPU port".into(),
        }
    }

    /// True for a port that has to be polled although its descriptor may not be readable.
    pub(super) fn is_polled(&mut self, slot: usize, now: Time) -> bool {
        let place = &mut self.slots[slot];
        place.is_always_polled
            || self.readable.contains(slot)
            || place.port.next_arrival().is_some_and(|at| at <= now)
    }

    /// Checks the link of a slot. Messages report a change, and what the port has found out since it was opened.
    /// Returns a change of the link.
    pub(super) fn check_link(&mut self, slot: usize, now: Time) -> Option<DeviceEvent> {
        let place = &mut self.slots[slot];
        // The owner of a link that several workers serve reports it; the others do not.
        let changed = place.check_link(now).filter(|_| place.worker.is_none());
        let number = place.number;
        let event = changed.map(|(state, text)| {
            let event = DeviceEvent::Link { port: number, state };
            self.messages.push(Message::new(Topic::Event(event.clone()), text));
            event
        });
        self.report_notices(slot);
        event
    }

    /// Adds messages of what the port of a slot has found out since the last call.
    pub(super) fn report_notices(&mut self, slot: usize) {
        let place = &mut self.slots[slot];
        let number = place.number;
        let message = |text| Message::new(Topic::Port(number), format!("port {number}: {text}"));
        self.messages.extend(place.port.notices().into_iter().map(message));
    }

    /// Adds the message of a port error. Errors of the link itself are reported by the owner only.
    #[cold]
    pub(super) fn report_error(&mut self, slot: usize, error: &PortError) {
        let is_of_link = matches!(error, PortError::Gone { .. } | PortError::Down { .. });
        if !is_of_link || self.slots[slot].worker.is_none() {
            let topic = Topic::PortError(self.slots[slot].number);
            self.messages.push(Message::new(topic, error.to_string()));
        }
    }

    /// Messages since the last call: a link or an interface changed, or the device has something to report.
    pub fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    /// Like [`Ports::take_messages`], with what the ports have found out until now.
    pub(crate) fn take_last_messages(&mut self) -> Vec<Message> {
        (0..self.slots.len()).for_each(|slot| self.report_notices(slot));
        self.take_messages()
    }

    /// True when there is a port and the input of all has ended.
    pub(super) fn have_ended(&mut self, now: Time) -> bool {
        self.slots.iter().any(|slot| slot.present)
            && self.slots.iter_mut().all(|slot| slot.port.link_state(now) == LinkState::Ended)
    }

    /// Arrival time of the next frame of an input with its own timing; `None` when there is none.
    pub fn next_arrival(&mut self) -> Option<Time> {
        self.slots.iter_mut().filter_map(|slot| slot.port.next_arrival()).min()
    }

    /// Like [`Ports::next_arrival`], for one port.
    #[inline]
    pub fn next_arrival_at(&mut self, number: PortNumber) -> Option<Time> {
        let slot = self.find(number)?;
        self.slots[slot].port.next_arrival()
    }

    /// Numbers and descriptors of the ports that have one: what to sleep on, and what
    /// [`Core::poll_readable`](super::Core::poll_readable) takes.
    pub fn poll_fds(&self) -> impl Iterator<Item = (PortNumber, RawFd)> {
        self.slots.iter().filter_map(|slot| Some((slot.number, slot.port.poll_fd()?)))
    }

    /// True if every port must be polled in every poll, regardless of its descriptor.
    pub fn are_always_polled(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_always_polled)
    }

    /// Number of changes of the set of ports: a caller that waits on their descriptors must read them again when it
    /// changes.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// True while a port has not accepted all frames that are ready for it.
    pub fn is_waiting_for_room(&self) -> bool {
        !self.active.is_empty()
    }

    /// True while the link of a port of this worker is up without carrier: after a link comes up, the operating system
    /// takes up to a second to detect the carrier.
    pub fn is_waiting_for_carrier(&mut self, now: Time) -> bool {
        let owned = self.slots.iter_mut().filter(|slot| slot.is_owned());
        let mut waits = false;
        for slot in owned {
            slot.look_at_link(now);
            waits |= slot.has_no_carrier();
        }
        waits
    }
}
