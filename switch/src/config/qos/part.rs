//! One worker's part of a buffer that several workers share.
//!
//! Every worker has a traffic manager of its own. A priority group is charged by the worker of its port and a queue by
//! the worker of its port, so their own bytes (reserved, headroom) are whole there. The shared ones, the rest of each
//! pool and the packets at once, are split evenly: nothing is counted twice, and workers report to each other only whether their packet slots are few. The
//! price: a port can use only its worker's part of the shared bytes. Packets of all workers may wait behind one port, so
//! the part of an egress pool can be too small for what all ingress parts together admit ([`WorkerShare::egress_shortages`]).

use super::{Qos, total};
use crate::ports::PortNumber;
use crate::tm::{CLASSES, GroupConfig, Limit, PoolConfig, PoolId};
use crate::units::Bytes;

/// A lossless group that would find its part of the pool full before it could send a pause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "port {port}, priority group {group}: it pauses its peer at {wanted_bytes} shared bytes, but a worker's part has \
     {shared_bytes}: use fewer than {workers} workers, or a lower static_th"
)]
pub struct PartError {
    /// The port.
    pub port: PortNumber,
    /// The priority group.
    pub group: usize,
    /// Shared bytes at which it sends a pause.
    pub wanted_bytes: u64,
    /// Shared bytes of the worker's part.
    pub shared_bytes: u64,
    /// Number of workers that share the buffer.
    pub workers: usize,
}

/// The part of one worker.
pub struct WorkerShare<'a> {
    /// Number of workers.
    pub workers: usize,
    /// True for the ports of this one, and for those that it may get later.
    pub owns: &'a dyn Fn(PortNumber) -> bool,
}

impl std::fmt::Debug for WorkerShare<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerShare").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl WorkerShare<'_> {
    /// The queues of this worker.
    ///
    /// # Errors
    /// A lossless group would find its pool's part full before it could send a pause.
    pub fn of(&self, whole: &Qos) -> Result<Qos, PartError> {
        let mut qos = whole.clone();
        qos.tm.packet_slots = (qos.tm.packet_slots / self.workers.max(1) as u32).max(1);
        qos.tm.hold_slots = qos.tm.hold_slots.min(qos.tm.packet_slots);
        if qos.tm.stop_at_slots != u32::MAX {
            qos.tm.stop_at_slots = qos.tm.packet_slots - qos.tm.packet_slots / 4;
        }
        for (index, pool) in qos.tm.pools.iter_mut().enumerate() {
            let id = PoolId(u8::try_from(index).unwrap_or(u8::MAX));
            *pool = self.pool(whole, id, *pool);
        }
        for port in qos.ports.iter().filter(|port| (self.owns)(port.number)) {
            for (number, group) in port.tm.groups.iter().enumerate() {
                let Some((wanted_bytes, shared_bytes)) = too_much(&qos, group) else { continue };
                let (port, group, workers) = (port.number, number, self.workers);
                return Err(PartError { port, group, wanted_bytes, shared_bytes, workers });
            }
        }
        Ok(qos)
    }

    /// Parts of egress pools in which a queue of a lossless class holds less than its ingress pool admits, where the
    /// whole pool holds that; a message for each.
    pub fn egress_shortages(whole: &Qos, workers: usize) -> Vec<String> {
        let mut found: Vec<(PoolId, String)> = Vec::new();
        let pool = |id: PoolId| whole.report.pools.get(usize::from(id.0));
        let parts = workers.max(1) as u64;
        for (port, tc) in whole.ports.iter().flat_map(|port| (0..CLASSES).map(move |tc| (port, tc)))
        {
            let group = &port.tm.groups[usize::from(port.classifier.tc_to_group[tc])];
            let Some(ingress) = group.lossless.and_then(|_| pool(group.account.pool)) else {
                continue;
            };
            let queue = usize::from(port.classifier.tc_to_queue[tc]);
            for account in whole.ports.iter().map(|port| port.tm.queues[queue].account) {
                let Some(egress) = pool(account.pool) else { continue };
                let holds = |parts: u64| account.alone(egress.shared_bytes / parts);
                let enough = ingress.size_bytes;
                let is_new = found.iter().all(|(known, _)| *known != account.pool);
                if is_new && holds(parts) < enough && holds(1) >= enough {
                    let message = format!(
                        "pool {}: with {workers} workers a queue of a lossless class holds {} of it, less than the {} \
                         that pool {} admits, and drops what is more: use fewer workers, or make the pool, and a \
                         static_th of its queues, up to {workers} times larger",
                        egress.name,
                        Bytes::new(holds(parts)),
                        Bytes::new(enough),
                        ingress.name
                    );
                    found.push((account.pool, message));
                }
            }
        }
        found.into_iter().map(|(_, message)| message).collect()
    }

    fn pool(&self, whole: &Qos, id: PoolId, pool: PoolConfig) -> PoolConfig {
        let headroom = |own_only: bool| -> u64 {
            let ports = whole.ports.iter().filter(|port| !own_only || (self.owns)(port.number));
            let groups = ports.flat_map(|port| &port.tm.groups);
            let of_pool = groups.filter(|group| group.account.pool == id);
            let each = of_pool.filter_map(|group| Some(group.lossless?.headroom_bytes));
            total(each)
        };
        // A headroom pool that is smaller than the sum of its groups' headroom is shared, and so split.
        let is_shared = headroom(false) > pool.headroom_bytes;
        let split = |bytes: u64| bytes / self.workers.max(1) as u64;
        PoolConfig {
            shared_bytes: split(pool.shared_bytes),
            headroom_bytes: if is_shared { split(pool.headroom_bytes) } else { headroom(true) },
        }
    }
}

/// The shared bytes at which a lossless group sends a pause, and the available ones, if these are fewer.
fn too_much(qos: &Qos, group: &GroupConfig) -> Option<(u64, u64)> {
    let (Some(_), Limit::Static(wanted)) = (group.lossless, group.account.limit) else {
        return None;
    };
    let pool = qos.tm.pools.get(usize::from(group.account.pool.0));
    let shared = pool.map_or(0, |pool| pool.shared_bytes);
    (wanted > shared).then_some((wanted, shared))
}

#[cfg(test)]
mod tests {
    use super::super::{PortLink, QosConfig};
    use super::*;
    use crate::units::BitsPerSec;

    fn qos(text: &str) -> Qos {
        let config: QosConfig = serde_json::from_str(text).unwrap();
        let link = |number| PortLink { number, rate: Some(BitsPerSec::gbit(100)) };
        config.resolve(&[PortNumber(1), PortNumber(2), PortNumber(3)].map(link)).unwrap()
    }

    /// A pool of 32 MiB in, and one of 64 MiB out: half of it holds what all workers admit.
    #[test]
    fn a_part_that_holds_less_than_all_workers_admit_is_named() {
        let qos = qos(r#"{ "preset": "sonic_azure" }"#);
        for workers in [1, 2] {
            assert_eq!(WorkerShare::egress_shortages(&qos, workers), [] as [&str; 0], "{workers}");
        }
        let found = WorkerShare::egress_shortages(&qos, 3);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("pool egress_lossless_pool: with 3 workers"), "{found:?}");
        assert!(found[0].contains("less than the 32 MiB"), "{found:?}");
    }

    /// A port that comes later has its headroom at whatever worker gets it.
    #[test]
    fn every_worker_has_headroom_for_ports_without_an_owner() {
        let qos = qos(r#"{ "preset": "sonic_azure" }"#);
        let lossless = qos.ports[0].tm.groups[3];
        let each = 2 * lossless.lossless.unwrap().headroom_bytes;
        let of = |owns: &dyn Fn(PortNumber) -> bool| {
            let part = WorkerShare { workers: 2, owns }.of(&qos).unwrap();
            part.tm.pools[usize::from(lossless.account.pool.0)].headroom_bytes
        };
        assert_eq!(of(&|number| number == PortNumber(1)), each);
        assert_eq!(of(&|number| number != PortNumber(2)), 2 * each, "port 3 may come");
    }
}
