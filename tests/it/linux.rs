//! The kernel on top of a router (`run --linux`): hosts, a router of the kernel's in a namespace, and FRR, as users have them.

mod fabric;
mod frr;
mod rig;
mod swap;

use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_switch::ports::sys::netns::PrivateNetwork;
use wireyard_tests::live::Switch;

use crate::rig::private_network;
use rig::{Namespace, cable, eventually};

const PROGRAM: &str = "programs/linux_router";

/// A network namespace for the switch, where there can be one and the tools of the tests are there.
fn network(test: &str) -> Option<PrivateNetwork> {
    for tool in ["ping", "traceroute", "nsenter", "unshare", "sysctl"] {
        if !wireyard_tests::has_tool(tool) {
            wireyard_tests::skip(test, &format!("there is no `{tool}` (./ci.sh tools)"));
            return None;
        }
    }
    private_network(test)
}

/// A router with ports that end in these interfaces of hosts.
struct Router {
    kernel: Namespace,
    switch: Switch,
}

impl Router {
    /// Ports 1, 2, .. are the interfaces of these names.
    fn start(ports: &[&str], more: &[&str]) -> Router {
        let kernel = Namespace::new();
        kernel.ok("sysctl -qw net.ipv6.conf.all.forwarding=1");
        let ports: Vec<String> =
            (1..).zip(ports).map(|(number, name)| format!("{number}=raw:{name}")).collect();
        let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
        let mut arguments = vec!["--linux", &kernel.path, "--json"];
        arguments.extend(more);
        let switch = Switch::on(PROGRAM, &ports, &arguments);
        Router { kernel, switch }
    }

    /// What it counted so far.
    fn counters(&mut self) -> Value {
        let before = self.switch.out().lines().count();
        self.switch.signal("USR1");
        let mut found = None;
        eventually("counters are printed", || {
            let out = self.switch.out();
            let new = out.lines().skip(before).collect::<Vec<_>>().join("\n");
            found = serde_json::from_str::<Value>(&new).ok();
            found.is_some()
        });
        found.unwrap_or_default()
    }

    fn linux(&mut self, name: &str) -> u64 {
        self.counters()["linux"][name].as_u64().unwrap_or_else(|| panic!("no {name}"))
    }

    /// Waits until the tables hold so many IPv4 prefixes.
    #[track_caller]
    fn await_routes4(&mut self, count: u64) -> Duration {
        eventually(&format!("{count} IPv4 prefixes"), || self.linux("routes4") == count)
    }

    /// Packets that left by a port.
    fn sent(&mut self, port: usize) -> u64 {
        self.counters()["ports"][port - 1]["medium"]["tx_frames"].as_u64().unwrap_or(0)
    }
}

/// Two hosts, one at each of the first two ports of a router, with addresses on both sides.
fn two_hosts(more: &[&str]) -> (Router, Namespace, Namespace) {
    let (one, two) = (Namespace::new(), Namespace::new());
    cable("p1", &one, "eth0");
    cable("p2", &two, "eth0");
    for (host, n) in [(&one, 1), (&two, 2)] {
        host.ip(&format!("addr add 10.0.{n}.2/24 dev eth0"));
        host.ip(&format!("addr add fd00:{n}::2/64 dev eth0 nodad"));
        host.ip(&format!("route add default via 10.0.{n}.1"));
        host.ip(&format!("-6 route add default via fd00:{n}::1"));
    }
    let router = Router::start(&["p1", "p2"], more);
    for n in [1, 2] {
        router.kernel.ip(&format!("addr add 10.0.{n}.1/24 dev swp{n}"));
        router.kernel.ip(&format!("addr add fd00:{n}::1/64 dev swp{n} nodad"));
    }
    (router, one, two)
}

/// Names of hops of a traceroute.
fn hops(host: &Namespace, target: &str) -> Vec<String> {
    let out = host.ok(&format!("traceroute -n -q 1 -w 1 -m 4 {target}"));
    let hop = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    out.lines().skip(1).filter_map(hop).collect()
}

#[test]
fn a_router_of_the_kernel_answers_and_forwards() {
    let Some(_network) = network("linux") else { return };
    let (mut router, one, two) = two_hosts(&[]);
    // The router itself, of both families: ARP and neighbour discovery are the kernel's.
    for address in ["10.0.1.1", "10.0.2.1", "fd00:1::1", "fd00:2::1"] {
        one.must_reach(address);
    }
    // Through it: neighbours are found when the first packet asks for them.
    for address in ["10.0.2.2", "fd00:2::2"] {
        one.must_reach(address);
    }
    eventually("both neighbours of both families are in the tables", || {
        router.linux("next_hops") >= 4
    });
    // Then packets pass without the kernel.
    let before = router.linux("packets_to_kernel");
    one.ok("ping -n -q -c 50 -i 0.002 10.0.2.2");
    one.ok("ping -n -q -c 50 -i 0.002 fd00:2::2");
    let more = router.linux("packets_to_kernel") - before;
    assert!(more < 20, "{more} packets of 200 went to the kernel");
    // Errors come from the kernel.
    assert_eq!(hops(&one, "10.0.2.2"), ["10.0.1.1", "10.0.2.2"]);
    assert_eq!(hops(&one, "fd00:2::2"), ["fd00:1::1", "fd00:2::2"]);
    crate::rig::ip("link set p2 mtu 1300");
    router.kernel.ip("link set swp2 mtu 1300");
    eventually("the kernel says that a packet is too long", || {
        let out = one.run("ping -n -c 1 -W 1 -M do -s 1400 10.0.2.2");
        String::from_utf8_lossy(&out.stdout).contains("mtu = 1300")
    });
    two.must_reach("10.0.1.2");
    let ended = router.switch.end("TERM");
    ended.expect(0, &[]);
    // The interfaces went with it.
    let links = router.kernel.ip("-o link");
    assert!(!links.contains("swp"), "{links}");
}

#[test]
fn routes_of_the_kernel_are_those_of_the_router() {
    let Some(_network) = network("linux_routes") else { return };
    let (mut router, one, two) = two_hosts(&["--workers", "2"]);
    for address in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        two.ip(&format!("addr add {address}/32 dev lo"));
    }
    assert!(!one.reaches("192.0.2.1"), "nobody said where that is");
    router.kernel.ip("route add 192.0.2.0/24 via 10.0.2.2");
    one.must_reach("192.0.2.1");
    // A longer prefix wins, whatever it says.
    router.kernel.ip("route add blackhole 192.0.2.2/32");
    eventually("a blackhole is one", || !one.reaches("192.0.2.2"));
    assert!(one.reaches("192.0.2.1"));
    assert!(router.counters()["total"]["dropped"].to_string().contains("blackhole"));
    router.kernel.ip("route del blackhole 192.0.2.2/32");
    one.must_reach("192.0.2.2");
    // What no port can do, the kernel does; it is counted and said.
    router.kernel.ip("link add other type veth peer name end");
    router.kernel.ip("link set other up");
    router.kernel.ip("route add 198.51.100.0/24 via 10.9.9.9 dev other onlink");
    eventually("a route of the kernel's own", || router.linux("routes_of_kernel") == 1);
    let said = "the kernel forwards 198.51.100.0/24 itself: an interface that is no port";
    router.switch.await_text(said, Duration::from_secs(5));
    router.kernel.ip("route del 198.51.100.0/24");
    eventually("it is gone", || router.linux("routes_of_kernel") == 0);
    // Of two metrics the lower one counts; the other one takes over when it goes.
    router.kernel.ip("route add blackhole 192.0.2.0/24 metric 50");
    router.kernel.ip("route del 192.0.2.0/24 via 10.0.2.2");
    eventually("only the blackhole is left", || !one.reaches("192.0.2.3"));
    router.kernel.ip("route add 192.0.2.0/24 via 10.0.2.2 metric 10");
    one.must_reach("192.0.2.3");
    // An address on no port is the router's too. It goes, and nobody answers.
    router.kernel.ip("addr add 203.0.113.1/32 dev lo");
    one.must_reach("203.0.113.1");
    router.kernel.ip("addr del 203.0.113.1/32 dev lo");
    eventually("the address is gone", || !one.reaches("203.0.113.1"));
    // Another address of the interface.
    router.kernel.ip("link set swp1 address 02:00:00:00:00:99");
    one.ip("neigh flush all");
    one.must_reach("192.0.2.3");
    // A neighbour that moved to another card.
    two.ip("link set eth0 address 02:00:00:00:00:77");
    two.ok("ping -n -c 1 -W 1 10.0.2.1");
    one.must_reach("192.0.2.3");
    // Nobody else changes what the kernel fills.
    let refused = router.switch.command(&["table", "clear", "routes4"]);
    refused.expect(2, &["table routes4 is filled from Linux"]);
    assert!(has_entry(&router, "routes4", "192.0.2.0/24"));
}

/// A table of the switch has this in one of its entries.
fn has_entry(router: &Router, table: &str, text: &str) -> bool {
    let dumped = router.switch.command(&["table", "dump", table, "--json"]);
    dumped.expect(0, &[]);
    dumped.out.contains(text)
}

#[test]
fn a_route_that_goes_takes_no_other_one_along() {
    let Some(_network) = network("linux_alike") else { return };
    let (router, one, _two) = two_hosts(&[]);
    one.must_reach("10.0.2.2");
    router.kernel.ip("nexthop add id 40 via 10.0.2.2 dev swp2");
    router.kernel.ip("nexthop add id 60 via fd00:2::2 dev swp2");
    for (family, net, gateway, id) in
        [("-4", "198.18.0.0/24", "10.0.2.2", 40), ("-6", "2001:db8::/32", "fd00:2::2", 60)]
    {
        router.kernel.ip(&format!("{family} route add {net} via {gateway} metric 9"));
        router.kernel.ip(&format!("{family} route append {net} nhid {id} metric 9"));
        router.kernel.ip(&format!("{family} route del {net} nhid {id} metric 9"));
    }
    router.kernel.ip("route add 198.18.1.0/24 via 10.0.2.2");
    router.kernel.ip("route append 198.18.1.0/24 via 10.0.2.2 advmss 1400");
    router.kernel.ip("route del 198.18.1.0/24 via 10.0.2.2 advmss 1400");
    router.kernel.ip("route add blackhole 203.0.113.0/24");
    eventually("the last one is there", || has_entry(&router, "routes4", "203.0.113.0/24"));
    for net in ["198.18.0.0/24", "198.18.1.0/24"] {
        assert!(has_entry(&router, "routes4", net), "{net}");
    }
    assert!(has_entry(&router, "routes6", "2001:db8::/32"));
}

#[test]
fn a_routed_port_whose_interface_is_down_bridges_nothing() {
    let Some(_network) = network("linux_closed") else { return };
    let (one, two, kernel) = (Namespace::new(), Namespace::new(), Namespace::new());
    for (host, n) in [(&one, 1), (&two, 2)] {
        cable(&format!("p{n}"), host, "eth0");
        host.ip(&format!("addr add 10.0.9.{n}/24 dev eth0"));
    }
    let more = ["--linux", &kernel.path, "--json"];
    let switch = Switch::on("programs/rocev2_lossless", &["1=raw:p1", "2=raw:p2"], &more);
    let router = Router { kernel, switch };
    for n in [1, 2] {
        router.kernel.ip(&format!("link set swp{n} down"));
    }
    eventually("both ports are closed", || {
        let dumped = router.switch.command(&["table", "dump", "interfaces", "--json"]);
        dumped.out.matches("closed_port").count() >= 2
    });
    assert!(!one.reaches("10.0.9.2"), "the ports bridge");
}

#[test]
fn a_neighbour_that_is_stale_from_the_start_is_probed() {
    let Some(_network) = network("linux_stale") else { return };
    let (router, one, two) = two_hosts(&[]);
    two.ip("addr add 192.0.2.1/32 dev lo");
    router.kernel.ok("sysctl -qw net.ipv4.neigh.swp2.delay_first_probe_time=1");
    // No host has this MAC address. Only a probe detects that: packets in transit do not pass the kernel.
    router.kernel.ip("neigh replace 10.0.2.2 lladdr 02:00:00:00:00:66 dev swp2 nud stale");
    router.kernel.ip("route add 192.0.2.0/24 via 10.0.2.2");
    one.must_reach("192.0.2.1");
}

/// A host behind two links of a router, and one in front.
fn two_links() -> (Router, Namespace, Namespace) {
    let (one, far) = (Namespace::new(), Namespace::new());
    cable("p1", &one, "eth0");
    cable("p2", &far, "eth1");
    cable("p3", &far, "eth2");
    one.ip("addr add 10.0.1.2/24 dev eth0");
    one.ip("route add default via 10.0.1.1");
    far.ip("addr add 10.0.2.2/24 dev eth1");
    far.ip("addr add 10.0.3.2/24 dev eth2");
    far.ip("addr add 192.0.2.1/32 dev lo");
    far.ok("sysctl -qw net.ipv4.conf.all.ignore_routes_with_linkdown=1");
    far.ok("sysctl -qw net.ipv4.conf.eth1.ignore_routes_with_linkdown=1");
    far.ok("sysctl -qw net.ipv4.conf.eth2.ignore_routes_with_linkdown=1");
    far.ip("route add default nexthop via 10.0.2.1 nexthop via 10.0.3.1");
    let router = Router::start(&["p1", "p2", "p3"], &[]);
    for n in 1..4 {
        router.kernel.ip(&format!("addr add 10.0.{n}.1/24 dev swp{n}"));
    }
    (router, one, far)
}

/// Datagrams of many flows to an address.
fn flows(host: &Namespace, count: u32) {
    // traceroute -U sends one datagram a hop to a port of its own; a shell's /dev/udp is simpler.
    let script =
        format!("for p in $(seq 20000 {}); do echo x > /dev/udp/192.0.2.1/$p; done", 20000 + count);
    let mut command = host.command("bash -c");
    assert!(command.arg(script).status().is_ok_and(|status| status.success()));
}

#[test]
fn several_next_hops_share_the_traffic_and_a_dead_link_has_none() {
    let Some(_network) = network("linux_ecmp") else { return };
    let (mut router, one, _far) = two_links();
    router.kernel.ip("route add 192.0.2.0/24 nexthop via 10.0.2.2 nexthop via 10.0.3.2");
    one.must_reach("192.0.2.1");
    eventually("both next hops are found", || {
        router.kernel.ip("neigh").matches("lladdr").count() >= 3
    });
    assert_eq!(router.linux("groups"), 1);
    let before = [router.sent(2), router.sent(3)];
    flows(&one, 200);
    eventually("both links have a part of 200 flows", || {
        let more = [router.sent(2) - before[0], router.sent(3) - before[1]];
        more.iter().sum::<u64>() >= 200 && more.iter().all(|part| *part > 40)
    });
    // One link goes: what was its part takes the other at once.
    crate::rig::ip("link set p3 down");
    let took = eventually("the group has one next hop", || {
        let before = router.sent(2);
        flows(&one, 20);
        router.sent(2) - before >= 20
    });
    assert!(took < Duration::from_secs(3), "{took:?}");
    one.must_reach("192.0.2.1");
    let state = router.kernel.ip("-o link show swp3");
    assert!(state.contains("NO-CARRIER"), "{state}");
    crate::rig::ip("link set p3 up");
    eventually("both links are used again", || {
        let before = [router.sent(2), router.sent(3)];
        flows(&one, 50);
        [router.sent(2) - before[0], router.sent(3) - before[1]].iter().all(|part| *part > 5)
    });
    // The same by next hop objects, as FRR writes them; one that goes takes its routes along.
    router.kernel.ip("route del 192.0.2.0/24");
    eventually("no group is left", || router.linux("groups") == 0);
    router.kernel.ip("nexthop add id 1 via 10.0.2.2 dev swp2");
    router.kernel.ip("nexthop add id 2 via 10.0.3.2 dev swp3");
    router.kernel.ip("nexthop add id 10 group 1/2");
    router.kernel.ip("route add 192.0.2.0/24 nhid 10");
    one.must_reach("192.0.2.1");
    assert_eq!(router.linux("groups"), 1);
    router.kernel.ip("nexthop del id 10");
    eventually("its routes went with it", || router.linux("groups") == 0);
    assert!(!one.reaches("192.0.2.1"));
}

/// The routes of a generator: /24s and /32s by two gateways, some of them by both.
fn many(count: u32, verb: &str) -> String {
    let mut text = String::new();
    for n in 0..count {
        let (a, b) = (n >> 8 & 0xff, n & 0xff);
        let via = match n % 16 {
            0 => "nexthop via 10.0.1.2 nexthop via 10.0.2.2",
            odd if odd % 2 == 1 => "via 10.0.1.2",
            _ => "via 10.0.2.2",
        };
        text += &format!("route {verb} {}.{a}.{b}.0/24 {via}\n", 100 + (n >> 16));
    }
    text
}

#[test]
fn a_hundred_thousand_routes_are_there_in_seconds_and_none_is_lost() {
    const ROUTES: u32 = 100_000;
    let Some(_network) = network("linux_many") else { return };
    let (mut router, ..) = two_hosts(&[]);
    router.kernel.ip("neigh replace 10.0.1.2 lladdr 02:00:00:00:00:11 dev swp1 nud permanent");
    router.kernel.ip("neigh replace 10.0.2.2 lladdr 02:00:00:00:00:22 dev swp2 nud permanent");
    router.await_routes4(4);
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, verb| {
        let path = folder.path().join(name);
        std::fs::write(&path, many(ROUTES, verb)).expect("a file");
        path.display().to_string()
    };
    let (add, del) = (file("add", "add"), file("del", "del"));
    let start = Instant::now();
    router.kernel.ip(&format!("-batch {add}"));
    let by_ip = start.elapsed();
    router.await_routes4(4 + u64::from(ROUTES));
    let all = start.elapsed();
    println!("{ROUTES} routes: {by_ip:?} for ip -batch, {all:?} until the tables have them");
    assert!(all < Duration::from_secs(5), "{all:?}");
    assert_eq!(router.linux("routes_missing"), 0);
    // News that are lost, as the switch stands still, are read again.
    router.switch.signal("STOP");
    router.kernel.ip(&format!("-batch {del}"));
    router.kernel.ip(&format!("-batch {add}"));
    router.kernel.ip("route del 100.0.0.0/24");
    router.switch.signal("CONT");
    router.await_routes4(3 + u64::from(ROUTES));
    assert!(router.linux("news_lost") > 0, "{}", router.counters()["linux"]);
    router.kernel.ip("route flush via 10.0.1.2");
    router.kernel.ip("route flush proto boot");
    eventually("all routes are gone", || router.linux("routes4") <= 4);
    let table = router.counters()["program"]["tables"].to_string();
    assert!(table.contains("routes4"), "{table}");
}

#[test]
fn a_table_that_is_full_is_said_and_filled_when_there_is_room() {
    let Some(_network) = network("linux_full") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let text = std::fs::read_to_string(
        wireyard_tests::workspace_root().join(PROGRAM).join("program.yaml"),
    );
    let text = text.expect("the program").replace("size: 1048576", "size: 16");
    let path = folder.path().join("program.yaml");
    std::fs::write(&path, text).expect("a file");
    let (host, kernel) = (Namespace::new(), Namespace::new());
    cable("p1", &host, "eth0");
    let path = path.display().to_string();
    let more = ["--linux", &kernel.path, "--json"];
    let switch = Switch::on(&path, &["1=raw:p1"], &more);
    let mut router = Router { kernel, switch };
    router.kernel.ip("addr add 10.0.1.1/24 dev swp1");
    (0..20).for_each(|n| _ = router.kernel.ip(&format!("route add 10.1.{n}.0/24 via 10.0.1.2")));
    eventually("the table is full", || router.linux("routes_missing") == 5);
    router.switch.await_text("refused", Duration::from_secs(5));
    (0..5).for_each(|n| _ = router.kernel.ip(&format!("route del 10.1.{n}.0/24")));
    eventually("what was missing is there", || router.linux("routes_missing") == 0);
    assert_eq!(router.linux("routes4"), 16);
}

#[test]
fn ports_that_come_and_go_bring_and_take_their_interfaces() {
    let Some(_network) = network("linux_ports") else { return };
    let (one, two) = (Namespace::new(), Namespace::new());
    cable("p1", &one, "eth0");
    cable("p2", &two, "eth0");
    two.ip("addr add 10.0.2.2/24 dev eth0");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ports.yaml").display().to_string();
    let write =
        |ports: &str| std::fs::write(&path, format!("ports: {{ {ports} }}")).expect("a file");
    write("1: { interface: 'raw:p1' }");
    let kernel = Namespace::new();
    let more = ["--ports", &path, "--linux", &kernel.path, "--json"];
    let mut router = Router { switch: Switch::on(PROGRAM, &[], &more), kernel };
    assert!(!router.kernel.ip("-o link").contains("swp2"));
    write("1: { interface: 'raw:p1' }, 2: { interface: 'raw:p2' }");
    router.switch.signal("HUP");
    eventually("its interface is there", || router.kernel.ip("-o link").contains("swp2"));
    router.kernel.ip("addr add 10.0.2.1/24 dev swp2");
    two.must_reach("10.0.2.1");
    write("1: { interface: 'raw:p1' }");
    router.switch.signal("HUP");
    eventually("its interface is gone", || !router.kernel.ip("-o link").contains("swp2"));
    router.await_routes4(0);
    // One that is renamed and deleted comes back with its first name.
    router.kernel.ip("link set swp1 down");
    router.kernel.ip("link set swp1 name uplink");
    router.kernel.ip("link del uplink");
    let said = "uplink, the interface of port 1, is gone: the switch makes it again";
    router.switch.await_text(said, Duration::from_secs(5));
    eventually("it is there again", || router.kernel.ip("-o link").contains("swp1"));
}

#[test]
fn what_cannot_be_is_refused_and_a_killed_switch_leaves_nothing() {
    let Some(_network) = network("linux_refused") else { return };
    let host = Namespace::new();
    cable("p1", &host, "eth0");
    let run = |program: &str, linux: &[&str]| {
        let mut arguments = vec!["run", program, "--port", "1=raw:p1", "--duration", "1"];
        arguments.extend(linux);
        wireyard_tests::binary::run(&arguments)
    };
    run(PROGRAM, &["--linux", "wy-there-is-none"])
        .expect(2, &["/run/netns/wy-there-is-none", "ip netns add wy-there-is-none"]);
    run("programs/l2_switch", &["--linux"]).expect(2, &["programs/linux_router"]);
    crate::rig::ip("link add swp1 type veth peer name end");
    run(PROGRAM, &["--linux"]).expect(2, &["swp1", "another kind of interface"]);
    crate::rig::ip("link del swp1");
    let router = Router::start(&["p1"], &[]);
    assert!(router.kernel.ip("-o link").contains("swp1"));
    let Router { kernel, switch } = router;
    assert_eq!(switch.end("KILL").status, None);
    eventually("the interface is gone", || !kernel.ip("-o link").contains("swp1"));
}
