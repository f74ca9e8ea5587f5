//! Congestion reported by programs, and the resulting CNPs.
//!
//! A program only reports a mark ([`Notifier::report`]); the notification point alone decides whether and when a CNP is
//! sent, and `frames` builds it. The link addresses of the marked packet are stored with its CNP.
//!
//! For a mark seen by ingress (at an end point, or in a switch whose program reports it), the CNP leaves directly by
//! the port that received the packet, to its sender. For a mark written by egress, the CNP enters ingress as if the
//! receiver had sent it: by the port that the marked packet leaves by, and the program routes it.

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
use crate::ports::PortNumber;
use crate::roce::np::{Cnp, Congestion, FlowKey, Mark, NotificationPoint, NpCounters};

/// How a CNP leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Directly, out of this port.
    Out(PortNumber),
    /// Into ingress, as if this port had received it.
    In(PortNumber),
}

/// Link addresses and path of a flow's CNPs.
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

/// The input for the traffic class of a CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeClass {
    /// The port's maps, applied to these values.
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

/// Outcomes of reported congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotifyCounters {
    /// The notification point's own.
    pub np: NpCounters,
    /// Reports of packets that are not RoCE or InfiniBand transport.
    pub not_transport: u64,
    /// CNPs that could not be built.
    pub unbuildable: u64,
}

/// The notification point with the return path of each flow.
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

    /// Reports a mark with the arguments of `notify_congestion`, of a packet with these bytes.
    pub fn report(
        &mut self,
        args: &[u128],
        packet: &Descriptor,
        bytes: &[u8],
        half: Half,
        now: Time,
    ) {
        let [src, dst, dest_qp, opcode, mark, sender_qp] = *args else { return };
        let link = match packet.ingress_link == LinkType::Infiniband.code() {
            true => LinkType::Infiniband,
            false => LinkType::Ethernet,
        };
        let Ok((address, marked)) = self.frames.transport.marked(link, bytes) else {
            self.not_transport += 1;
            return;
        };
        let via = match half {
            Half::Ingress => Via::Out(PortNumber(packet.ingress_port)),
            Half::Egress => Via::In(PortNumber(packet.egress_port)),
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

    /// When [`Notifier::poll`] next has work.
    pub fn next_deadline(&self) -> Deadline {
        self.np.next_deadline()
    }

    /// The next due CNP.
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

    /// Its counters.
    pub fn counters(&self) -> NotifyCounters {
        let (not_transport, unbuildable) = (self.not_transport, self.unbuildable);
        NotifyCounters { np: self.np.counters(), not_transport, unbuildable }
    }
}
