//! FRR on two routers of different programs: OSPF between them over two links, BGP between their loopback addresses.

use std::process::{Child, Stdio};
use std::time::Duration;

use wireyard_tests::live::Switch;

use super::rig::{Namespace, cable, eventually};
use super::{PROGRAM, Router, network};

const DAEMONS: &str = "/usr/lib/frr";

/// FRR's processes of one router; they end with it.
pub(super) struct Frr {
    daemons: Vec<Child>,
    folder: tempfile::TempDir,
}

impl Frr {
    /// True where it is installed; a test that needs it is skipped otherwise.
    pub(super) fn is_there(test: &str) -> bool {
        let is_there = std::path::Path::new(DAEMONS).join("bgpd").exists();
        if !is_there {
            wireyard_tests::skip(test, "there is no FRR (Debian package frr)");
        }
        is_there
    }

    pub(super) fn start(kernel: &Namespace, name: &str, config: &str) -> Frr {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display().to_string();
        // FRR's daemons change to their own user.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).expect("permissions");
        let file = format!("{at}/frr.conf");
        std::fs::write(&file, config).expect("a file");
        let mut daemons = Vec::new();
        for daemon in ["zebra", "ospfd", "bgpd"] {
            let port = if daemon == "bgpd" { "-p 179" } else { "" };
            let line = format!(
                "{DAEMONS}/{daemon} -f {file} -i {at}/{daemon}.pid -z {at}/zserv.api --vty_socket {at} -P 0 \
                 {port} --log file:{at}/{daemon}.log"
            );
            let mut command = kernel.command(&line);
            let daemon = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            daemons.push(daemon.spawn().unwrap_or_else(|error| panic!("{name}: {error}")));
            // The others look for zebra's socket when they start.
            eventually("zebra listens", || folder.path().join("zserv.api").exists());
        }
        Frr { daemons, folder }
    }

    pub(super) fn logs(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name));
        let logs =
            ["zebra.log", "ospfd.log", "bgpd.log"].map(|name| read(name).unwrap_or_default());
        logs.concat()
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            // They are ours; one that has ended is no error.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// zebra 8.4 does not notice that the kernel removes next hop objects with the carrier of a link; routes with next hops of their own
/// have no such trouble.
fn config(n: u32, other: u32) -> String {
    format!(
        "hostname r{n}
no zebra nexthop kernel enable
interface swp2
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 4
interface swp3
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 4
router ospf
 ospf router-id 10.255.0.{n}
 timers throttle spf 10 50 500
 network 10.255.0.{n}/32 area 0
 network 172.16.0.0/16 area 0
router bgp 65000
 bgp router-id 10.255.0.{n}
 no bgp default ipv4-unicast
 neighbor 10.255.0.{other} remote-as 65000
 neighbor 10.255.0.{other} update-source 10.255.0.{n}
 neighbor 10.255.0.{other} timers 1 3
 neighbor 10.255.0.{other} timers connect 1
 address-family ipv4 unicast
  network 10.0.{n}.0/24
  neighbor 10.255.0.{other} activate
  neighbor 10.255.0.{other} next-hop-self
"
    )
}

/// Router `n`: port 1 to its host, ports 2 and 3 to the other router.
fn router(n: u32, program: &str) -> (Router, Namespace) {
    let host = Namespace::new();
    let port = format!("h{n}");
    cable(&port, &host, "eth0");
    host.ip(&format!("addr add 10.0.{n}.2/24 dev eth0"));
    host.ip(&format!("route add default via 10.0.{n}.1"));
    let kernel = Namespace::new();
    let ports = [format!("1=raw:{port}"), format!("2=raw:a{n}"), format!("3=raw:b{n}")];
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let switch = Switch::on(program, &ports, &["--linux", &kernel.path, "--json"]);
    kernel.ip(&format!("addr add 10.255.0.{n}/32 dev lo"));
    kernel.ip(&format!("addr add 10.0.{n}.1/24 dev swp1"));
    kernel.ip(&format!("addr add 172.16.2.{n}/24 dev swp2"));
    kernel.ip(&format!("addr add 172.16.3.{n}/24 dev swp3"));
    // Both links are used by the kernel's own packets as well.
    kernel.ok("sysctl -qw net.ipv4.fib_multipath_hash_policy=1");
    (Router { kernel, switch }, host)
}

#[test]
fn frr_speaks_ospf_and_bgp_over_two_routers() {
    let Some(_network) = network("linux_frr") else { return };
    if !Frr::is_there("linux_frr") {
        return;
    }
    for link in ["a", "b"] {
        crate::rig::veth(&format!("{link}1"), &format!("{link}2"));
    }
    let ((mut one, host_one), (mut two, host_two)) =
        (router(1, PROGRAM), router(2, "programs/rocev2_lossless"));
    let frr_one = Frr::start(&one.kernel, "r1", &config(1, 2));
    let frr_two = Frr::start(&two.kernel, "r2", &config(2, 1));
    let start = std::time::Instant::now();
    while !host_one.reaches("10.0.2.2") {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "no way from host to host:\n{}\n{}\n{}",
            one.kernel.ip("route"),
            frr_one.logs(),
            frr_two.logs()
        );
    }
    println!("routes after {:?}", start.elapsed());
    // Both links: OSPF has two ways to the other router, and BGP's next hop is behind both.
    eventually("a group of two next hops", || one.linux("groups") >= 1 && two.linux("groups") >= 1);
    let routes = one.kernel.ip("route show 10.0.2.0/24");
    assert!(routes.contains("proto bgp"), "{routes}");
    // Traffic goes by one of them; whichever it is, it goes on when either is down.
    for link in ["a1", "b1"] {
        crate::rig::ip(&format!("link set {link} down"));
        let took = eventually("traffic goes on", || {
            let out = host_one.run("ping -n -q -c 10 -i 0.01 -W 1 10.0.2.2");
            String::from_utf8_lossy(&out.stdout).contains(" 10 received")
        });
        println!("without {link}: {took:?}");
        assert!(took < Duration::from_secs(15), "{took:?}");
        crate::rig::ip(&format!("link set {link} up"));
        eventually("both links are used again", || {
            one.linux("groups") >= 1 && two.linux("groups") >= 1
        });
    }
    // The other router says that a network is gone.
    two.kernel.ip("addr del 10.0.2.1/24 dev swp1");
    eventually("its route is withdrawn", || one.kernel.ip("route show 10.0.2.0/24").is_empty());
    assert!(!host_one.reaches("10.0.2.2"));
    assert_eq!([one.linux("routes_missing"), two.linux("routes_missing")], [0, 0]);
    drop(host_two);
}
