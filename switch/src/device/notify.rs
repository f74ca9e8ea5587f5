//! Congestion that programs report, and the CNPs that follow.
//!
//! A program only says what it saw ([`Notifier::report`]); the notification point alone decides whether
//! and when a CNP goes out, and `frames` builds it. The link addresses of the marked packet wait with its CNP.
//!
//! A mark seen by ingress (an end point, or a switch that is notified) is answered straight out of the port that the
//! packet came in by, to its sender. A mark that egress writes is answered as if the receiver had
//! sent the CNP: it enters ingress by the port that the marked packet leaves by, and the program routes it.

use std::sync::Arc;

use wireyard_pipeline::exec::Descriptor;
use wireyard_pipeline::ir::Half;
use wireyard_tables::time::{Deadline, Time};

use crate::config::notification::Notification;
use crate::frames::Frames;
use crate::frames::cnp::{CnpConfig, CnpLink, FRAME_BYTES_MAX};
use crate::frames::envelope::Class;
use crate::frames::layout::LayoutError;
use crate::link_type::LinkType;
use crate::roce::np::{Cnp, Congestion, FlowKey, Mark, NotificationPoint, NpCounters};

/// How a CNP leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Straight out of this port.
    Out(u16),
    /// Into ingress, as if it had come in by this port.
    In(u16),
}

/// Link addresses and way of a flow's CNPs.
#[derive(Clone, Copy, Debug)]
struct Reply {
    link: CnpLink,
    via: Via,
}

/// A CNP to send.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    bytes: [u8; FRAME_BYTES_MAX],
    len: usize,
    /// How it leaves.
    pub via: Via,
    /// How it is classified.
    pub class: NoticeClass,
}

/// What decides the traffic class of a CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeClass {
    /// The port's maps, from these.
    Maps(Class),
    /// The virtual lane, on InfiniBand.
    Lane(u8),
}

impl Notice {
    /// The frame.
    pub fn frame(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What became of reported congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotifyCounters {
    /// The notification point's own.
    pub np: NpCounters,
    /// Reports of packets that are no RoCE or InfiniBand transport.
    pub not_transport: u64,
    /// CNPs that could not be built.
    pub unbuildable: u64,
}

/// The notification point with the ways back.
#[derive(Debug)]
pub struct Notifier {
    np: NotificationPoint<Reply>,
    cnp: CnpConfig,
    frames: Arc<Frames>,
    not_transport: u64,
    unbuildable: u64,
}

impl Notifier {
    /// A notification point with these settings.
    ///
    /// # Errors
    /// See [`Frames::new`].
    pub fn new(config: &Notification) -> Result<Notifier, LayoutError> {
        Ok(Notifier {
            np: NotificationPoint::new(config.np()),
            cnp: config.cnp(),
            frames: Frames::shared()?,
            not_transport: 0,
            unbuildable: 0,
        })
    }

    /// What the arguments of `notify_congestion` say, about a packet with these bytes.
    pub fn report(
        &mut self,
        args: &[u128],
        packet: &Descriptor,
        bytes: &[u8],
        half: Half,
        now: Time,
    ) {
        let [src, dst, dest_qp, opcode, mark, sender_qp] = *args else { return };
        let link = match packet.ingress_link {
            1 => LinkType::Infiniband,
            _ => LinkType::Ethernet,
        };
        let Ok((address, marked)) = self.frames.transport.marked(link, bytes) else {
            self.not_transport += 1;
            return;
        };
        let via = match half {
            Half::Ingress => Via::Out(packet.ingress_port),
            Half::Egress => Via::In(packet.egress_port),
        };
        let flow = FlowKey { src, dst, dest_qp: dest_qp as u32 };
        let seen = Congestion {
            flow,
            opcode: opcode as u8,
            port: packet.ingress_port,
            mark: if mark == 0 { Mark::IpCe } else { Mark::Fecn },
            marked,
            sender_qp: Some(sender_qp as u32).filter(|qp| *qp != 0),
        };
        self.np.on_congestion(now, &seen, Reply { link: CnpLink::back(&address), via });
    }

    /// When [`Notifier::poll`] next has something to do.
    pub fn next_deadline(&self) -> Deadline {
        self.np.next_deadline()
    }

    /// The next CNP that is due.
    pub fn poll(&mut self, now: Time) -> Option<Notice> {
        while let Some((cnp, reply)) = self.np.poll(now) {
            match self.build(&cnp, &reply) {
                Some(notice) => return Some(notice),
                None => self.unbuildable += 1,
            }
        }
        None
    }

    fn build(&self, cnp: &Cnp, reply: &Reply) -> Option<Notice> {
        let mut bytes = [0; FRAME_BYTES_MAX];
        let transport = &self.frames.transport;
        let len = transport.build_cnp(cnp, &reply.link, &self.cnp, &mut bytes).ok()?;
        let class = self.cnp.class_of(cnp.mark, &cnp.marked);
        let class = match cnp.mark {
            Mark::IpCe => NoticeClass::Maps(class),
            Mark::Fecn => NoticeClass::Lane(class.vl),
        };
        Some(Notice { bytes, len, via: reply.via, class })
    }

    /// What it counted.
    pub fn counters(&self) -> NotifyCounters {
        let (not_transport, unbuildable) = (self.not_transport, self.unbuildable);
        NotifyCounters { np: self.np.counters(), not_transport, unbuildable }
    }
}
