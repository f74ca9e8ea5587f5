//! One worker's part of a buffer that several workers share.
//!
//! Every worker has a traffic manager of its own. A priority group is charged by the worker of its port and a queue by
//! the worker of its port, so their own bytes (reserved, headroom) are whole there. The shared ones, the rest of each
//! pool and the packets at once, are split evenly: nothing is counted twice, and no worker depends on another. The
//! price: a port can use only its worker's part of the shared bytes.

use super::Qos;
use crate::ports::PortNumber;
use crate::tm::{GroupConfig, Limit, PoolConfig, PoolId};

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
pub struct Part<'a> {
    /// Number of workers.
    pub workers: usize,
    /// True for the ports of this one.
    pub owns: &'a dyn Fn(PortNumber) -> bool,
}

impl std::fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Part<'_> {
    /// The queues of this worker.
    ///
    /// # Errors
    /// A lossless group would find its pool's part full before it could send a pause.
    pub fn of(&self, whole: &Qos) -> Result<Qos, PartError> {
        let mut qos = whole.clone();
        qos.tm.packet_slots = (qos.tm.packet_slots / self.workers.max(1) as u32).max(1);
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

    fn pool(&self, whole: &Qos, id: PoolId, pool: PoolConfig) -> PoolConfig {
        let headroom = |own_only: bool| -> u64 {
            let ports = whole.ports.iter().filter(|port| !own_only || (self.owns)(port.number));
            let groups = ports.flat_map(|port| &port.tm.groups);
            let of_pool = groups.filter(|group| group.account.pool == id);
            of_pool.filter_map(|group| Some(group.lossless?.headroom_bytes)).sum()
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
