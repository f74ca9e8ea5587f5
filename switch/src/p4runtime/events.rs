//! Notices of the device: packets, digests and idle entries to the primary controllers, links to groups and sessions.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use wireyard_pipeline::ids::Id;
use wireyard_tables::time::Time;

use super::counts::add;
use super::packets;
use super::proto::p4::v1 as p4;
use super::service::Service;
use super::translate::entry;
use crate::control::{Control, DeviceEvent, IdleNotice, Interest, Notice, NoticeKind, Stream};
use crate::ports::LinkState;
use crate::time_of_day;
use p4::stream_message_response::Update;

/// Notices of a worker that may wait for this task; more are lost, and counted by the stream.
const WAITING_MAX: usize = 8192;
/// Maximum number of notices that are passed on before due lists of digests are sent.
const TOGETHER: usize = 256;
/// Time after which a subscription that failed is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// Time after which links that could not be read are read again: workers were waited for in vain.
const LINKS_AGAIN: Duration = Duration::from_secs(2);

/// Keeps groups and sessions in agreement with the links, for as long as the device runs and whether or not a controller
/// is there. Apart from the notices of packets, which may be more than a ring has room for.
pub(super) fn follow_links(service: Service) {
    tokio::spawn(async move {
        let device = service.device;
        let interest = Interest { events: true, ..Interest::default() };
        let Some(mut stream) = subscribed(&device.control, interest).await else { return };
        // Links that changed before the subscription.
        let (mut changed, mut lost) = (None, None);
        loop {
            let (known, at_once) = (Arc::clone(&device), lost != Some(stream.lost()));
            lost = Some(stream.lost());
            // Waits for locks that writes hold.
            let followed = tokio::task::spawn_blocking(move || match changed {
                _ if at_once => known.look_at_links(),
                Some((port, is_up)) => {
                    known.link(port, is_up);
                    true
                }
                None => true,
            });
            match followed.await {
                Ok(true) => {}
                Ok(false) => {
                    // As if notices were lost.
                    lost = None;
                    sleep(LINKS_AGAIN).await;
                    continue;
                }
                Err(error) => {
                    tracing::error!(
                        event = "links",
                        "groups do not follow the links until the switch is started again: {error}"
                    );
                    return;
                }
            }
            let notice = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await;
            changed = match notice.map(|notice| notice.kind) {
                Some(NoticeKind::Event(DeviceEvent::Link { port, state })) => {
                    Some((port, state == LinkState::Up))
                }
                Some(_) => None,
                None => return,
            };
        }
    });
}

/// Passes on the notices of the device, for as long as it runs.
pub(super) fn start(service: Service) {
    tokio::spawn(async move {
        let interest = Interest { digests: true, packets: true, idle: true, events: false };
        let Some(mut stream) = subscribed(&service.device.control, interest).await else { return };
        let start = Instant::now();
        let mut due = None;
        loop {
            let wake = start + due.unwrap_or(Duration::from_secs(3600));
            let notice = tokio::select! {
                notice = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)) => match notice {
                    Some(notice) => Some(notice),
                    None => return,
                },
                () = sleep_until(wake) => None,
            };
            // Waits for locks that writes hold, so it must not run on the thread that serves all requests.
            let service = service.clone();
            let passed = tokio::task::spawn_blocking(move || {
                let due = service.pass_on_some(&mut stream, notice, start);
                (stream, due)
            });
            match passed.await {
                Ok(passed) => (stream, due) = passed,
                Err(error) => {
                    tracing::error!(
                        event = "notices",
                        "packets, digests and idle entries reach no controller until the switch is started again: {error}"
                    );
                    return;
                }
            }
        }
    });
}

/// Subscribes to the notices of the device, as soon as that succeeds; `None` if it has ended.
async fn subscribed(control: &Control, interest: Interest) -> Option<Stream> {
    let mut is_reported = false;
    loop {
        match control.subscribe(interest, WAITING_MAX) {
            Ok(stream) => return Some(stream),
            Err(_) if control.has_ended() => return None,
            Err(why) if !is_reported => {
                tracing::warn!(
                    event = "notices",
                    "notices of the device are not received yet; tried again every {} ms: {why}",
                    AGAIN.as_millis()
                );
                is_reported = true;
            }
            Err(_) => {}
        }
        sleep(AGAIN).await;
    }
}

impl Service {
    /// Passes on a notice and some of those after it. Returns when lists of digests are due next, from the start.
    fn pass_on_some(
        &self,
        stream: &mut Stream,
        notice: Option<Notice>,
        start: Instant,
    ) -> Option<Duration> {
        let now = || Time::from_ns(start.elapsed().as_nanos() as u64);
        notice.into_iter().for_each(|notice| self.pass_on(notice, now()));
        for _ in 0..TOGETHER {
            match stream.try_next() {
                Some(notice) => self.pass_on(notice, now()),
                None => break,
            }
        }
        self.send_digests(now());
        self.device.counts.notices_lost.store(stream.lost(), Relaxed);
        let due = self.device.digests().next_due().instant();
        due.map(|due| Duration::from_nanos(due.as_ns()))
    }

    fn pass_on(&self, notice: Notice, now: Time) {
        match notice.kind {
            NoticeKind::Packet(packet) => {
                let pipeline = self.device.pipeline();
                let message = packets::packet_in(&pipeline.schema, &packet);
                let counts = &self.device.counts;
                match self.to_primaries(&Update::Packet(message)) {
                    0 => add(&counts.packets_in_dropped, 1),
                    sent => add(&counts.packets_in, sent),
                }
            }
            NoticeKind::Digest(digest) => {
                // Under the lock that a program replacement takes for digests: in another program the digest has
                // another number.
                let mut digests = self.device.digests();
                if Arc::ptr_eq(&digest.program, &self.device.pipeline().schema.program) {
                    digests.add(digest.digest, digest.values, now);
                }
            }
            NoticeKind::Idle(idle) => self.idle(&idle, time_of_day::signed_ns()),
            _ => {}
        }
    }

    fn idle(&self, idle: &IdleNotice, timestamp: i64) {
        let schema = Arc::clone(&self.device.pipeline().schema);
        let table = idle.idle.table;
        let is_known = schema.program.tables.get(table).is_some_and(|known| {
            idle.program.tables.get(table).is_some_and(|other| other.name == known.name)
        });
        if is_known && idle.idle.removed {
            self.device.removed_when_idle(&schema, idle.entry(), idle.released());
        } else if is_known {
            let found = idle.entry();
            let key = entry::key_message(&schema, &found.key);
            let metadata = self.device.kept().of_entry(&key);
            let idle_timeout_ns = found.idle_timeout.map_or(0, entry::span_ns);
            let table_entry = vec![p4::TableEntry { metadata, idle_timeout_ns, ..key }];
            let message = p4::IdleTimeoutNotification { table_entry, timestamp };
            self.to_primaries(&Update::IdleTimeoutNotification(message));
        }
    }

    fn send_digests(&self, now: Time) {
        let lists = self.device.digests().due(now);
        let pipeline = self.device.pipeline();
        let timestamp = time_of_day::signed_ns();
        for list in lists {
            if list.digest.index() < pipeline.schema.ids.digests.len() {
                let message = packets::digest_list(&pipeline.schema, &list, timestamp);
                if self.to_primaries(&Update::Digest(message)) == 0 {
                    self.device.digests().dropped(&list);
                }
            }
        }
        self.device.counts.digests(self.device.digests().counts());
    }

    /// Sends an update to the primaries; returns how many received it.
    fn to_primaries(&self, update: &Update) -> u64 {
        let arbitration = self.device.arbitration();
        let sent = arbitration.primaries().filter(|id| self.streams.send(*id, update.clone()));
        sent.count() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::timeout;
    use wireyard_tables::time::Time;

    use super::*;
    use crate::p4runtime::device::Device;
    use crate::p4runtime::persist::Begun;
    use crate::ports::PortNumber;
    use crate::program::{DeviceOptions, one_way};

    #[test]
    fn links_that_no_worker_reported_are_read_again() {
        let loaded = one_way();
        let mut core = loaded.device(DeviceOptions::small()).unwrap();
        let control = Control::of(&core).unwrap().clone();
        let device = Arc::new(Device::new(1, control, &loaded.parsed, Begun::default()));
        let service = Service::new(Arc::clone(&device));
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(async {
                follow_links(service);
                sleep(Duration::from_secs(60)).await;
            });
        });
        // The first time no worker answers, for two seconds.
        std::thread::sleep(Duration::from_secs(3));
        std::thread::spawn(move || {
            for _ in 0..20_000 {
                core.poll(Time::from_ns(1), None);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..2000 {
            // Once the ports are known, one that does not exist is down.
            if device.watch().is_down(PortNumber(9)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the links are not read");
    }

    #[test]
    fn a_subscription_that_finds_the_ring_of_commands_full_is_tried_again() {
        let mut core = one_way().device(DeviceOptions::small()).unwrap();
        let control = Control::of(&core).unwrap().clone();
        let events = Interest { events: true, ..Interest::default() };
        while control.subscribe(events, 1).is_ok() {}
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut subscribing = pin!(subscribed(&control, Interest::ALL));
            assert!(timeout(Duration::from_millis(1), &mut subscribing).await.is_err());
            core.poll(Time::from_ns(1), None);
            let subscribed = timeout(Duration::from_secs(10), subscribing).await;
            assert!(subscribed.is_ok_and(|stream| stream.is_some()));
            // A device that ends at once has no notices.
            drop(core);
            assert!(self::subscribed(&control, Interest::ALL).await.is_none());
        });
    }
}
