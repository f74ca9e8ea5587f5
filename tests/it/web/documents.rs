//! What the documents say, with packets and commands as witnesses.

use std::fmt::Write;

use serde_json::Value;

use super::{CONFIG, list, rig};
use crate::queues;
use crate::rig::private_network;

/// A program with every kind of object.
const OBJECTS: &str = "tests/data/p4runtime/program.yaml";
const LOSSLESS: &str = "programs/rocev2_lossless";

fn frame(dst: u8) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, dst][..], &[2, 0, 0, 0, 0, 0xb], &[0x12, 0x34], &[0; 50]].concat()
}

/// Queues with their curve, marks and pauses are those of `stats` and of the configuration.
#[test]
fn the_live_document_is_what_the_switch_counts() {
    let Some(_network) = private_network("the live document of the page") else { return };
    let mut rig = rig(LOSSLESS, Some(CONFIG), &[]);
    rig.wires[1].send(&[queues::pfc(3, 65_535).to_vec()]);
    let queue = |document: &Value| {
        let ports = list(&document["queueing"]["ports"]);
        let port = ports.iter().find(|port| port["port"] == 2).cloned().unwrap_or_default();
        list(&port["queues"]).iter().find(|queue| queue["queue"] == 3).cloned().unwrap_or_default()
    };
    rig.wait_for("live", |document| queue(document)["paused"] == true);
    let frames: Vec<Vec<u8>> = (0..20).map(|n| queues::frame(1, 2, 26, 2, n, 1000)).collect();
    rig.wires[0].send(&frames);
    let live = rig.wait_for("live", |document| queue(document)["waiting"] == 20);
    assert_eq!(queue(&live)["waiting_bytes"], 20_000);
    let settings = list(&live["settings"]).iter();
    let ours = settings.clone().find(|one| one["port"] == 2 && one["queue"] == 3);
    let ours = ours.unwrap_or_else(|| panic!("{live}"));
    assert_eq!((&ours["lossless"], &ours["rate_bps"]), (&true.into(), &1_000_000u64.into()));
    let curve = &ours["curves"][0];
    assert_eq!(curve["kmin_bytes"], 1000, "{ours}");
    assert_eq!((&curve["kmax_bytes"], &curve["pmax_ppm"]), (&20_000.into(), &500_000.into()));
    assert_eq!((&live["links"][0]["port"], &live["links"][0]["link"]), (&1.into(), &"up".into()));
    // The same as the command says, of what stands still.
    let stats = rig.switch.objects(&["stats"]).remove(0);
    let live = rig.document("live");
    assert_eq!(queue(&stats), queue(&live));
    assert_eq!(stats["total"], live["total"]);
    assert_eq!(stats["program"], live["program"]);
    rig.wires[1].send(&[queues::pfc(3, 0).to_vec()]);
    let live = rig.wait_for("live", |document| queue(document)["waiting"] == 0);
    assert!(queue(&live)["marked"].as_u64() >= Some(1), "{live}");
    rig.switch.end("INT").expect(0, &[]);
}

/// Nodes of the graphs have what the packets did that were sent while somebody looked; a trace has precedence, and another program has other graphs.
#[test]
fn graphs_have_the_packets_that_pass() {
    let Some(_network) = private_network("graphs of the page") else { return };
    let mut rig = rig(OBJECTS, None, &[]);
    rig.switch
        .command(&["table", "add", "fdb", "ethernet.dst=02:00:00:00:00:01", "forward", "2"])
        .shows(&[]);
    let graph = rig.document("graph");
    rig.document("hits");
    let frames: Vec<Vec<u8>> = (0..30).map(|n| frame(n % 3)).collect();
    rig.wires[0].send(&frames);
    let are_sampled = |hits: &Value| {
        let count = |name: &str| hits["samples"]["ingress"][name].as_u64();
        assert!(count("sampled") <= count("passes"), "{hits}");
        count("sampled") == Some(30)
    };
    let hits = rig.wait_for("hits", are_sampled);
    assert_eq!(hits["samples"]["ingress"]["passes"], 30, "{hits}");
    let node = |control: &str, text: &str| {
        let nodes = list(&graph[control]["nodes"]);
        let has = |node: &&Value| list(&node["lines"]).iter().any(|line| line == text);
        let at =
            nodes.iter().position(|node| has(&node)).unwrap_or_else(|| panic!("{text}: {graph}"));
        hits[control][at].as_u64().expect("a number")
    };
    assert_eq!((node("parser", "start"), node("parser", "frame")), (30, 30), "{hits}");
    assert_eq!((node("parser", "out"), node("parser", "accept")), (0, 30));
    // Two of three have no entry: they are dropped before the next table.
    assert_eq!((node("ingress", "apply fdb"), node("ingress", "apply acl")), (30, 10), "{hits}");
    let table = list(&hits["tables"]).iter().find(|table| table["table"] == "fdb");
    assert_eq!(table.map(|one| (&one["hits"], &one["misses"])), Some((&10.into(), &20.into())));
    assert!(list(&graph["ingress"]["nodes"]).iter().any(|node| node["table"] == "fdb"));

    // Somebody traces: that has the packets, and the page says so.
    let switch = &rig.switch;
    std::thread::scope(|scope| {
        let trace = ["trace", "--live", "--seconds", "2", "--json"];
        let traced = scope.spawn(move || switch.command(&trace));
        let why = rig.wait_for("hits", |hits| hits["paused"].is_string());
        assert!(
            why["paused"].as_str().is_some_and(|why| why.contains("a trace of packets")),
            "{why}"
        );
        traced.join().unwrap().expect(0, &[]);
    });
    rig.wait_for("hits", |hits| hits["paused"].is_null());

    rig.switch.command(&["swap", "programs/l2_switch"]).shows(&[]);
    let after = rig.wait_for("hits", |after| after["number"] != hits["number"]);
    let graph = rig.document("graph");
    assert_eq!((&graph["number"], &graph["program"]), (&after["number"], &"l2_switch".into()));
    rig.switch.end("INT").expect(0, &[]);
}

/// Pages of a large table, a search that several requests do, and what is refused.
#[test]
fn a_large_table_is_paged_and_searched_by_the_switch() {
    let Some(_network) = private_network("tables of the page") else { return };
    let count = std::env::var("WIREYARD_ENTRIES").map_or(20_000, |n| n.parse::<u32>().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("entries.yaml");
    let mut text = String::from("entries:\n  fdb:\n");
    for n in 0..count {
        let [_, a, b, c] = n.to_be_bytes();
        let _ = writeln!(
            text,
            "    - {{ match: {{ ethernet.dst: 02:00:00:{a:02x}:{b:02x}:{c:02x} }}, action: forward({}) }}",
            n % 7 + 1
        );
    }
    std::fs::write(&file, text).unwrap();
    let mut rig = rig(OBJECTS, None, &["--entries", file.to_str().unwrap()]);
    let first = rig.document("entries?table=fdb&limit=3");
    assert_eq!(list(&first["entries"]).len(), 3);
    assert_eq!((&first["all"], &first["looked_at"]), (&count.into(), &3.into()), "{first}");
    let second = rig.document(&format!("entries?table=fdb&limit=3&from={}", first["next"]));
    let dst =
        |document: &Value, at: usize| document["entries"][at]["match"]["ethernet.dst"].clone();
    assert_eq!(
        (dst(&first, 0), dst(&second, 0)),
        ("02:00:00:00:00:00".into(), "02:00:00:00:00:03".into())
    );
    // The last entry, and no other, has both words.
    let [_, a, b, c] = (count - 1).to_be_bytes();
    let wanted = format!("00:{a:02x}:{b:02x}:{c:02x}");
    let port = format!("FORWARD({}", (count - 1) % 7 + 1);
    let (mut found, mut from, mut requests) = (Vec::new(), Value::from(0), 0);
    while let Some(slot) = from.as_u64() {
        let path = format!("entries?table=fdb&from={slot}&search={wanted}%20{port}");
        let part = rig.document(&path);
        found.extend(list(&part["entries"]).to_vec());
        (from, requests) = (part["next"].clone(), requests + 1);
        assert!(requests < 1000, "{part}");
    }
    assert_eq!(found.len(), 1, "{found:?}");
    println!("{count} entries were searched by {requests} requests");
    // The busiest first, whatever its slot.
    rig.wires[0].send(&[frame(8)]);
    let busiest = "entries?table=fdb&order=packets&limit=2";
    let everything = rig.wait_for(busiest, |part| part["entries"][0]["packets"] == 1);
    assert_eq!(dst(&everything, 0), "02:00:00:00:00:08");
    // Rows have their table in either order.
    assert_eq!([&first["entries"][0]["table"], &everything["entries"][0]["table"]], ["fdb"; 2]);
    assert_eq!((list(&everything["entries"]).len(), &everything["all"]), (2, &count.into()));
    // And among those with the words of a search.
    let found = rig.document("entries?table=fdb&order=packets&limit=2&search=00:00:00:00:08");
    assert_eq!(list(&found["entries"]).len(), 1, "{found}");
    assert_eq!((dst(&found, 0), &found["entries"][0]["packets"]), (dst(&everything, 0), &1.into()));
    let nothing = rig.document("entries?table=fdb&order=packets&search=no_such_word");
    assert!(list(&nothing["entries"]).is_empty(), "{nothing}");
    for (path, status, why) in [
        ("entries", 400, "table: the name"),
        ("entries?table=fbd", 404, "did you mean fdb?"),
        ("entries?table=fdb&limit=100000", 400, "limit"),
        ("entries?table=fdb&from=-1", 400, "from"),
        ("entries?table=acl&order=packets", 409, "does not count"),
        ("entries?table=acl&order=packets&search=x", 409, "does not count"),
        ("entries?table=fdb&order=up", 400, "order"),
        ("entries?table=%ff", 400, "UTF-8"),
        ("objects?kind=shoes", 400, "kind: one of"),
        ("nothing", 404, "/api/"),
    ] {
        let (found, _, body) = rig.get(&format!("/api/{path}"));
        assert_eq!(found, status, "{path}: {body}");
        let error: Value = serde_json::from_str(&body).expect("JSON");
        assert!(error["error"].as_str().is_some_and(|text| text.contains(why)), "{path}: {body}");
    }
    let past = rig.document("entries?table=fdb&from=4294967295");
    assert_eq!((list(&past["entries"]).len(), &past["next"]), (0, &Value::Null));
    for words in [
        "member add ways 1 forward 2",
        "group add ways 7 1",
        "counter set ports 5 5 500",
        "register set seen 3 17",
        "meter set police 2 cir=8bit/s cbs=1B pir=16bit/s pbs=1B",
        "value-set set known_types 0x0800",
        "multicast set 5 1 2",
        "mirror set 3 port=2",
    ] {
        rig.switch.command(&words.split(' ').collect::<Vec<_>>()).shows(&[]);
    }
    for kind in [
        "defaults",
        "members",
        "groups",
        "counters",
        "meters",
        "registers",
        "value_sets",
        "multicast",
        "mirrors",
    ] {
        let found = rig.document(&format!("objects?kind={kind}"));
        assert!(!list(&found["objects"]).is_empty() && found["more"] == 0, "{kind}: {found}");
    }
    rig.switch.end("INT").expect(0, &[]);
}
