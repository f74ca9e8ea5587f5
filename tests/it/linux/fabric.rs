//! A fabric of three switches with `rocev2_lossless` between two hosts, whose routes are BGP's.

use std::process::Stdio;
use std::time::Duration;

use wireyard_tests::live::Switch;

use super::frr::Frr;
use super::rig::{Namespace, cable, eventually};
use super::{Router, hops, network};

const PROGRAM: &str = "programs/rocev2_lossless";
/// Each two of the switches have a link.
const LINKS: [(u32, u32); 3] = [(1, 2), (1, 3), (2, 3)];

/// The links of a switch: the other switch, and the network between them.
fn links(n: u32) -> Vec<(u32, String)> {
    let of = LINKS.iter().filter(|(one, two)| [*one, *two].contains(&n));
    of.map(|(one, two)| (one + two - n, format!("172.16.{one}{two}"))).collect()
}

/// A system of its own for each switch, sessions on the links, and the network of its host.
fn config(n: u32) -> String {
    let neighbour = |(other, net): &(u32, String)| {
        format!(
            " neighbor {net}.{other} remote-as 6500{other}
 neighbor {net}.{other} timers 1 3
 neighbor {net}.{other} timers connect 1
 neighbor {net}.{other} advertisement-interval 0
"
        )
    };
    let neighbours: String = links(n).iter().map(neighbour).collect();
    let host = if n < 3 { format!("  network 10.0.{n}.0/24\n") } else { String::new() };
    format!(
        "hostname s{n}
no zebra nexthop kernel enable
router bgp 6500{n}
 bgp router-id 10.255.0.{n}
 no bgp ebgp-requires-policy
{neighbours} address-family ipv4 unicast
{host}"
    )
}

/// Switch `n`: ports to the other two, then, of the first two switches, one to a host.
fn switch(n: u32) -> (Router, Option<Namespace>) {
    let host = (n < 3).then(|| {
        let host = Namespace::new();
        cable(&format!("h{n}"), &host, "eth0");
        host.ip(&format!("addr add 10.0.{n}.2/24 dev eth0"));
        host.ip(&format!("route add default via 10.0.{n}.1"));
        host
    });
    let mut ports: Vec<String> =
        (1..).zip(links(n)).map(|(port, (other, _))| format!("{port}=raw:s{n}{other}")).collect();
    ports.extend(host.is_some().then(|| format!("3=raw:h{n}")));
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let kernel = Namespace::new();
    let switch = Switch::on(PROGRAM, &ports, &["--linux", &kernel.path, "--json"]);
    for (port, (_, net)) in (1..).zip(links(n)) {
        kernel.ip(&format!("addr add {net}.{n}/24 dev swp{port}"));
    }
    if host.is_some() {
        kernel.ip(&format!("addr add 10.0.{n}.1/24 dev swp3"));
    }
    (Router { kernel, switch }, host)
}

#[test]
fn bgp_over_a_fabric_of_three_switches_goes_round_a_link_that_is_down() {
    let Some(_network) = network("linux_fabric") else { return };
    if !Frr::is_there("linux_fabric") {
        return;
    }
    for (one, two) in LINKS {
        crate::rig::veth(&format!("s{one}{two}"), &format!("s{two}{one}"));
    }
    let [(one, left), (two, right), (three, _)] = [1, 2, 3].map(switch);
    let (left, right) = (left.expect("a host"), right.expect("a host"));
    let frr: Vec<Frr> = (1..)
        .zip([&one, &two, &three])
        .map(|(n, router)| Frr::start(&router.kernel, &format!("s{n}"), &config(n)))
        .collect();
    let logs = || frr.iter().map(Frr::logs).collect::<String>();
    let start = std::time::Instant::now();
    while !left.reaches("10.0.2.2") {
        assert!(start.elapsed() < Duration::from_secs(60), "no way between the hosts: {}", logs());
    }
    println!("routes after {:?}", start.elapsed());
    // The first way that is there may be the long one.
    eventually("the link between them is used", || {
        let route = one.kernel.ip("route show 10.0.2.0/24");
        route.contains("via 172.16.12.2") && route.contains("proto bgp")
    });
    for (router, prefix) in [(&one, "10.0.2.0/24"), (&two, "10.0.1.0/24"), (&three, "10.0.1.0/24")]
    {
        eventually("the route is in the table", || {
            let dumped = router.switch.command(&["table", "dump", "routes4", "--json"]);
            dumped.expect(0, &[]);
            dumped.out.contains(prefix)
        });
    }
    eventually("packets take the link between them", || {
        hops(&left, "10.0.2.2") == ["10.0.1.1", "172.16.12.2", "10.0.2.2"]
    });

    // The link between them goes while a stream of packets passes: the rest of it takes the other two links.
    let mut stream = left.command("ping -n -q -i 0.02 -c 400 -W 1 10.0.2.2");
    let stream = stream.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("ping runs");
    std::thread::sleep(Duration::from_secs(2));
    crate::rig::ip("link set s12 down");
    let round = ["10.0.1.1", "172.16.13.3", "172.16.23.2", "10.0.2.2"];
    let took = eventually("packets go round", || hops(&left, "10.0.2.2") == round);
    let out = stream.wait_with_output().expect("ping ends").stdout;
    let out = String::from_utf8_lossy(&out);
    println!("round after {took:?}: {out}");
    let answered = out.split(" received").next().and_then(|text| text.rsplit(' ').next());
    let answered: u32 = answered.and_then(|n| n.parse().ok()).expect("a number of answers");
    let lost = Duration::from_millis(20) * (400 - answered);
    assert!(lost <= took + Duration::from_secs(3), "{took:?}: {out}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    crate::rig::ip("link set s12 up");
    eventually("the link is used again", || hops(&left, "10.0.2.2").len() == 3);
    right.must_reach("10.0.1.2");
}
