//! The accounting identity, recomputed from the packets.

use super::Tm;
use super::id::{CLASSES, PortId};
use super::port::{Leaving, QueueCounters};
use super::queue::Memory;
use super::shared::Charged;
use super::view::View;

/// A counter that does not match the packets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: counted {counted}, recomputed {recomputed}")]
pub struct AuditError {
    what: String,
    counted: u64,
    recomputed: u64,
}

fn same(counted: u64, recomputed: u64, what: impl FnOnce() -> String) -> Result<(), AuditError> {
    if counted == recomputed {
        Ok(())
    } else {
        Err(AuditError { what: what(), counted, recomputed })
    }
}

/// Resident packet memories of every (port, group), from the packets.
struct Residents {
    groups: Vec<[(u64, u64); CLASSES]>,
    slots: u32,
}

impl Residents {
    fn add(&mut self, memory: Memory, ingress: PortId, group: u8) {
        match memory {
            Memory::Own { charged } => self.charge(ingress, group, charged),
            // Shared memories are counted once, below.
            Memory::None | Memory::Shared(_) => {}
        }
    }

    fn add_leaving(&mut self, leaving: &Option<Leaving>) {
        if let Some(leaving) = leaving {
            self.add(leaving.memory, leaving.ingress, leaving.group);
        }
    }

    fn charge(&mut self, ingress: PortId, group: u8, charged: u32) {
        let entry = self.groups.get_mut(ingress.index());
        if let Some(entry) = entry.and_then(|groups| groups.get_mut(usize::from(group))) {
            entry.0 += 1;
            entry.1 += u64::from(charged);
        }
    }
}

impl<P: Default> View<'_, P> {
    /// Checks all accounting identities of the traffic manager. Slow; for tests and for `wireyard` self checks.
    pub fn audit(&self) -> Result<(), AuditError> {
        let residents = self.tm.residents();
        same(u64::from(self.tm.slots.used()), u64::from(residents.slots), || {
            "packet slots".to_owned()
        })?;
        let mut pools = vec![(0u64, 0u64, 0u64); self.tm.pools.len()];
        for (number, port) in self.tm.ports.iter().enumerate() {
            for q in 0..CLASSES {
                self.tm.audit_queue(number, q)?;
            }
            let waiting = u64::from(port.control.packets)
                + u64::from(
                    port.pending.is_some_and(|leaving| usize::from(leaving.queue) == CLASSES),
                );
            audit_counters(&port.control_counters, waiting, || format!("port {number} control"))?;
            for (g, group) in port.groups.iter().enumerate() {
                let name = |what: &str| format!("port {number} priority group {g}: {what}");
                let (packets, bytes) = residents.groups[number][g];
                let counters = &group.counters;
                let resident = counters.admitted.packets - counters.released.packets;
                same(resident, packets, || name("admitted - released"))?;
                same(group.account.used.total(), bytes, || name("occupancy"))?;
            }
            let accounts = port.queues.iter().map(|queue| &queue.account);
            for account in accounts.chain(port.groups.iter().map(|group| &group.account)) {
                let pool = &mut pools[usize::from(account.config.pool.0)];
                pool.0 += account.used.reserved;
                pool.1 += account.used.shared;
                pool.2 += account.used.headroom;
            }
        }
        for (number, (pool, sums)) in self.tm.pools.iter().zip(pools).enumerate() {
            let used = pool.used;
            same(used.reserved, sums.0, || format!("pool {number} reserved"))?;
            same(used.shared, sums.1, || format!("pool {number} shared"))?;
            same(used.headroom, sums.2, || format!("pool {number} headroom"))?;
            let (shared, headroom) = (pool.config.shared_bytes, pool.config.headroom_bytes);
            same(used.shared.max(shared), shared, || {
                format!("pool {number} shared over its size")
            })?;
            same(used.headroom.max(headroom), headroom, || format!("pool {number} headroom over"))?;
        }
        Ok(())
    }
}

impl<P: Default> Tm<P> {
    fn residents(&self) -> Residents {
        let cell = self.config.cell_bytes;
        let mut residents =
            Residents { groups: vec![[(0, 0); CLASSES]; self.ports.len()], slots: 0 };
        for port in &self.ports {
            for fifo in port.queues.iter().map(|queue| &queue.fifo).chain([&port.control]) {
                for slot in fifo.iter(&self.slots) {
                    let arrival = slot.arrival();
                    residents.add(slot.memory(cell), arrival.ingress, arrival.group);
                    residents.slots += 1;
                }
            }
            residents.add_leaving(&port.pending);
            residents.add_leaving(&port.on_wire);
        }
        for slot in self.holds.slots().filter_map(|index| self.slots.get(index)) {
            let arrival = slot.arrival();
            residents.add(slot.memory(cell), arrival.ingress, arrival.group);
            residents.slots += 1;
        }
        // A shared memory is resident while there is a reference, also that of a caller that still makes copies.
        for memory in self.shared.held() {
            if let Charged::Group { ingress, group, charged, .. } = memory {
                residents.charge(ingress, group, charged);
            }
        }
        residents
    }

    fn audit_queue(&self, number: usize, q: usize) -> Result<(), AuditError> {
        let port = &self.ports[number];
        let queue = &port.queues[q];
        let name = |what: &str| format!("port {number} queue {q}: {what}");
        let mine = |leaving: &Leaving| usize::from(leaving.queue) == q;
        let pending = port.pending.filter(mine);
        let mut bytes = 0;
        let mut packets = 0;
        let mut charged = 0;
        for slot in queue.fifo.iter(&self.slots) {
            bytes += u64::from(slot.bytes());
            charged += u64::from(slot.charged(self.config.cell_bytes));
            packets += 1;
        }
        same(queue.fifo.bytes, bytes, || name("bytes"))?;
        same(u64::from(queue.fifo.packets), packets, || name("packets"))?;
        same(u64::from(port.backlog >> q & 1), u64::from(packets > 0), || name("backlog bit"))?;
        charged += pending.map_or(0, |leaving| u64::from(leaving.charged));
        charged += port.on_wire.filter(mine).map_or(0, |leaving| u64::from(leaving.charged));
        same(queue.account.used.total(), charged, || name("occupancy"))?;
        audit_counters(&queue.counters, packets + u64::from(pending.is_some()), || {
            name("packets")
        })?;
        let waiting = bytes + pending.map_or(0, |leaving| u64::from(leaving.bytes));
        let counters = &queue.counters;
        let gone = counters.departed.bytes + counters.dropped.bytes;
        same(counters.admitted.bytes, gone + waiting, || {
            name("admitted = departed + dropped + queued")
        })
    }
}

fn audit_counters(
    counters: &QueueCounters,
    waiting: u64,
    name: impl FnOnce() -> String,
) -> Result<(), AuditError> {
    let gone = counters.departed.packets + counters.dropped.packets;
    same(counters.admitted.packets, gone + waiting, name)
}
