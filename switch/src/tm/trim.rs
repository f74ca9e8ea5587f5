//! Packet trimming: the decision about packets that their queue refuses.
//!
//! If the queue's profile enables it, the packet is cut to its headers and offered to another queue of the same port,
//! so that its receiver learns of the loss at once (SONiC Packet Trimming HLD, SAI
//! `PACKET_ADMISSION_FAIL_ACTION_DROP_AND_TRIM`; NDP, SIGCOMM'17). Only refusals of the queue itself count: its
//! threshold, its pool, WRED at enqueue. An ingress group without room, a port that is down or a storm drops the packet
//! as usual, also one that was trimmed first. The caller cuts the bytes; a packet is trimmed once, and when the other
//! queue has no room either it is dropped as `trim_refused`.
//!
//! A copy that shares its memory may be trimmed: its queue is charged the trimmed length, its group the whole memory.

use wireyard_tables::time::Time;

use super::Tm;
use super::id::DropReason;
use super::port::Trim;
use super::queue::{Arrival, Charge, Offered, Release, Terms};

impl<P: Default> Tm<P> {
    /// Counts a refusal, or returns how to trim the packet.
    #[cold]
    pub(super) fn refuse(&mut self, arrival: &Arrival, reason: DropReason) -> Offered {
        let Some(trim) = self.trim_of(arrival, reason) else {
            self.count_refusal(arrival, reason);
            return Offered::Refused(reason);
        };
        let queue = &mut self.ports[arrival.egress.index()].queues[usize::from(arrival.queue)];
        queue.counters.trimmed.add(arrival.bytes);
        Offered::Trims(trim)
    }

    fn trim_of(&self, arrival: &Arrival, reason: DropReason) -> Option<Trim> {
        let Terms { charge, release, .. } = arrival.terms;
        let at_once = release == Release::Immediate && charge != Charge::Control;
        let port = self.ports.get(arrival.egress.index()).filter(|_| at_once)?;
        let trim = port.config.queues.get(usize::from(arrival.queue))?.trim?;
        self.is_by_queue(arrival, reason).then_some(trim)
    }

    /// True if the queue itself refused a packet, for this reason.
    fn is_by_queue(&self, arrival: &Arrival, reason: DropReason) -> bool {
        match reason {
            DropReason::QueueThreshold | DropReason::Wred => true,
            DropReason::PoolExhausted => {
                // The ingress pool gives the same reason.
                let port = self.ports.get(arrival.egress.index());
                let queue = port.and_then(|port| port.queues.get(usize::from(arrival.queue)));
                let Some(account) = queue.map(|queue| &queue.account) else { return false };
                let pool = self.pools.get(usize::from(account.config.pool.0));
                let charged = self.charge_of(arrival.bytes).into();
                pool.is_some_and(|pool| account.admits(pool, charged, reason).is_err())
            }
            _ => false,
        }
    }

    /// Offers a trimmed packet that `from` refused, after [`Offered::Trims`]. Never returns [`Offered::Trims`].
    pub fn offer_trimmed(&mut self, now: Time, from: u8, arrival: &Arrival) -> Offered {
        self.admit(now, arrival).unwrap_or_else(|reason| {
            let by_queue = self.is_by_queue(arrival, reason);
            let reason = if by_queue { DropReason::TrimRefused } else { reason };
            self.count_refusal(arrival, reason);
            let port = self.ports.get_mut(arrival.egress.index()).filter(|_| by_queue);
            if let Some(queue) = port.and_then(|port| port.queues.get_mut(usize::from(from))) {
                queue.counters.trim_dropped.add(arrival.bytes);
            }
            Offered::Refused(reason)
        })
    }
}
