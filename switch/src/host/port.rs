//! The end point as a port.
//!
//! Frames received from this port are those that the end point sends: answers about addresses, then CNPs,
//! acknowledgements and data, each class unless PFC stopped it, and data no faster than the link. Answers about
//! addresses have no class and wait only while all are stopped. Frames sent to this port are those that the end point
//! receives.
//!
//! PFC and PAUSE frames sent to this port stop classes: so a device whose queue fills stops its own end point, and its
//! own traffic is lossless. ACK timers go on during a pause; one that ends while the data class is stopped takes effect
//! when data may leave again, unless the acknowledgement has arrived by then.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::{Deadline, Span, Time};

use crate::frames::Frames;
use crate::frames::envelope::{Address, AddressError, Envelope, Refused};
use crate::frames::neighbour::{Kind, Message};
use crate::frames::transport::{BuildError, Received};
use crate::ports::{
    ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortStats, RxFrame, TxDone,
    TxFrame,
};
use crate::roce::endpoint::EndPoint;
use crate::roce::np::{Cnp, Congestion, FlowKey, Mark, NotificationPoint};
use crate::roce::opcode::Service;
use crate::roce::packet::{ClassHint, Headers, OutPacket, Trailing};
use crate::roce::rp::pacer::Pacer;
use crate::roce::verbs::Completion;
use crate::tm::pfc::{FlowControlFrame, PauseCounters, PauseReceiver, PfcFrame};
use crate::units::BitsPerSec;

use super::config::{Classes, HostConfig};
use super::counters::HostCounters;
use super::flow::Flows;
use super::spray::Spray;

/// Requests and replies about addresses that wait to be sent; more are dropped, as requests are repeated.
const MESSAGES_MAX: usize = 64;
/// Neighbours remembered.
const NEIGHBOURS_MAX: usize = 1024;
/// The rate that defines a quantum when the link has none.
const QUANTUM_RATE_GBIT: u32 = 10;

/// The finished headers to one peer, by class.
#[derive(Debug)]
struct Path {
    address: Address,
    spray: Option<Spray>,
    data: Envelope,
    ack: Envelope,
    cnp: Envelope,
}

/// The end point of a host; the fields that every packet uses come first.
#[derive(Debug)]
#[repr(C)]
pub struct EndPointPort {
    /// The cached result of [`Self::deadline`]; `None` since one of its inputs changed.
    pub(super) due: Option<Deadline>,
    link: Pacer,
    frames: Arc<Frames>,
    paths: Vec<Path>,
    pub(super) end: EndPoint,
    completions: VecDeque<Completion>,
    messages: VecDeque<Message>,
    pub(super) flows: Flows,
    np: Option<NotificationPoint>,
    pause: PauseReceiver,
    /// Priorities of all data that it sends.
    data_priorities: u8,
    /// At least one path uses many UDP source ports.
    sprays: bool,
    stats: PortStats,
    pub(super) config: HostConfig,
    counters: HostCounters,
    /// Addresses that were asked for, with the answers; the oldest go first.
    neighbours: VecDeque<(u128, Option<crate::frames::Mac>)>,
    pause_counters: PauseCounters,
}

impl EndPointPort {
    /// An end point without queue pairs.
    pub fn new(config: HostConfig, frames: Arc<Frames>) -> EndPointPort {
        let np = config.np.map(NotificationPoint::new);
        EndPointPort {
            data_priorities: 1 << (config.classes.data.pcp & 7),
            sprays: false,
            config,
            frames,
            end: EndPoint::new(),
            paths: Vec::new(),
            np,
            link: Pacer::default(),
            pause: PauseReceiver::new(),
            pause_counters: PauseCounters::default(),
            messages: VecDeque::new(),
            neighbours: VecDeque::new(),
            flows: Flows::default(),
            completions: VecDeque::new(),
            counters: HostCounters::default(),
            stats: PortStats::default(),
            due: None,
        }
    }

    /// Its configuration.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Queue pairs and memory.
    pub fn roce(&self) -> &EndPoint {
        &self.end
    }

    /// Queue pairs and memory. Completions are read with [`Self::poll_cq`], not from here.
    pub fn roce_mut(&mut self) -> &mut EndPoint {
        self.due = None;
        &mut self.end
    }

    /// Its counters.
    pub fn counters(&self) -> &HostCounters {
        &self.counters
    }

    /// Pauses obeyed.
    pub fn pause_counters(&self) -> &PauseCounters {
        &self.pause_counters
    }

    /// Adds a path to a peer and returns its number, for queue pairs and datagrams.
    ///
    /// # Errors
    /// The address, with one of the classes, cannot be written into headers.
    pub fn add_path(&mut self, address: &Address) -> Result<u32, AddressError> {
        self.add_path_as(address, &self.config.classes.clone())
    }

    /// The same with classes of its own. While one class of data is paused, all data of this end point waits.
    ///
    /// # Errors
    /// As [`EndPointPort::add_path`].
    pub fn add_path_as(
        &mut self,
        address: &Address,
        classes: &Classes,
    ) -> Result<u32, AddressError> {
        self.due = None;
        self.data_priorities |= 1 << (classes.data.pcp & 7);
        let transport = &self.frames.transport;
        let spray = Spray::new(classes.spray, address.udp_src_port);
        self.sprays |= spray.is_some();
        let path = Path {
            address: *address,
            spray,
            data: match classes.telemetry {
                true => transport.envelope_with_telemetry(address, &classes.data)?,
                false => transport.envelope(address, &classes.data)?,
            },
            ack: transport.envelope(address, &classes.ack)?,
            cnp: transport.envelope(address, &self.config.cnp.class)?,
        };
        self.paths.push(path);
        Ok(self.paths.len() as u32 - 1)
    }

    /// The address of a path.
    pub fn path(&self, path: u32) -> Option<&Address> {
        self.paths.get(path as usize).map(|path| &path.address)
    }

    /// Sends a request for an address; the reply will be in [`Self::neighbour`].
    pub fn ask(&mut self, target: u128, vlan: Option<u16>) {
        let of_family = |own: &&u128| {
            let four = |address: u128| crate::frames::envelope::unmapped(address).is_some();
            four(**own) == four(target)
        };
        if let Some(own) = self.config.addresses.iter().find(of_family) {
            if !self.neighbours.iter().any(|(known, _)| *known == target) {
                if self.neighbours.len() >= NEIGHBOURS_MAX {
                    self.neighbours.pop_front();
                }
                self.neighbours.push_back((target, None));
            }
            self.say(Message::ask(self.config.mac, *own, target, vlan));
        }
    }

    /// The MAC address of a neighbour that was asked for, as the last reply has it.
    pub fn neighbour(&self, address: u128) -> Option<crate::frames::Mac> {
        self.neighbours.iter().find(|(known, _)| *known == address)?.1
    }

    /// The next completion that belongs to no flow.
    pub fn poll_cq(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn say(&mut self, message: Message) {
        self.due = None;
        if self.messages.len() < MESSAGES_MAX {
            self.messages.push_back(message);
        }
    }

    fn quantum_rate(&self) -> BitsPerSec {
        self.config.rate.unwrap_or(BitsPerSec::gbit(QUANTUM_RATE_GBIT))
    }

    fn is_paused(&self, class: ClassHint) -> bool {
        let priorities = match class {
            ClassHint::Data => self.data_priorities,
            ClassHint::Ack => 1 << (self.config.classes.ack.pcp & 7),
        };
        self.pause.priorities() & priorities != 0
    }

    fn cnps_are_paused(&self) -> bool {
        self.pause.priorities() >> (self.config.cnp.class.pcp & 7) & 1 == 1
    }

    /// Every priority is paused, as by an 802.3 PAUSE.
    fn link_is_paused(&self) -> bool {
        self.pause.priorities() == u8::MAX
    }

    /// Updates pauses, flows and their completions to `now`.
    fn advance(&mut self, now: Time) {
        if self.pause.next_change().is_by(now) {
            let rate = self.quantum_rate();
            self.pause.advance(now, rate, &mut self.pause_counters);
            self.due = None;
        }
        if self.flows.next_start().is_by(now) {
            self.due = None;
            self.flows.start_due(now, &mut self.end);
        }
        self.take_completions(now);
    }

    #[inline]
    fn take_completions(&mut self, now: Time) {
        while let Some(done) = self.end.poll_cq() {
            self.due = None;
            if !self.flows.on_completion(now, &done, &mut self.end) {
                self.completions.push_back(done);
            }
        }
    }

    /// When it may next have something to send.
    fn deadline(&self) -> Deadline {
        let messages = !self.messages.is_empty() && !self.link_is_paused();
        let acks = self.end.has_ack() && !self.is_paused(ClassHint::Ack);
        if messages || acks {
            return Deadline::NOW;
        }
        let np = match &self.np {
            Some(np) if !self.cnps_are_paused() => np.next_deadline(),
            _ => Deadline::NEVER,
        };
        let data = match self.is_paused(ClassHint::Data) {
            true => Deadline::NEVER,
            false => self.end.data_deadline().not_before(self.link.due()),
        };
        data.min(np).min(self.flows.next_start()).min(self.pause.next_change())
    }

    /// The same, cached until something changes.
    #[inline]
    fn due(&mut self) -> Deadline {
        let due = *self.due.insert(match self.due {
            Some(due) => due,
            None => self.deadline(),
        });
        debug_assert_eq!(due, self.deadline());
        due
    }

    /// The next frame that may leave at `now`, in packet memory.
    #[inline]
    fn emit(&mut self, mem: &mut PacketMemory, now: Time) -> Option<RxFrame> {
        self.due = None;
        let Some(mut buf) = mem.alloc_to(mem.max_chunk_bytes() as usize) else {
            self.stats.rx_no_memory += 1;
            return None;
        };
        let data_off = mem.data_off(&buf);
        let room = mem.max_chunk_bytes() - u32::from(data_off);
        let to = mem.frame_mut(&mut buf, data_off, room);
        let Some(len) = to.and_then(|to| self.next_frame(now, to)) else {
            mem.free(buf);
            return None;
        };
        let len = len as u32;
        self.stats.rx_bytes += u64::from(len);
        self.stats.rx_frames += 1;
        let checksum = ChecksumStatus::AsReceived;
        Some(RxFrame { buf, data_off, len, wire_len: len, timestamp: now, checksum })
    }

    /// Builds the next frame that may leave at `now`.
    fn next_frame(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        while !self.link_is_paused()
            && let Some(message) = self.messages.pop_front()
        {
            if let Some(bytes) = self.frames.neighbour.build(&message, out) {
                return Some(self.account(now, bytes));
            }
        }
        while !self.cnps_are_paused()
            && let Some((cnp, ())) = self.np.as_mut().and_then(|np| np.poll(now))
        {
            match self.build_cnp(&cnp, out) {
                Some(bytes) => {
                    self.counters.cnps_sent += 1;
                    return Some(self.account(now, bytes));
                }
                _ => self.counters.unbuildable += 1,
            }
        }
        // By reference throughout: a packet is written once, at its place of use.
        loop {
            let built = if !self.is_paused(ClassHint::Ack)
                && let Some(packet) = &self.end.poll_ack()
            {
                self.build(packet, out)
            } else if !self.is_paused(ClassHint::Data)
                && self.link.due() <= now
                && let Some(packet) = &self.end.poll_data(now)
            {
                if self.sprays {
                    self.spray(packet.path);
                }
                self.build(packet, out)
            } else if self.end.has_ack() && !self.is_paused(ClassHint::Ack) {
                continue; // the NAK for a READ whose region is gone
            } else {
                return None;
            };
            match built {
                Ok(bytes) => return Some(self.account(now, bytes)),
                Err(_) => self.counters.unbuildable += 1,
            }
        }
    }

    /// The first path to an address.
    fn path_to(&self, address: u128) -> Option<usize> {
        self.paths.iter().position(|path| path.address.dst == address)
    }

    /// A CNP, by the path of the queue pair whose packet was marked; for datagrams, by a path to their source.
    fn build_cnp(&self, cnp: &Cnp, out: &mut [u8]) -> Option<usize> {
        let transport = &self.frames.transport;
        let qp = self.end.qp(cnp.flow.dest_qp)?;
        let path = match qp.service() {
            Service::Ud => self.path_to(cnp.flow.src)?,
            Service::Rc | Service::Uc => qp.path() as usize,
        };
        let path = self.paths.get(path)?;
        let (qp, pkey) = (cnp.sender_qp, cnp.marked.pkey);
        if cnp.mark == Mark::IpCe {
            return transport.build_cnp_in(&path.cnp, qp, pkey, out).ok();
        }
        let class = self.config.cnp.class_of(cnp.mark, &cnp.marked);
        let envelope = transport.envelope(&path.address, &class).ok()?;
        transport.build_cnp_in(&envelope, qp, pkey, out).ok()
    }

    fn build(&self, packet: &OutPacket, out: &mut [u8]) -> Result<usize, BuildError> {
        let path = self.paths.get(packet.path as usize).ok_or(BuildError::Headers)?;
        let envelope = match packet.class {
            ClassHint::Data => &path.data,
            ClassHint::Ack => &path.ack,
        };
        let transport = &self.frames.transport;
        match self.end.qp(packet.src_qp).filter(|_| packet.echo) {
            Some(qp) => {
                if let Trailing::Sack(bits) = packet.headers.trailing {
                    let headers = Headers { trailing: Trailing::None, ..packet.headers };
                    return transport.build_with(envelope, &headers, size_of::<u64>(), out, |to| {
                        to.copy_from_slice(&bits.to_be_bytes());
                        Ok(())
                    });
                }
                let telemetry = qp.telemetry();
                transport.build_with(envelope, &packet.headers, telemetry.len(), out, |to| {
                    to.copy_from_slice(telemetry);
                    Ok(())
                })
            }
            None => transport.build(envelope, packet, self.end.memory(), out),
        }
    }

    /// Charges a frame's transmission time to the link.
    fn account(&mut self, now: Time, bytes: usize) -> usize {
        if let Some(rate) = self.config.rate {
            let wire = bytes as u64 + u64::from(self.config.link_overhead_bytes);
            self.link.on_sent(now, wire, rate.get() as f64);
        }
        bytes
    }

    /// A frame for this end point.
    fn take(&mut self, now: Time, frame: &[u8]) {
        self.due = None;
        // Matched by reference: a copy right after narrow stores stalls on store forwarding.
        match &mut self.frames.transport.parse(self.config.link, frame) {
            Ok(received) => self.take_packet(now, frame, received),
            Err(Refused::NotTransport) => self.take_other(now, frame),
            Err(why) => {
                let why = *why;
                if !self.take_trimmed(frame) {
                    self.counters.refused[why as usize] += 1;
                }
            }
        }
    }

    /// Handles an invalid frame: true if a switch trimmed it, and it is for us.
    #[cold]
    fn take_trimmed(&mut self, frame: &[u8]) -> bool {
        if self.config.trimmed_dscps == 0 {
            return false;
        }
        let found = self.frames.transport.trimmed(self.config.link, frame);
        let Some((dst, _, bth)) =
            found.filter(|(_, dscp, _)| self.config.trimmed_dscps >> dscp & 1 == 1)
        else {
            return false;
        };
        if !self.config.addresses.contains(&dst) {
            return false;
        }
        self.counters.trimmed += 1;
        self.end.on_trimmed(&bth);
        true
    }

    /// Assigns the next UDP source port to the next packet of this path.
    fn spray(&mut self, path: u32) {
        let Some(path) = self.paths.get_mut(path as usize) else { return };
        if let Some(spray) = &mut path.spray {
            self.frames.transport.set_udp_source(&mut path.data, spray.next_port());
        }
    }

    fn take_packet(&mut self, now: Time, frame: &[u8], received: &mut Received<'_>) {
        if !self.config.addresses.contains(&received.dst) {
            self.counters.not_for_us += 1;
            return;
        }
        let packet = &mut received.packet;
        let owes_cnps = received.mark.is_some() && {
            packet.headers.bth.fecn = true;
            self.end.qp(packet.headers.bth.dest_qp).is_none_or(|qp| qp.owes_cnps())
        };
        let (bth, deth) = (&packet.headers.bth, packet.headers.deth());
        // If the sender's rate control requires it, the acknowledgement reports the mark instead.
        let answered = received.mark.filter(|_| self.np.is_some() && owes_cnps);
        if (answered.is_some() || deth.is_some())
            && let Ok((from, marked)) = self.frames.transport.marked(self.config.link, frame)
        {
            if let (Some(mark), Some(np)) = (answered, &mut self.np) {
                let sender_qp = match deth {
                    Some(deth) => Some(deth.src_qp),
                    None => self.end.qp(bth.dest_qp).map(|qp| qp.dest_qp()),
                };
                let flow = FlowKey { src: from.src, dst: from.dst, dest_qp: bth.dest_qp };
                let opcode = bth.opcode;
                let seen = Congestion { flow, opcode, port: 0, mark, marked, sender_qp };
                np.on_congestion(now, &seen, ());
            }
            if deth.is_some() {
                packet.path = self.path_to(from.src).unwrap_or(0) as u32;
            }
        }
        self.counters.delivered += 1;
        self.end.on_packet(now, packet);
        self.take_completions(now);
    }

    fn take_other(&mut self, now: Time, frame: &[u8]) {
        if self.config.link != LinkType::Ethernet {
            self.counters.refused[Refused::NotTransport as usize] += 1;
        } else if crate::frames::is_mac_control(frame) {
            self.take_pause(now, frame);
        } else if let Some(message) = self.frames.neighbour.parse(frame) {
            self.take_message(&message);
        } else {
            self.counters.refused[Refused::NotTransport as usize] += 1;
        }
    }

    fn take_pause(&mut self, now: Time, frame: &[u8]) {
        let pause = match self.frames.flow_control.parse(frame) {
            Ok(FlowControlFrame::Pfc(pause)) => pause,
            Ok(FlowControlFrame::Pause(quanta)) => PfcFrame { vector: 0xff, quanta: [quanta; 8] },
            Err(_) => {
                self.counters.bad_mac_control += 1;
                return;
            }
        };
        self.counters.pauses += 1;
        let rate = self.quantum_rate();
        self.pause.advance(now, rate, &mut self.pause_counters);
        self.pause.receive(now, pause, Span::ZERO, rate, &mut self.pause_counters);
    }

    fn take_message(&mut self, message: &Message) {
        let ours = self.config.addresses.contains(&message.target);
        match message.kind {
            Kind::Request if ours => {
                self.counters.neighbour_answers += 1;
                self.say(message.answer(self.config.mac));
            }
            Kind::Request => {}
            Kind::Reply => {
                // Replies to nobody's question would fill the list.
                let asked = self.neighbours.iter_mut().find(|(at, _)| *at == message.sender);
                asked.into_iter().for_each(|(_, mac)| *mac = Some(message.sender_mac));
            }
        }
    }
}

impl Port for EndPointPort {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn caps(&self) -> PortCaps {
        PortCaps { link: self.config.link, mtu_bytes: None }
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        self.advance(now);
        let mut count = 0;
        while count < max
            && self.due().is_by(now)
            && let Some(frame) = self.emit(mem, now)
        {
            out.push(frame);
            count += 1;
        }
        self.take_completions(now);
        Ok(count)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        let sent = frames.len();
        for frame in frames.drain(..) {
            self.stats.tx_bytes += u64::from(frame.len);
            self.take(now, mem.frame(&frame.buf, frame.data_off, frame.len));
            mem.free(frame.buf);
        }
        self.stats.tx_frames += sent as u64;
        Ok(TxDone { sent, dropped: 0 })
    }

    fn next_arrival(&mut self) -> Option<Time> {
        self.due().instant()
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn link_state(&mut self, _now: Time) -> LinkState {
        LinkState::Up
    }

    fn as_any_mut(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }
}
