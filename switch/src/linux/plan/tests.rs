//! Next hops in tables of a device, within the limits of the program.

use super::super::kernel::{Change, Identity, KernelRoute, RouteChange, Way};
use super::*;
use crate::control::Target;
use crate::core::Core;
use crate::ports::PortNumber;
use crate::program::started;

const PROGRAM: &str = r#"
pipeline: router
include: [ethernet, ip]
metadata: { next_hop: 16 }
parser:
  start: { extract: ethernet, select: ethernet.ether_type, cases: { 0x0800: ipv4 }, default: accept }
  ipv4: { extract: ipv4, next: accept }
actions:
  routed: { do: [] }
  closed: { do: [ drop closed ] }
  via: { params: { next_hop: 16 }, do: [ meta.next_hop = next_hop ] }
  to_kernel: { do: [ punt kernel ] }
  send: { params: { port: port, dst: 48 }, do: [ std.egress_port = port, ethernet.dst = dst ] }
tables:
  interfaces: { key: { std.ingress_port: exact }, actions: [routed, closed], default: routed, size: 8 }
  routes4: { key: { ipv4.dst: lpm }, actions: [via, to_kernel], default: to_kernel, size: 64 }
  next_hops:
    key: { meta.next_hop: exact, ipv4.src: selector }
    selector: { hash: crc16, members: 64, groups: 1 }
    actions: [send, to_kernel]
    default: to_kernel
    size: NUMBERS
linux:
  interfaces: { table: interfaces, key: { std.ingress_port: port }, action: routed, down: closed }
  neighbours: { table: next_hops, key: { meta.next_hop: number }, action: "send(port, neighbour)", unresolved: to_kernel }
  routes4: { table: routes4, key: { ipv4.dst: prefix }, action: via(number), kernel: to_kernel }
ingress:
  - apply: interfaces
  - apply: routes4
  - apply: next_hops
deparser: { emit: [ethernet, ipv4] }
"#;

/// A device with one group of next hops, and interface 1 of a kernel on top of it.
struct Router {
    _core: Core,
    control: Control,
    model: Model,
    plan: Plan,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(n: u8) -> Prefix {
    Prefix::new(ip(&format!("10.1.{n}.0")), 24)
}

impl Router {
    fn new(numbers: u32) -> Router {
        let text = PROGRAM.replace("NUMBERS", &numbers.to_string());
        let (_, core, control) = started("router.yaml", &text);
        let plan = Plan::new(Map::of(&control.program()), &control);
        let mut model = Model::default();
        model.set_port(1, Some(PortNumber(1)), true);
        model.apply(Change::Link {
            index: 1,
            name: String::new(),
            mac: Some([2; 6]),
            mtu: 1500,
            up: true,
        });
        Router { _core: core, control, model, plan }
    }

    /// A change of a route to 10.1.n.0/24 by 10.0.0.x for each of `gateways`; returns the notices.
    fn route(&mut self, n: u8, gateways: &[u8], weight: u32, change: RouteChange) -> Vec<String> {
        self.change(n, gateways, weight, change);
        self.flush()
    }

    /// The same without a flush.
    fn change(&mut self, n: u8, gateways: &[u8], weight: u32, change: RouteChange) {
        let hop = |x: &u8| Hop { link: 1, gateway: ip(&format!("10.0.0.{x}")), weight };
        let route = KernelRoute {
            tos: 0,
            source: None,
            metric: 0,
            has_mtu: false,
            is_shared: false,
            way: Way::Hops(gateways.iter().map(hop).collect()),
            identity: Identity { protocol: 3, ..Identity::default() },
        };
        self.model.apply(Change::Route { prefix: net(n), route, change });
    }

    /// Flushes until nothing is left.
    fn flush(&mut self) -> Vec<String> {
        let mut notices = Vec::new();
        while !self.model.dirty.is_empty() {
            notices.extend(self.plan.flush(&mut self.model, &self.control));
        }
        notices
    }

    fn has_number(&self, n: u8) -> bool {
        matches!(self.plan.routes.get(&net(n)), Some((Installed::Via(_), _)))
    }

    /// The weights of the members of each group of the device.
    fn groups(&self) -> Vec<Vec<u32>> {
        let table = self.plan.map.neighbours.as_ref().map(|mapped| mapped.table);
        let groups = self.control.read(&Query::Groups { table, id: None }).unwrap().into_iter();
        let weights = groups.map(|group| match group {
            Entity::Group { members, .. } => members.iter().map(|member| member.weight).collect(),
            other => panic!("{other:?}"),
        });
        weights.collect()
    }

    /// Entries for next hops and groups.
    fn entries(&self) -> usize {
        let table = self.plan.map.neighbours.as_ref().map(|mapped| mapped.table);
        self.control.read(&Query::Entries { table }).unwrap().len()
    }
}

use RouteChange::{Added, Deleted, Replaced};

#[test]
fn a_group_too_many_is_the_kernels_until_another_one_is_gone() {
    let mut router = Router::new(16);
    assert!(router.route(1, &[1, 2], 1, Added).is_empty());
    assert!(router.has_number(1));
    let notices = router.route(2, &[1, 3], 1, Added);
    assert!(matches!(&notices[..], [one] if one.contains(&net(2).to_string())), "{notices:?}");
    assert!(!router.has_number(2));
    assert_eq!((router.groups(), router.plan.of_kernel.len()), (vec![vec![1, 1]], 1));
    router.route(1, &[1, 2], 1, Deleted);
    assert!(router.has_number(2));
    // The group, and two next hops.
    assert_eq!((router.groups(), router.entries()), (vec![vec![1, 1]], 3));
    assert_eq!((router.plan.failures, router.plan.of_kernel.len()), (0, 0));
}

#[test]
fn a_group_with_too_large_weights_is_in_the_table() {
    let mut router = Router::new(64);
    let gateways: Vec<u8> = (1..=17).collect();
    router.route(1, &gateways, 256, Added);
    // 17 * 256 is more than 4096, the largest sum.
    assert_eq!(router.groups(), [[240; 17]]);
    assert_eq!((router.has_number(1), router.plan.failures), (true, 0));
}

#[test]
fn routes_without_a_number_get_one_when_it_is_free() {
    let mut router = Router::new(2);
    for n in [1, 2, 3] {
        router.route(n, &[n], 1, Added);
    }
    assert_eq!([1, 2, 3].map(|n| router.has_number(n)), [true, true, false]);
    // Two next hops that share the traffic need three numbers.
    router.route(4, &[1, 2], 1, Added);
    router.route(5, &[5, 6], 1, Added);
    router.route(1, &[1], 1, Deleted);
    assert_eq!([2, 3, 4, 5].map(|n| router.has_number(n)), [true, true, false, false]);
    // The old number is free behind the flush that needs a new one.
    router.route(2, &[9], 1, Replaced);
    assert_eq!([2, 3].map(|n| router.has_number(n)), [true, true]);
    assert_eq!((router.entries(), router.plan.failures), (2, 0));
}

#[test]
fn a_group_that_is_refused_is_written_again() {
    let mut router = Router::new(16);
    let table = router.plan.map.neighbours.as_ref().map(|mapped| mapped.table).unwrap();
    let others = Entity::Group { table, id: 99, members: Vec::new() };
    router.control.write_one(Update::Insert(others.clone())).unwrap();
    let notices = router.route(1, &[1, 2], 1, Added);
    assert!(matches!(&notices[..], [one] if one.contains("refused")), "{notices:?}");
    let failures = router.plan.failures;
    assert_eq!((failures > 0, router.entries()), (true, 2));
    router.plan.retry(&mut router.model, 1);
    assert!(router.flush().is_empty(), "it has been reported");
    assert!(router.plan.failures > failures);
    router.control.write_one(Update::Delete(others)).unwrap();
    router.plan.retry(&mut router.model, 1);
    assert!(router.flush().is_empty());
    assert_eq!((router.groups(), router.entries()), (vec![vec![1, 1]], 3));
    let failures = router.plan.failures;
    router.plan.retry(&mut router.model, 1);
    assert!(router.model.dirty.is_empty());
    router.route(1, &[1, 2], 1, Deleted);
    assert_eq!((router.groups().len(), router.entries()), (0, 0));
    assert_eq!(router.plan.failures, failures);
}

#[test]
fn a_stale_next_hop_is_probed_once_it_is_used() {
    let mut router = Router::new(16);
    let gateway = ip("10.0.0.1");
    let state = |mac, stale| Change::Neighbour { index: 1, address: gateway, mac, stale };
    router.model.apply(state(Some([4; 6]), true));
    router.flush();
    assert!(router.plan.to_probe(&router.model).is_empty());
    router.route(1, &[1], 1, Added);
    assert_eq!(router.plan.to_probe(&router.model), [(1, gateway)]);
    router.model.set_probed(1, gateway);
    assert!(router.plan.to_probe(&router.model).is_empty());
    // It answers, and is stale again later: that is a change, so that a flush follows.
    router.model.apply(state(Some([4; 6]), false));
    router.flush();
    assert!(router.plan.to_probe(&router.model).is_empty());
    router.model.apply(state(Some([4; 6]), true));
    assert!(!router.model.dirty.is_empty());
    assert_eq!(router.plan.to_probe(&router.model), [(1, gateway)]);
    router.model.apply(state(None, false));
    assert_eq!(router.plan.to_probe(&router.model), [(1, gateway)]);
    router.model.set_port(1, Some(PortNumber(1)), false);
    assert!(router.plan.to_probe(&router.model).is_empty());
}

/// A restart gives the same numbers, whatever the order of the kernel's notifications.
#[test]
fn next_hops_have_their_numbers_in_the_order_of_their_routes() {
    let mut router = Router::new(64);
    for n in (1..=50).rev() {
        router.change(n, &[n], 1, Added);
    }
    router.flush();
    let number = |n| router.plan.routes.get(&net(n)).map(|(installed, _)| installed.clone());
    let numbers: Vec<_> = (1..=50).map(|n| number(n as u8)).collect();
    let expected: Vec<_> = (1..=50).map(|number| Some(Installed::Via(number))).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn an_interface_that_is_down_stays_one_of_the_router() {
    let mut router = Router::new(4);
    let interface = |router: &Router| {
        let table = Some(router.control.table("interfaces").unwrap());
        let found = router.control.read(&Query::Entries { table }).unwrap();
        let program = router.control.program();
        let actions = found.into_iter().map(|entity| match entity {
            Entity::TableEntry(TableEntry { target: Target::Action(call), .. }) => {
                program.actions[call.action].name.clone()
            }
            other => panic!("{other:?}"),
        });
        actions.collect::<Vec<_>>()
    };
    router.flush();
    assert_eq!(interface(&router), ["routed"]);
    for (up, action) in [(false, "closed"), (true, "routed")] {
        let (name, mac) = (String::new(), Some([2; 6]));
        router.model.apply(Change::Link { index: 1, name, mac, mtu: 1500, up });
        router.flush();
        assert_eq!(interface(&router), [action]);
    }
    router.model.apply(Change::LinkGone { index: 1 });
    router.flush();
    assert!(interface(&router).is_empty());
}

/// Entries that a table keeps have the actions of the old program.
#[test]
fn the_entries_of_another_mapping_are_written_anew() {
    let router = Router::new(4);
    let map = |kernel: &str| {
        let text = PROGRAM.replace("NUMBERS", "4").replace("kernel: to_kernel", kernel);
        let (_, _core, control) = started("router.yaml", &text);
        Map::of(&control.program())
    };
    assert!(router.plan.fits(&map("kernel: to_kernel")));
    assert!(!router.plan.fits(&map("kernel: via(9)")));
}
