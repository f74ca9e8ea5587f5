//! `run --gnmi`: what a client of gNMI reads and sets of the ports, and what it may not do.
//!
//! finsy reads the same in `p4runtime.rs`. On veth pairs in a private namespace; needs root and skips loudly otherwise.

use std::time::Duration;

use tokio::runtime::Builder;
use tonic::Code;
use wireyard_switch::p4runtime::proto::gnmi as g;
use wireyard_tests::live::Switch;

use crate::p4runtime::{PROGRAM, address, frame, rig};
use crate::rig::{ip, private_network, veth};
use g::g_nmi_client::GNmiClient;
use g::typed_value::Value;

fn path(text: &str) -> g::Path {
    let elem = text.split('/').filter(|name| !name.is_empty()).map(|name| {
        let (name, key) = name.split_once('[').unwrap_or((name, ""));
        let key = key.trim_end_matches(']').split_once('=');
        let key = key.map(|(name, value)| (name.to_owned(), value.to_owned()));
        g::PathElem { name: name.to_owned(), key: key.into_iter().collect() }
    });
    g::Path { elem: elem.collect(), ..g::Path::default() }
}

fn get(text: &str, encoding: g::Encoding) -> g::GetRequest {
    let path = vec![path(text)];
    g::GetRequest { path, encoding: encoding as i32, ..g::GetRequest::default() }
}

fn values(answer: g::GetResponse) -> Vec<Value> {
    let updates = answer.notification.into_iter().flat_map(|notification| notification.update);
    updates.filter_map(|update| update.val?.value).collect()
}

#[test]
fn counters_and_states_of_the_ports_are_read_in_every_encoding() {
    let Some(_network) = private_network("gNMI values") else { return };
    let mut rig = rig(PROGRAM, &["--gnmi"]);
    let packet = frame([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], 0x88b5);
    rig.wires[0].send(&[packet.clone(), packet]);
    assert!(rig.wires[1].receive_unexpected().is_empty(), "the default drops");
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = GNmiClient::connect(format!("http://{}", rig.address)).await.unwrap();
        let mut read = async |text: &str, encoding| {
            client.get(get(text, encoding)).await.map(|answer| values(answer.into_inner()))
        };
        use g::Encoding::{Bytes, Json, JsonIetf, Proto};
        let pkts = "interfaces/interface[name=a1]/state/counters/in-pkts";
        assert_eq!(read(pkts, Proto).await.unwrap(), [Value::UintVal(2)]);
        assert_eq!(read(pkts, JsonIetf).await.unwrap(), [Value::JsonIetfVal(b"\"2\"".to_vec())]);
        assert_eq!(read(pkts, Json).await.unwrap(), [Value::UintVal(2)], "none was named");
        let id = "interfaces/interface[name=a1]/state/id";
        let number = read(id, JsonIetf).await.unwrap();
        assert_eq!(number, [Value::JsonIetfVal(b"1".to_vec())], "32 bits: no string");
        assert_eq!(read("*/*/state/id", Proto).await.unwrap().len(), 2);
        let state = "interfaces/interface/state/oper-status";
        assert_eq!(
            read(state, Proto).await.unwrap(),
            [(); 2].map(|()| Value::StringVal("UP".into()))
        );
        let code = |answer: Result<Vec<Value>, tonic::Status>| answer.unwrap_err().code();
        assert_eq!(code(read(pkts, Bytes).await), Code::Unimplemented);
        assert_eq!(code(read("interfaces/interface/state/mtu", Proto).await), Code::NotFound);
        assert_eq!(code(read("interfaces/interface[name=c]/name", Proto).await), Code::NotFound);
        let typed = g::GetRequest { r#type: 9, ..get(pkts, Proto) };
        assert_eq!(client.get(typed).await.unwrap_err().code(), Code::InvalidArgument);
        // A target is reflected, an origin that the device does not have is refused.
        let target = g::Path { target: "leaf1".into(), ..g::Path::default() };
        for text in [pkts, ""] {
            let request = g::GetRequest { prefix: Some(target.clone()), ..get(text, JsonIetf) };
            let answer = client.get(request).await.unwrap().into_inner();
            assert_eq!(answer.notification[0].prefix.as_ref(), Some(&target), "{text}");
        }
        for (origin, refused) in [("openconfig", None), ("cli", Some(Code::InvalidArgument))] {
            let origin = g::Path { origin: origin.into(), ..g::Path::default() };
            let request = g::GetRequest { prefix: Some(origin), ..get(pkts, Proto) };
            assert_eq!(client.get(request).await.err().map(|error| error.code()), refused);
        }
    });
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_port_is_taken_down_and_up_and_nothing_else_is_set() {
    let Some(_network) = private_network("gNMI settings") else { return };
    let rig = rig(PROGRAM, &["--gnmi"]);
    let update = |place: &str, value| g::Update {
        path: Some(path(place)),
        val: Some(g::TypedValue { value: Some(value) }),
        ..Default::default()
    };
    let (one, other) = ("interfaces/interface[name=a1]", "interfaces/interface[name=b1]");
    let enabled = |place: &str| format!("{place}/config/enabled");
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = GNmiClient::connect(format!("http://{}", rig.address)).await.unwrap();
        let mut reading = client.clone();
        let mut read = async |text: &str| {
            let answer = reading.get(get(text, g::Encoding::Proto)).await.unwrap();
            values(answer.into_inner())
        };
        let flags = |flags: [bool; 2]| flags.map(Value::BoolVal);
        let all = "interfaces/interface/config/enabled";
        assert_eq!(read(all).await, flags([true, true]));
        let replace = vec![update(&enabled(one), Value::BoolVal(false))];
        let set = g::SetRequest { replace, ..Default::default() };
        let done = client.set(set).await.unwrap().into_inner().response;
        assert_eq!(done[0].op, g::update_result::Operation::Replace as i32);
        assert_eq!(read(all).await, flags([false, true]));
        let down = [Value::StringVal("DOWN".into())];
        assert_eq!(read(&format!("{one}/state/admin-status")).await, down);
        // What is wrong with the second keeps the first from being done.
        let no = || Value::BoolVal(false);
        for (place, value, code) in [
            (enabled("interfaces/interface[name=c]"), no(), Code::NotFound),
            (enabled("interfaces/interface[name=*]"), no(), Code::Unimplemented),
            (enabled("interfaces/interface"), no(), Code::Unimplemented),
            (format!("{other}/config/name"), no(), Code::Unimplemented),
            (enabled(one), Value::UintVal(1), Code::InvalidArgument),
        ] {
            let both = vec![update(&enabled(other), no()), update(&place, value)];
            let set = g::SetRequest { update: both, ..Default::default() };
            assert_eq!(client.set(set).await.unwrap_err().code(), code, "{place}");
        }
        let delete = vec![path(&enabled(other))];
        let set = g::SetRequest { delete, ..Default::default() };
        assert_eq!(client.set(set).await.unwrap_err().code(), Code::Unimplemented);
        assert_eq!(read(all).await, flags([false, true]));
        let json = Value::JsonIetfVal(b"true".to_vec());
        let set = g::SetRequest {
            prefix: Some(path(one)),
            update: vec![update("config/enabled", json)],
            ..Default::default()
        };
        client.set(set).await.unwrap();
        assert_eq!(read(all).await, flags([true, true]));
    });
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn subscriptions_are_bounded_and_wrong_ones_are_refused() {
    let Some(_network) = private_network("gNMI subscriptions") else { return };
    let rig = rig(PROGRAM, &["--gnmi"]);
    let address = format!("http://{}", rig.address);
    // A client that half-closes has a stream of requests that ends.
    let ask = async |request: Option<g::subscribe_request::Request>, half_closes: bool| {
        let mut client = GNmiClient::connect(address.clone()).await.unwrap();
        let first = tokio_stream::iter([g::SubscribeRequest { request }]);
        let rest =
            tokio_stream::StreamExt::take(tokio_stream::pending(), usize::from(!half_closes));
        let requests = tokio_stream::StreamExt::chain(first, rest);
        client.subscribe(requests).await.map(tonic::Response::into_inner)
    };
    let subscribe = |text: &str, heartbeat_interval| {
        let path = Some(path(text));
        let mode = g::SubscriptionMode::Sample as i32;
        let sample_interval = u64::MAX;
        let one = g::Subscription {
            path,
            mode,
            sample_interval,
            heartbeat_interval,
            ..Default::default()
        };
        let list = g::SubscriptionList { subscription: vec![one], ..Default::default() };
        Some(g::subscribe_request::Request::Subscribe(list))
    };
    let state = "interfaces/interface/state/oper-status";
    let fastest = |list: &mut g::SubscriptionList| list.subscription[0].sample_interval = 0;
    let short = |list: &mut g::SubscriptionList| list.subscription[0].sample_interval = 100;
    let of_prefix = |list: &mut g::SubscriptionList, origin: &str, target: &str| {
        let (origin, target) = (origin.to_owned(), target.to_owned());
        list.prefix = Some(g::Path { origin, target, ..g::Path::default() });
    };
    let foreign = |list: &mut g::SubscriptionList| of_prefix(list, "cli", "");
    let slow = |list: &mut g::SubscriptionList| list.subscription[0].mode = 7;
    let of_another_model = |list: &mut g::SubscriptionList| {
        let name = "openconfig-bgp".to_owned();
        list.use_models = vec![g::ModelData { name, ..Default::default() }];
    };
    let aimed = |list: &mut g::SubscriptionList| of_prefix(list, "openconfig", "leaf1");
    let many = |list: &mut g::SubscriptionList| {
        let one = list.subscription[0].clone();
        list.subscription = vec![one; 4096];
    };
    let changed = |text: &str, change: &dyn Fn(&mut g::SubscriptionList)| {
        let mut request = subscribe(text, 0);
        if let Some(g::subscribe_request::Request::Subscribe(list)) = &mut request {
            change(list);
        }
        request
    };
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(async {
        let name = "openconfig-bgp".to_owned();
        let use_models = vec![g::ModelData { name, ..Default::default() }];
        let get = g::GetRequest { path: vec![path(state)], use_models, ..Default::default() };
        let mut client = GNmiClient::connect(address.clone()).await.unwrap();
        assert_eq!(client.get(get).await.unwrap_err().code(), Code::InvalidArgument);
        // 4096 times all values are more than 20,000: the answer would be some MiB.
        let wide = g::GetRequest { path: vec![path("interfaces"); 4096], ..Default::default() };
        assert_eq!(client.get(wide).await.unwrap_err().code(), Code::ResourceExhausted);
        for (request, code) in [
            (subscribe("interfaces/interface/state/mtu", 0), Code::NotFound),
            (subscribe(state, 1), Code::Unimplemented),
            (changed(state, &foreign), Code::InvalidArgument),
            (
                changed(state, &|list: &mut g::SubscriptionList| list.mode = 7),
                Code::InvalidArgument,
            ),
            (changed(state, &slow), Code::InvalidArgument),
            (changed(state, &of_another_model), Code::InvalidArgument),
            // 4096 times all values are more than 20,000.
            (changed("interfaces", &many), Code::ResourceExhausted),
            (Some(g::subscribe_request::Request::Poll(g::Poll {})), Code::InvalidArgument),
        ] {
            let mut answers = ask(request, false).await.unwrap();
            assert_eq!(answers.message().await.unwrap_err().code(), code);
        }
        let mut answers = ask(changed(state, &aimed), false).await.unwrap();
        match answers.message().await.unwrap().and_then(|answer| answer.response) {
            Some(g::subscribe_response::Response::Update(values)) => {
                assert_eq!(values.prefix.map(|prefix| prefix.target).as_deref(), Some("leaf1"));
            }
            other => panic!("{other:?}"),
        }
        // An interval of 0 is the shortest, 100 ms, and a shorter one is raised to it: not without a pause, and not never.
        let intervals: [&dyn Fn(&mut g::SubscriptionList); 2] = [&fastest, &short];
        for interval in intervals {
            let mut answers = ask(changed(state, interval), false).await.unwrap();
            let begun = std::time::Instant::now();
            for _ in 0..7 {
                let next = tokio::time::timeout(Duration::from_secs(10), answers.message()).await;
                assert!(next.expect("a sample within 10 s").unwrap().is_some());
            }
            let passed = begun.elapsed();
            assert!(passed > Duration::from_millis(300), "7 answers within {passed:?}");
        }
    });
    // Clients end with their runtime, and their connections with them; as many find room behind them.
    for _ in 0..2 {
        runtime().block_on(async {
            let deadline = std::time::Instant::now() + Duration::from_secs(20);
            let mut open = Vec::new();
            while open.len() < 64 {
                assert!(std::time::Instant::now() < deadline, "{} are open", open.len());
                let half_closes = open.len() % 2 == 1;
                let Ok(mut answers) = ask(subscribe(state, 0), half_closes).await else { continue };
                assert!(answers.message().await.unwrap().is_some(), "the values now");
                open.push(answers);
            }
            let full = ask(subscribe(state, 0), false).await.unwrap_err();
            assert_eq!(full.code(), Code::ResourceExhausted);
        });
    }
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_subscription_gets_what_changed_and_what_is_gone() {
    let Some(_network) = private_network("gNMI changes") else { return };
    ip("link set lo up");
    veth("a0", "a1");
    veth("b0", "b1");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ports.yaml");
    let ports = |text: &str| std::fs::write(&file, text).unwrap();
    ports("ports: { 1: { interface: 'raw:a1' }, 2: { interface: 'raw:b1' } }\n");
    let arguments = [PROGRAM, "--ports", file.to_str().unwrap()];
    let control = ["--p4runtime", "127.0.0.1:0", "--gnmi"];
    let switch = Switch::start(&[&arguments[..], &control[..]].concat());
    let leaves = |text: &str| g::Subscription { path: Some(path(text)), ..Default::default() };
    let list = g::SubscriptionList {
        subscription: vec![leaves("interfaces/interface[name=*]/state/oper-status")],
        ..Default::default()
    };
    let request = Some(g::subscribe_request::Request::Subscribe(list));
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let server = format!("http://{}", address(&switch));
        let mut client = GNmiClient::connect(server).await.unwrap();
        let first = tokio_stream::iter([g::SubscribeRequest { request }]);
        let requests = tokio_stream::StreamExt::chain(first, tokio_stream::pending());
        let mut answers = client.subscribe(requests).await.unwrap().into_inner();
        let mut next = async || {
            let answer = tokio::time::timeout(Duration::from_secs(10), answers.message()).await;
            answer.expect("an answer within 10 s").unwrap().expect("the stream goes on").response
        };
        use g::subscribe_response::Response::{SyncResponse, Update};
        let status = |name: &str, value: &str| (name.to_owned(), Value::StringVal(value.into()));
        let Some(Update(all)) = next().await else { panic!("the values now") };
        assert_eq!(changed(all).0, [status("a1", "UP"), status("b1", "UP")]);
        assert_eq!(next().await, Some(SyncResponse(true)));
        ip("link set a0 down");
        let Some(Update(down)) = next().await else { panic!("a change") };
        assert_eq!(changed(down), (vec![status("a1", "LOWER_LAYER_DOWN")], vec![]));
        ports("ports: { 1: { interface: 'raw:a1' } }\n");
        switch.signal("HUP");
        let Some(Update(removed)) = next().await else { panic!("a change") };
        assert_eq!(changed(removed), (vec![], vec!["b1".to_owned()]));
    });
    switch.end("TERM").expect(0, &[]);
}

/// Interfaces of updates with their values, and those of deletions.
fn changed(message: g::Notification) -> (Vec<(String, Value)>, Vec<String>) {
    let name = |path: g::Path| path.elem[1].key["name"].clone();
    let values = message.update.into_iter().map(|update| {
        (name(update.path.unwrap()), update.val.and_then(|value| value.value).unwrap())
    });
    (values.collect(), message.delete.into_iter().map(name).collect())
}
