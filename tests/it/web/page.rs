//! The page in a headless Chromium: content, keys, searches, a phone, dark and light; nothing goes wrong in its console.

use std::path::PathBuf;

use serde_json::Value;
use wireyard_tests::browser::Browser;
use wireyard_tests::skip;

use super::{CONFIG, rig};
use crate::queues;
use crate::rig::private_network;

const VIEWS: [&str; 4] = ["overview", "queues", "program", "tables"];

/// Keeps a picture of the page in the folder of WIREYARD_PICTURES, if it is set.
fn picture(browser: &mut Browser, name: &str) {
    if let Some(folder) = std::env::var_os("WIREYARD_PICTURES").map(PathBuf::from) {
        std::fs::create_dir_all(&folder).unwrap();
        browser.picture(&folder, name);
    }
}

#[test]
fn the_page_works_in_a_browser() {
    let test = "the page in a browser";
    let Some(_network) = private_network(test) else { return };
    let mut rig = rig("programs/rocev2_lossless", Some(CONFIG), &[]);
    let Some(mut browser) = Browser::start() else {
        return skip(test, "there is no `chromium` (Debian package chromium)");
    };
    browser.size(1280, 900);
    browser.prefer("light");
    browser.open(&format!("http://{}/", rig.address));
    // Ports with their links, once there are two documents to compare.
    browser.wait_for("document.querySelectorAll('main tbody tr').length >= 2");
    browser.wait_for("document.querySelector('main').innerText.includes('raw:sw2')");
    assert_eq!(browser.value("document.getElementById('name').textContent"), "rocev2_lossless");

    // Packets wait behind a pause: the overview says who pauses whom, the queue its depth and its curve.
    rig.wires[1].send(&[queues::pfc(3, 65_535).to_vec()]);
    let frames: Vec<Vec<u8>> = (0..15).map(|n| queues::frame(1, 2, 26, 2, n, 1000)).collect();
    rig.wires[0].send(&frames);
    browser.wait_for(
        "document.querySelector('.pauses').innerText.includes('The peer of port 2 pauses us')",
    );
    picture(&mut browser, "overview");
    browser.press("2");
    browser.wait_for(
        "document.querySelector('.queue-cards')?.innerText.includes('15.0 KB in 15 packets')",
    );
    browser.wait_for("[...document.querySelectorAll('.queue-card')].some((card) => card.querySelector('.fills path')?.getAttribute('d').startsWith('M') && card.innerText.includes('paused by its peer'))");
    picture(&mut browser, "queues");

    // Packets while somebody looks at the program: the first state of the parser has all of them.
    browser.press("3");
    browser.wait_for("document.querySelectorAll('.graph .node').length > 5");
    browser.wait_for("document.querySelector('.note').innerText.includes('None went through')");
    rig.wires[0].send(&(0..9).map(|n| queues::frame(1, 2, 0, 0, n, 100)).collect::<Vec<_>>());
    browser.wait_for("document.querySelector('.graph .pill-text').textContent === '100 %'");
    assert_eq!(
        browser.value(
            "document.querySelector('.graph .node title').textContent.startsWith('9 sampled')"
        ),
        true
    );
    browser.press("]");
    browser.wait_for("document.getElementById('tab-ingress').getAttribute('aria-selected') === 'true' && document.querySelector('.node.table')");
    picture(&mut browser, "program");

    // A search in a table, by keys only.
    let added = ["table", "add", "routes4", "ipv4.dst=10.77.0.0/16", "via", "9"];
    rig.switch.command(&added).shows(&[]);
    let added = ["table", "add", "routes4", "ipv4.dst=10.78.0.0/16", "via", "9"];
    rig.switch.command(&added).shows(&[]);
    browser.value("location.hash = '#/tables/routes4'");
    browser.wait_for("document.querySelector('h2')?.textContent === 'routes4' && document.querySelectorAll('.entries tbody tr').length >= 2");
    browser.press("/");
    browser.wait_for("document.activeElement.id === 'search'");
    "10.77".chars().for_each(|key| browser.press(&key.to_string()));
    browser.wait_for("document.querySelectorAll('.entries tbody tr').length === 1 && document.querySelector('.entries').innerText.includes('10.77.0.0/16')");
    picture(&mut browser, "tables");

    // What is written meanwhile is shown without another search.
    let added = ["table", "add", "routes4", "ipv4.dst=10.77.1.0/24", "via", "9"];
    rig.switch.command(&added).shows(&[]);
    browser.wait_for("document.querySelectorAll('.entries tbody tr').length === 2");
    assert_eq!(browser.value("document.getElementById('search').value"), "10.77");
    rig.switch.command(&["table", "default", "routes4", "via", "7"]).shows(&[]);
    browser.wait_for("document.querySelector('main').innerText.includes('Otherwise via(0x7)')");
    rig.switch.command(&["table", "default", "routes4", "reset"]).shows(&[]);
    browser.wait_for("!document.querySelector('main').innerText.includes('Otherwise via(0x7)')");

    // Addresses that name no view and no table.
    for (typed, view) in [("#/tables/%", "tables"), ("#/constructor", "overview")] {
        browser.value(&format!("location.hash = '{typed}'"));
        browser.wait_for(&format!("document.querySelector('nav [aria-current]')?.hash === '#/{view}' && document.querySelector('main').innerText.length > 40"));
    }

    // A phone, dark: nothing is wider than it.
    let light = browser.value("getComputedStyle(document.body).backgroundColor");
    browser.size(390, 844);
    browser.prefer("dark");
    assert_ne!(browser.value("getComputedStyle(document.body).backgroundColor"), light);
    for view in VIEWS {
        browser.value(&format!("location.hash = '#/{view}'"));
        browser.wait_for(&format!("document.querySelector('nav [aria-current]').hash === '#/{view}' && document.querySelector('main').innerText.length > 40"));
        let width = browser.value("document.documentElement.scrollWidth");
        assert_eq!(width, 390, "{view}");
        picture(&mut browser, &format!("{view}_phone"));
    }
    // The switch ends: the page says so, which is the only thing that may go wrong.
    assert_eq!(browser.problems(), Vec::<String>::new());
    assert_eq!(browser.value("document.documentElement.dataset.theme ?? null"), Value::Null);
    rig.switch.end("INT").expect(0, &[]);
    browser
        .wait_for("document.getElementById('state').textContent === 'The switch does not answer'");
}
