//! Who is refused: other names, other sites, other methods; and what a browser may do with the answers.

use std::net::TcpStream;
use std::time::Duration;

use wireyard_tests::binary;
use wireyard_tests::live::Switch;

use super::{ask, rig};
use crate::queues;
use crate::rig::{ip, private_network, veth};

#[test]
fn only_the_page_itself_is_answered() {
    let Some(_network) = private_network("who may read the page") else { return };
    let mut rig = rig("programs/rocev2_lossless", None, &[]);
    let port = rig.address.split(':').nth(1).unwrap();
    let get = |path: &str, fields: &str| {
        ask(&rig.address, &format!("GET {path} HTTP/1.1\r\n{fields}\r\n"))
    };
    let own = format!("Host: localhost:{port}\r\n");
    for (path, fields, status) in [
        ("/", own.clone(), 200),
        ("/api/live", "Host: 127.0.0.1\r\n".into(), 200),
        ("/api/live", "Host: [::1]:80\r\n".into(), 200),
        // DNS rebinding: a name of somebody's that resolves to this address.
        ("/", "Host: evil.example\r\n".into(), 421),
        ("/api/live", format!("Host: evil.example:{port}\r\n"), 421),
        ("/api/live", "Host: localhost.evil.example\r\n".into(), 421),
        ("/api/live", String::new(), 421),
        ("/api/live", format!("{own}Host: evil.example\r\n"), 421),
        ("http://evil.example/api/live", own.clone(), 421),
        // Another site in the same browser.
        ("/api/live", format!("{own}Sec-Fetch-Site: cross-site\r\n"), 403),
        ("/api/hits", format!("{own}Sec-Fetch-Site: same-site\r\n"), 403),
        (
            "/main.js",
            format!("{own}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"),
            403,
        ),
        ("/", format!("{own}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"), 200),
        (
            "/api/live",
            format!("{own}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"),
            403,
        ),
        ("/api/live", format!("{own}Sec-Fetch-Site: same-origin\r\n"), 200),
        ("/nothing", own.clone(), 404),
        ("/../Cargo.toml", own.clone(), 404),
    ] {
        let (found, head, body) = get(path, &fields);
        assert_eq!(found, status, "{path} {fields}: {body}");
        for field in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(head.contains(field), "{path}: no {field} in {head}");
        }
        assert!(!head.contains("access-control"), "{head}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let (status, ..) = ask(&rig.address, &format!("{method} /api/live HTTP/1.1\r\n{own}\r\n"));
        assert_eq!(status, 405, "{method}");
    }
    // Clients that say nothing keep nobody out, and packets pass.
    let held: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(&rig.address).unwrap()).collect();
    assert_eq!(get("/api/live", &own).0, 200);
    rig.wires[1].send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
    assert_eq!(rig.wires[0].receive(1).len(), 1);
    drop(held);
    rig.switch.end("INT").expect(0, &[]);
}

#[test]
fn an_address_that_others_reach_is_meant_to_be_open() {
    let Some(_network) = private_network("the page on an address that is not loopback") else {
        return;
    };
    ip("link set lo up");
    ip("addr add 192.0.2.1/32 dev lo");
    veth("a0", "a1");
    let run = |more: &[&str]| {
        let words = ["run", "programs/l2_switch", "--port", "1=raw:a1", "--duration", "0.2"];
        binary::run(&[&words, more].concat())
    };
    run(&["--http", "192.0.2.1:0"]).expect(2, &["--http", "no loopback address", "--insecure"]);
    run(&["--http", "nonsense"]).expect(2, &["127.0.0.1"]);
    run(&["--http", "192.0.2.1:0", "--insecure"]).expect(0, &["page on http://192.0.2.1:"]);
    // Prometheus knows other machines by names; the page is for who types an address.
    let more = ["--metrics", "192.0.2.1:0", "--http", "192.0.2.1:0", "--insecure"];
    let mut switch = Switch::on("programs/l2_switch", &["1=raw:a1"], &more);
    switch.await_text("page on", Duration::from_secs(10));
    let address = |what: &str| {
        let said = switch.err();
        let place = said.split(what).nth(1).expect("an address");
        place.split('/').next().expect("an address").to_owned()
    };
    let named = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: switch1.example:9101\r\n\r\n");
    assert_eq!(ask(&address("metrics on http://"), &named("/metrics")).0, 200);
    assert_eq!(ask(&address("page on http://"), &named("/")).0, 421);
    switch.end("INT").expect(0, &[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    run(&["--http", &taken]).expect(2, &["take another port"]);
}
