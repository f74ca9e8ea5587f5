//! Random traffic against a model with a list of packets, which computes all sums from it each time.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Enqueue { ingress: u16, egress: u16, class: u8, bytes: u32 },
    Depart { egress: u16, abort: bool },
    Outside(Outside),
    Later { ns: u64 },
}

fn ops() -> impl Strategy<Value = Op> {
    let port = 0u16..3;
    prop_oneof![
        12 => (port.clone(), port.clone(), 0u8..4, 1u32..3_000)
            .prop_map(|(ingress, egress, class, bytes)| Op::Enqueue { ingress, egress, class, bytes }),
        6 => (port.clone(), prop::bool::weighted(0.2)).prop_map(|(egress, abort)| Op::Depart { egress, abort }),
        3 => outside().prop_map(Op::Outside),
        4 => (0u64..400).prop_map(|ns| Op::Later { ns }),
    ]
}

/// A class in a pool, computed without incremental state.
#[derive(Clone, Copy)]
struct Class {
    reserved: u64,
    limit: Limit,
}

impl Class {
    fn shared(&self, total: u64) -> u64 {
        total.saturating_sub(self.reserved)
    }

    /// Admission of `bytes` into a class of `total` bytes in a pool of `size` shared bytes of which
    /// `used` are taken.
    fn admits(&self, total: u64, bytes: u64, size: u64, used: u64) -> bool {
        let more = self.shared(total + bytes) - self.shared(total);
        more == 0
            || (used + more <= size && self.shared(total + bytes) <= self.limit.bytes(size - used))
    }
}

const CELL: u32 = 80;
const POOL: u64 = 40_000;

fn class(number: usize) -> Class {
    let alpha = |exponent| Limit::Dynamic(PoolAlpha::power_of_two(exponent).unwrap());
    let limit = [Limit::Static(6_000), alpha(0), alpha(-3), alpha(3)][number % 4];
    Class { reserved: [0, 1_000, 3_000, 500][number % 4], limit }
}

fn random_port() -> PortConfig {
    let mut config = port(10);
    for number in 0..CLASSES {
        let Class { reserved, limit } = class(number);
        let account = |pool| AccountConfig { pool, reserved_bytes: reserved, limit };
        config.groups[number].account = account(INGRESS);
        config.queues[number].account = account(EGRESS);
    }
    config.flow_control =
        FlowControlConfig { mode: FlowControl::Pfc, enabled: 0xff, ..FlowControlConfig::default() };
    config
}

/// Packets in memory: (ingress, egress, class, charged). The model removes by identity.
#[derive(Default)]
struct Model {
    resident: Vec<(u32, u16, u16, u8, u64)>,
}

impl Model {
    fn total(&self, keep: impl Fn(u16, u16, u8) -> bool) -> u64 {
        self.resident.iter().filter(|p| keep(p.1, p.2, p.3)).map(|p| p.4).sum()
    }

    fn admits(&self, ingress: u16, egress: u16, number: u8, bytes: u64) -> bool {
        let used = |by_ingress: bool| -> u64 {
            let mut used = 0;
            for port in 0..3u16 {
                for q in 0..4u8 {
                    let total =
                        self.total(|i, e, c| c == q && port == if by_ingress { i } else { e });
                    used += class(usize::from(q)).shared(total);
                }
            }
            used
        };
        let class = class(usize::from(number));
        let group = self.total(|i, _, c| i == ingress && c == number);
        let queue = self.total(|_, e, c| e == egress && c == number);
        class.admits(group, bytes, POOL, used(true))
            && class.admits(queue, bytes, POOL, used(false))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn admission_and_accounting_agree_with_the_list(ops in prop::collection::vec(ops(), 1..250)) {
        let pools = vec![PoolConfig { shared_bytes: POOL, headroom_bytes: 0 }; 2];
        let mut tm: Tm<u32> =
            Tm::new(Config { seed: 3, packet_slots: 8192, stop_at_slots: u32::MAX, hold_slots: 0, cell_bytes: CELL, pools });
        for _ in 0..3 {
            tm.add_port(random_port()).unwrap();
        }
        let mut model = Model::default();
        let mut on_wire: Vec<(Time, u32)> = Vec::new();
        let (mut now, mut serial) = (Time::ZERO, 0);
        for op in ops {
            match op {
                Op::Enqueue { ingress, egress, class, bytes } => {
                    serial += 1;
                    let charged = u64::from(bytes.div_ceil(CELL) * CELL);
                    let arrival = Arrival {
                        ingress: PortId(ingress), group: class, egress: PortId(egress), queue: class,
                        bytes, ..Arrival::default()
                    };
                    let expected = model.admits(ingress, egress, class, charged);
                    let outcome = tm.enqueue(now, serial, &arrival);
                    prop_assert_eq!(outcome.is_ok(), expected, "{:?}", outcome);
                    if expected {
                        model.resident.push((serial, ingress, egress, class, charged));
                    }
                }
                Op::Depart { egress, abort } => {
                    if let Some(departure) = tm.take(now, PortId(egress)) {
                        tm.seen().audit().map_err(|e| TestCaseError::fail(e.to_string()))?;
                        if abort {
                            tm.abort(now, PortId(egress));
                            model.resident.retain(|p| p.0 != departure.packet);
                        } else if let Some(sent) = tm.commit(now, PortId(egress), 500) {
                            on_wire.push((sent.end, departure.packet));
                        }
                    }
                }
                Op::Outside(what) => {
                    what.happen(&mut tm, now);
                    if let Outside::Down { port } = what {
                        model.resident.retain(|p| p.2 != port);
                    }
                }
                Op::Later { ns } => now += Span::from_ns(ns),
            }
            tm.advance(now);
            on_wire.retain(|(end, packet)| {
                if *end <= now {
                    model.resident.retain(|p| p.0 != *packet);
                }
                *end > now
            });
            tm.seen().audit().map_err(|e| TestCaseError::fail(e.to_string()))?;
            for port in 0..3u16 {
                let status = tm.seen().port(PortId(port)).unwrap();
                for q in 0..4u8 {
                    let group = status.groups[usize::from(q)].account.total();
                    prop_assert_eq!(group, model.total(|i, _, c| i == port && c == q));
                }
            }
        }
    }

    /// After any events, every admitted packet leaves once nothing delays it.
    #[test]
    fn nothing_is_stuck(ops in prop::collection::vec(ops(), 1..250)) {
        let mut tm = manager([(50_000, 0), (50_000, 0)], &[random_port(), random_port(), random_port()]);
        let mut now = Time::ZERO;
        for op in ops {
            match op {
                Op::Enqueue { ingress, egress, class, bytes } => {
                    let (ingress, egress) = (PortId(ingress), PortId(egress));
                    let arrival = Arrival { ingress, egress, ..to(class, bytes) };
                    let _refused = tm.enqueue(now, bytes, &arrival);
                }
                Op::Depart { .. } | Op::Outside(Outside::Down { .. }) => {
                    drain(&mut tm, now, now);
                }
                Op::Outside(what) => what.happen(&mut tm, now),
                Op::Later { ns } => now += Span::from_ns(ns),
            }
        }
        for port in 0..3 {
            tm.set_blocked(now, PortId(port), false);
        }
        drain(&mut tm, now, Time::MAX);
        prop_assert_eq!(tm.slots().0, 0);
        prop_assert_eq!((tm.seen().pool(INGRESS).unwrap().shared, tm.seen().pool(EGRESS).unwrap().shared), (0, 0));
        prop_assert_eq!(tm.next_deadline(), Deadline::NEVER);
        tm.seen().audit().map_err(|e| TestCaseError::fail(e.to_string()))?;
    }
}
