//! What must come of every frame: the slow model, which has no queues and no clock of its own.

use std::collections::{BTreeMap, BTreeSet};

use wireyard_tables::time::Time;

use super::host::Sending;
use super::program::{LOSSLESS, MARKS, Tag, is_whole, tag};
use crate::wires::Passing;

/// Where a port leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// To the host with this number.
    Host(u16),
    /// To the device at this place.
    Device(usize),
}

/// An entry of a device for one host, in force for frames that arrive after `from`, until the next one.
#[derive(Clone, Copy, Debug)]
struct Route {
    from: Time,
    version: u16,
    /// `None`: frames are dropped.
    port: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    len: usize,
    is_protected: bool,
}

/// Why a port of a device sent nothing to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The link is down.
    Down,
    /// The port is not there.
    Removed,
}

impl Outage {
    /// The device may drop frames for this reason.
    fn allows(self, reason: &str) -> bool {
        match self {
            Outage::Down => reason == "port_down",
            Outage::Removed => ["port_removed", "no_such_port"].contains(&reason),
        }
    }
}

/// An outage: from when, until when.
#[derive(Clone, Copy, Debug)]
struct Failed {
    why: Outage,
    from: Time,
    until: Time,
}

/// What is known of all frames and entries.
#[derive(Debug, Default)]
pub struct Model {
    /// By device and host, oldest first.
    routes: BTreeMap<(usize, u16), Vec<Route>>,
    ends: BTreeMap<(usize, u16), End>,
    /// Outages of ports of devices, oldest first.
    outages: BTreeMap<(usize, u16), Vec<Failed>>,
    /// The device of each host.
    homes: BTreeMap<u16, usize>,
    /// Frames that neither arrived nor were dropped, by sender and number.
    inside: BTreeMap<(u16, u32), Sent>,
    /// The last number by sender, class, and host that received it.
    last: BTreeMap<(u16, u8, u16), u32>,
    versions: u16,
    /// Numbers of frames that were on a link when it was lost, by sender.
    cut: BTreeMap<u16, Vec<u32>>,
    /// Frames of each sender whose end is known, by device.
    met: BTreeMap<(usize, u16), u64>,
    /// Numbers that registers of devices gave to frames of a sender.
    numbers: BTreeSet<(usize, u16, u32)>,
    /// Frames that were sent, arrived, were dropped.
    pub counts: (u64, u64, u64),
    /// Frames of the lossy class that arrived, and that found no room.
    pub lossy: (u64, u64),
    /// Frames that were dropped, by reason.
    pub reasons: BTreeMap<String, u64>,
}

impl Model {
    /// A port of a device leads there.
    pub fn join(&mut self, device: usize, port: u16, end: End) {
        self.ends.insert((device, port), end);
        if let End::Host(host) = end {
            self.homes.insert(host, device);
        }
    }

    /// A port of a device sends nothing from now on.
    pub fn fails(&mut self, now: Time, device: usize, port: u16, why: Outage) {
        self.outages.entry((device, port)).or_default().push(Failed {
            why,
            from: now,
            until: Time::MAX,
        });
    }

    /// A port of a device sends again.
    pub fn recovers(&mut self, now: Time, device: usize, port: u16) {
        for outage in self.outages.get_mut(&(device, port)).into_iter().flatten() {
            outage.until = now.min(outage.until);
        }
    }

    /// A port had an outage between these times that explains the drop.
    fn is_explained(
        &self,
        device: usize,
        port: u16,
        reason: &str,
        (from, to): (Time, Time),
    ) -> bool {
        let outages = self.outages.get(&(device, port)).map_or(&[][..], Vec::as_slice);
        let explains = |outage: &Failed| {
            outage.why.allows(reason) && outage.from <= to && outage.until >= from
        };
        outages.iter().any(explains)
    }

    /// The version of an entry that is to be written.
    pub fn version(&mut self) -> u16 {
        self.versions += 1;
        self.versions
    }

    /// From now on a device sends what is for a host by this port, or drops it, by an entry of this version.
    pub fn set(&mut self, now: Time, device: usize, dst: u16, port: Option<u16>, version: u16) {
        let route = Route { from: now, version, port };
        self.routes.entry((device, dst)).or_default().push(route);
    }

    /// A host sent a frame.
    pub fn sent(&mut self, frame: &Sending) {
        let Sending { tag, at, len, is_protected } = frame;
        let sent = Sent { at: *at, len: *len, is_protected: *is_protected };
        self.inside.insert((tag.src, tag.seq), sent);
        self.counts.0 += 1;
    }

    /// These frames were on a link that is lost.
    pub fn cut(&mut self, frames: &[Passing]) {
        for tag in frames.iter().filter_map(|frame| tag(&frame.bytes)) {
            self.inside.remove(&(tag.src, tag.seq));
            self.cut.entry(tag.src).or_default().push(tag.seq);
            self.counts.0 -= 1;
        }
    }

    /// How many frames of each sender met a device.
    pub fn met(&self, device: usize) -> BTreeMap<u16, u64> {
        let there = self.met.range((device, 0)..=(device, u16::MAX));
        there.map(|((_, src), count)| (*src, *count)).collect()
    }

    /// A frame met the devices from its sender's to this one.
    fn ends_at(&mut self, device: usize, src: u16) {
        let home = self.homes.get(&src).copied().unwrap_or(device);
        for place in home.min(device)..=home.max(device) {
            *self.met.entry((place, src)).or_default() += 1;
        }
    }

    /// Frames that are still to arrive.
    pub fn waiting(&self) -> usize {
        self.inside.len()
    }

    fn leaves(&mut self, tag: &Tag) -> Result<Sent, String> {
        let frame = self.inside.remove(&(tag.src, tag.seq));
        frame.ok_or_else(|| format!("{tag:?} was not sent, or came to an end before"))
    }

    /// Routes that were in force when a frame met a device: its first one at the time it arrived, others between then and `now`.
    fn in_force(&self, device: usize, tag: &Tag, sent: Sent, now: Time) -> Vec<Route> {
        let Some(routes) = self.routes.get(&(device, tag.dst)) else { return Vec::new() };
        let is_first = self.homes.get(&tag.src) == Some(&device);
        let latest = if is_first { sent.at } else { now };
        let until = |n: usize| routes.get(n + 1).map_or(Time::MAX, |next| next.from);
        let met = |(n, route): &(usize, &Route)| route.from < latest && until(*n) >= sent.at;
        routes.iter().enumerate().filter(met).map(|(_, route)| *route).collect()
    }

    /// A host received this frame.
    ///
    /// # Errors
    /// The promise that it breaks.
    pub fn received(&mut self, host: u16, now: Time, bytes: &[u8]) -> Result<(), String> {
        let tag = tag(bytes).ok_or_else(|| format!("host {host} received {bytes:02x?}"))?;
        let sent = self.leaves(&tag)?;
        if bytes.len() != sent.len || !is_whole(&tag, bytes) {
            return Err(format!("{tag:?} arrived changed"));
        }
        let end = self.followed(host, &tag, sent, now)?;
        self.ends_at(end, tag.src);
        self.numbered(&tag)?;
        let last = self.last.insert((tag.src, tag.class, host), tag.seq);
        if last.is_some_and(|last| last > tag.seq) {
            return Err(format!("{tag:?} arrived at host {host} after number {last:?}"));
        }
        self.counts.1 += 1;
        self.lossy.0 += u64::from(tag.class != LOSSLESS);
        Ok(())
    }

    /// A register gives each frame of a sender a number of its own; at the first device, where all arrive in order, the next one.
    fn numbered(&mut self, tag: &Tag) -> Result<(), String> {
        for (device, trail) in tag.trails.iter().enumerate().filter(|(_, trail)| trail.met != 0) {
            let is_home = self.homes.get(&tag.src) == Some(&device);
            let lost = self.cut.get(&tag.src).map_or(&[][..], Vec::as_slice);
            let lost = lost.iter().filter(|seq| **seq < tag.seq).count() as u32;
            let is_next = !is_home || trail.met == tag.seq + 1 - lost;
            if !is_next || !self.numbers.insert((device, tag.src, trail.met)) {
                return Err(format!("{tag:?}: device {device} numbered it {}", trail.met));
            }
        }
        Ok(())
    }

    /// Follows the entries that a frame met, by what it carries; the last device comes back.
    fn followed(&self, host: u16, tag: &Tag, sent: Sent, now: Time) -> Result<usize, String> {
        let mut device = self.homes.get(&tag.src).copied().unwrap_or(0);
        for _ in &tag.trails {
            let trail = tag.trails[device];
            if trail.marks.0 != trail.marks.1 || !(1..=MARKS).contains(&trail.marks.0) {
                return Err(format!("{tag:?}: device {device} did it by two programs"));
            }
            let routes = self.in_force(device, tag, sent, now);
            let Some(route) = routes.iter().find(|route| route.version == trail.version) else {
                return Err(format!(
                    "{tag:?}, sent at {:?}: device {device} took entry {}, in force were {routes:?}",
                    sent.at, trail.version
                ));
            };
            match route.port.and_then(|port| self.ends.get(&(device, port))) {
                Some(End::Host(end)) if *end == host => return Ok(device),
                Some(End::Device(next)) => device = *next,
                other => return Err(format!("{tag:?} arrived at host {host}, not at {other:?}")),
            }
        }
        Err(format!("{tag:?} went round in circles"))
    }

    /// A device dropped this frame.
    ///
    /// # Errors
    /// The promise that it breaks.
    pub fn dropped(
        &mut self,
        device: usize,
        now: Time,
        reason: &str,
        bytes: &[u8],
    ) -> Result<(), String> {
        let is_pause = bytes.get(12..14) == Some(&[0x88, 0x08]);
        if is_pause {
            let mut ports = self.outages.keys().filter(|(of, _)| *of == device);
            let known = ports.any(|(_, port)| self.is_explained(device, *port, reason, (now, now)));
            let wrong = || format!("device {device} dropped a pause: {reason}");
            return known.then_some(()).ok_or_else(wrong);
        }
        let tag = tag(bytes).ok_or_else(|| format!("device {device} dropped {bytes:02x?}"))?;
        let sent = self.leaves(&tag)?;
        self.counts.2 += 1;
        *self.reasons.entry(reason.to_owned()).or_default() += 1;
        self.ends_at(device, tag.src);
        match reason {
            "stopped" => {
                let routes = self.in_force(device, &tag, sent, now);
                let may_stop = routes.iter().any(|route| route.port.is_none());
                may_stop.then_some(()).ok_or_else(|| {
                    format!("{tag:?}: device {device} stopped it, in force were {routes:?}")
                })
            }
            "port_down" | "port_removed" | "no_such_port" => {
                let routes = self.in_force(device, &tag, sent, now);
                let mut ports = routes.iter().filter_map(|route| route.port);
                let since = sent.at;
                let known = ports.any(|port| self.is_explained(device, port, reason, (since, now)));
                known.then_some(()).ok_or_else(|| {
                    format!("device {device} dropped {tag:?}: {reason}, without an outage")
                })
            }
            "ingress_threshold" | "queue_threshold" | "pool_exhausted" if tag.class != LOSSLESS => {
                self.lossy.1 += 1;
                Ok(())
            }
            "headroom_exhausted"
                if !sent.is_protected && self.homes.get(&tag.src) == Some(&device) =>
            {
                Ok(())
            }
            _ => Err(format!("device {device} dropped {tag:?}: {reason}")),
        }
    }
}
