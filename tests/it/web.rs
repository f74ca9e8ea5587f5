//! `run --http`: what the documents say, who is refused, and the page in a real Chromium.
//!
//! On veth pairs in a private namespace; needs root, and for the page Chromium, and skips loudly otherwise. `WIREYARD_ENTRIES=1000000` puts so many
//! entries into the table that is searched; `WIREYARD_PICTURES=DIR` keeps pictures of the page.

mod documents;
mod guards;
mod page;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_tests::live::Switch;

use crate::rig::{Wire, ip, veth};

/// Port 2 is so slow that a pause lasts half a minute; what waits behind the second packet may be marked.
const CONFIG: &str = "ports: { 1: { rate: 1Gbps }, 2: { rate: 1Mbps } }
qos:
  preset: sonic_azure
  wred_profiles: { all: { green: { kmin: 1 KB, kmax: 20 KB, pmax: 50 % } } }
  dscp_to_tc_maps: { roce: { 26: 3, default: 0 } }
  port_defaults: { dscp_to_tc_map: roce, queue_wred: { 3: all }, pfcwd: { detection_time: 60 s, action: alert } }
";

/// A switch with a page, the far ends of its ports, and its configuration.
struct Rig {
    switch: Switch,
    address: String,
    wires: [Wire; 2],
    _folder: tempfile::TempDir,
}

fn rig(program: &str, config: Option<&str>, more: &[&str]) -> Rig {
    ip("link set lo up");
    veth("sw1", "host1");
    veth("sw2", "host2");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switch.yaml");
    let mut arguments = vec!["--http", "127.0.0.1:0"];
    let text = path.display().to_string();
    if let Some(config) = config {
        std::fs::write(&path, config).unwrap();
        arguments.extend(["--config", &text]);
    }
    arguments.extend(more);
    let mut switch = Switch::on(program, &["1=raw:sw1", "2=raw:sw2"], &arguments);
    switch.await_text("page on http://", Duration::from_secs(10));
    let err = switch.err();
    let at = err.split("page on http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = at.expect("an address").to_owned();
    let wires = [Wire::open("raw:host1"), Wire::open("raw:host2")];
    Rig { switch, address, wires, _folder: folder }
}

/// What the server answers to these bytes: status, head and body.
fn ask(address: &str, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    (status, head.to_lowercase(), body.to_owned())
}

impl Rig {
    fn get(&self, path: &str) -> (u16, String, String) {
        ask(&self.address, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address))
    }

    /// A document of the API.
    #[track_caller]
    fn document(&self, path: &str) -> Value {
        let (status, head, body) = self.get(&format!("/api/{path}"));
        assert_eq!(status, 200, "{path}: {body}");
        assert!(head.contains("content-type: application/json"), "{head}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Asks for a document until it is as wanted.
    #[track_caller]
    fn wait_for(&self, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let document = self.document(path);
            if is_it(&document) {
                return document;
            }
            assert!(Instant::now() < deadline, "{path}: {document}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
