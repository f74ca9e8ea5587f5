//! The thread that joins the kernel and the device: frames both ways, and the kernel's state into the tables.
//!
//! It is not on the forwarding path. Punted packets wait in the ring of its subscription, packets from the kernel in
//! the interfaces, notifications in the socket; all three are bounded, and losses are counted, or the state is read
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::kernel::Change;
use super::mapping::{Map, is_mapped};
use super::model::Model;
use super::netlink::{Netlink, News};
use super::plan::Plan;
use super::taps::{self, Tap};
use super::{LinuxError, Notify, Options};
use crate::control::{Control, DeviceEvent, Interest, Notice, NoticeKind, PortPlace, Stream};
use crate::ports::sys::event_fd::EventFd;
use crate::ports::sys::poll;
use crate::ports::{LinkState, PortNumber};
use crate::stats::LinuxReport;
use crate::sync;

/// Punted packets of a worker that wait for this thread; more are lost and counted.
const PUNTS_MAX: usize = 4096;
/// Items of each source before the others are served.
const PUNTS_TOGETHER: usize = 256;
const FRAMES_TOGETHER: usize = 64;
/// Changes that are written together, while there are more.
const CHANGES_TOGETHER: usize = 2048;
/// Delay of reading again after the kernel may have removed routes: it is still busy removing them.
const RESYNC_AFTER: Duration = Duration::from_millis(20);
/// Interval of probing neighbours, retrying refused routes and next hops, and checking ports.
const TICK: Duration = Duration::from_secs(1);
/// Neighbours that are probed in a tick, and routes that are retried.
const ASKED_MOST: usize = 256;
const RETRIED_MOST: usize = 1024;

struct WakeFd(EventFd);

impl Wake for WakeFd {
    fn wake(self: Arc<Self>) {
        self.0.signal();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.signal();
    }
}

/// The thread's state.
pub(super) struct Mirror {
    control: Control,
    options: Options,
    notify: Notify,
    report: Arc<Mutex<LinuxReport>>,
    stream: Stream,
    wake_fd: Arc<WakeFd>,
    waker: Waker,
    taps: BTreeMap<PortNumber, Tap>,
    /// Ports whose interface could not be made.
    refused: BTreeSet<PortNumber>,
    netlink: Netlink,
    is_unreadable_reported: bool,
    model: Model,
    plan: Option<Plan>,
    resync_at: Option<Instant>,
    tick_at: Instant,
    counted: LinuxReport,
    room: Vec<u8>,
}

impl Mirror {
    /// Creates the interfaces and reads the kernel's state, in the namespace of the calling thread.
    pub(super) fn open(
        control: Control,
        options: Options,
        notify: Notify,
        report: Arc<Mutex<LinuxReport>>,
    ) -> Result<Mirror, LinuxError> {
        let interest = Interest { packets: true, events: true, ..Interest::default() };
        let stream = control.subscribe(interest, PUNTS_MAX)?;
        let wake_fd = Arc::new(WakeFd(EventFd::new().map_err(LinuxError::Descriptors)?));
        let waker = Waker::from(Arc::clone(&wake_fd));
        let netlink = Netlink::open().map_err(LinuxError::News)?;
        let mut mirror = Mirror {
            control,
            options,
            notify,
            report,
            stream,
            wake_fd,
            waker,
            taps: BTreeMap::new(),
            refused: BTreeSet::new(),
            netlink,
            is_unreadable_reported: false,
            model: Model::default(),
            plan: None,
            resync_at: None,
            tick_at: Instant::now() + TICK,
            counted: LinuxReport::default(),
            room: Vec::new(),
        };
        mirror.options.ports.sort_by_key(|port| port.number);
        for port in mirror.options.ports.clone() {
            mirror.add(&port)?;
        }
        if let Some(unknown) = mirror.options.names.keys().find(|n| !mirror.taps.contains_key(n)) {
            return Err(LinuxError::NoPort(*unknown));
        }
        taps::ipv6_notice().into_iter().for_each(|notice| (mirror.notify)(&notice));
        mirror.control.set_mirrored(true);
        mirror.take_program();
        mirror.read_again()?;
        mirror.write();
        Ok(mirror)
    }

    /// Runs until the device has ended, or it is stopped.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) && !self.stream.has_ended() {
            let mut busy = self.punts();
            busy |= self.frames();
            match self.news() {
                Ok(more) => busy |= more,
                Err(error) => {
                    (self.notify)(&format!(
                        "linux: news of routes: {error}: the interfaces are gone and the tables stay as they are; restart the switch"
                    ));
                    return;
                }
            }
            let now = Instant::now();
            if self.resync_at.is_some_and(|at| now >= at)
                && let Err(why) = self.read_again()
            {
                // It is retried; the present state stays meanwhile.
                (self.notify)(&why.to_string());
                self.resync_at = Some(now + TICK);
            }
            if now >= self.tick_at {
                self.tick_at = now + TICK;
                self.tick();
            }
            self.write();
            // A flush may leave work for the next one.
            if !busy && self.model.dirty.is_empty() {
                self.sleep(now);
            }
        }
    }

    fn sleep(&mut self, now: Instant) {
        self.wake_fd.0.clear();
        // Data from here on wakes the thread.
        let mut context = Context::from_waker(&self.waker);
        match Pin::new(&mut self.stream).poll_next(&mut context) {
            Poll::Ready(Some(notice)) => return self.take_notice(notice),
            Poll::Ready(None) => return,
            Poll::Pending => {}
        }
        let due = self.resync_at.unwrap_or(self.tick_at).min(self.tick_at);
        let mut fds = vec![std::os::fd::AsRawFd::as_raw_fd(&self.wake_fd.0), self.netlink.fd()];
        fds.extend(self.taps.values().map(Tap::fd));
        // Without memory for the list it polls without sleeping.
        let _ = poll::wait(&fds, due.saturating_duration_since(now));
    }

    /// Serves the device's notices. True: there may be more.
    fn punts(&mut self) -> bool {
        for _ in 0..PUNTS_TOGETHER {
            match self.stream.try_next() {
                Some(notice) => self.take_notice(notice),
                None => return false,
            }
        }
        true
    }

    fn take_notice(&mut self, notice: Notice) {
        match notice.kind {
            NoticeKind::Packet(packet) => {
                let tap = self.taps.get(&packet.ingress_port);
                let taken = tap.is_some_and(|tap| tap.give(&packet.bytes));
                match taken {
                    true => self.counted.packets_to_kernel += 1,
                    false => self.counted.packets_refused_by_kernel += 1,
                }
            }
            NoticeKind::Event(DeviceEvent::Link { port, state }) => {
                self.set_carrier(port, is_up(state));
            }
            NoticeKind::Event(DeviceEvent::Program { .. }) => self.take_program(),
            _ => {}
        }
    }

    /// Sends the kernel's packets out of the ports. True: there may be more.
    fn frames(&mut self) -> bool {
        let mut more = false;
        for (port, tap) in &self.taps {
            let frames = tap.take(FRAMES_TOGETHER, &mut self.room);
            if frames.is_empty() {
                continue;
            }
            more |= frames.len() == FRAMES_TOGETHER;
            let (count, class) = (frames.len() as u64, self.options.traffic_class);
            let sent = self.control.send_all(tap.worker, *port, frames, class).unwrap_or(0);
            self.counted.packets_from_kernel += sent;
            self.counted.packets_not_sent += count - sent;
        }
        more
    }

    /// Reads the kernel's notifications. True: there may be more.
    fn news(&mut self) -> std::io::Result<bool> {
        let mut changes = Vec::new();
        let mut more = true;
        for _ in 0..CHANGES_TOGETHER {
            match self.netlink.receive(&mut changes)? {
                News::More => {}
                News::Lost => {
                    self.counted.news_lost += 1;
                    self.resync_at = Some(Instant::now());
                }
                News::End => {
                    more = false;
                    break;
                }
            }
        }
        changes.into_iter().for_each(|change| self.take_change(change));
        Ok(more)
    }

    fn take_change(&mut self, change: Change) {
        self.take_name(&change);
        if let Change::LinkGone { index } = change
            && let Some(port) = self.port_of(index)
        {
            let name = self.taps.remove(&port).map_or(String::new(), |tap| tap.name);
            (self.notify)(&format!(
                "linux: {name}, the interface of port {port}, is gone: the switch makes it again, without its addresses and routes"
            ));
            // Until then the program may take the port for one that is not the router's.
            self.tick_at = Instant::now();
        }
        if self.model.apply(change) {
            let at = Instant::now() + RESYNC_AFTER;
            self.resync_at.get_or_insert(at);
        }
    }

    /// An interface may have a new name.
    fn take_name(&mut self, change: &Change) {
        if let Change::Link { index, name, .. } = change
            && let Some(tap) = self.taps.values_mut().find(|tap| tap.index == *index)
        {
            tap.name.clone_from(name);
        }
    }

    fn port_of(&self, index: u32) -> Option<PortNumber> {
        self.taps.iter().find(|(_, tap)| tap.index == index).map(|(port, _)| *port)
    }

    /// Reads the kernel's whole state.
    fn read_again(&mut self) -> Result<(), LinuxError> {
        let all = self.netlink.dump().map_err(LinuxError::State)?;
        if self.netlink.unreadable > 0 && !self.is_unreadable_reported {
            self.is_unreadable_reported = true;
            let text = "linux: the kernel sends messages that cannot be read here: what they change is not in the tables";
            (self.notify)(text);
        }
        self.resync_at = None;
        self.counted.resyncs += 1;
        all.iter().for_each(|change| self.take_name(change));
        self.model.replace(all);
        Ok(())
    }

    fn add(&mut self, port: &PortPlace) -> Result<(), LinuxError> {
        let Some(name) = taps::name_of(port.number, &self.options.names) else { return Ok(()) };
        let tap = taps::make(&name, port)?;
        self.model.set_port(tap.index, Some(port.number), port.up);
        self.model.set_passed_over(tap.index, tap.is_passed_over());
        self.taps.insert(port.number, tap);
        Ok(())
    }

    fn set_carrier(&mut self, port: PortNumber, up: bool) {
        let Some(tap) = self.taps.get_mut(&port) else { return };
        if tap.carrier != up {
            self.model.set_port(tap.index, Some(port), up);
            if let Err(error) = tap.set_carrier(up) {
                (self.notify)(&format!("linux: the carrier of {}: {error}", tap.name));
            }
        }
    }

    /// Maps into the tables of the present program.
    fn take_program(&mut self) {
        let program = self.control.program();
        let map = is_mapped(&program).then(|| Map::of(&program));
        self.plan = match (self.plan.take(), map) {
            (Some(mut plan), Some(map)) if plan.fits(&map) => {
                plan.adopt(map, &self.control);
                Some(plan)
            }
            (_, map) => map.map(|map| Plan::new(map, &self.control)),
        };
        if self.plan.is_none() {
            let text = format!(
                "linux: program {} has no `linux:`: its tables do not follow the kernel",
                program.name
            );
            (self.notify)(&text);
        }
        self.model.touch_all();
    }

    /// Writes the changes into the tables.
    fn write(&mut self) {
        if !self.model.dirty.is_empty() {
            // The notice of another program may still be pending.
            if self.plan.as_ref().is_some_and(|plan| !plan.is_of(&self.control.program())) {
                self.take_program();
            }
            match &mut self.plan {
                Some(plan) => {
                    let notices = plan.flush(&mut self.model, &self.control);
                    notices.iter().for_each(|text| (self.notify)(&format!("linux: {text}")));
                    self.probe();
                }
                None => self.model.dirty = Default::default(),
            }
        }
        self.counted.packets_lost = self.stream.lost();
        self.counted.neighbours = self.model.neighbours() as u64;
        if let Some(plan) = &self.plan {
            plan.report(&mut self.counted);
        }
        *sync::lock(&self.report) = self.counted;
    }

    /// Has the kernel probe next hops that it does not use itself.
    fn probe(&mut self) {
        let Some(plan) = &self.plan else { return };
        for (link, address) in plan.to_probe(&self.model).into_iter().take(ASKED_MOST) {
            if self.netlink.find(link, address).is_ok() {
                self.model.set_probed(link, address);
            }
        }
    }

    /// Periodic work.
    fn tick(&mut self) {
        if let Some(plan) = &mut self.plan {
            plan.retry(&mut self.model, RETRIED_MOST);
        }
        self.probe();
        let Ok(ports) = self.control.port_places() else { return };
        for port in &ports {
            match self.taps.contains_key(&port.number) {
                true => self.set_carrier(port.number, port.up),
                false if self.refused.contains(&port.number) => {}
                false => {
                    if let Err(why) = self.add(port) {
                        (self.notify)(&why.to_string());
                        self.refused.insert(port.number);
                    }
                }
            }
        }
        for tap in self.taps.values() {
            self.model.set_passed_over(tap.index, tap.is_passed_over());
        }
        self.refused.retain(|number| ports.iter().any(|port| port.number == *number));
        let gone: Vec<PortNumber> = self.taps.keys().copied().collect();
        let gone = gone.into_iter().filter(|n| !ports.iter().any(|port| port.number == *n));
        for number in gone {
            if let Some(tap) = self.taps.remove(&number) {
                self.model.set_port(tap.index, None, false);
            }
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.control.set_mirrored(false);
    }
}

fn is_up(state: LinkState) -> bool {
    matches!(state, LinkState::Up | LinkState::Ended)
}
