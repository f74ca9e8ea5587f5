//! `wireyard demo`: the main job in one command. Needs root or user namespaces; skips loudly otherwise.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use wireyard_tests::binary::{Ended, run, wireyard};
use wireyard_tests::{Witness, has_namespaces, has_tool, is_root, skip};

/// A run of so many seconds with its page.
fn demo(folder: &Path, seconds: &str, more: &[&str]) -> (Ended, serde_json::Value, String) {
    let page = folder.join("demo.html");
    let path = page.to_str().expect("a path in UTF-8");
    let mut arguments = vec!["demo", "--seconds", seconds, "--json", "-o", path];
    arguments.extend(more);
    let ended = run(&arguments);
    let json = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    (ended, json, std::fs::read_to_string(&page).expect("the page"))
}

fn verdict<'a>(json: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let verdicts = json["verdicts"].as_array().expect("verdicts");
    verdicts.iter().find(|v| v["name"] == name).unwrap_or_else(|| panic!("no `{name}`: {json}"))
}

fn figure(json: &serde_json::Value, name: &str) -> f64 {
    json["figures"][name]["value"].as_f64().unwrap_or_else(|| panic!("no `{name}`: {json}"))
}

#[test]
fn a_short_demonstration_holds_and_its_forms_agree() {
    if !has_namespaces("a_short_demonstration_holds_and_its_forms_agree") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (ended, json, page) = demo(folder.path(), "12", &[]);
    ended.expect(0, &["has the pictures"]);
    assert_eq!(json["passed"], true, "{json}");
    for name in [
        "marking curve",
        "marks on the wire",
        "nothing is lost",
        "conservation",
        "notifications",
        "checks",
        "cables",
    ] {
        assert_eq!(verdict(&json, name)["passed"], true, "{json}");
        let found = verdict(&json, name)["found"].as_str().expect("words");
        assert!(page.contains(name) && page.contains(found), "`{found}` is not on the page");
    }
    assert_eq!(figure(&json, "drops"), 0.0);
    assert!(figure(&json, "drain.marks") > 300.0 && figure(&json, "loop.cnps") > 0.0);
    assert!(figure(&json, "loop.xoff_sent") > 0.0, "line rate of five into one is paused");
    assert!(figure(&json, "loop.cnps") <= figure(&json, "loop.marked"));
    assert!(figure(&json, "live.frames") > 0.0, "the closed loop is over the kernel");
    // A page by itself: pictures inside, nothing from elsewhere.
    for id in ["law", "marking", "queues", "rates", "pauses"] {
        assert!(page.contains(&format!("<figure id=\"{id}\">")), "no figure {id}");
    }
    for outside in ["<script", "<link", "src=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_law_that_is_not_the_switchs_fails() {
    if !has_namespaces("a_law_that_is_not_the_switchs_fails") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (ended, json, page) = demo(folder.path(), "10", &["--judge-pmax", "20"]);
    ended.expect(1, &[]);
    assert_eq!(verdict(&json, "marking curve")["passed"], false, "{json}");
    assert_eq!(verdict(&json, "conservation")["passed"], true, "{json}");
    assert!(page.contains("FAILS"));
}

#[test]
fn nothing_is_left_of_it() {
    if !has_namespaces("nothing_is_left_of_it") || !has_tool("ip") {
        return skip("nothing_is_left_of_it", "no namespaces, or no ip");
    }
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let mut child = Command::new(wireyard())
        .args(["demo", "--seconds", "60"])
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let links = |pid: u32| {
        let within = format!("/proc/{pid}/ns/net");
        let output =
            Command::new("nsenter").args([&format!("--net={within}"), "ip", "-o", "link"]).output();
        output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
    };
    while is_root() && !links(child.id()).contains("wy-host6") {
        assert!(started.elapsed() < Duration::from_secs(60), "no cables");
        std::thread::sleep(Duration::from_millis(50));
    }
    let witness = Witness::in_network_of(child.id());
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    assert!(witness.is_none_or(|one| one.sees_the_end()), "the network of the cables is left");
    let here = Command::new("ip").args(["-o", "link"]).output().expect("ip runs");
    assert!(!String::from_utf8_lossy(&here.stdout).contains("wy-"), "cables are left");
    assert!(!folder.path().join("wireyard-demo.html").exists());
}

/// What there was no time for is said in the headline, not passed over.
#[test]
fn a_closed_loop_that_was_too_short_is_not_judged() {
    if !has_namespaces("a_closed_loop_that_was_too_short_is_not_judged") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (ended, json, page) = demo(folder.path(), "4", &[]);
    let probability = verdict(&json, "bottleneck.marking_probability");
    assert!(probability["passed"].is_null() && probability["skipped"] == true, "{json}");
    assert!(json["skipped"].as_u64() > Some(0), "{json}");
    assert!(ended.err.contains("were not judged"), "{}", ended.err);
    assert!(page.contains("were not judged") && page.contains("<b>SKIP</b>"));
    assert!(!page.contains("All checks and expectations hold"));
}
