//! A real Prometheus (Debian package prometheus) scrapes a switch and answers the questions of programs/grafana.json.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_tests::live::Switch;
use wireyard_tests::{skip, workspace_root};

use super::dashboard::{between, words};
use super::{PROGRAM, address, pfc, samples, write_config};
use crate::queues;
use crate::rig::{Wire, ip, private_network, veth};

/// In a network namespace of its own.
const ADDRESS: &str = "127.0.0.1:9090";

/// A Prometheus that scrapes one switch each second; it ends with the test.
struct Prometheus {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(switch: &str) -> Prometheus {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}
scrape_configs: [ {{ job_name: switch, static_configs: [ {{ targets: ['{switch}'] }} ] }} ]
"
        );
        std::fs::write(&config, text).expect("a file");
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        command.arg(format!("--web.listen-address={ADDRESS}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("prometheus runs");
        Prometheus { child, _folder: folder }
    }

    /// The data of an answer of its API; `None` while it starts.
    fn asked(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(ADDRESS).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        write!(stream, "GET /api/v1/{path} HTTP/1.0\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (_, body) = text.split_once("\r\n\r\n")?;
        let answer: Value = serde_json::from_str(body).ok()?;
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        Some(answer["data"].clone())
    }

    /// The series that an expression gives now.
    fn query(&self, expression: &str) -> Vec<Value> {
        let escaped: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let data = self.asked(&format!("query?query={escaped}"));
        data.and_then(|data| data["result"].as_array().cloned()).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It was ours, whether it ended before or not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_prometheus_answers_what_the_dashboard_asks() {
    let Some(_network) = private_network("a real Prometheus") else { return };
    if !wireyard_tests::has_tool("prometheus") {
        return skip("a real Prometheus", "there is no `prometheus` (Debian package prometheus)");
    }
    ip("link set lo up");
    veth("sw1", "host1");
    veth("sw2", "host2");
    let (folder, config) = write_config();
    let state = folder.path().join("state").display().to_string();
    let more = ["--config", &config, "--metrics", "127.0.0.1:0", "--p4runtime", "127.0.0.1:0"];
    let more = [&more[..], &["--state", &state]].concat();
    let mut switch = Switch::on(PROGRAM, &["1=raw:sw1", "2=raw:sw2"], &more);
    let address = address(&mut switch);
    let prometheus = Prometheus::start(&address);
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    host2.send(&[pfc(65_535), pfc(0)]);
    let deadline = Instant::now() + Duration::from_secs(60);
    // Rates are those of two scrapes or more, with packets between them.
    let rate = "rate(wireyard_port_received_bytes_total[4s]) > 0";
    while prometheus.query(rate).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", prometheus.asked("targets"));
        host1.send(&(0..5).map(|n| queues::frame(1, 2, 26, 2, n, 1000)).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(100));
    }
    let instances = prometheus.asked("label/instance/values?match[]=wireyard_program_info");
    assert_eq!(instances, Some(serde_json::json!([address])));
    let (_, page) = super::request(&address, "GET", "/metrics");
    let served = samples(&page);
    let has_samples = |name: &str| {
        let name = name.trim_start_matches("wireyard_");
        served.keys().any(|key| key.split('{').next() == Some(name))
    };
    let text = std::fs::read_to_string(workspace_root().join("programs/grafana.json")).unwrap();
    let board: Value = serde_json::from_str(&text).expect("JSON");
    let targets = board["panels"].as_array().expect("panels").iter();
    let targets = targets.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut answered = 0;
    for target in targets {
        let expression = target["expr"].as_str().expect("an expression");
        // As Grafana writes them for all switches, and four scrapes.
        let asked = expression.replace("$switch", ".*").replace("$__rate_interval", "4s");
        let found = prometheus.query(&asked);
        let mut names = words(expression).filter(|word| word.starts_with("wireyard_"));
        // What is only shown above 0 may have nothing to show.
        let must_be_there = !expression.contains("> 0") && names.all(has_samples);
        assert!(!must_be_there || !found.is_empty(), "nothing for {asked}");
        answered += usize::from(!found.is_empty());
        let legend = target["legendFormat"].as_str().expect("a legend");
        for (label, series) in between(legend, "{{", "}}")
            .iter()
            .flat_map(|label| found.iter().map(move |one| (label, one)))
        {
            assert!(series["metric"].get(label).is_some(), "{asked} has no {label}: {series}");
        }
    }
    assert!(answered > 30, "{answered} expressions have an answer");
    drop(prometheus);
    switch.end("INT").expect(0, &[]);
}
