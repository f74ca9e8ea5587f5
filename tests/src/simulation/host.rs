//! A host of a simulated device: it sends at the rate of its link, obeys pauses and asks for some itself.

use std::collections::VecDeque;

use wireyard_switch::frames::{Frames, Mac};
use wireyard_switch::tm::{FlowControlFrame, PfcFrame};
use wireyard_switch::units::Quanta;
use wireyard_tables::time::{Deadline, Span, Time};

use super::program::{self, DEVICES_MAX, LOSSLESS, Tag, Trail};
use crate::differ::random::Random;
use crate::wires::{Far, Passing};

/// Preamble, FCS and gap of a frame.
const AROUND: u64 = 24;
/// The longest frame on the wire.
const LONGEST: u64 = 1514 + AROUND;
/// Pauses that may wait for a port that sent nothing for a while, and their length on the wire.
const PAUSES_WAITING: u64 = 64;
const PAUSE_BYTES: u64 = 84;
/// How soon a host that may not send looks again.
const AGAIN: Span = Span::from_ns(100);

/// A frame that a host sends.
pub struct Sending {
    /// What it carries.
    pub tag: Tag,
    /// When its last bit arrives.
    pub at: Time,
    /// Bytes.
    pub len: usize,
    /// It is covered by the lossless promise.
    pub is_protected: bool,
}

/// A host.
pub struct Host {
    /// Its end of the link.
    pub far: Far,
    /// The device that it is connected to.
    pub device: usize,
    /// The port there.
    pub port: u16,
    /// Rate of the link, in Gbit/s.
    pub gbps: u64,
    /// When it sends next.
    pub next_at: Deadline,
    /// The link is down.
    pub is_down: bool,
    /// The port was removed from the device.
    pub is_removed: bool,
    /// Since when the port transmits nothing.
    pub held_since: Option<Time>,
    /// When the last frame of the device has ended.
    pub wire_free_at: Time,
    /// Frames for the device, pauses included.
    pub frames: u64,
    /// Pauses that it received.
    pub paused: u64,
    /// Pauses of the lossless class: when each begins, and when it ends.
    pauses: VecDeque<(Time, Time)>,
    paused_until: Time,
    /// Pauses of the lossless class that it asked for: when each arrives, and when it ends.
    asked: Vec<(Time, Time)>,
    /// Pauses of the device may not have arrived before.
    unprotected_until: Deadline,
    seq: u32,
}

impl Host {
    /// A host at this port, which sends from the beginning.
    pub fn new(far: Far, device: usize, port: u16, gbps: u64) -> Host {
        Host {
            far,
            device,
            port,
            gbps,
            next_at: Deadline::at(Time::from_ns(1)),
            is_down: false,
            is_removed: false,
            held_since: None,
            wire_free_at: Time::ZERO,
            frames: 0,
            paused: 0,
            pauses: VecDeque::new(),
            paused_until: Time::ZERO,
            asked: Vec::new(),
            unprotected_until: Deadline::NOW,
            seq: 0,
        }
    }

    fn wire_time(&self, wire_bytes: u64) -> Span {
        Span::from_ps(wire_bytes * 8 * 1000 / self.gbps)
    }

    fn pause_time(&self, quanta: u16) -> Span {
        Span::from_ps(u64::from(quanta) * 512 * 1000 / self.gbps)
    }

    /// The link or the port is lost, and with it what is on its way to the device.
    pub fn cut(&mut self) -> Vec<Passing> {
        self.pauses_stop();
        // Those that arrived end with the link, the others never arrive.
        self.asked.clear();
        let lost = self.far.cut();
        self.frames -= lost.len() as u64;
        lost
    }

    /// The port transmits nothing, the link is down or the port gone: pauses do not leave the device.
    pub fn pauses_stop(&mut self) {
        self.unprotected_until = Deadline::NEVER;
    }

    /// Pauses leave again, if nothing else stops them: the first has arrived after the frame on the wire and the pauses before it, and
    /// is obeyed after the frame that the host is sending.
    pub fn pauses_go_on(&mut self, now: Time) {
        if !self.is_down && !self.is_removed && self.held_since.is_none() {
            let bytes = 2 * LONGEST + PAUSES_WAITING * PAUSE_BYTES;
            self.unprotected_until = Deadline::at(now + self.wire_time(bytes));
        }
    }

    /// Its next frame, to this host, if it may send one now.
    pub fn send(&mut self, random: &mut Random, now: Time, src: u16, dst: u16) -> Option<Sending> {
        let wants_lossless = random.chance(60);
        let (len, gap) = (random.pick(&[64, 200, 1000, 1514]), random.below(2000));
        let is_busy = random.chance(80);
        self.obey(now);
        let is_paused = wants_lossless && self.paused_until > now;
        if self.is_down || self.is_removed || is_paused {
            self.next_at = Deadline::at(now + AGAIN);
            return None;
        }
        let class = if wants_lossless { LOSSLESS } else { 0 };
        let trails = [Trail::default(); DEVICES_MAX];
        let tag = Tag { seq: self.seq, dst, src, class, trails };
        self.seq += 1;
        let at = now + self.wire_time(len as u64 + AROUND);
        self.far.send(at, &program::frame(&tag, len));
        self.frames += 1;
        self.next_at = Deadline::at(if is_busy { at } else { at + Span::from_ns(gap as u64) });
        let is_protected = self.unprotected_until.is_by(now);
        Some(Sending { tag, at, len, is_protected })
    }

    /// The device asked for a pause, or for its end.
    pub fn pause(&mut self, at: Time, bytes: &[u8]) {
        let (vector, class) = (bytes[17], usize::from(LOSSLESS));
        if vector >> class & 1 == 0 {
            return;
        }
        self.paused += 1;
        let place = 18 + 2 * class;
        let quanta = u16::from_be_bytes([bytes[place], bytes[place + 1]]);
        self.pauses.push_back((at, at + self.pause_time(quanta)));
    }

    /// Pauses that have arrived are in force.
    fn obey(&mut self, now: Time) {
        while let Some((_, until)) = self.pauses.pop_front_if(|(at, _)| *at <= now) {
            self.paused_until = until;
        }
    }

    /// Asks the device to pause the lossless class for so long.
    pub fn ask(&mut self, now: Time, ns: u64) {
        let quanta = (ns * self.gbps / 512).min(u64::from(u16::MAX)) as u16;
        let Ok(frames) = Frames::shared() else { return };
        let frame = PfcFrame { vector: 1 << LOSSLESS, quanta: [Quanta::new(quanta); 8] };
        let frame =
            frames.flow_control.build(Mac([2, 0, 0, 0, 0, 9]), &FlowControlFrame::Pfc(frame));
        // Not before the end of the frame that it is sending.
        let at = self.next_at.instant().map_or(now, |at| now.max(at));
        if !self.is_down && !self.is_removed {
            self.far.send(at, &frame);
            self.frames += 1;
            self.asked.push((at, at + self.pause_time(quanta)));
        }
    }

    /// A frame came by its link.
    ///
    /// # Errors
    /// It may not have begun when it did: another was on the wire, the port was held, or it is of the lossless class, in a pause that the host
    /// had asked for. What begins when the port is held, or when the pause arrives, may go.
    pub fn heard(&mut self, passing: &Passing) -> Result<(), String> {
        let free_at = std::mem::replace(&mut self.wire_free_at, passing.at);
        if passing.start < free_at {
            return Err(format!(
                "a frame began at {:?}, another ended at {free_at:?}",
                passing.start
            ));
        }
        if let Some(since) = self.held_since.filter(|since| passing.start > *since) {
            return Err(format!("a frame began at {:?}, held since {since:?}", passing.start));
        }
        let is_lossless = program::tag(&passing.bytes).is_some_and(|tag| tag.class == LOSSLESS);
        let last = self.asked.iter().rfind(|(at, _)| *at <= passing.start);
        match last.filter(|_| is_lossless) {
            Some((at, until)) if *at < passing.start && passing.start < *until => Err(format!(
                "a lossless frame began at {:?}, paused from {at:?} to {until:?}",
                passing.start
            )),
            _ => Ok(()),
        }
    }
}
